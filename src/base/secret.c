#include <config.h>

#include "base/secret.h"

#include "base/error.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct base_secret {
    unsigned num_users; /* atomic */
    size_t   length;
    uint8_t  bytes[];
};

size_t base_secret_strip(const void *bytes, size_t length)
{
    const char *text = bytes;

    if ((length > 0) && (text[length - 1] == '\n')) {
        length--;
        length -= (length > 0) && (text[length - 1] == '\r');
    }
    return length;
}

ucxpool_status_t base_secret_create(const void *bytes, size_t length,
                                    base_secret_t **secret_p)
{
    base_secret_t *secret;

    length = base_secret_strip(bytes, length);
    if ((length < BASE_SECRET_MIN) || (length > BASE_SECRET_MAX)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "a secret of %zu bytes was given: it has %d to %d, "
                          "such as 32 random ones",
                          length, BASE_SECRET_MIN, BASE_SECRET_MAX);
    }
    secret = malloc(sizeof(*secret) + length);
    if (secret == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for the secret");
    }
    secret->num_users = 1;
    secret->length    = length;
    memcpy(secret->bytes, bytes, length);
    *secret_p = secret;
    return UCXPOOL_OK;
}

base_secret_t *base_secret_get(base_secret_t *secret)
{
    if (secret != NULL) {
        __atomic_add_fetch(&secret->num_users, 1, __ATOMIC_RELAXED);
    }
    return secret;
}

void base_secret_put(base_secret_t *secret)
{
    if ((secret != NULL) &&
        (__atomic_sub_fetch(&secret->num_users, 1, __ATOMIC_ACQ_REL) == 0)) {
        explicit_bzero(secret, sizeof(*secret) + secret->length);
        free(secret);
    }
}

const void *base_secret_bytes(const base_secret_t *secret, size_t *length_p)
{
    *length_p = secret->length;
    return secret->bytes;
}
