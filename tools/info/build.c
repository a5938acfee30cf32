/* The version of the library and how it was built. */
#include <config.h>

#include "info/parts.h"

#include <ucxpool/version.h>

#include <ucp/api/ucp.h>

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
