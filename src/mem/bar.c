#include <config.h>

#include "mem/bar.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The line of BAR1: that of a 64-bit resource follows that of BAR0. */
#define BAR1_LINE 1

/* The kernel writes names in lower case. False when it is no name of a device:
 * it becomes part of a path. */
static bool make_path(const char *bus_id, char *path, size_t size)
{
    const char *wish = secure_getenv(MEM_BAR_SYSFS_VARIABLE);
    int         length;

    if (strspn(bus_id, "0123456789abcdefABCDEF:.") != strlen(bus_id)) {
        return false;
    }
    length = snprintf(path, size, "%s/bus/pci/devices/",
                      ((wish != NULL) && (*wish != '\0')) ? wish : "/sys");
    if ((length < 0) ||
        ((size_t)length + strlen(bus_id) + sizeof("/resource") > size)) {
        return false;
    }
    for (const char *letter = bus_id; *letter != '\0'; letter++) {
        path[length++] = (char)tolower((unsigned char)*letter);
    }
    strcpy(path + length, "/resource");
    return true;
}

/* "0x00000000d0000000 0x00000000dfffffff 0x000000000014220c" */
static uint64_t read_size(FILE *file)
{
    uint64_t start, end, flags;
    char     line[128];

    for (int i = 0; i <= BAR1_LINE; i++) {
        if (fgets(line, sizeof(line), file) == NULL) {
            return 0;
        }
    }
    if ((sscanf(line, "%" SCNx64 " %" SCNx64 " %" SCNx64, &start, &end,
                &flags) != 3) ||
        (start == 0) || (end <= start) || (end - start == UINT64_MAX)) {
        return 0;
    }
    return end - start + 1;
}

static void query_kernel(const char *bus_id, mem_bar_t *bar)
{
    char   path[PATH_MAX];
    char   words[sizeof(bar->reason)];
    FILE  *file = NULL;
    size_t length;

    if (make_path(bus_id, path, sizeof(path))) {
        file = fopen(path, "re");
    }
    if (file != NULL) {
        bar->size = read_size(file);
        bar->free = bar->size;
        fclose(file);
    }
    if (bar->size != 0) {
        bar->source = MEM_BAR_SYSFS;
        return;
    }
    length = strlen(bar->reason);
    snprintf(words, sizeof(words), "; the kernel %s",
             file == NULL ? "does not know the device"
                          : "has no such resource of it");
    snprintf(bar->reason + length, sizeof(bar->reason) - length, "%s", words);
}

void mem_bar_query(const char *bus_id, mem_bar_t *bar_p)
{
    mem_nvml_facts_t facts;

    mem_nvml_query(bus_id, &facts);
    memset(bar_p, 0, sizeof(*bar_p));
    bar_p->size        = facts.bar1_size;
    bar_p->used        = facts.bar1_used;
    bar_p->free        = facts.bar1_free;
    bar_p->num_nvlinks = facts.num_nvlinks;
    snprintf(bar_p->driver_version, sizeof(bar_p->driver_version), "%s",
             facts.driver_version);
    snprintf(bar_p->reason, sizeof(bar_p->reason), "%s", facts.reason);
    if (facts.bar1_size != 0) {
        bar_p->source = MEM_BAR_NVML;
    } else if (facts.has_no_bar1) {
        bar_p->source = MEM_BAR_NONE;
    } else {
        query_kernel(bus_id, bar_p);
    }
}
