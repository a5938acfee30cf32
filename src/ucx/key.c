#include "ucx/key.h"

#include <string.h>

#define TYPE_SIZE 1u

bool ucx_key_read(const void *key, size_t size, unsigned num_domains,
                  uint64_t *domains_p)
{
    const uint8_t *bytes = key;
    uint64_t       domains;
    size_t         at = sizeof(domains) + TYPE_SIZE;

    if (size < at) {
        return false;
    }
    memcpy(&domains, bytes, sizeof(domains));
    if ((num_domains < 64) && ((domains >> num_domains) != 0)) {
        return false;
    }
    for (uint64_t rest = domains; rest != 0; rest &= rest - 1) {
        if ((at >= size) || (bytes[at] > size - at - 1)) {
            return false;
        }
        at += 1u + bytes[at];
    }
    *domains_p = domains;
    return true;
}
