#include "replay/error.h"
#include "replay/progress.h"

#include <stdarg.h>
#include <stdio.h>

int replay_error(const char *format, ...)
{
    char    text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    progress_clear();
    fprintf(stderr, "ucxpool_replay: %s\n", text);
    return -1;
}
