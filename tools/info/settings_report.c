/* The settings in the report. */
#include "info/parts.h"

#include <stdlib.h>

static void report_one(report_t *report, const setting_t *setting)
{
    if (!report->json) {
        report_text(report, setting->name, "%s (%s)", setting->value,
                    setting->from);
        return;
    }
    report_section_begin(report, setting->name, setting->name);
    report_text(report, "value", "%s", setting->value);
    report_text(report, "from", "%s", setting->from);
    report_text(report, "default", "%s", setting->fallback);
    report_text(report, "takes", "%s", setting->takes);
    report_text(report, "means", "%s", setting->means);
    report_section_end(report);
}

static bool are_all_defaults(const settings_t *settings)
{
    for (size_t i = 0; i < settings->num_settings; i++) {
        if (setting_is_set(&settings->list[i])) {
            return false;
        }
    }
    return true;
}

void info_settings_report(report_t *report, const settings_t *settings)
{
    report_section_begin(report, "settings",
                         are_all_defaults(settings)
                             ? "Settings: all at their defaults "
                               "(ucxpool_info -c prints them)"
                             : "Settings that are not at their defaults "
                               "(ucxpool_info -c prints all)");
    for (size_t i = 0; i < settings->num_settings; i++) {
        if (report->json || setting_is_set(&settings->list[i])) {
            report_one(report, &settings->list[i]);
        }
    }
    report_section_end(report);
}
