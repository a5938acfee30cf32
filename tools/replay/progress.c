#include "replay/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

void progress_say(const char *format, ...)
{
    va_list args;

    if (!isatty(STDERR_FILENO)) {
        return;
    }
    progress_clear();
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
}

void progress_clear(void)
{
    if (isatty(STDERR_FILENO)) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
    }
}
