/*
 * Modules, and C versions of the kernels in src/copy/kernel.cu. They run with
 * the memory access rights of their device.
 */
#include "../copy_twin.h"
#include "copy/cuda_copier.h"
#include "state.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct CUmod_st {
    int unused;
};

struct CUfunc_st {
    const char *name;
    unsigned    sizes[MAX_ARGUMENTS]; /* of its parameters */
    unsigned    num_threads;          /* per block */
    CUresult (*run)(const unsigned long long *arguments, unsigned num_blocks,
                    int device);
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

static CUresult clear_bytes(CUdeviceptr target, size_t size, int device)
{
    while (size > 0) {
        size_t run = size;
        char  *to  = resolve(target, device, true, &run);

        if (to == NULL) {
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        run = run < size ? run : size;
        memset(to, 0, run);
        target += run;
        size -= run;
    }
    return CUDA_SUCCESS;
}

/* Memory that a launch may access, and whether it has violated that. */
typedef struct launch {
    int      device;
    CUresult result;
} launch_t;

static void move(void *context, uint64_t target, uint64_t source, uint64_t size)
{
    launch_t *launch = context;

    if (launch->result != CUDA_SUCCESS) {
        return;
    }
    launch->result =
        (source == COPY_TWIN_ZEROS)
            ? clear_bytes(target, size, launch->device)
            : copy_bytes(target, source, size, launch->device, false);
}

/* If an entry has no address, another length, or an offset beyond the limit,
 * report it in the launch's fault word, and copy nothing. */
static bool has_fault(const uint64_t *list, const copy_twin_even_t *even,
                      uint32_t length, uint64_t limit, uint32_t *fault)
{
    uint32_t stride = copy_even_stride(even->form, length);
    uint32_t num    = (even->stream_size + stride - 1) / stride;
    size_t   step   = (even->form == COPY_EVEN_SEGMENTS) ? 2 : 1;

    for (uint32_t i = 0; i < num; i++) {
        if ((step == 2) && (list[i * step + 1] != length)) {
            *fault = (i + 1) | COPY_OTHER;
            return true;
        }
        if (list[i * step] == 0) {
            *fault = i + 1;
            return true;
        }
        if ((even->form == COPY_EVEN_PLACES) && (even->offsets[i] > limit)) {
            *fault = (i + 1) | COPY_BEYOND;
            return true;
        }
    }
    return false;
}

/* A list of equal lengths, which has no tiles. */
static CUresult run_copy_even(const unsigned long long *arguments,
                              unsigned num_blocks, int device)
{
    const copy_twin_even_t even = {
        (copy_form_t)arguments[2], (const uint64_t *)(uintptr_t)arguments[0],
        arguments[5], (uint32_t)arguments[6], (uint32_t)arguments[7]};
    launch_t    launch = {device, CUDA_SUCCESS};
    const void *list   = (const void *)(uintptr_t)arguments[1];
    size_t      run    = 0;
    char       *fault  = resolve(arguments[8], device, true, &run);

    if ((fault == NULL) || (run < sizeof(uint32_t))) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if ((even.form == COPY_ONE) || (even.form == COPY_EVEN_PAIRS) ||
        !has_fault(list, &even, (uint32_t)arguments[3], arguments[11],
                   (uint32_t *)(void *)fault)) {
        copy_twin_even_by(move, &launch, num_blocks, &even, list,
                          (uint32_t)arguments[3], arguments[4] != 0);
    }
    return launch.result;
}

/* Does the awaited word of the launch have its number? Another process may be
 * about to write it, so wait for a moment before reporting a failure. */
static bool has_come(const unsigned long long *arguments, int device)
{
    size_t    run   = 0;
    uint32_t *word  = (void *)resolve(arguments[9], device, false, &run);
    uint32_t *fault = (void *)resolve(arguments[8], device, true, &run);

    for (unsigned i = 0; i < 1000; i++) {
        if (__atomic_load_n(word, __ATOMIC_ACQUIRE) == arguments[10]) {
            return true;
        }
    }
    *fault = COPY_LATE;
    return false;
}

/* The arguments that it reads itself are in host memory, which has the same
 * address on the host and the device. */
static CUresult run_tiles(const unsigned long long *arguments,
                          unsigned num_blocks, int device)
{
    launch_t launch = {device, CUDA_SUCCESS};
    size_t   run    = 0;
    size_t   size   = num_blocks * sizeof(copy_tile_t);
    char    *tiles;

    if (resolve(arguments[1], device, false, &run) == NULL) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    if ((arguments[9] != 0) && !has_come(arguments, device)) {
        return CUDA_SUCCESS;
    }
    if (copy_is_even((copy_form_t)arguments[2])) {
        return run_copy_even(arguments, num_blocks, device);
    }
    tiles = resolve(arguments[0], device, false, &run);
    if ((tiles == NULL) || (run < size)) {
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    copy_twin_by(move, &launch, num_blocks, (const copy_tile_t *)(void *)tiles,
                 (const void *)(uintptr_t)arguments[1],
                 (copy_form_t)arguments[2], (uint32_t)arguments[3],
                 arguments[4] != 0);
    return launch.result;
}

/* ucxpool_copy(tiles, list, form, length, gather, stream, stream_size,
 * tile_size, fault, awaited, mark, limit, done, number). */
static CUresult run_copy(const unsigned long long *arguments,
                         unsigned num_blocks, int device)
{
    CUresult  result = run_tiles(arguments, num_blocks, device);
    size_t    run    = 0;
    uint32_t *done   = (void *)resolve(arguments[12], device, true, &run);

    if ((result == CUDA_SUCCESS) && (arguments[12] != 0)) {
        if ((done == NULL) || (num_blocks != 1)) {
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
        __atomic_store_n(done, (uint32_t)arguments[13], __ATOMIC_RELEASE);
    }
    return result;
}

static struct CUfunc_st twins[] = {
    {COPY_KERNEL_NAME,
     {8, 8, 4, 4, 4, 8, 4, 4, 8, 8, 4, 8, 8, 4},
     COPY_THREADS,
     run_copy},
};

int kernel_arguments(CUfunction function, void **params, unsigned num_threads,
                     unsigned long long *arguments)
{
    int num = 0;

    if ((function == NULL) || (params == NULL) ||
        (num_threads != function->num_threads)) {
        return -1;
    }
    while ((num < MAX_ARGUMENTS) && (function->sizes[num] != 0)) {
        arguments[num] = 0;
        memcpy(&arguments[num], params[num], function->sizes[num]);
        num++;
    }
    return num;
}

CUresult kernel_run(CUfunction function, const unsigned long long *arguments,
                    unsigned num_blocks, int device)
{
    return function->run(arguments, num_blocks, device);
}

ENTRY(cuModuleLoadData, CUmodule *module, const void *image)
{
    CUmodule made;

    BEGIN("cuModuleLoadData", NEEDS_CONTEXT);
    FAIL_IF(strstr(image, ".target") == NULL, CUDA_ERROR_INVALID_IMAGE);
    made = calloc(1, sizeof(*made));
    FAIL_IF(made == NULL, CUDA_ERROR_OUT_OF_MEMORY);
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
    for (size_t i = 0; i < sizeof(twins) / sizeof(twins[0]); i++) {
        if (strcmp(twins[i].name, name) == 0) {
            *function = &twins[i];
            return done(CUDA_SUCCESS);
        }
    }
    return done(CUDA_ERROR_NOT_FOUND);
}
