/*
 * The secret that peers share: what the program has given, else the contents of
 * a file (setting SECRET_FILE).
 */
#ifndef BOOTSTRAP_SECRET_H
#define BOOTSTRAP_SECRET_H

#include "base/config.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes of an HMAC-SHA-256. */
#define BOOTSTRAP_MAC_SIZE 32

typedef struct bootstrap_secret bootstrap_secret_t;

/*
 * Read a secret.
 *
 * path      The file; a symbolic link is followed, because what counts is
 *           checked on the file that was opened: a regular file, owned by the
 *           effective user or root, with no right for group and others.
 *           "": no secret, *secret_p is NULL.
 * secret_p  Released by bootstrap_secret_release().
 *
 * UCXPOOL_ERR_PERMISSION     cannot be read; or others could read or change it
 * UCXPOOL_ERR_INVALID_PARAM  no regular file, too short or too long
 * UCXPOOL_ERR_NO_MEMORY, UCXPOOL_ERR_IO
 */
ucxpool_status_t bootstrap_secret_read(const char          *path,
                                       bootstrap_secret_t **secret_p);

/* The secret of some settings, in the same way. */
ucxpool_status_t bootstrap_secret_of(const base_config_t *config,
                                     bootstrap_secret_t **secret_p);

/* Wipe and release. NULL is allowed. */
void bootstrap_secret_release(bootstrap_secret_t *secret);

/* HMAC-SHA-256 of some bytes; without a secret (NULL) the key is empty. */
ucxpool_status_t bootstrap_secret_sign(const bootstrap_secret_t *secret,
                                       const void *data, size_t length,
                                       uint8_t mac_p[BOOTSTRAP_MAC_SIZE]);

#endif
