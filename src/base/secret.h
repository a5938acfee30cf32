/*
 * The secret that peers share: what the program has given from memory, or the
 * contents of a file. All users refer to one copy, which is wiped when the
 * last releases it.
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

/*
 * Read a secret; the caller refers to it.
 *
 * path      The file; a symbolic link is followed, because what counts is
 *           checked on the file that was opened: a regular file, owned by the
 *           effective user or root, with no right for group and others.
 *           "": no secret, *secret_p is NULL.
 *
 * UCXPOOL_ERR_PERMISSION     cannot be read; or others could read or change it
 * UCXPOOL_ERR_INVALID_PARAM  no regular file, too short or too long
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t base_secret_read(const char *path, base_secret_t **secret_p);

/* One more, one fewer who refers to it. NULL is allowed. */
base_secret_t *base_secret_get(base_secret_t *secret);
void           base_secret_put(base_secret_t *secret);

const void *base_secret_bytes(const base_secret_t *secret, size_t *length_p);

#endif
