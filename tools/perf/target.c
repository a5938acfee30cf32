#include "perf/target.h"

#include <stddef.h>
#include <string.h>

#define SIZE_64M ((uint64_t)64 << 20)

static const target_t targets[] = {
    {"each", 256, 65536, MODE_MAP, MODE_PEER, 60, 0, false},
    {"each", 256, 65536, MODE_MAP, MODE_NONE, 3, 0, false},
    {"each", 4096, 16384, MODE_MAP, MODE_PEER, 8, 0, false},
    {"each", 4096, 16384, MODE_MAP, MODE_NONE, 1.3, 0, false},
    {"iov", 256, 65536, MODE_MAP, MODE_PEER, 4, 0, false},
    {"iov", 256, 65536, MODE_MAP, MODE_NONE, 1.0, 0, false},
    {"iov", 4096, 16384, MODE_MAP, MODE_PEER, 5, 0, false},
    {"iov", 4096, 16384, MODE_MAP, MODE_NONE, 1.2, 0, false},
    {"comm", SIZE_64M, 1, MODE_MAP, MODE_PEER, 4, 0, false},
    {"comm", SIZE_64M, 1, MODE_MAP, MODE_NONE, 1.0, 1.2, false},
    {"any", SIZE_64M, 1, MODE_MAP, MODE_PEER, 4, 0, false},
    {"any", SIZE_64M, 1, MODE_MAP, MODE_NONE, 0.9, 1.1, false},
    {"pingpong", 64, 1, MODE_MAP, MODE_PEER, 1.3, 0, true},
    {"pingpong", 64, 1, MODE_MAP, MODE_NONE, 0, 0, true},
    {"each", 256, 65536, MODE_UCX, MODE_PEER, 20, 0, false},
    {"each", 4096, 16384, MODE_UCX, MODE_PEER, 2.5, 0, false},
    {"iov", 256, 65536, MODE_UCX, MODE_PEER, 0.95, 0, false},
    {"iov", 4096, 16384, MODE_UCX, MODE_PEER, 0.95, 0, false},
    {"comm", SIZE_64M, 1, MODE_UCX, MODE_PEER, 0.95, 0, false},
    {"any", SIZE_64M, 1, MODE_UCX, MODE_PEER, 0.9, 0, false},
};

const target_t *target_find(const char *test, uint64_t size, uint64_t count,
                            uint32_t pool_mode, uint32_t raw_mode)
{
    for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
        const target_t *target = &targets[i];

        if ((strcmp(target->test, test) == 0) && (target->size == size) &&
            (target->count == count) && (target->pool_mode == pool_mode) &&
            (target->raw_mode == raw_mode)) {
            return target;
        }
    }
    return NULL;
}
