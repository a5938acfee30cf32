#include <config.h>

#include "mem/range.h"
#include "base/math.h"

#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

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
    /* Give back what lies before and after the aligned part. */
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

    /* It fails for addresses that are not a mapping's, our own mistake, or
     * when it would split one mapping too many into two. */
    assert((result == 0) || (errno == ENOMEM));
    (void)result;
}
