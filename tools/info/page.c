#include <config.h>

#include "info/page.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

uint64_t info_page_size(const void *address)
{
    FILE     *maps      = fopen("/proc/self/smaps", "re");
    uint64_t  size      = 0;
    bool      is_inside = false;
    uintptr_t start, end;
    char      line[512];

    if (maps == NULL) {
        return 0;
    }
    /* Lines of a mapping follow its line of addresses. */
    while ((size == 0) && (fgets(line, sizeof(line), maps) != NULL)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) == 2) {
            is_inside =
                ((uintptr_t)address >= start) && ((uintptr_t)address < end);
        } else if (is_inside) {
            (void)sscanf(line, "KernelPageSize: %" SCNu64 " kB", &size);
        }
    }
    fclose(maps);
    return size * 1024;
}
