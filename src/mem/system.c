#include "mem/system.h"

#include "base/math.h"

#include <dirent.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* --- memory --------------------------------------------------------------- */

#define TRANSPARENT_SIZE_FILE \
    "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size"

/* Read the number that follows a word at the start of a line; "": the first
 * line that begins with a number. Returns false if the file has none. */
static bool file_field(const char *path, const char *word, size_t *number_p)
{
    FILE *file     = fopen(path, "re");
    bool  is_found = false;
    char  line[256];

    if (file == NULL) {
        return false;
    }
    while (!is_found && (fgets(line, sizeof(line), file) != NULL)) {
        is_found = (strncmp(line, word, strlen(word)) == 0) &&
                   (sscanf(line + strlen(word), " %zu", number_p) == 1);
    }
    fclose(file);
    return is_found;
}

/* Names of the same files and fields in control groups v2 and v1. */
typedef struct group_version {
    const char *prefix; /* of the line in /proc/self/cgroup */
    const char *mount;
    const char *limit;
    const char *usage;
    const char *inactive; /* reclaimable page cache */
    const char *active;
} group_version_t;

static const group_version_t group_versions[] = {
    {"0::", "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file ",
     "active_file "},
    {":memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes",
     "memory.usage_in_bytes", "total_inactive_file ", "total_active_file "},
};

/* Returns the available memory of one control group. The kernel counts page
 * cache as used, but can reclaim it. */
static size_t group_available(const group_version_t *version, const char *group)
{
    char   path[PATH_MAX + 64];
    size_t limit, usage, cache;

    snprintf(path, sizeof(path), "%s%s/%s", version->mount, group,
             version->limit);
    if (!file_field(path, "", &limit)) {
        return SIZE_MAX;
    }
    snprintf(path, sizeof(path), "%s%s/%s", version->mount, group,
             version->usage);
    if (!file_field(path, "", &usage)) {
        return SIZE_MAX;
    }
    snprintf(path, sizeof(path), "%s%s/memory.stat", version->mount, group);
    if (file_field(path, version->inactive, &cache)) {
        usage -= base_min(usage, cache);
    }
    if (file_field(path, version->active, &cache)) {
        usage -= base_min(usage, cache);
    }
    return limit - base_min(limit, usage);
}

/* Returns the minimum of the available memory of a control group and its
 * ancestors. Truncates the string `group`. */
static size_t groups_available(const group_version_t *version, char *group)
{
    size_t available = SIZE_MAX;
    size_t left;
    char  *slash;

    for (;;) {
        left      = group_available(version, group);
        available = base_min(available, left);
        slash     = strrchr(group, '/');
        if (slash == NULL) {
            return available;
        }
        *slash = '\0';
    }
}

static size_t control_groups_available(void)
{
    FILE  *file      = fopen("/proc/self/cgroup", "re");
    size_t available = SIZE_MAX;
    size_t left;
    char   line[PATH_MAX];

    if (file == NULL) {
        return SIZE_MAX;
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        for (size_t i = 0;
             i < sizeof(group_versions) / sizeof(group_versions[0]); i++) {
            const group_version_t *version = &group_versions[i];
            char                  *prefix  = strstr(line, version->prefix);

            if (prefix != NULL) {
                left =
                    groups_available(version, prefix + strlen(version->prefix));
                available = base_min(available, left);
            }
        }
    }
    fclose(file);
    return available;
}

size_t mem_system_transparent_size(void)
{
    size_t size;

    if (!file_field(TRANSPARENT_SIZE_FILE, "", &size) || !base_is_pow2(size)) {
        return 0;
    }
    return size;
}

void mem_system_query(mem_system_t *system)
{
    const char *meminfo = "/proc/meminfo";
    size_t      number, reserved;

    system->available        = control_groups_available();
    system->page_size        = (size_t)sysconf(_SC_PAGESIZE);
    system->huge_page_size   = 0;
    system->huge_pages_free  = 0;
    system->transparent_size = mem_system_transparent_size();

    if (file_field(meminfo, "MemAvailable:", &number) &&
        (number < SIZE_MAX / 1024)) {
        system->available = base_min(system->available, number * 1024);
    }
    if (file_field(meminfo, "Hugepagesize:", &number) && base_is_pow2(number) &&
        (number < SIZE_MAX / 1024)) {
        system->huge_page_size = number * 1024;
    }
    /* The kernel counts reserved huge pages as free. */
    if (file_field(meminfo, "HugePages_Free:", &number) &&
        file_field(meminfo, "HugePages_Rsvd:", &reserved)) {
        system->huge_pages_free = number - base_min(number, reserved);
    }
}

/* --- RDMA devices --------------------------------------------------------- */

bool mem_has_rdma_device(void)
{
    DIR           *folder = opendir("/sys/class/infiniband");
    struct dirent *entry;
    bool           found = false;

    if (folder == NULL) {
        return false;
    }
    while (!found && ((entry = readdir(folder)) != NULL)) {
        found = entry->d_name[0] != '.';
    }
    closedir(folder);
    return found;
}
