/* What carries the bytes between two pools of this host. */
#include <config.h>

#include "common/error.h"
#include "info/parts.h"

#include <ucxpool/ucxpool.h>

#include <string.h>
#include <time.h>

/* Longest time that the two may take to connect. */
#define CONNECT_SECONDS 10

/* Two pools of this process stand for two processes. */
typedef struct pair {
    ucxpool_t         *pools[2];
    ucxpool_channel_t *channels[2];
} pair_t;

/* Settings for a small pool: those of the environment but for sizes, and for
 * pages that it is too small to fill. Neither waits for the other's good-bye,
 * which could not come meanwhile. */
static ucxpool_status_t read_small_config(ucxpool_config_t **config_p)
{
    static const char *const changes[][2] = {
        {"BLOCK_SIZE", "64k"}, {"REGION_SIZE", "auto"}, {"COMM_SIZE", "1m"},
        {"FRAG_SIZE", "auto"}, {"HUGE_PAGES", "try"},   {"CLOSE_TIMEOUT", "0"}};
    ucxpool_status_t status = ucxpool_config_read(config_p);

    for (size_t i = 0;
         (status == UCXPOOL_OK) && (i < sizeof(changes) / sizeof(changes[0]));
         i++) {
        status = ucxpool_config_modify(*config_p, changes[i][0], changes[i][1]);
    }
    return status;
}

static ucxpool_status_t create_pools(pair_t *pair)
{
    ucxpool_config_t *config = NULL;
    ucxpool_params_t  params = {.field_mask = UCXPOOL_PARAM_FIELD_CONFIG |
                                              UCXPOOL_PARAM_FIELD_NAME,
                                .name = "ucxpool_info"};
    ucxpool_status_t  status = read_small_config(&config);

    params.config = config;
    for (int i = 0; (status == UCXPOOL_OK) && (i < 2); i++) {
        status = ucxpool_create(&params, &pair->pools[i]);
    }
    ucxpool_config_release(config);
    return status;
}

static ucxpool_status_t create_channel(pair_t *pair, int from, int to)
{
    ucxpool_channel_params_t params = {.field_mask =
                                           UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS};
    void                    *address;
    ucxpool_status_t         status =
        ucxpool_address_get(pair->pools[to], &address, &params.address_length);

    if (status != UCXPOOL_OK) {
        return status;
    }
    params.address = address;
    status         = ucxpool_channel_create(pair->pools[from], &params,
                                            &pair->channels[from]);
    ucxpool_address_release(address);
    return status;
}

/* Nothing moves but by our own calls, so both are called in turns. */
static void progress(pair_t *pair, ucxpool_channel_attr_t attrs[2])
{
    time_t deadline = time(NULL) + CONNECT_SECONDS;

    do {
        for (int i = 0; i < 2; i++) {
            ucxpool_progress(pair->pools[i]);
            ucxpool_channel_query(pair->channels[i], &attrs[i],
                                  sizeof(attrs[i]));
        }
    } while (((attrs[0].state == UCXPOOL_CHANNEL_CONNECTING) ||
              (attrs[1].state == UCXPOOL_CHANNEL_CONNECTING)) &&
             (time(NULL) < deadline));
}

static const char *wire_name(ucxpool_wire_t wire)
{
    switch (wire) {
    case UCXPOOL_WIRE_MAP:
        return "map";
    case UCXPOOL_WIRE_UCX:
        return "ucx";
    default:
        return "none";
    }
}

static bool report_channel(report_t *report, const ucxpool_channel_attr_t *attr)
{
    if (attr->state == UCXPOOL_CHANNEL_OPEN) {
        report_because(report, "%s", attr->wire_reason);
        report_text(report, "to_this_host", "%s", wire_name(attr->wire));
        return true;
    }
    tool_error("two pools of this host did not connect: %s",
               (attr->reason[0] != '\0') ? attr->reason : "no answer");
    report_because(report, "%s", attr->reason);
    report_text(report, "to_this_host", "failed");
    return false;
}

static bool report_wire(report_t *report)
{
    pair_t                 pair   = {{NULL, NULL}, {NULL, NULL}};
    ucxpool_status_t       status = create_pools(&pair);
    ucxpool_channel_attr_t attrs[2];
    bool                   is_good = false;

    if (status == UCXPOOL_OK) {
        status = create_channel(&pair, 0, 1);
    }
    if (status == UCXPOOL_OK) {
        status = create_channel(&pair, 1, 0);
    }

    if (status == UCXPOOL_OK) {
        progress(&pair, attrs);
        is_good = report_channel(report, &attrs[0]);
    } else {
        tool_error("cannot connect two pools: %s", ucxpool_error_detail());
        report_text(report, "error", "%s", ucxpool_error_detail());
    }

    for (int i = 0; i < 2; i++) {
        ucxpool_channel_close(pair.channels[i]);
    }
    for (int i = 0; i < 2; i++) {
        ucxpool_destroy(pair.pools[i]);
    }
    return is_good;
}

/* Without blocks the user's pools have no channels, whatever small ones do. */
bool info_wire_report(report_t *report, const settings_t *settings)
{
    bool is_good = true;

    report_section_begin(report, "wire", "What carries the bytes");
    if (strcmp(settings_find(settings, "COMM_SIZE")->value, "0") == 0) {
        report_because(report, "no blocks");
        report_text(report, "to_this_host", "none");
    } else {
        is_good = report_wire(report);
    }
    report_section_end(report);
    return is_good;
}
