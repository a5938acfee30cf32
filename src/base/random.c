#include "base/random.h"

#include "base/error.h"

#include <openssl/rand.h>

ucxpool_status_t base_random(void *bytes, size_t length)
{
    if (RAND_bytes(bytes, (int)length) != 1) {
        return base_error(UCXPOOL_ERR_IO, "libcrypto cannot generate random "
                                          "numbers; check its configuration");
    }
    return UCXPOOL_OK;
}
