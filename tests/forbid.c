#include "forbid.h"
#include "replace.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

#define PROC "/proc/"

static int  error_of_getfd;
static bool is_forbidden;

void forbid_taking(int getfd_error, bool is_proc_forbidden)
{
    error_of_getfd = getfd_error;
    is_forbidden   = is_proc_forbidden;
}

REPLACE(long, syscall, long number, long a, long b, long c, long d, long e,
        long f)
{
    if ((number == SYS_pidfd_getfd) && (error_of_getfd != 0)) {
        errno = error_of_getfd;
        return -1;
    }
    return __real_syscall(number, a, b, c, d, e, f);
}

/* A process may always read its own descriptors, by /proc/self. */
REPLACE(ssize_t, readlink, const char *path, char *text, size_t size)
{
    if (is_forbidden && (strncmp(path, PROC, strlen(PROC)) == 0) &&
        isdigit((unsigned char)path[strlen(PROC)])) {
        errno = EACCES;
        return -1;
    }
    return __real_readlink(path, text, size);
}
