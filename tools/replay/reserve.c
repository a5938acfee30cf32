#include "replay/reserve.h"
#include "common/number.h"
#include "replay/allocator.h"

#include <stdio.h>

#define MAX_RESERVE (UINT64_C(1) << 47)

int reserve_parse(const char *text, reserve_t *reserve_p)
{
    char sign, extra;

    *reserve_p = (reserve_t){.bytes = 0};
    if (sscanf(text, "%3u%c%c", &reserve_p->percent, &sign, &extra) == 2 &&
        (sign == '%')) {
        return ((reserve_p->percent > 0) && (reserve_p->percent <= 100)) ? 0
                                                                         : -1;
    }
    reserve_p->percent = 0;
    return number_parse_size(text, MAX_RESERVE, &reserve_p->bytes);
}

int reserve_bytes(const reserve_t *reserve, device_t *device, uint64_t *bytes_p)
{
    uint64_t free_bytes;

    *bytes_p = reserve->bytes;
    if (reserve->percent > 0) {
        if (device_free_bytes(device, &free_bytes) != 0) {
            return -1;
        }
        *bytes_p = free_bytes / 100 * reserve->percent;
    }
    *bytes_p = *bytes_p / ALLOCATOR_UNIT * ALLOCATOR_UNIT;
    return 0;
}
