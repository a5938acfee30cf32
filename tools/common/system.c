#include "common/system.h"

#include <stdio.h>
#include <string.h>

int meminfo_get(const char *name, uint64_t *value_p)
{
    FILE              *stream = fopen("/proc/meminfo", "re");
    size_t             length = strlen(name);
    char               line[128], unit[3];
    unsigned long long number;
    int                num_found = 0;

    while ((stream != NULL) && (num_found <= 0) &&
           (fgets(line, sizeof(line), stream) != NULL)) {
        if ((strncmp(line, name, length) == 0) && (line[length] == ':')) {
            num_found = sscanf(line + length + 1, "%llu %2s", &number, unit);
        }
    }
    if (stream != NULL) {
        fclose(stream);
    }
    if (num_found <= 0) {
        return -1;
    }
    *value_p = num_found == 2 ? (uint64_t)number << 10 : number;
    return 0;
}
