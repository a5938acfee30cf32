/*
 * Modules, and twins in C of the kernels. Each twin does exactly what its
 * kernel in src/mem/copy_kernel.cu does, to the last byte.
 */
#include <config.h>

#include "state.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* As in the kernel's source. */
struct copy_segment {
    unsigned long long dst;
    unsigned long long src;
    unsigned long long length;
};

struct CUmod_st {
    int unused;
};

struct CUfunc_st {
    const char *name;
    unsigned    sizes[4]; /* of its parameters */
    CUresult (*run)(const unsigned long long *arguments, int device);
};

CUresult copy_bytes(CUdeviceptr target, CUdeviceptr source, size_t size,
                    int device, bool is_host_allowed)
{
    while (size > 0) {
        size_t      target_run = size, source_run = size;
        char       *to   = resolve(target, device, true, &target_run);
        const char *from = resolve(source, device, false, &source_run);
        size_t      run;

        if ((to == NULL) && is_host_allowed && (mapping_of(target) == NULL)) {
            to = (char *)(uintptr_t)target;
        }
        if ((from == NULL) && is_host_allowed && (mapping_of(source) == NULL)) {
            from = (const char *)(uintptr_t)source;
        }
        if ((to == NULL) || (from == NULL)) {
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        run = target_run < source_run ? target_run : source_run;
        run = run < size ? run : size;
        memmove(to, from, run);
        target += run;
        source += run;
        size -= run;
    }
    return CUDA_SUCCESS;
}

/* ucxpool_copy(list, count, total_bytes) */
static CUresult run_copy(const unsigned long long *arguments, int device)
{
    unsigned long long total = 0;
    size_t             run   = 0;

    for (unsigned long long i = 0; i < arguments[1]; i++) {
        struct copy_segment segment;
        const char         *entry;
        CUresult            result;

        entry = resolve(arguments[0] + i * sizeof(segment), device, false,
                        &run);
        if ((entry == NULL) || (run < sizeof(segment))) {
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        memcpy(&segment, entry, sizeof(segment));
        result = copy_bytes(segment.dst, segment.src, segment.length, device,
                            false);
        if (result != CUDA_SUCCESS) {
            return result;
        }
        total += segment.length;
    }
    /* The kernel may share its work out by the total. */
    return total == arguments[2] ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED;
}

/* ucxpool_signal(word, value) */
static CUresult run_signal(const unsigned long long *arguments, int device)
{
    size_t run  = 0;
    char  *word = resolve(arguments[0], device, true, &run);

    if ((word == NULL) || (run < sizeof(unsigned))) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    __atomic_store_n((unsigned *)(void *)word, (unsigned)arguments[1],
                     __ATOMIC_RELEASE);
    return CUDA_SUCCESS;
}

static struct CUfunc_st twins[] = {
    {"ucxpool_copy", {8, 8, 8, 0}, run_copy},
    {"ucxpool_signal", {8, 4, 0, 0}, run_signal},
};

int kernel_arguments(CUfunction function, void **params,
                     unsigned long long *arguments)
{
    int num = 0;

    if ((function == NULL) || (params == NULL)) {
        return -1;
    }
    while ((num < 4) && (function->sizes[num] != 0)) {
        arguments[num] = 0;
        memcpy(&arguments[num], params[num], function->sizes[num]);
        num++;
    }
    return num;
}

CUresult kernel_run(CUfunction function, const unsigned long long *arguments,
                    int device)
{
    return function->run(arguments, device);
}

ENTRY(cuModuleLoadData, CUmodule *module, const void *image)
{
    CUmodule made;

    BEGIN("cuModuleLoadData", NEEDS_CONTEXT);
    if (strstr(image, ".target") == NULL) {
        return done(CUDA_ERROR_INVALID_IMAGE);
    }
    made = calloc(1, sizeof(*made));
    if (made == NULL) {
        return done(CUDA_ERROR_OUT_OF_MEMORY);
    }
    num_live++;
    *module = made;
    return done(CUDA_SUCCESS);
}

ENTRY(cuModuleUnload, CUmodule module)
{
    BEGIN("cuModuleUnload", NEEDS_CONTEXT);
    stream_work(~0u);
    free(module);
    num_live--;
    return done(CUDA_SUCCESS);
}

ENTRY(cuModuleGetFunction, CUfunction *function, CUmodule module,
      const char *name)
{
    BEGIN("cuModuleGetFunction", NEEDS_CONTEXT);
    (void)module;
    for (size_t i = 0; i < sizeof(twins) / sizeof(twins[0]); i++) {
        if (strcmp(twins[i].name, name) == 0) {
            *function = &twins[i];
            return done(CUDA_SUCCESS);
        }
    }
    return done(CUDA_ERROR_NOT_FOUND);
}
