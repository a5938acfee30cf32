#define _GNU_SOURCE
#include "mem/readable.h"

#include "base/math.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

/* --- by mapping -------------------------------------------------------------
 * Since Linux 6.11, an ioctl on /proc/self/maps returns the bounds and the
 * access rights of the mapping at an address, so one call covers a whole heap.
 */

/* Same layout as struct procmap_query of <linux/fs.h>. An old <linux/fs.h> does
 * not have this struct. */
typedef struct procmap {
    uint64_t size;
    uint64_t query_flags;
    uint64_t address;
    uint64_t start;
    uint64_t end;
    uint64_t flags; /* bit 0: the mapping is readable */
    uint64_t page_size;
    uint64_t offset;
    uint64_t inode;
    uint32_t device[2];
    uint32_t sizes[2];
    uint64_t names[2];
} procmap_t;

static_assert(sizeof(procmap_t) == 104, "the kernel's layout");

#define PROCMAP_QUERY    _IOWR('f', 17, procmap_t)
#define PROCMAP_READABLE UINT64_C(1)

/* Mappings that are cached during one search. */
#define NUM_MAPPINGS 8u

typedef struct mappings {
    int      fd; /* of /proc/self/maps */
    uint64_t starts[NUM_MAPPINGS];
    uint64_t ends[NUM_MAPPINGS];
    unsigned num;
} mappings_t;

#define UNSUPPORTED UINT64_MAX

/* Query the mapping at an address. Returns false if no mapping exists or the
 * ioctl is unsupported; see errno. */
static bool ask_mapping(int fd, uint64_t address, procmap_t *query_p)
{
    *query_p = (procmap_t){.size = sizeof(*query_p), .address = address};
    return ioctl(fd, PROCMAP_QUERY, query_p) == 0;
}

/* Returns the end of the readable mapping at an address; 0: not readable. */
static uint64_t ask_end(mappings_t *mappings, uint64_t address)
{
    unsigned  place = mappings->num % NUM_MAPPINGS;
    procmap_t query;

    if (!ask_mapping(mappings->fd, address, &query)) {
        return (errno == ENOENT) ? 0 : UNSUPPORTED;
    }
    if (!(query.flags & PROCMAP_READABLE)) {
        return 0;
    }
    mappings->starts[place] = query.start;
    mappings->ends[place]   = query.end;
    mappings->num++;
    return query.end;
}

static uint64_t find_end(mappings_t *mappings, uint64_t address)
{
    for (unsigned i = 0; i < base_min(mappings->num, NUM_MAPPINGS); i++) {
        if ((address >= mappings->starts[i]) && (address < mappings->ends[i])) {
            return mappings->ends[i];
        }
    }
    return ask_end(mappings, address);
}

/* Returns the number of bytes at the start of a span that are in readable
 * mappings. */
static uint64_t covered_of(mappings_t *mappings, const mem_span_t *span)
{
    uint64_t done = 0;

    while (done < span->length) {
        uint64_t at  = span->address + done;
        uint64_t end = find_end(mappings, at);

        if (end == UNSUPPORTED) {
            return UNSUPPORTED;
        }
        if (end <= at) {
            break;
        }
        done += base_min(end - at, span->length - done);
    }
    return done;
}

/* Search by mapping. Returns false if the kernel does not support the query. */
static bool find_by_mappings(const mem_span_t *spans, size_t num,
                             size_t *first_p)
{
    mappings_t mappings = {.fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
    uint64_t   covered  = 0;
    size_t     i;

    if (mappings.fd < 0) {
        return false;
    }
    for (i = 0; i < num; i++) {
        covered = covered_of(&mappings, &spans[i]);
        if (covered != spans[i].length) {
            break;
        }
    }
    close(mappings.fd);
    *first_p = i;
    return (i == num) || (covered != UNSUPPORTED);
}

bool mem_find_anonymous(uint64_t address, mem_span_t *mapping_p)
{
    int       fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    procmap_t query;
    bool      is_found;

    if (fd < 0) {
        return false;
    }
    is_found = ask_mapping(fd, address, &query);
    close(fd);
    if (!is_found || !(query.flags & PROCMAP_READABLE) || (query.inode != 0)) {
        return false;
    }
    *mapping_p = (mem_span_t){query.start, query.end - query.start};
    return true;
}

/* --- by byte ----------------------------------------------------------------
 * Reads the first and the last byte of each span with process_vm_readv().
 */

/* Mask for 4 KiB, the smallest page size. */
#define PAGE_MASK (~(uint64_t)4095)

typedef struct bytes {
    struct iovec there[2 * MEM_SPANS_MAX];
    uint16_t     spans[2 * MEM_SPANS_MAX]; /* spans that the bytes belong to */
    size_t       num;
} bytes_t;

static void add_byte(bytes_t *bytes, uint64_t address, size_t span)
{
    bytes->there[bytes->num] = (struct iovec){(void *)(uintptr_t)address, 1};
    bytes->spans[bytes->num] = (uint16_t)span;
    bytes->num++;
}

static size_t find_by_bytes(const mem_span_t *spans, size_t num)
{
    char         values[2 * MEM_SPANS_MAX];
    struct iovec here  = {values, sizeof(values)};
    bytes_t      bytes = {.num = 0};
    ssize_t      result;

    for (size_t i = 0; i < num; i++) {
        uint64_t last = spans[i].address + (spans[i].length - 1);

        add_byte(&bytes, spans[i].address, i);
        if ((spans[i].address & PAGE_MASK) != (last & PAGE_MASK)) {
            add_byte(&bytes, last, i);
        }
    }
    result = process_vm_readv(getpid(), &here, 1, bytes.there, bytes.num, 0);
    if (result >= 0) {
        return ((size_t)result == bytes.num) ? num : bytes.spans[result];
    }
    return (errno == EFAULT) ? 0 : num;
}

/* Minimum number of spans for the search by mapping. With fewer spans, the
 * search by byte is faster, because it does not open a file. */
#define MAPPINGS_MIN 16u

size_t mem_find_unreadable(const mem_span_t *spans, size_t num)
{
    size_t first;

    assert(num <= MEM_SPANS_MAX);
    if (num == 0) {
        return 0;
    }
    if ((num >= MAPPINGS_MIN) && find_by_mappings(spans, num, &first)) {
        return first;
    }
    return find_by_bytes(spans, num);
}
