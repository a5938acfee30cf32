/*
 * The stand-in's inside: what all of its files share. One lock, taken by
 * begin() and given back by done(), guards everything.
 */
#ifndef CUDA_STAND_IN_STATE_H
#define CUDA_STAND_IN_STATE_H

#include "mem/cuda_api.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MAX_DEVICES   8
#define MAX_NAMES     128
#define MAX_ARGUMENTS 12
#define GRANULARITY   ((size_t)2 << 20)

/* Visible where everything else is hidden. */
#define VISIBLE     __attribute__((visibility("default")))
#define DRIVER_CALL VISIBLE CUresult

/* The library is built without the driver's headers, and so has no
 * declarations; each entry point declares itself. */
#define ENTRY(_name, ...) \
    DRIVER_CALL _name(__VA_ARGS__); \
    DRIVER_CALL _name(__VA_ARGS__)

typedef enum fabric { FABRIC_NO, FABRIC_YES, FABRIC_REFUSED } fabric_t;

typedef struct config {
    int      num_devices;
    size_t   memory;
    size_t   grain;
    bool     has_vmm;
    bool     has_gdr;
    bool     has_posix;
    bool     has_dmabuf;
    fabric_t fabric;
    bool     has_mem_ops;
    bool     has_host_pointer;
    bool     has_peers;
    int      version;
    bool     runs_at_once;
    bool     runs_late;
    char     without[48];
    char     name[48];
} config_t;

/* Physical memory: a file, seen through an alias of the stand-in's own. */
typedef struct backing {
    int      refs; /* handles and mappings */
    int      fd;   /* -1: none */
    size_t   size;
    char    *alias;
    int      device;
    unsigned handle_types;
    bool     is_gdr;
    bool     is_foreign; /* of another process: costs no memory here */
} backing_t;

typedef enum mapping_kind {
    MAPPING_ALLOC,
    MAPPING_VMM,
    MAPPING_IPC,
    MAPPING_POOL,      /* of a memory pool */
    MAPPING_HOST,      /* cuMemHostAlloc */
    MAPPING_REGISTERED /* cuMemHostRegister */
} mapping_kind_t;

/* A range of addresses that kernels and copies can use. */
typedef struct mapping {
    CUdeviceptr    address;
    size_t         size;
    mapping_kind_t kind;
    backing_t     *backing; /* NULL for host memory */
    unsigned       readers; /* devices that may read, as bits */
    unsigned       writers;
    int            device;
} mapping_t;

struct CUctx_st {
    int      device;
    unsigned retains;
    unsigned peers;  /* whose memory it may use, as bits */
    CUresult sticky; /* what broke it */
};

extern config_t        config;
extern struct CUctx_st contexts[MAX_DEVICES];
extern size_t          memory_used[MAX_DEVICES];
extern unsigned        num_live;

/* What a call needs before it does anything. */
typedef enum needs { NEEDS_NOTHING, NEEDS_INIT, NEEDS_CONTEXT } needs_t;

/* Count the call and take the lock. Another result than success has released it
 * and is the call's own. */
CUresult begin(const char *name, needs_t needs);
CUresult done(CUresult result);

/* The lock alone, for the thread that works late. */
void state_lock(void);
void state_unlock(void);

#define BEGIN(_name, _needs) \
    do { \
        CUresult begin_result_ = begin(_name, _needs); \
        if (begin_result_ != CUDA_SUCCESS) { \
            return begin_result_; \
        } \
    } while (0)

/* context.c: of the calling thread; NULL when there is none. */
CUcontext current_context(void);

/* memory.c */
backing_t *backing_create(int device, size_t size);
backing_t *backing_adopt(int fd, int device);
void       backing_drop(backing_t *backing);
void      *range_reserve(size_t size, size_t alignment);
bool       mapping_add(mapping_t mapping);
/* The mapping that starts at, or that holds, an address; NULL: none. Valid
 * until the next add or remove. */
mapping_t *mapping_at(CUdeviceptr address);
mapping_t *mapping_of(CUdeviceptr address);
void       mapping_remove(mapping_t *mapping);
/* The bytes from an address on and how many lie in one piece; NULL when the
 * device may not touch it. */
char *resolve(CUdeviceptr address, int device, bool is_written, size_t *run_p);

/* pool.c: the memory pool of an allocation; NULL: of none. */
CUmemoryPool pool_of(CUdeviceptr address);

/* vmm.c: the reserved range that holds an address; unchanged where none does.
 */
void range_of(CUdeviceptr address, CUdeviceptr *start_p, size_t *size_p);

/* kernel.c: run a kernel's twin, with the lock held. */
CUresult kernel_run(CUfunction function, const unsigned long long *arguments,
                    unsigned num_blocks, int device);
/* Copies its parameters, MAX_ARGUMENTS at most; returns how many, or -1 when it
 * is no launch that the kernel is made for. */
int kernel_arguments(CUfunction function, void **params, unsigned num_threads,
                     unsigned long long *arguments);

/* Any to any, through resolve(); what is not known is plain host memory where
 * is_host_allowed. */
CUresult copy_bytes(CUdeviceptr target, CUdeviceptr source, size_t size,
                    int device, bool is_host_allowed);

/* stream.c: do what can be done; how many operations were. */
unsigned stream_work(unsigned num);

#ifdef __cplusplus
}
#endif

#endif
