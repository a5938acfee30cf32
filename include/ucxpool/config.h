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

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct ucxpool_config ucxpool_config_t;

/*
 * Read the settings from defaults and the environment. Of variables UCXPOOL_*
 * that name no key the log is warned, once a process, with the nearest key.
 *
 * config_p [out]  The settings; owned by the caller after success, to be
 *                 released by ucxpool_config_release(). Untouched after an
 *                 error.
 *
 * UCXPOOL_ERR_INVALID_PARAM  a value is not one the key takes; the detail
 *                            names the key, the value, and what would be right
 * UCXPOOL_ERR_NO_MEMORY      out of memory
 */
ucxpool_status_t ucxpool_config_read(ucxpool_config_t **config_p);

/*
 * Set one key, as if its variable had been set in the environment.
 *
 * key    Name without the prefix, for example "BLOCK_SIZE". Not NULL.
 * value  Text as it would stand in the environment. Not NULL.
 *
 * UCXPOOL_ERR_INVALID_PARAM  unknown key (the detail names the nearest) or bad
 *                            value; nothing was changed
 */
ucxpool_status_t ucxpool_config_modify(ucxpool_config_t *config,
                                       const char *key, const char *value);

/*
 * Give the secret that the peers of a listener must know (README, "What is
 * protected") from memory, where a program has it from elsewhere than a file.
 * It counts in place of SECRET_FILE, whatever that is set to, in pools that are
 * created with these settings from now on.
 *
 * bytes   The secret; copied, and the copy is wiped when the settings and the
 *         pools made with them are gone. NULL: none, SECRET_FILE counts again.
 * length  Bytes. As in a file, a "\n" or "\r\n" at the end does not count, and
 *         what is before it has 16 to 4096 bytes; ignored where bytes is NULL.
 *
 * UCXPOOL_ERR_INVALID_PARAM  too short or too long; nothing was changed
 * UCXPOOL_ERR_NO_MEMORY      out of memory; nothing was changed
 */
ucxpool_status_t ucxpool_config_set_secret(ucxpool_config_t *config,
                                           const void *bytes, size_t length);

/* Origin of a value. */
typedef enum ucxpool_config_source {
    UCXPOOL_CONFIG_SOURCE_DEFAULT,
    UCXPOOL_CONFIG_SOURCE_ENVIRONMENT,
    UCXPOOL_CONFIG_SOURCE_MODIFY /* ucxpool_config_modify() */
} ucxpool_config_source_t;

/* A setting. The library owns the strings behind pointers; they stay valid. */
typedef struct ucxpool_config_attr {
    const char             *key;           /* for example "BLOCK_SIZE" */
    const char             *default_value; /* as text, for example "auto" */
    const char             *doc;           /* what the setting does */
    ucxpool_config_source_t source;
    char                    takes[160];  /* possible values, in words */
    char                    value[4096]; /* present value, as text */
} ucxpool_config_attr_t;

/* The key with this index, counted from 0, or NULL after the last one. */
const char *ucxpool_config_key(size_t index);

/*
 * Describe one setting.
 *
 * key        Name without the prefix, for example "BLOCK_SIZE". Not NULL.
 * attr_p     [out] The setting; untouched after an error.
 * attr_size  sizeof(*attr_p). Fields that the library does not know are
 *            cleared.
 *
 * UCXPOOL_ERR_INVALID_PARAM  unknown key; the detail names the nearest
 */
ucxpool_status_t ucxpool_config_get(const ucxpool_config_t *config,
                                    const char             *key,
                                    ucxpool_config_attr_t  *attr_p,
                                    size_t                  attr_size);

typedef enum ucxpool_config_print_flags {
    UCXPOOL_CONFIG_PRINT_VALUES  = 1u << 0, /* UCXPOOL_KEY=value */
    UCXPOOL_CONFIG_PRINT_DOC     = 1u << 1, /* what the key means */
    UCXPOOL_CONFIG_PRINT_DEFAULT = 1u << 2, /* its default */
    UCXPOOL_CONFIG_PRINT_SOURCE  = 1u << 3  /* where the value comes from */
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
