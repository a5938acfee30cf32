/*
 * Settings, in UCX's manner: the key BLOCK_SIZE is read from the environment
 * variable UCXPOOL_BLOCK_SIZE. `ucxpool_info -c` prints every key with its
 * meaning, its default, and where the present value comes from.
 *
 * Values: sizes as 4m, 500m, 2g, auto, inf; numbers; times as 5s, 200ms, 10us;
 * switches as y or n; words from a list.
 */
#ifndef UCXPOOL_CONFIG_H
#define UCXPOOL_CONFIG_H

#include <ucxpool/status.h>

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct ucxpool_config ucxpool_config_t;

/*
 * Read the settings from defaults and the environment.
 *
 * config_p [out]  The settings; owned by the caller after success, to be
 *                 released by ucxpool_config_release(). Untouched after an
 *                 error.
 *
 * UCXPOOL_ERR_INVALID_PARAM  a variable UCXPOOL_* names no key, or its value
 *                            is not one the key takes; the detail names the
 *                            key, the value, and what would be right
 * UCXPOOL_ERR_NO_MEMORY      out of memory
 */
ucxpool_status_t ucxpool_config_read(ucxpool_config_t **config_p);

/*
 * Set one key, as if its variable had been set in the environment.
 *
 * key    Name without the prefix, for example "BLOCK_SIZE". Not NULL.
 * value  Text as it would stand in the environment. Not NULL.
 *
 * UCXPOOL_ERR_INVALID_PARAM  unknown key or bad value; nothing was changed
 */
ucxpool_status_t ucxpool_config_modify(ucxpool_config_t *config,
                                       const char *key, const char *value);

typedef enum ucxpool_config_print_flags {
    UCXPOOL_CONFIG_PRINT_VALUES  = 1u << 0, /* UCXPOOL_KEY=value             */
    UCXPOOL_CONFIG_PRINT_DOC     = 1u << 1, /* what the key means            */
    UCXPOOL_CONFIG_PRINT_DEFAULT = 1u << 2, /* its default                   */
    UCXPOOL_CONFIG_PRINT_SOURCE  = 1u << 3  /* where the value comes from    */
} ucxpool_config_print_flags_t;

/* Print every key to a stream; flags is a set of the flags above. */
void ucxpool_config_print(const ucxpool_config_t *config, FILE *stream,
                          unsigned flags);

/* Release settings. NULL is allowed. Pools made with them are not affected. */
void ucxpool_config_release(ucxpool_config_t *config);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
