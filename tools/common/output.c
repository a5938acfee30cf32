#include <config.h>

#include "common/output.h"

#include <fcntl.h>
#include <unistd.h>

int output_take(FILE **stream_p)
{
    int   fd     = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    FILE *stream = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (stream == NULL) {
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    /* Without a standard error there is nobody to read a log. */
    if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        close(STDOUT_FILENO);
    }
    *stream_p = stream;
    return 0;
}
