/*
 * Internal declarations of the stand-in. One lock, taken by begin() and
 * released by done(), protects everything.
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
#define MAX_ARGUMENTS 14
#define GRANULARITY   ((size_t)2 << 20)

/* Exported, while everything else is hidden. */
#define VISIBLE     __attribute__((visibility("default")))
#define DRIVER_CALL VISIBLE CUresult

/* The library is built without the driver's headers, so each entry point
 * declares itself. */
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
    size_t   per_file;
    char     without[48];
    char     name[48];
} config_t;

/* A file of physical memory. */
typedef struct file {
    unsigned refs; /* backings, and one while it is filled */
    int      fd;   /* -1: of another process, and closed already */
    size_t   size;
    char    *alias; /* the stand-in's own mapping */
    int      home;  /* the device whose memory it is, in any process */
} file_t;

/* Physical memory: a file, or a part of one (`perfile`). */
typedef struct backing {
    int      refs; /* handles and mappings */
    file_t  *file;
    size_t   offset; /* in the file */
    size_t   size;
    char    *alias;
    int      device;
    unsigned handle; /* of cuMemCreate() or an import; 0: none */
    unsigned handle_types;
    bool     is_gdr;
    bool is_foreign; /* belongs to another process, and counts no memory here */
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
    unsigned       readers; /* bit mask of devices that may read */
    unsigned       writers;
    int            device;
} mapping_t;

struct CUctx_st {
    int      device;
    unsigned retains;
    CUresult sticky; /* the error that broke it */
};

extern config_t        config;
extern struct CUctx_st contexts[MAX_DEVICES];
extern size_t          memory_used[MAX_DEVICES];
extern unsigned        num_live;

/* Preconditions of a call. */
typedef enum needs { NEEDS_NOTHING, NEEDS_INIT, NEEDS_CONTEXT } needs_t;

/* Count the call and take the lock. Any result other than success has released
 * the lock, and is the result of the call. */
CUresult begin(const char *name, needs_t needs);
CUresult done(CUresult result);

/* Only the lock, for the thread that runs operations late. */
void state_lock(void);
void state_unlock(void);

#define BEGIN(_name, _needs) \
    do { \
        CUresult begin_result_ = begin(_name, _needs); \
        if (begin_result_ != CUDA_SUCCESS) { \
            return begin_result_; \
        } \
    } while (0)

/* End a call with this error if the condition holds. */
#define FAIL_IF(_condition, _error) \
    do { \
        if (_condition) { \
            return done(_error); \
        } \
    } while (0)

/* context.c: the calling thread's; NULL: none. */
CUcontext current_context(void);

/* memory.c */
backing_t *backing_create(int device, size_t size);
/* The same for cuMemCreate(): many allocations can be in one file. */
backing_t *backing_create_virtual(int device, size_t size);
backing_t *backing_adopt(int fd, int device);
/* Returns a new descriptor from which backing_adopt() makes the same memory, in
 * any process; -1: failed. */
int backing_export(const backing_t *backing);
/* Returns true if a device can access the memory. */
bool  backing_is_reachable(const backing_t *backing, int device);
void  backing_drop(backing_t *backing);
void *range_reserve(size_t size, size_t alignment);
bool  mapping_add(mapping_t mapping);
/* Map a backing at new addresses, for its device. Takes over the reference to
 * the backing even if it fails; then returns 0. */
CUdeviceptr mapping_create(backing_t *backing, mapping_kind_t kind,
                           size_t alignment);
/* Unmap and remove the mapping, and drop its backing. */
void mapping_destroy(mapping_t *mapping);
/* The mapping that starts at this address, or contains it; NULL: none. Valid
 * until the next add or remove. */
mapping_t *mapping_at(CUdeviceptr address);
mapping_t *mapping_of(CUdeviceptr address);
/* Remove this mapping and the next ones. */
void mapping_remove(mapping_t *mapping, size_t num);
/* The bytes at an address, and how many are contiguous; NULL if the device may
 * not access it. */
char *resolve(CUdeviceptr address, int device, bool is_written, size_t *run_p);

/* vmm.c: the reserved range that contains an address; outputs unchanged if
 * there is no such range. */
void range_of(CUdeviceptr address, CUdeviceptr *start_p, size_t *size_p);

/* kernel.c: run a kernel's twin, with the lock held. */
CUresult kernel_run(CUfunction function, const unsigned long long *arguments,
                    unsigned num_blocks, int device);
/* Copies its parameters, at most MAX_ARGUMENTS. Returns their number, or -1 if
 * the launch does not match the kernel. */
int kernel_arguments(CUfunction function, void **params, unsigned num_threads,
                     unsigned long long *arguments);

/* Copy between any addresses, with resolve(). Unknown addresses are plain host
 * memory if is_host_allowed. */
CUresult copy_bytes(CUdeviceptr target, CUdeviceptr source, size_t size,
                    int device, bool is_host_allowed);

/* stream.c: run what is runnable. Returns the number of operations. */
unsigned stream_work(unsigned num);

#ifdef __cplusplus
}
#endif

#endif
