/*
 * The secret that a program gives from memory. Settings and the pools that are
 * made with them refer to one copy, which is wiped when the last lets go.
 */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <ucxpool/status.h>

#include <stddef.h>

/* Bytes of a secret, without the newline that ends it. */
#define BASE_SECRET_MIN 16
#define BASE_SECRET_MAX 4096

typedef struct base_secret base_secret_t;

/*
 * Copy a secret; the caller refers to it.
 *
 * UCXPOOL_ERR_INVALID_PARAM  too short or too long
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t base_secret_create(const void *bytes, size_t length,
                                    base_secret_t **secret_p);

/* One more, one fewer who refers to it. NULL is allowed. */
base_secret_t *base_secret_get(base_secret_t *secret);
void           base_secret_put(base_secret_t *secret);

const void *base_secret_bytes(const base_secret_t *secret, size_t *length_p);

/* The length without a "\n" or "\r\n" at the end. */
size_t base_secret_strip(const void *bytes, size_t length);

#endif
