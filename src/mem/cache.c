#include "mem/cache.h"

#include "base/math.h"

#include <stdatomic.h>
#include <stdio.h>

/* What is assumed where the system does not tell. */
#define CACHE_SIZE_DEFAULT ((size_t)32 << 20)

#define CACHE_MAX_INDEX 8

/*
 * sysconf() is not asked: on virtual machines it multiplies a cache by
 * processors that do not share it.
 */
static size_t cache_read(unsigned index)
{
    size_t kibibytes = 0;
    char   path[64];
    FILE  *file;

    snprintf(path, sizeof(path),
             "/sys/devices/system/cpu/cpu0/cache/index%u/size", index);
    file = fopen(path, "re");
    if (file == NULL) {
        return 0;
    }
    if (fscanf(file, "%zuK", &kibibytes) != 1) {
        kibibytes = 0;
    }
    fclose(file);
    return kibibytes << 10;
}

static size_t cache_find(void)
{
    size_t largest = 0;
    size_t size;

    for (unsigned index = 0; index < CACHE_MAX_INDEX; index++) {
        size    = cache_read(index);
        largest = base_max(largest, size);
    }
    return largest == 0 ? CACHE_SIZE_DEFAULT : base_max(largest, MEM_CACHE_MIN);
}

size_t mem_cache_size(void)
{
    static atomic_size_t cache_size;
    size_t               size;

    size = atomic_load_explicit(&cache_size, memory_order_relaxed);
    if (size == 0) {
        /* Threads that come here together all find the same. */
        size = cache_find();
        atomic_store_explicit(&cache_size, size, memory_order_relaxed);
    }
    return size;
}
