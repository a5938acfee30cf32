/* What the pool depends on: memory, huge pages, limits. */
#include <config.h>

#include "info/parts.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

/* One line of /proc/meminfo, in bytes. */
static void report_meminfo(report_t *report, const char *name, uint64_t value)
{
    static const struct {
        const char *name, *key;
        uint64_t    factor; /* 0: a count */
    } lines[] = {
        {"MemTotal:", "memory", 1024},
        {"MemAvailable:", "memory_available", 1024},
        {"Hugepagesize:", "huge_page", 1024},
        {"HugePages_Total:", "huge_pages", 0},
        {"HugePages_Free:", "huge_pages_free", 0},
    };

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (strcmp(lines[i].name, name) != 0) {
            continue;
        }
        if (lines[i].factor == 0) {
            report_number(report, lines[i].key, value);
        } else {
            report_size(report, lines[i].key, value * lines[i].factor);
        }
    }
}

static void report_memory(report_t *report)
{
    FILE    *meminfo = fopen("/proc/meminfo", "re");
    char     line[256], name[64];
    uint64_t value;

    if (meminfo == NULL) {
        return;
    }
    while (fgets(line, sizeof(line), meminfo) != NULL) {
        if (sscanf(line, "%63s %" SCNu64, name, &value) == 2) {
            report_meminfo(report, name, value);
        }
    }
    fclose(meminfo);
}

/* Registration with a network card locks memory. */
static void report_locked(report_t *report)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0) {
        return;
    }
    if (limit.rlim_cur == RLIM_INFINITY) {
        report_text(report, "locked_memory_limit", "none");
    } else {
        report_size(report, "locked_memory_limit", limit.rlim_cur);
    }
}

void info_machine_report(report_t *report)
{
    struct utsname name;

    report_section_begin(report, "machine", "This machine");
    if (uname(&name) == 0) {
        report_text(report, "kernel", "%s %s", name.sysname, name.release);
    }
    report_number(report, "processors",
                  (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    report_size(report, "page", (uint64_t)sysconf(_SC_PAGESIZE));
    report_memory(report);
    report_locked(report);
    report_section_end(report);
}
