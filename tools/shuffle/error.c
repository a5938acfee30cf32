#include <config.h>

#include "tools/shuffle/error.h"

#include <stdarg.h>
#include <stdio.h>

/* The tool runs one thread per process. */
static char last_text[ERROR_SIZE];

int say_error(const char *format, ...)
{
    /* A sentence may quote the one before it. */
    char    text[ERROR_SIZE];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    snprintf(last_text, sizeof(last_text), "%s", text);
    return -1;
}

const char *error_text(void)
{
    return last_text;
}
