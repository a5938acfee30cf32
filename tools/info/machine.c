/* Sections of the report on the library, this machine, and the settings. */
#include <config.h>

#include "common/system.h"
#include "info/report.h"

#include <ucxpool/version.h>

#include <sys/resource.h>
#include <sys/utsname.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#ifdef __clang__
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

void info_build_report(report_t *report)
{
    report_section_begin(report, "libucxpool", "libucxpool");
    report_text(report, "version", "%s", ucxpool_version_string());
    report_text(report, "built_for", "%s", UCXPOOL_HOST);
    report_text(report, "configure_arguments", "%s", UCXPOOL_CONFIGURE_ARGS);
    report_text(report, "compiler", "%s", COMPILER);
    report_text(report, "compiler_flags", "%s", UCXPOOL_CFLAGS);
    report_text(report, "sanitizers", "%s",
                (UCXPOOL_SANITIZER_LIST[0] != '\0') ? UCXPOOL_SANITIZER_LIST
                                                    : "none");
    report_text(report, "ucx_headers", "%u.%u", UCP_API_MAJOR, UCP_API_MINOR);
    report_bool(report, "verbs", UCXPOOL_HAS_VERBS != 0);
    report_section_end(report);
}

static void report_memory(report_t *report)
{
    static const struct {
        const char *name, *key;
        bool        is_count;
    } lines[] = {
        {"MemTotal", "memory", false},
        {"MemAvailable", "memory_available", false},
        {"HugePages_Total", "huge_pages", true},
        {"HugePages_Free", "huge_pages_free", true},
        {"Hugepagesize", "huge_page", false},
    };
    uint64_t value;

    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        if (meminfo_get(lines[i].name, &value) == 0) {
            (lines[i].is_count ? report_number
                               : report_size)(report, lines[i].key, value);
        }
    }
}

/* Report the limit of locked memory. Registering memory with a network card
 * locks it. */
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

static void report_one(report_t *report, const ucxpool_config_attr_t *setting)
{
    const char *from = setting_origin(setting);
    char        name[64];

    snprintf(name, sizeof(name), "UCXPOOL_%s", setting->key);
    if (!report->json) {
        report_text(report, name, "%s (%s)", setting->value, from);
        return;
    }
    report_section_begin(report, name, name);
    report_text(report, "value", "%s", setting->value);
    report_text(report, "from", "%s", from);
    report_text(report, "default", "%s", setting->default_value);
    report_text(report, "takes", "%s", setting->takes);
    report_text(report, "means", "%s", setting->doc);
    report_section_end(report);
}

void info_settings_report(report_t *report, const ucxpool_config_t *config)
{
    const char *key;

    report_section_begin(report, "settings",
                         "Settings that are not at their defaults "
                         "(ucxpool_info -c prints all)");
    for (size_t i = 0; (key = ucxpool_config_key(i)) != NULL; i++) {
        ucxpool_config_attr_t setting = setting_get(config, key);

        if (report->json || setting_is_set(&setting)) {
            report_one(report, &setting);
        }
    }
    report_section_end(report);
}
