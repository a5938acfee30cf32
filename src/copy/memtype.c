#include <config.h>

#include "copy/memtype.h"

#include "base/error.h"
#include "mem/cuda_driver.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Allocations that are remembered while a list is gone through. */
#define NUM_REMEMBERED 8u

/* Asked for several attributes at once, the driver answers for an address that
 * it does not know by values that say so. */
ucxpool_status_t copy_pointer_query(const mem_cuda_driver_t *driver,
                                    uint64_t address, copy_pointer_t *pointer_p)
{
    unsigned            type       = 0;
    int                 is_managed = 0;
    int                 ordinal    = -1;
    CUdeviceptr         start      = 0;
    size_t              size       = 0;
    CUpointer_attribute wanted[]   = {
          CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
          CU_POINTER_ATTRIBUTE_IS_MANAGED,
          CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
          CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
          CU_POINTER_ATTRIBUTE_RANGE_SIZE,
    };
    void    *values[] = {&type, &is_managed, &ordinal, &start, &size};
    CUresult result;

    result = driver->cuPointerGetAttributes(5, wanted, values, address);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_error(driver, result,
                              "cuPointerGetAttributes of address 0x%llx",
                              (unsigned long long)address);
    }
    pointer_p->place  = is_managed                     ? COPY_MEMTYPE_MANAGED
                        : type == CU_MEMORYTYPE_DEVICE ? COPY_MEMTYPE_DEVICE
                        : type == CU_MEMORYTYPE_HOST   ? COPY_MEMTYPE_PINNED
                                                       : COPY_MEMTYPE_PAGEABLE;
    pointer_p->device = pointer_p->place == COPY_MEMTYPE_DEVICE ? ordinal : -1;
    pointer_p->start  = start;
    pointer_p->size   = address - start < size ? size : 0;
    return UCXPOOL_OK;
}

/* No page is smaller. */
#define PAGE_MASK (~(uint64_t)4095)

/* A list that is gone through. */
typedef struct walk {
    const mem_cuda_driver_t *driver;
    uint64_t                 page; /* of the host, that is there */
    copy_pointer_t           remembered[NUM_REMEMBERED];
    unsigned                 next;  /* to be forgotten */
    uint64_t                 start; /* of the allocation that was met last */
    uint64_t                 size;
    copy_memtypes_t          found;
} walk_t;

static inline bool is_inside(uint64_t start, uint64_t size, uint64_t address,
                             uint64_t length)
{
    return (length <= size) && (address - start <= size - length);
}

/* Does a segment lie in the allocation that was met last? Most do. */
static inline bool walk_stays(const walk_t *walk, uint64_t address,
                              uint64_t length)
{
    return is_inside(walk->start, walk->size, address, length);
}

static void walk_meet(walk_t *walk, const copy_pointer_t *pointer)
{
    walk->start = pointer->start;
    walk->size  = pointer->size;
}

/* Does it lie in one that is remembered? */
static bool walk_knows(walk_t *walk, uint64_t address, uint64_t length)
{
    for (unsigned i = 0; i < NUM_REMEMBERED; i++) {
        if (is_inside(walk->remembered[i].start, walk->remembered[i].size,
                      address, length)) {
            walk_meet(walk, &walk->remembered[i]);
            return true;
        }
    }
    return false;
}

static void walk_add(walk_t *walk, const copy_pointer_t *pointer)
{
    walk->remembered[walk->next] = *pointer;
    walk->next                   = (walk->next + 1) % NUM_REMEMBERED;
    walk_meet(walk, pointer);
    walk->found.types |= (unsigned)pointer->place;
    if (pointer->place != COPY_MEMTYPE_DEVICE) {
        return;
    }
    if (walk->found.device == -1) {
        walk->found.device = pointer->device;
    } else if (walk->found.device != pointer->device) {
        walk->found.device = -2;
    }
}

/*
 * What the driver does not know may be nothing at all: memory that was freed,
 * say. The kernel is asked to read a byte, because reading it here would end
 * the process. Where such questions are forbidden, the caller is believed.
 */
static bool walk_is_there(walk_t *walk, uint64_t address)
{
    char         byte;
    struct iovec here  = {&byte, 1};
    struct iovec there = {(void *)(uintptr_t)address, 1};

    if ((address & PAGE_MASK) == walk->page) {
        return true;
    }
    if ((process_vm_readv(getpid(), &here, 1, &there, 1, 0) != 1) &&
        (errno == EFAULT)) {
        return false;
    }
    walk->page = address & PAGE_MASK;
    return true;
}

static ucxpool_status_t walk_address(walk_t *walk, uint64_t address)
{
    copy_pointer_t   pointer;
    ucxpool_status_t status;

    if (walk_knows(walk, address, 1)) {
        return UCXPOOL_OK;
    }
    walk->found.num_questions++;
    status = copy_pointer_query(walk->driver, address, &pointer);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if ((pointer.place == COPY_MEMTYPE_PAGEABLE) &&
        !walk_is_there(walk, address)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    walk_add(walk, &pointer);
    return UCXPOOL_OK;
}

/* A segment, of 1 byte or more, that does not lie where the last one did. */
static ucxpool_status_t walk_segment(walk_t *walk, uint64_t address,
                                     uint64_t length, size_t index)
{
    ucxpool_status_t status;

    if (walk_knows(walk, address, length)) {
        return UCXPOOL_OK;
    }
    status = walk_address(walk, address);
    if (status == UCXPOOL_OK) {
        status = walk_address(walk, address + length - 1);
    }
    if (status == UCXPOOL_ERR_INVALID_PARAM) {
        return base_error(status,
                          "segment %zu, %llu bytes at 0x%llx, is memory "
                          "neither of the host nor of a GPU: has it been "
                          "freed?",
                          index, (unsigned long long)length,
                          (unsigned long long)address);
    }
    return status;
}

static walk_t walk_begin(const mem_cuda_driver_t *driver)
{
    return (walk_t){
        .driver = driver, .page = UINT64_MAX, .found = {.device = -1}};
}

ucxpool_status_t copy_memtypes_query(const mem_cuda_driver_t *driver,
                                     const copy_segment_t    *segments,
                                     size_t                   num_segments,
                                     copy_memtypes_t         *memtypes_p)
{
    walk_t           walk = walk_begin(driver);
    ucxpool_status_t status;

    for (size_t i = 0; i < num_segments; i++) {
        uint64_t address = segments[i].address;
        uint64_t length  = segments[i].length;

        if ((length == 0) || walk_stays(&walk, address, length)) {
            continue;
        }
        status = walk_segment(&walk, address, length, i);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    *memtypes_p = walk.found;
    return UCXPOOL_OK;
}

ucxpool_status_t copy_memtypes_of_pieces(const mem_cuda_driver_t *driver,
                                         void *const             *addresses,
                                         size_t num_pieces, uint64_t length,
                                         copy_memtypes_t *memtypes_p)
{
    walk_t           walk = walk_begin(driver);
    ucxpool_status_t status;

    for (size_t i = 0; (i < num_pieces) && (length != 0); i++) {
        uint64_t address = (uintptr_t)addresses[i];

        if (walk_stays(&walk, address, length)) {
            continue;
        }
        status = walk_segment(&walk, address, length, i);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    *memtypes_p = walk.found;
    return UCXPOOL_OK;
}
