#include <config.h>

#include "mem/memfd.h"

#include "base/log.h"
#include "base/math.h"
#include "mem/system.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* --- address ranges ------------------------------------------------------- */

int mem_range_reserve(size_t size, size_t alignment, void **address_p)
{
    size_t    page_size = (size_t)sysconf(_SC_PAGESIZE);
    size_t    slack     = alignment > page_size ? alignment - page_size : 0;
    size_t    length;
    uintptr_t start, aligned;
    void     *address;

    if (!base_add(size, slack, &length)) {
        return ENOMEM;
    }
    address = mmap(NULL, length, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
        return errno;
    }
    /* Unmap the addresses before and after the aligned part. */
    start   = (uintptr_t)address;
    aligned = base_align_up(start, (uintptr_t)base_max(alignment, page_size));
    if (aligned != start) {
        mem_range_release(address, aligned - start);
    }
    if (start + slack != aligned) {
        mem_range_release((void *)(aligned + size), start + slack - aligned);
    }
    *address_p = (void *)aligned;
    return 0;
}

void mem_range_release(void *address, size_t size)
{
    int result = munmap(address, size);

    /* munmap() fails for invalid arguments, which would be a bug, or if
     * splitting a mapping would exceed the limit of mappings. */
    assert((result == 0) || (errno == ENOMEM));
    (void)result;
}

/* --- files ---------------------------------------------------------------- */

/* Since Linux 5.1; the C library's headers may be older. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* A signal makes fallocate() fail and undo its work, so a process with a
 * profiling timer would never allocate a large file. Steps of this size finish
 * within the interval of any such timer. */
#define FILL_STEP ((size_t)4 << 20)

/* Returns true if a file of this size exceeds the limit. Growing a file over
 * the limit not only fails but also raises SIGXFSZ. */
static bool is_over_limit(size_t size)
{
    struct rlimit limit;

    return (getrlimit(RLIMIT_FSIZE, &limit) == 0) &&
           (limit.rlim_cur != RLIM_INFINITY) && (size > limit.rlim_cur);
}

