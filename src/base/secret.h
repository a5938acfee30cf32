/*
 * The secret that peers share: passed by the application, or read from a file.
 * All users refer to one copy, which is wiped when the last reference is
 * released.
 */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <ucxpool/status.h>

#include <stddef.h>

/* Limits of a secret in bytes, without a trailing newline. */
#define BASE_SECRET_MIN 16
#define BASE_SECRET_MAX 4096

typedef struct base_secret base_secret_t;

/*
 * Create a secret from bytes, which are copied. The caller gets a reference.
 *
 * UCXPOOL_ERR_INVALID_PARAM  too short or too long
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t base_secret_create(const void *bytes, size_t length,
                                    base_secret_t **secret_p);

/*
 * Read a secret from a file. The caller gets a reference.
 *
 * path      A regular file, owned by the effective user or root, with no
 *           permissions for group and others. Symbolic links are followed: the
 *           checks apply to the opened file. "": no secret, *secret_p is NULL.
 *
 * UCXPOOL_ERR_PERMISSION     cannot be read; or others could read or change it
 * UCXPOOL_ERR_INVALID_PARAM  not a regular file, too short or too long
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t base_secret_read(const char *path, base_secret_t **secret_p);

/* Take and release a reference. NULL is allowed. */
base_secret_t *base_secret_get(base_secret_t *secret);
void           base_secret_put(base_secret_t *secret);

const void *base_secret_bytes(const base_secret_t *secret, size_t *length_p);

#endif
