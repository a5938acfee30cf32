#include <config.h>

#include "tools/shuffle/complaint.h"

#include <stdarg.h>
#include <stdio.h>

/* The tool runs one thread per process. */
static char complaint_last[COMPLAINT_SIZE];

int complain(const char *format, ...)
{
    /* A sentence may quote the one before it. */
    char    text[COMPLAINT_SIZE];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    snprintf(complaint_last, sizeof(complaint_last), "%s", text);
    return -1;
}

const char *complaint_text(void)
{
    return complaint_last;
}
