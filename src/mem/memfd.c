#include <config.h>

#include "mem/memfd.h"
#include "base/log.h"
#include "base/math.h"
#include "mem/range.h"
#include "mem/system.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* From kernel 5.1; the C library's headers may be older. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

/* A signal ends fallocate() and undoes it, so that a process with a profiling
 * timer would never get a large file: it is filled in steps that take less than
 * any such timer. */
#define FILL_STEP ((size_t)4 << 20)

/* Growing a file over the limit does not just fail, it sends SIGXFSZ. */
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
        flags |= MFD_HUGETLB; /* of the machine's default size */
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
        base_debug("no seal against new writable mappings: %s",
                   strerror(errno));
    }
    return fcntl(fd, F_ADD_SEALS, seals) == 0 ? 0 : errno;
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

    /* An old size of 0 keeps the old mapping of shared memory. The C library's
     * mremap() will not do: UCX, to see what is unmapped, puts a function in
     * its place that loses the target, and the pages land anywhere. */
    duplicate = syscall(SYS_mremap, address, (size_t)0, size, flags, target);
    if (duplicate == -1) {
        return errno;
    }
    *address_p = (void *)duplicate;
    return 0;
}

int mem_memfd_map(int fd, size_t size, unsigned huge_page_shift,
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
    mapped = mmap(address, size, protection, MAP_SHARED | MAP_FIXED, fd, 0);
    if (mapped == MAP_FAILED) {
        error = errno;
        mem_range_release(address, length);
        return error;
    }
    *address_p = address;
    return 0;
}
