#include <config.h>

#include "common/system.h"

#include <stdbool.h>
#include <stdio.h>

int memory_left(uint64_t *bytes_p)
{
    FILE              *stream = fopen("/proc/meminfo", "r");
    char               line[128];
    unsigned long long kib   = 0;
    bool               found = false;

    while ((stream != NULL) && !found &&
           (fgets(line, sizeof(line), stream) != NULL)) {
        found = sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
    }
    if (stream != NULL) {
        fclose(stream);
    }
    *bytes_p = (uint64_t)kib << 10;
    return found ? 0 : -1;
}
