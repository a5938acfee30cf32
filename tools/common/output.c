#include <config.h>

#include "common/output.h"
#include "common/error.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

int output_take(FILE **stream_p)
{
    int   fd     = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    FILE *stream = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (stream == NULL) {
        tool_error("cannot use standard output: %s", strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    /* With SIGXFSZ ignored, write() fails at the file size limit. */
    signal(SIGXFSZ, SIG_IGN);
    /* If there is no standard error, no log is printed. */
    if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        close(STDOUT_FILENO);
    }
    *stream_p = stream;
    return 0;
}

int output_end(FILE *stream, int code)
{
    bool is_bad = ferror(stream);

    errno = 0;
    if (((fclose(stream) == 0) && !is_bad) || (code != 0)) {
        return code;
    }
    /* An earlier write failed, and its errno is no longer known. */
    tool_error("cannot write to standard output: %s",
               strerror(errno != 0 ? errno : EIO));
    return 1;
}
