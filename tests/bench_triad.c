#include "bench_triad.h"

#include <dlfcn.h>
#include <stdint.h>

#define NUM_THREADS 256
#define NUM_BLOCKS  2112 /* 16 per multiprocessor of an H200 */

/* a[i] = b[i] + 3 * c[i], four floats a thread. */
static const char triad_ptx[] =
    ".version 6.3\n"
    ".target sm_75\n"
    ".address_size 64\n"
    ".visible .entry triad(.param .u64 a, .param .u64 b, .param .u64 c,\n"
    "                      .param .u64 num)\n"
    "{\n"
    "    .reg .pred %p<2>;\n"
    "    .reg .b32 %r<5>;\n"
    "    .reg .f32 %f<13>;\n"
    "    .reg .b64 %d<12>;\n"
    "    ld.param.u64 %d0, [a];\n"
    "    ld.param.u64 %d1, [b];\n"
    "    ld.param.u64 %d2, [c];\n"
    "    ld.param.u64 %d3, [num];\n"
    "    cvta.to.global.u64 %d0, %d0;\n"
    "    cvta.to.global.u64 %d1, %d1;\n"
    "    cvta.to.global.u64 %d2, %d2;\n"
    "    mov.u32 %r0, %ctaid.x;\n"
    "    mov.u32 %r1, %ntid.x;\n"
    "    mov.u32 %r2, %tid.x;\n"
    "    mov.u32 %r3, %nctaid.x;\n"
    "    mul.wide.u32 %d4, %r0, %r1;\n"
    "    cvt.u64.u32 %d5, %r2;\n"
    "    add.u64 %d4, %d4, %d5;\n"
    "    mul.wide.u32 %d6, %r3, %r1;\n"
    "again:\n"
    "    setp.ge.u64 %p0, %d4, %d3;\n"
    "    @%p0 bra end;\n"
    "    shl.b64 %d7, %d4, 4;\n"
    "    add.u64 %d8, %d1, %d7;\n"
    "    add.u64 %d9, %d2, %d7;\n"
    "    add.u64 %d10, %d0, %d7;\n"
    "    ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%d8];\n"
    "    ld.global.v4.f32 {%f4, %f5, %f6, %f7}, [%d9];\n"
    "    fma.rn.f32 %f8, %f4, 0f40400000, %f0;\n"
    "    fma.rn.f32 %f9, %f5, 0f40400000, %f1;\n"
    "    fma.rn.f32 %f10, %f6, 0f40400000, %f2;\n"
    "    fma.rn.f32 %f11, %f7, 0f40400000, %f3;\n"
    "    st.global.v4.f32 [%d10], {%f8, %f9, %f10, %f11};\n"
    "    add.u64 %d4, %d4, %d6;\n"
    "    bra again;\n"
    "end:\n"
    "    ret;\n"
    "}\n";

typedef struct CUmod_st  *CUmodule;
typedef struct CUfunc_st *CUfunction;

#define FIND(_name, _symbol) \
    (gpu_driver_find(library, _symbol, &triad->_name) == 0)

int triad_init(triad_t *triad, gpu_t *gpu)
{
    void    *library = gpu_driver_open();
    CUresult result;

    if ((library == NULL) || !FIND(load, "cuModuleLoadData") ||
        !FIND(find, "cuModuleGetFunction") || !FIND(unload, "cuModuleUnload") ||
        !FIND(launch, "cuLaunchKernel")) {
        return -1;
    }
    /* The driver stays loaded, because the GPU is open. */
    dlclose(library);
    result = triad->load(&triad->module, triad_ptx);
    if (result != CUDA_SUCCESS) {
        return gpu_check(gpu, result, "the kernel cannot be loaded");
    }
    /* The stand-in driver of the tests runs only the library's kernels. */
    if (triad->find(&triad->function, triad->module, "triad") != CUDA_SUCCESS) {
        triad->function = NULL;
    }
    return 0;
}

void triad_cleanup(triad_t *triad)
{
    triad->unload(triad->module);
}

int triad_start(triad_t *triad, gpu_t *gpu, void *a, void *b, void *c,
                size_t size)
{
    CUdeviceptr ranges[]    = {(CUdeviceptr)(uintptr_t)a,
                               (CUdeviceptr)(uintptr_t)b,
                               (CUdeviceptr)(uintptr_t)c};
    uint64_t    num         = size / (4 * sizeof(float));
    void       *arguments[] = {&ranges[0], &ranges[1], &ranges[2], &num};
    CUresult    result;

    result = triad->launch(triad->function, NUM_BLOCKS, 1, 1, NUM_THREADS, 1, 1,
                           0, gpu->stream, arguments, NULL);
    return gpu_check(gpu, result, "cuLaunchKernel");
}
