/* How soon a peer that is gone is noticed. */
#include <config.h>

#include "common/error.h"
#include "info/parts.h"

#include <ucxpool/private.h>
#include <ucxpool/ucxpool.h>

#include <inttypes.h>
#include <stdio.h>

#define MAX_TIMEOUTS 16u

static void report_time(report_t *report, const char *key, uint64_t ns)
{
    uint64_t ms = ns / 1000000;

    if (ns == UINT64_MAX) {
        report_text(report, key, "not known, or never");
    } else {
        report_text(report, key, "%" PRIu64 ".%03" PRIu64 "s", ms / 1000,
                    ms % 1000);
    }
}

static void report_transport(report_t                     *report,
                             const ucxpool_peer_timeout_t *timeout)
{
    report_section_begin(report, timeout->transport, timeout->transport);
    report_time(report, "idle", timeout->idle_ns);
    report_time(report, "busy", timeout->busy_ns);
    report_time(report, "idle_in_a_borrowed_context",
                timeout->borrowed_idle_ns);
    report_time(report, "busy_in_a_borrowed_context",
                timeout->borrowed_busy_ns);
    report_text(report, "settings_to_give_it", "%s",
                (timeout->settings[0] == '\0') ? "none" : timeout->settings);
    report_section_end(report);
}

bool info_peers_report(report_t *report, const ucxpool_config_t *config,
                       const settings_t *settings)
{
    const setting_t       *setting = settings_find(settings, "PEER_TIMEOUT");
    ucxpool_peer_timeout_t timeouts[MAX_TIMEOUTS];
    size_t                 num     = 0;
    bool                   is_good = true;

    report_section_begin(report, "peers",
                         "A peer that is gone is noticed after");
    report_text(report, "peer_timeout", "%s", setting->value);
    if (ucxpool_peer_timeouts_query(config, timeouts, MAX_TIMEOUTS, &num) !=
        UCXPOOL_OK) {
        report_text(report, "error", "%s", ucxpool_error_detail());
        is_good = false;
    }
    for (size_t i = 0; (i < num) && (i < MAX_TIMEOUTS); i++) {
        report_transport(report, &timeouts[i]);
    }
    report_section_end(report);
    return is_good;
}
