/*
 * The table of settings keys, one entry per key. A key's type and limits define
 * its valid values.
 */
#ifndef BASE_KEY_H
#define BASE_KEY_H

#include "base/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum base_key_type {
    BASE_KEY_SIZE,     /* size_t */
    BASE_KEY_TIME,     /* uint64_t, nanoseconds */
    BASE_KEY_UNSIGNED, /* unsigned */
    BASE_KEY_BOOL,     /* bool */
    BASE_KEY_WORD,     /* an enum, counting from 0 in the order of the words */
    BASE_KEY_PATH      /* char[BASE_PATH_SIZE] */
} base_key_type_t;

typedef enum base_key_flags {
    BASE_KEY_AUTO = 1u << 0, /* a size may be "auto" */
    BASE_KEY_INF  = 1u << 1, /* a size or time may be "inf" */
    BASE_KEY_POW2 = 1u << 2, /* a size must be a power of two */
    BASE_KEY_ZERO = 1u << 3  /* a size may be 0, even if min is not 0 */
} base_key_flags_t;

typedef struct base_key {
    const char        *name; /* without UCXPOOL_ */
    base_key_type_t    type;
    size_t             offset;   /* in base_config_t */
    const char        *fallback; /* default value, as text */
    unsigned           flags;
    uint64_t           min; /* sizes, times, numbers */
    uint64_t           max;
    const char *const *words; /* BASE_KEY_WORD, ends with NULL */
    const char        *doc;   /* description in sentences */
} base_key_t;

/* Value of `max` for a key without an upper limit. */
#define BASE_KEY_NO_MAX UINT64_MAX

#define BASE_NUM_KEYS 39

extern const base_key_t base_keys[BASE_NUM_KEYS];

/* Find a key by name. Returns NULL if not found. */
const base_key_t *base_key_find(const char *name);

/* Size of the buffer for base_key_expected(). */
#define BASE_KEY_EXPECTED_SIZE 160

/* Describe the values that the key accepts: "a size from 4k to 1g, ...". */
void base_key_expected(const base_key_t *key,
                       char              text[BASE_KEY_EXPECTED_SIZE]);

/* Parse a value into the key's field. Returns false and writes nothing if the
 * value is invalid. */
bool base_key_parse(const base_key_t *key, const char *text,
                    base_config_t *config);

/* Size of the buffer for base_key_format(). */
#define BASE_KEY_VALUE_SIZE BASE_PATH_SIZE

/* Format the key's field as text. */
void base_key_format(const base_key_t *key, const base_config_t *config,
                     char text[BASE_KEY_VALUE_SIZE]);

#endif
