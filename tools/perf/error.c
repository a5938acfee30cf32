#include "perf/error.h"

#include <stdarg.h>
#include <stdio.h>

int perf_error(const char *format, ...)
{
    char    text[1024];
    va_list args;

    /* One write, because two processes share the stream. */
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fflush(NULL);
    fprintf(stderr, "ucxpool_perf: %s\n", text);
    return -1;
}
