#include <config.h>

#include "mem/cuda_pointer.h"
#include "mem/cuda_status.h"

#include <string.h>

/* Allocations that are remembered while a list is gone through. */
#define NUM_REMEMBERED 8u

/* Asked for several attributes at once, the driver answers for an address that
 * it does not know by values that say so. */
ucxpool_status_t mem_cuda_pointer_query(const mem_cuda_driver_t *driver,
                                        uint64_t                 address,
                                        mem_cuda_pointer_t      *pointer_p)
{
    unsigned            type       = 0;
    int                 is_managed = 0;
    int                 ordinal    = -1;
    CUdeviceptr         start      = 0;
    size_t              size       = 0;
    CUpointer_attribute wanted[]   = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void    *values[] = {&type, &is_managed, &ordinal, &start, &size};
    CUresult result;

    result = driver->cuPointerGetAttributes(5, wanted, values, address);
    if (result != CUDA_SUCCESS) {
        return mem_cuda_error(driver, result,
                              "cuPointerGetAttributes of address 0x%llx",
                              (unsigned long long)address);
    }
    pointer_p->place = is_managed                     ? MEM_CUDA_MANAGED
                       : type == CU_MEMORYTYPE_DEVICE ? MEM_CUDA_DEVICE
                       : type == CU_MEMORYTYPE_HOST   ? MEM_CUDA_PINNED
                                                      : MEM_CUDA_PAGEABLE;
    pointer_p->device = pointer_p->place == MEM_CUDA_DEVICE ? ordinal : -1;
    pointer_p->start  = start;
    pointer_p->size   = address - start < size ? size : 0;
    return UCXPOOL_OK;
}

/* A list that is gone through. */
typedef struct walk {
    const mem_cuda_driver_t *driver;
    mem_cuda_pointer_t       remembered[NUM_REMEMBERED];
    unsigned                 next; /* to be forgotten */
    mem_cuda_places_t        places;
} walk_t;

static bool walk_knows(const walk_t *walk, uint64_t address)
{
    for (unsigned i = 0; i < NUM_REMEMBERED; i++) {
        if (address - walk->remembered[i].start < walk->remembered[i].size) {
            return true;
        }
    }
    return false;
}

static void walk_add(walk_t *walk, const mem_cuda_pointer_t *pointer)
{
    walk->remembered[walk->next] = *pointer;
    walk->next                   = (walk->next + 1) % NUM_REMEMBERED;
    walk->places.places |= (unsigned)pointer->place;
    if (pointer->place != MEM_CUDA_DEVICE) {
        return;
    }
    if (walk->places.device == -1) {
        walk->places.device = pointer->device;
    } else if (walk->places.device != pointer->device) {
        walk->places.device = -2;
    }
}

static ucxpool_status_t walk_address(walk_t *walk, uint64_t address)
{
    mem_cuda_pointer_t pointer;
    ucxpool_status_t   status;

    if (walk_knows(walk, address)) {
        return UCXPOOL_OK;
    }
    walk->places.num_questions++;
    status = mem_cuda_pointer_query(walk->driver, address, &pointer);
    if (status == UCXPOOL_OK) {
        walk_add(walk, &pointer);
    }
    return status;
}

ucxpool_status_t mem_cuda_places_query(const mem_cuda_driver_t  *driver,
                                       const mem_copy_segment_t *segments,
                                       size_t                    num_segments,
                                       mem_cuda_places_t        *places_p)
{
    walk_t           walk = {.driver = driver, .places = {.device = -1}};
    ucxpool_status_t status;

    for (size_t i = 0; i < num_segments; i++) {
        const mem_copy_segment_t *segment = &segments[i];

        if (segment->length == 0) {
            continue;
        }
        status = walk_address(&walk, segment->address);
        if (status == UCXPOOL_OK) {
            status = walk_address(&walk,
                                  segment->address + segment->length - 1);
        }
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    *places_p = walk.places;
    return UCXPOOL_OK;
}
