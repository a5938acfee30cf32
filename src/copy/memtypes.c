#include "copy/memtypes.h"

#include "base/error.h"
#include "mem/readable.h"

#include <stdbool.h>
#include <string.h>

/* The number of allocations that are remembered while a list is checked. */
#define NUM_REMEMBERED 8u

/* For an unknown address, a query of several attributes succeeds and returns
 * null values. */
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

/* The state of the walk over a list. */
typedef struct walk {
    const mem_cuda_driver_t *driver;
    copy_pointer_t           remembered[NUM_REMEMBERED];
    copy_pointer_t          *current; /* the allocation found last */
    unsigned                 next;    /* index of the next one to replace */
    copy_memtypes_t          found;
    size_t                   num_unknown;
    size_t                   num_unknown_total; /* unknown segments in total */
    /* Segments that the driver does not know, and their indexes. Only the first
     * num_unknown entries are valid. */
    mem_span_t unknown[MEM_SPANS_MAX];
    size_t     indexes[MEM_SPANS_MAX];
} walk_t;

static inline bool contains(const copy_pointer_t *allocation, uint64_t address,
                            uint64_t length)
{
    return (length <= allocation->size) &&
           (address - allocation->start <= allocation->size - length);
}

/* Returns the remembered allocation that contains the segment, or NULL. */
static const copy_pointer_t *walk_find(walk_t *walk, uint64_t address,
                                       uint64_t length)
{
    for (unsigned i = 0; i < NUM_REMEMBERED; i++) {
        if (contains(&walk->remembered[i], address, length)) {
            walk->current = &walk->remembered[i];
            return walk->current;
        }
    }
    return NULL;
}

static void walk_add(walk_t *walk, const copy_pointer_t *pointer)
{
    walk->current  = &walk->remembered[walk->next];
    walk->next     = (walk->next + 1) % NUM_REMEMBERED;
    *walk->current = *pointer;
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

static ucxpool_status_t report_unreadable(const mem_span_t *span, size_t index)
{
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "segment %zu (%llu bytes at 0x%llx) is neither host nor "
                      "GPU memory; check that it has not been freed",
                      index, (unsigned long long)span->length,
                      (unsigned long long)span->address);
}

/* Check that the segments that the driver does not know are readable. The
 * memory of such a segment may have been freed and unmapped. */
static ucxpool_status_t walk_check_unknown(walk_t *walk)
{
    size_t num   = walk->num_unknown;
    size_t first = mem_find_unreadable(walk->unknown, num);

    walk->num_unknown = 0;
    return (first == num)
               ? UCXPOOL_OK
               : report_unreadable(&walk->unknown[first], walk->indexes[first]);
}

/*
 * After this many segments that the driver does not know, the operating system
 * is queried for the mapping of the next one. Later segments in this mapping
 * need no query. The driver may know a part of the mapping, such as registered
 * memory. But the CPU can access the whole mapping, so the CPU also copies
 * segments in this part.
 */
#define UNKNOWN_MIN 16u

/* Returns true less and less often, because each segment may be in another
 * mapping. */
static bool should_query(size_t num_unknown_total)
{
    return (num_unknown_total >= UNKNOWN_MIN) &&
           ((num_unknown_total & (num_unknown_total - 1)) == 0);
}

static bool walk_add_mapping(walk_t *walk, uint64_t address, uint64_t length)
{
    mem_span_t mapping;

    if (!should_query(++walk->num_unknown_total) ||
        !mem_find_anonymous(address, &mapping)) {
        return false;
    }
    walk_add(walk, &(copy_pointer_t){.place  = COPY_MEMTYPE_PAGEABLE,
                                     .device = -1,
                                     .start  = mapping.address,
                                     .size   = mapping.length});
    return contains(walk->current, address, length);
}

/* Add a segment that the driver does not know. Many such segments are checked
 * with one system call. */
