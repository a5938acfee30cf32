/*
 * Settings work as in UCX: the key BLOCK_SIZE is read from the environment
 * variable UCXPOOL_BLOCK_SIZE. `ucxpool_info -c` prints every key with its
 * meaning, its default, its value and the source of the value.
 *
 * A value is a size (4m, 500m, 2g, auto, inf), a number, a time (5s, 200ms,
 * 10us), a switch (y or n), or a word from a list.
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
 * Read the settings from the defaults and the environment. Once per process,
 * the library logs a warning for each UCXPOOL_* variable that it does not know.
 *
 * config_p [out]  The settings, owned by the caller; release them with
 *                 ucxpool_config_release(). Unchanged after an error.
 *
 * UCXPOOL_ERR_INVALID_PARAM  a value is invalid; the detail names the key, the
 *                            value, and the valid values
 * UCXPOOL_ERR_NO_MEMORY      out of memory
 */
ucxpool_status_t ucxpool_config_read(ucxpool_config_t **config_p);

/*
 * Set one key, as if its variable had been set in the environment.
 *
 * key    Name without the prefix, for example "BLOCK_SIZE". Not NULL.
 * value  Text in the same form as in the environment. Not NULL.
 *
 * UCXPOOL_ERR_INVALID_PARAM  unknown key or invalid value; the settings are
 *                            unchanged
 */
ucxpool_status_t ucxpool_config_modify(ucxpool_config_t *config,
                                       const char *key, const char *value);

/*
 * Set the secret that a listener and its clients share (docs/guide/security.md)
 * from memory instead of from a file. The secret overrides SECRET_FILE in pools
 * that are created with these settings afterwards.
 *
 * bytes   The secret. The library copies it, and wipes the copy after the
 *         settings and all pools created with them have been released. NULL
 *         removes the secret; SECRET_FILE then applies again.
 * length  Length in bytes. As in a file, a "\n" or "\r\n" at the end is not
 *         part of the secret. The rest must have 16 to 4096 bytes. The length
 *         is ignored if bytes is NULL.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the secret is too short or too long; the settings
 *                            are unchanged
 * UCXPOOL_ERR_NO_MEMORY      out of memory; the settings are unchanged
 */
ucxpool_status_t ucxpool_config_set_secret(ucxpool_config_t *config,
                                           const void *bytes, size_t length);

/* Source of a value. */
typedef enum ucxpool_config_source {
    UCXPOOL_CONFIG_SOURCE_DEFAULT,
    UCXPOOL_CONFIG_SOURCE_ENVIRONMENT,
    UCXPOOL_CONFIG_SOURCE_MODIFY /* ucxpool_config_modify() */
} ucxpool_config_source_t;

/* A setting. The library owns the strings and never frees them. */
typedef struct ucxpool_config_attr {
    const char             *key;           /* for example "BLOCK_SIZE" */
    const char             *default_value; /* as text, for example "auto" */
    const char             *doc;           /* what the setting does */
    ucxpool_config_source_t source;
    char                    takes[160];  /* possible values, in words */
    char                    value[4096]; /* current value, as text */
} ucxpool_config_attr_t;

/* Returns the key with this index, counted from 0, or NULL if the index is
 * beyond the last key. */
const char *ucxpool_config_key(size_t index);

/*
 * Describe one setting.
 *
 * key        Name without the prefix, for example "BLOCK_SIZE". Not NULL.
 * attr_p     [out] The setting; unchanged after an error.
 * attr_size  sizeof(*attr_p). Fields that the library does not know are
 *            cleared.
 *
 * UCXPOOL_ERR_INVALID_PARAM  unknown key
 */
ucxpool_status_t ucxpool_config_query(const ucxpool_config_t *config,
                                      const char             *key,
                                      ucxpool_config_attr_t  *attr_p,
                                      size_t                  attr_size);

typedef enum ucxpool_config_print_flags {
    UCXPOOL_CONFIG_PRINT_VALUES  = 1u << 0, /* UCXPOOL_KEY=value */
    UCXPOOL_CONFIG_PRINT_DOC     = 1u << 1, /* what the key means */
    UCXPOOL_CONFIG_PRINT_DEFAULT = 1u << 2, /* its default */
    UCXPOOL_CONFIG_PRINT_SOURCE  = 1u << 3  /* where the value comes from */
} ucxpool_config_print_flags_t;

/*
 * Return the settings as text.
 *
 * flags  A set of the flags above.
 *
 * Returns the text, which the caller must release with ucxpool_string_free().
 * Returns NULL if config is NULL or memory ran out; ucxpool_error_detail() has
 * the cause.
 */
char *ucxpool_config_string(const ucxpool_config_t *config, unsigned flags);

/* Free a string of ucxpool_config_string(), ucxpool_stats_string() or
 * ucxpool_heap_string(). NULL is allowed. */
void ucxpool_string_free(char *string);

/* Print the text of ucxpool_config_string() to a stream. */
void ucxpool_config_print(const ucxpool_config_t *config, FILE *stream,
                          unsigned flags);

/* Release settings. NULL is allowed. Pools created with them are unaffected. */
void ucxpool_config_release(ucxpool_config_t *config);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
