#include "calls.h"
#include "replace.h"
#include "base/math.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

static struct {
    calls_name_t name;
    unsigned     first; /* 0: none */
    bool         is_lasting;
    int          error;
    bool         has_failed;
    /* Atomic, for tests with threads that inject no failures. */
    _Atomic unsigned counts[CALLS_LAST];
} calls;

static void (*readlink_hook)(void);

void calls_after_readlink(void (*hook)(void))
{
    readlink_hook = hook;
}

static void calls_set(calls_name_t name, unsigned n, int error, bool is_lasting)
{
    calls_reset();
    calls.name       = name;
    calls.first      = n;
    calls.error      = error;
    calls.is_lasting = is_lasting;
}

void calls_fail(calls_name_t name, unsigned n, int error)
{
    calls_set(name, n, error, false);
}

void calls_fail_from(calls_name_t name, unsigned n, int error)
{
    calls_set(name, n, error, true);
}

void calls_reset(void)
{
    memset(&calls, 0, sizeof(calls));
}

unsigned calls_count(calls_name_t name)
{
    return calls.counts[name];
}

bool calls_has_failed(void)
{
    return calls.has_failed;
}

bool calls_is_due(calls_name_t name)
{
    unsigned n = ++calls.counts[name];

    if ((calls.first == 0) || (calls.name != name) || (n < calls.first) ||
        ((n > calls.first) && !calls.is_lasting)) {
        return false;
    }
    calls.has_failed = true;
    errno            = calls.error;
    return true;
}

FILE *__real_fopen(const char *path, const char *mode);

/* Address ranges that this program has reserved, still or earlier. Other
 * code reserves ranges too, and a sanitizer does at any time; those are
 * not counted. */
static struct {
    uintptr_t start;
    uintptr_t end;
} reserved[256];
static unsigned        num_reserved;
static pthread_mutex_t reserved_lock = PTHREAD_MUTEX_INITIALIZER;

static void add_reserved(void *address, size_t size)
{
    uintptr_t start = (uintptr_t)address;
    uintptr_t end   = start + size;
    unsigned  kept  = 0;

    pthread_mutex_lock(&reserved_lock);
    for (unsigned i = 0; i < num_reserved; i++) {
        if ((reserved[i].start <= end) && (start <= reserved[i].end)) {
            start = base_min(start, reserved[i].start);
            end   = base_max(end, reserved[i].end);
        } else {
            reserved[kept++] = reserved[i];
        }
    }
    if (kept == sizeof(reserved) / sizeof(reserved[0])) {
        abort();
    }
    reserved[kept].start = start;
    reserved[kept].end   = end;
    num_reserved         = kept + 1;
    pthread_mutex_unlock(&reserved_lock);
}

static size_t reserved_size(uintptr_t start, uintptr_t end)
{
    size_t size = 0;

    pthread_mutex_lock(&reserved_lock);
    for (unsigned i = 0; i < num_reserved; i++) {
        uintptr_t from = base_max(start, reserved[i].start);
        uintptr_t to   = base_min(end, reserved[i].end);

        size += from < to ? to - from : 0;
    }
    pthread_mutex_unlock(&reserved_lock);
    return size;
}

size_t calls_mapped_size(void)
{
    FILE         *file = __real_fopen("/proc/self/maps", "re");
    char          line[4352];
    unsigned long start, end;
    size_t        size = 0;

    if (file == NULL) {
        abort();
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "%lx-%lx", &start, &end) != 2) {
            abort();
        }
        if (strstr(line, "memfd:") != NULL) {
            size += end - start;
        } else if (strstr(line, " ---p 00000000 00:00 0") != NULL) {
            size += reserved_size(start, end);
        }
    }
    fclose(file);
    return size;
}

FILE *__wrap_fopen(const char *path, const char *mode);

REPLACE(void *, calloc, size_t num, size_t size)
{
    return calls_is_due(CALLS_CALLOC) ? NULL : __real_calloc(num, size);
}

REPLACE(int, memfd_create, const char *name, unsigned flags)
{
    return calls_is_due(CALLS_MEMFD_CREATE) ? -1
                                            : __real_memfd_create(name, flags);
}

REPLACE(int, ftruncate, int fd, off_t length)
{
    return calls_is_due(CALLS_FTRUNCATE) ? -1 : __real_ftruncate(fd, length);
}

REPLACE(int, fallocate, int fd, int mode, off_t offset, off_t length)
{
    return calls_is_due(CALLS_FALLOCATE)
               ? -1
               : __real_fallocate(fd, mode, offset, length);
}

REPLACE(void *, mmap, void *address, size_t size, int protection, int flags,
        int fd, off_t offset)
{
    void *mapped;

    if (calls_is_due(CALLS_MMAP)) {
        return MAP_FAILED;
    }
    mapped = __real_mmap(address, size, protection, flags, fd, offset);
    if ((mapped != MAP_FAILED) && (protection == PROT_NONE)) {
        add_reserved(mapped, size);
    }
    return mapped;
}

REPLACE(int, madvise, void *address, size_t size, int advice)
{
    return calls_is_due(CALLS_MADVISE) ? -1
                                       : __real_madvise(address, size, advice);
}

REPLACE(int, fcntl, int fd, int command, long argument)
{
    return calls_is_due(CALLS_FCNTL) ? -1 : __real_fcntl(fd, command, argument);
}

REPLACE(int, open, const char *path, int flags, mode_t mode)
{
    return calls_is_due(CALLS_OPEN) ? -1 : __real_open(path, flags, mode);
}

/* With _FORTIFY_SOURCE, an open() without a mode and with flags that are not
 * constant calls this function. */
REPLACE(int, __open_2, const char *path, int flags)
{
    return __wrap_open(path, flags, 0);
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
    return calls_is_due(CALLS_FOPEN) ? NULL : __real_fopen(path, mode);
}

REPLACE(ssize_t, readlink, const char *path, char *text, size_t size)
{
    void (*hook)(void) = readlink_hook;
    ssize_t length;

    if (calls_is_due(CALLS_READLINK)) {
        return -1;
    }
    length = __real_readlink(path, text, size);
    if ((length > 0) && (hook != NULL)) {
        readlink_hook = NULL;
        hook();
    }
    return length;
}

REPLACE(int, fstat, int fd, struct stat *is)
{
    return calls_is_due(CALLS_FSTAT) ? -1 : __real_fstat(fd, is);
}

REPLACE(int, fstatfs, int fd, struct statfs *is)
{
    return calls_is_due(CALLS_FSTATFS) ? -1 : __real_fstatfs(fd, is);
}

REPLACE(long, syscall, long number, long a, long b, long c, long d, long e,
        long f)
{
    return calls_is_due(number == SYS_mremap ? CALLS_MREMAP : CALLS_SYSCALL)
               ? -1
               : __real_syscall(number, a, b, c, d, e, f);
}