static ucxpool_status_t walk_add_unknown(walk_t *walk, uint64_t address,
                                         uint64_t length, size_t index)
{
    walk->found.types |= COPY_MEMTYPE_PAGEABLE;
    if (walk_add_mapping(walk, address, length)) {
        return UCXPOOL_OK;
    }
    walk->unknown[walk->num_unknown] = (mem_span_t){address, length};
    walk->indexes[walk->num_unknown] = index;
    walk->num_unknown++;
    return (walk->num_unknown == MEM_SPANS_MAX) ? walk_check_unknown(walk)
                                                : UCXPOOL_OK;
}

/* Find the allocation of an address. *is_known_p is true if the driver knows
 * the address. */
static ucxpool_status_t walk_address(walk_t *walk, uint64_t address,
                                     bool *is_known_p)
{
    const copy_pointer_t *found = walk_find(walk, address, 1);
    copy_pointer_t        pointer;
    ucxpool_status_t      status;

    if (found != NULL) {
        *is_known_p = found->place != COPY_MEMTYPE_PAGEABLE;
        return UCXPOOL_OK;
    }
    walk->found.num_questions++;
    status = copy_pointer_query(walk->driver, address, &pointer);
    if (status != UCXPOOL_OK) {
        return status;
    }
    *is_known_p = pointer.place != COPY_MEMTYPE_PAGEABLE;
    if (*is_known_p) {
        walk_add(walk, &pointer);
    }
    return UCXPOOL_OK;
}

/* Record the memory type of a nonempty segment outside the current
 * allocation. */
static ucxpool_status_t walk_segment(walk_t *walk, uint64_t address,
                                     uint64_t length, size_t index)
{
    bool             is_known = false;
    ucxpool_status_t status;

    if (walk_find(walk, address, length) != NULL) {
        return UCXPOOL_OK;
    }
    status = walk_address(walk, address, &is_known);
    if ((status == UCXPOOL_OK) && is_known) {
        address += length - 1;
        length = 1;
        status = walk_address(walk, address, &is_known);
    }
    if ((status != UCXPOOL_OK) || is_known) {
        return status;
    }
    return walk_add_unknown(walk, address, length, index);
}

/* Count the pieces or segments from number `first` on that are in the current
 * allocation. The result is a lower bound. */
static size_t walk_pass(const walk_t *walk, const copy_memory_t *memory,
                        size_t first)
{
    size_t num = memory->num - first;

    if (copy_memory_is_ranges(memory)) {
        return 0;
    }
    return copy_memory_is_pieces(memory)
               ? copy_pairs_within(&memory->addresses[first], num,
                                   memory->length, walk->current->start,
                                   walk->current->size)
               : copy_pairs_inside(&memory->segments[first], num,
                                   walk->current->start, walk->current->size);
}

static bool is_file(const copy_memory_t *memory, size_t i)
{
    return copy_memory_is_ranges(memory) &&
           (memory->ranges[i].kind == UCXPOOL_RANGE_FILE);
}

ucxpool_status_t copy_memtypes_query(const mem_cuda_driver_t *driver,
                                     const copy_memory_t     *memory,
                                     copy_memtypes_t         *memtypes_p)
{
    walk_t           walk;
    ucxpool_status_t status;

    memset(&walk, 0, offsetof(walk_t, unknown));
    walk.driver       = driver;
    walk.current      = walk.remembered;
    walk.found.device = -1;
    for (size_t i = 0; i < memory->num; i++) {
        uint64_t address = (uintptr_t)copy_memory_address(memory, i);
        uint64_t length  = copy_memory_length(memory, i);

        if ((length == 0) || is_file(memory, i)) {
            continue;
        }
        /* The common case. */
        if (contains(walk.current, address, length)) {
            i += walk_pass(&walk, memory, i + 1);
            continue;
        }
        status = walk_segment(&walk, address, length, i);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    *memtypes_p = walk.found;
    return walk_check_unknown(&walk);
}
