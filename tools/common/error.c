#include "common/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

const char *tool_name = "ucxpool";

int tool_error(const char *format, ...)
{
    char    text[4608]; /* room for a path */
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* One write: several processes may share the stream. */
    fflush(NULL);
    fprintf(stderr, "%s: %s\n", tool_name, text);
    return -1;
}

static void *check_memory(void *memory, size_t num, size_t size)
{
    if ((memory == NULL) && (num > 0) && (size > 0)) {
        tool_error("out of memory for %zu times %zu bytes", num, size);
        exit(1);
    }
    return memory;
}

void *tool_calloc(size_t num, size_t size)
{
    return check_memory(calloc(num, size), num, size);
}

void *tool_grow(void *array, size_t num, size_t element_size)
{
    size_t room = num == 0 ? 1 : 2 * num;

    if ((num & (num - 1)) != 0) {
        return array;
    }
    return check_memory(reallocarray(array, room, element_size), room,
                        element_size);
}

static char kept_text[KEPT_ERROR_SIZE];

int keep_error(const char *format, ...)
{
    char    text[KEPT_ERROR_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    strcpy(kept_text, text);
    return -1;
}

const char *kept_error(void)
{
    return kept_text;
}
