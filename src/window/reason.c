/*
 * The text that explains why a remote uses its way.
 */
#include "window/window.h"

#include <stdarg.h>
#include <string.h>

void window_remote_set_reason(ucxpool_remote_window_t *remote,
                              const char              *format, ...)
{
    char    before[WINDOW_REASON_SIZE];
    size_t  length;
    va_list arguments;

    memcpy(before, remote->way_reason, sizeof(before));
    va_start(arguments, format);
    vsnprintf(remote->way_reason, sizeof(remote->way_reason), format,
              arguments);
    va_end(arguments);
    length = strlen(remote->way_reason);
    if (before[0] != '\0') {
        snprintf(remote->way_reason + length,
                 sizeof(remote->way_reason) - length, "; %s", before);
    }
}
