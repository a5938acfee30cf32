#include "gpu/pools.h"

#include <dlfcn.h>

#define FIND(_name, _symbol, _params) \
    if (gpu_driver_find(library, _symbol, &pools->_name, text, text_size) != \
        0) { \
        return -1; \
    }

static int fill_table(gpu_pools_t *pools, void *library, char *text,
                      size_t text_size)
{
    GPU_POOLS_CALLS(FIND)
    return 0;
}

int gpu_pools_load(gpu_pools_t *pools, char *text, size_t text_size)
{
    void *library = gpu_driver_open(text, text_size);
    int   code;

    if (library == NULL) {
        return -1;
    }
    code = fill_table(pools, library, text, text_size);
    /* The driver itself stays: gpu_driver_load() has it. */
    dlclose(library);
    return code;
}
