#include "base/limits.h"

#include "base/error.h"

#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* Descriptors that a UCX context and its worker need on a machine with two
 * networks, including files that UCX opens only briefly. */
#define UCX_DESCRIPTORS 16u
/* Descriptors of a pool: its epoll, timer and eventfd; a listener's epoll and
 * socket; one pending connection. */
#define POOL_DESCRIPTORS 6u
/* Descriptors used briefly to connect and to read the properties of a
 * network. */
#define ENDPOINT_DESCRIPTORS 4u

/* Memory that UCX's thread needs in addition to its stack. */
#define THREAD_MEMORY ((size_t)1 << 20)

bool base_limits_has(unsigned count)
{
    int      fds[64];
    unsigned num = 0;

    fds[0] = eventfd(0, EFD_CLOEXEC);
    while ((num < count) && (fds[num] >= 0)) {
        num++;
        if (num < count) {
            fds[num] = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
        }
    }
    for (unsigned i = 0; i < num; i++) {
        close(fds[i]);
    }
    return num == count;
}

static bool is_memory_limited(void)
{
    struct rlimit data;
    struct rlimit addresses;

    return (getrlimit(RLIMIT_DATA, &data) == 0) &&
           (getrlimit(RLIMIT_AS, &addresses) == 0) &&
           ((data.rlim_cur != RLIM_INFINITY) ||
            (addresses.rlim_cur != RLIM_INFINITY));
}

static size_t stack_size(void)
{
    pthread_attr_t attributes;
    size_t         size = 0;

    if (pthread_attr_init(&attributes) == 0) {
        (void)pthread_attr_getstacksize(&attributes, &size);
        pthread_attr_destroy(&attributes);
    }
    return size;
}

static ucxpool_status_t check_thread(void)
{
    size_t size = stack_size() + THREAD_MEMORY;
    void  *memory;

    if (!is_memory_limited()) {
        return UCXPOOL_OK;
    }
    memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "UCX's thread needs %zu bytes, more than the limits "
                          "of this process allow: raise RLIMIT_DATA or "
                          "RLIMIT_AS (ulimit -d, -v), or lower the stack size "
                          "(ulimit -s)",
                          size);
    }
    munmap(memory, size);
    return UCXPOOL_OK;
}

static ucxpool_status_t check_descriptors(unsigned count, const char *what)
{
    if (base_limits_has(count)) {
        return UCXPOOL_OK;
    }
    return base_error(UCXPOOL_ERR_LIMIT,
                      "%s needs up to %u file descriptors, more than the "
                      "process can open: raise the limit of open files (ulimit "
                      "-n)",
                      what, count);
}

ucxpool_status_t base_limits_check_ucx(void)
{
    ucxpool_status_t status = check_descriptors(UCX_DESCRIPTORS, "UCX");

    return (status == UCXPOOL_OK) ? check_thread() : status;
}

ucxpool_status_t base_limits_check_pool(void)
{
    return check_descriptors(POOL_DESCRIPTORS + BASE_LIMITS_DESCRIPTORS,
                             "a pool with its first connections");
}

ucxpool_status_t base_limits_check_endpoint(void)
{
    return check_descriptors(ENDPOINT_DESCRIPTORS, "a connection");
}