static int truncate_file(int fd, size_t size)
{
    while (ftruncate(fd, (off_t)size) != 0) {
        if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

int mem_memfd_create(const char *name, size_t size, size_t huge_page_size,
                     int *fd_p)
{
    unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int      fd, error;

    if (is_over_limit(size)) {
        return EFBIG;
    }
    if (huge_page_size != 0) {
        flags |= MFD_HUGETLB; /* the default huge page size */
    }
    fd = memfd_create(name, flags);
    if (fd < 0) {
        return errno;
    }
    error = truncate_file(fd, size);
    if (error != 0) {
        close(fd);
        return error;
    }
    *fd_p = fd;
    return 0;
}

int mem_memfd_fill(int fd, size_t start, size_t size, size_t huge_page_size)
{
    size_t step = base_max(FILL_STEP, huge_page_size);
    size_t end  = start + size;
    size_t offset, length;

    if (is_over_limit(end)) {
        return EFBIG;
    }
    for (offset = start; offset < end; offset += length) {
        length = base_min(step, end - offset);
        while (fallocate(fd, 0, (off_t)offset, (off_t)length) != 0) {
            if (errno != EINTR) {
                return errno;
            }
        }
    }
    return 0;
}

int mem_memfd_empty(int fd, size_t start, size_t size)
{
    while (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     (off_t)start, (off_t)size) != 0) {
        if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

int mem_memfd_seal(int fd, bool is_private)
{
    int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

    if (is_private) {
        if (fcntl(fd, F_ADD_SEALS, seals | F_SEAL_FUTURE_WRITE) == 0) {
            return 0;
        }
        base_debug("cannot seal against new writable mappings: %s",
                   strerror(errno));
    }
    return fcntl(fd, F_ADD_SEALS, seals) == 0 ? 0 : errno;
}

int mem_memfd_seal_shrink(int fd)
{
    return fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) == 0 ? 0 : errno;
}

bool mem_memfd_is_private(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);

    return (seals >= 0) && (seals & F_SEAL_FUTURE_WRITE);
}

int mem_memfd_duplicate(void *address, size_t size, void *target,
                        void **address_p)
{
    int  flags = MREMAP_MAYMOVE | (target != NULL ? MREMAP_FIXED : 0);
    long duplicate;

    /* An old size of 0 keeps the old mapping of shared memory. The system call
     * is made directly, because UCX replaces mremap() by a function that tracks
     * unmapped memory but drops the target address. */
    duplicate = syscall(SYS_mremap, address, (size_t)0, size, flags, target);
    if (duplicate == -1) {
        return errno;
    }
    *address_p = (void *)duplicate;
    return 0;
}

int mem_memfd_map(int fd, size_t start, size_t size, unsigned huge_page_shift,
                  bool is_writable, void **address_p)
{
    int    protection = is_writable ? PROT_READ | PROT_WRITE : PROT_READ;
    size_t page_size  = (size_t)sysconf(_SC_PAGESIZE);
    size_t alignment =
        huge_page_shift == 0 ? page_size : (size_t)1 << huge_page_shift;
    size_t transparent = mem_system_transparent_size();
    size_t length      = base_align_up(size, page_size);
    void  *address, *mapped;
    int    error;

    if (size >= transparent) {
        alignment = base_max(alignment, transparent);
    }
    error = mem_range_reserve(length, alignment, &address);
    if (error != 0) {
        return error;
    }
    mapped = mmap(address, size, protection, MAP_SHARED | MAP_FIXED, fd,
                  (off_t)start);
    if (mapped == MAP_FAILED) {
        error = errno;
        mem_range_release(address, length);
        return error;
    }
    *address_p = address;
    return 0;
}

/* --- parts of a file ------------------------------------------------------ */

void mem_file_space_cleanup(mem_file_space_t *space)
{
    free(space->free_parts);
    memset(space, 0, sizeof(*space));
}

/*
 * Make room in free_parts. Each free part precedes a taken part, so there are
 * never more free parts than taken ones. The room is allocated when a part is
 * taken, because returning a part must not fail.
 */
static bool room_make(mem_file_space_t *space)
{
    mem_file_part_t *parts;
    size_t           max = 2 * space->max_free + 16;

    if (space->num_taken + 1 < space->max_free) {
        return true;
    }
    parts = realloc(space->free_parts, max * sizeof(*parts));
    if (parts == NULL) {
        return false;
    }
    space->free_parts = parts;
    space->max_free   = max;
    return true;
}

static void part_remove(mem_file_space_t *space, size_t index)
{
    mem_file_part_t *part = &space->free_parts[index];

    space->num_free--;
    memmove(part, part + 1, (space->num_free - index) * sizeof(*part));
}

static void part_insert(mem_file_space_t *space, size_t index, size_t offset,
                        size_t size)
{
    mem_file_part_t *part = &space->free_parts[index];

    assert(space->num_free < space->max_free);
    memmove(part + 1, part, (space->num_free - index) * sizeof(*part));
    part->offset = offset;
    part->size   = size;
    space->num_free++;
}

bool mem_file_space_take(mem_file_space_t *space, size_t size, size_t *offset_p)
{
    size_t end;

    assert(size != 0);
    if (!room_make(space) || !base_add(space->end, size, &end)) {
        return false;
    }
    for (size_t i = 0; i < space->num_free; i++) {
        mem_file_part_t *part = &space->free_parts[i];

        if (part->size < size) {
            continue;
        }
        *offset_p = part->offset;
        part->offset += size;
        part->size -= size;
        if (part->size == 0) {
            part_remove(space, i);
        }
        space->num_taken++;
        return true;
    }
    *offset_p  = space->end;
    space->end = end;
    space->num_taken++;
    return true;
}

/* Merge a free part with its neighbors, and remove it if it is at the end. */
static void part_join(mem_file_space_t *space, size_t index)
{
    mem_file_part_t *part = &space->free_parts[index];

    if ((index + 1 < space->num_free) &&
        (part->offset + part->size == part[1].offset)) {
        part->size += part[1].size;
        part_remove(space, index + 1);
    }
    if ((index > 0) && (part[-1].offset + part[-1].size == part->offset)) {
        part[-1].size += part->size;
        part_remove(space, index);
        part--;
    }
    if (part->offset + part->size == space->end) {
        space->end = part->offset;
        space->num_free--;
    }
}

void mem_file_space_give(mem_file_space_t *space, size_t offset, size_t size)
{
    size_t                 index = 0;
    const mem_file_part_t *behind;

    while ((index < space->num_free) &&
           (space->free_parts[index].offset <= offset)) {
        index++;
    }
    behind = &space->free_parts[index];
    assert((size <= space->end) && (offset <= space->end - size));
    assert((index == 0) || (behind[-1].offset + behind[-1].size <= offset));
    assert((index == space->num_free) || (offset + size <= behind->offset));
    (void)behind;
    part_insert(space, index, offset, size);
    part_join(space, index);
    assert(space->num_taken > 0);
    space->num_taken--;
}
