/* Sections of the report on pools with the current settings: their properties,
 * and how two of them are connected. */
#include "common/error.h"
#include "info/report.h"

#include <ucxpool/private.h>
#include <ucxpool/ucxpool.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Set the reason of the next value to a setting and the place where it was set.
 */
static void because_setting(report_t *report, const ucxpool_config_t *config,
                            const char *name)
{
    ucxpool_config_attr_t setting = setting_get(config, name);

    report_because(report, "UCXPOOL_%s=%s, %s", name, setting.value,
                   setting_origin(&setting));
}

static bool has_value(const ucxpool_config_t *config, const char *name,
                      const char *value)
{
    return strcmp(setting_get(config, name).value, value) == 0;
}

static void report_sizes(report_t *report, const ucxpool_config_t *config,
                         ucxpool_t *pool)
{
    uint64_t bytes = pool_stat(pool, "registered_bytes");
    uint64_t num   = pool_stat(pool, "num_regions");

    because_setting(report, config, "COMM_SIZE");
    report_size(report, "memory", bytes);
    because_setting(report, config, "REGION_SIZE");
    report_number(report, "regions", num);
    report_size(report, "region_size", num == 0 ? 0 : bytes / num);
    because_setting(report, config, "BLOCK_SIZE");
    report_size(report, "block_size", pool_stat(pool, "block_size_bytes"));
    report_number(report, "registrations", pool_stat(pool, "registrations"));
    report_text(report, "registration_time", "%.3f ms",
                (double)pool_stat(pool, "registration_ns") / 1e6);
}

/* Report how the pool differs from the requested one, if it does. */
static void report_degraded(report_t *report, const ucxpool_attr_t *attr,
                            ucxpool_t *pool)
{
    static const char *const names[] = {
        [UCXPOOL_DEGRADED_FEWER]  = "fewer blocks",
        [UCXPOOL_DEGRADED_PINNED] = "pinned host memory",
    };

    if (attr->degraded_to == UCXPOOL_DEGRADED_NONE) {
        return;
    }
    report_because(report, "%s", attr->degraded_why);
    report_text(report, "degraded_to", "%s", names[attr->degraded_to]);
    report_size(report, "memory_asked_for",
                pool_stat(pool, "blocks_asked_bytes"));
    report_number(report, "blocks_asked_for", pool_stat(pool, "blocks_asked"));
}

static void report_shares(report_t *report, const ucxpool_config_t *config,
                          ucxpool_t *pool)
{
    because_setting(report, config, "SEND_SHARE");
    report_number(report, "blocks_to_send", pool_stat(pool, "blocks_send"));
    because_setting(report, config, "RECV_SHARE");
    report_number(report, "blocks_to_receive", pool_stat(pool, "blocks_recv"));
    report_because(report, "the rest of the blocks");
    report_number(report, "blocks_for_the_caller",
                  pool_stat(pool, "blocks_user"));
}

/* Returns the page size in bytes at an address, from /proc/self/smaps, or 0 if
 * it is unknown. */
static uint64_t page_size(const void *address)
{
    FILE     *maps      = fopen("/proc/self/smaps", "re");
    uint64_t  size      = 0;
    bool      is_inside = false;
    uintptr_t start, end;
    char      line[512];

    if (maps == NULL) {
        return 0;
    }
    /* The properties of a mapping follow the line with its addresses. */
    while ((size == 0) && (fgets(line, sizeof(line), maps) != NULL)) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &start, &end) == 2) {
            is_inside =
                ((uintptr_t)address >= start) && ((uintptr_t)address < end);
        } else if (is_inside) {
            (void)sscanf(line, "KernelPageSize: %" SCNu64 " kB", &size);
        }
    }
    fclose(maps);
    return size * 1024;
}

/* Report the size of the kernel's pages for the memory after the first block.
 */
static void report_pages(report_t *report, const ucxpool_config_t *config,
                         ucxpool_t *pool)
{
    ucxpool_block_t block;
    uint64_t        size;

    because_setting(report, config, "HUGE_PAGES");
    if (ucxpool_block_get(pool, &block) != UCXPOOL_OK) {
        report_text(report, "page", "unknown: there is no block to examine");
        return;
    }
    size = page_size(block.address);
    ucxpool_block_put(pool, &block);
    if (size == 0) {
        report_text(report, "page",
                    "unknown: /proc/self/smaps does not show it");
    } else {
        report_size(report, "page", size);
    }
}

/* Report how many regions each memory domain of UCX has registered. The remote
 * keys show this. */
static void report_domains(report_t *report, ucxpool_t *pool)
{
    ucxpool_domain_t domains[64];
    size_t           num   = ucxpool_domains_query(pool, domains, 64);
    words_t          words = {NULL, 0};
    char             text[160];

    if (num == 0) {
        report_text(report, "registered_with",
                    "unknown: the keys of this UCX have an unknown format");
        return;
    }
    for (size_t i = 0; i < num; i++) {
        bool is_needed = (domains[i].flags & UCXPOOL_DOMAIN_NEEDED) != 0;

        if ((domains[i].num_regions > 0) || is_needed) {
            snprintf(text, sizeof(text), "%.63s (%" PRIu32 " regions%s)",
                     domains[i].name, domains[i].num_regions,
                     is_needed ? ", needed" : "");
            words_add(&words, text);
        }
    }
    report_words(report, "registered_with", &words);
    report_number(report, "regions_verified",
                  pool_stat(pool, "regions_verified"));
}

static void report_transfer(report_t *report, const ucxpool_config_t *config)
{
    static const char *const names[][2] = {
        {"WIRE", "wire"}, {"FRAG_SIZE", "fragment"}, {"CHECKSUM", "checksum"}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        because_setting(report, config, names[i][0]);
        report_text(report, names[i][1], "%s",
                    setting_get(config, names[i][0]).value);
    }
}

/* Report the devices on which UCX's TCP transport listens, because it does not
 * check the secret. */
static void report_ucx_ports(report_t *report)
{
    const char *devices = getenv("UCX_NET_DEVICES");

    if (devices != NULL) {
        report_because(report, "UCX_NET_DEVICES");
        report_text(report, "ucx_listens_on", "%s", devices);
    } else {
        report_because(
            report, "UCX_NET_DEVICES is not set; UCX's ports check no secret");
        report_text(report, "ucx_listens_on",
                    "loopback, and the devices of other addresses that the "
                    "pool listens on or connects from; all devices after "
                    "ucxpool_address_get()");
    }
}

/* Report whether the secret file can be used, by creating a listener on
 * loopback. */
static bool report_secret(report_t *report, const ucxpool_config_t *config,
                          ucxpool_t *pool)
{
    bool has_secret = !has_value(config, "SECRET_FILE", "");
    bool may_listen = has_value(config, "LISTEN_WITHOUT_SECRET", "y");
    ucxpool_listener_t *listener;

    if (ucxpool_listener_create(pool, "127.0.0.1:0", &listener) != UCXPOOL_OK) {
        tool_error("cannot listen: %s", ucxpool_error_detail());
        report_because(report, "%s", ucxpool_error_detail());
        report_text(report, "listens_on", "nothing");
        return false;
    }
    ucxpool_listener_destroy(listener);
    if (has_secret) {
        because_setting(report, config, "SECRET_FILE");
        report_text(report, "listens_on",
                    "all addresses, for peers that know the secret");
    } else if (may_listen) {
        because_setting(report, config, "LISTEN_WITHOUT_SECRET");
        report_text(report, "listens_on",
                    "all addresses, for any process that can reach the port");
    } else {
        report_because(report, "there is no UCXPOOL_SECRET_FILE");
        report_text(report, "listens_on", "loopback addresses only");
    }
    report_ucx_ports(report);
    return true;
}

/* Report a pool without blocks. COMM_SIZE=0 creates a pool only for its heap,
 * which is not an error. */
static bool report_no_blocks(report_t *report)
{
    static const char *const names[] = {"registered_with", "page",
                                        "listens_on"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        report_because(report, "no blocks");
        report_text(report, names[i], "none");
    }
    return true;
}

static bool report_pool(report_t *report, const ucxpool_config_t *config,
                        ucxpool_t *pool)
{
    ucxpool_attr_t attr;

    ucxpool_query(pool, &attr, sizeof(attr));
    report_sizes(report, config, pool);
    report_degraded(report, &attr, pool);
    if (pool_stat(pool, "num_regions") == 0) {
        return report_no_blocks(report);
    }
    report_domains(report, pool);
    report_shares(report, config, pool);
    report_pages(report, config, pool);
    report_transfer(report, config);
    return report_secret(report, config, pool);
}

bool info_pool_report(report_t *report, const ucxpool_config_t *config)
{
    const ucxpool_params_t params = {.field_mask = UCXPOOL_PARAM_FIELD_CONFIG |
                                                   UCXPOOL_PARAM_FIELD_NAME,
                                     .config = config,
                                     .name   = "ucxpool_info"};
    ucxpool_t             *pool;
    bool                   is_good;

    report_section_begin(report, "pool", "The pool");
    if (ucxpool_create(&params, &pool) == UCXPOOL_OK) {
        report_bool(report, "works", true);
        is_good = report_pool(report, config, pool);
        ucxpool_destroy(pool);
    } else {
        tool_error("cannot create the pool: %s", ucxpool_error_detail());
        report_because(report, "%s", ucxpool_error_detail());
        report_bool(report, "works", false);
        is_good = false;
    }
    report_section_end(report);
    return is_good;
}

/* --- the wire ------------------------------------------------------------- */

/* The longest time that the two pools may take to connect. */
#define CONNECT_SECONDS 120

/* Two pools of this process, which stand for two processes. */
typedef struct pair {
    ucxpool_t          *pools[2];
    ucxpool_listener_t *listener; /* of pools[1] */
    ucxpool_channel_t  *channels[2];
} pair_t;

/* Create two small pools. Their settings are those of the environment, except
 * for sizes, huge pages and, unless `wire` is NULL, the wire. If the wire is
 * "ucx", REQUIRE is "any", because REQUIRE=map would forbid the test of UCX.
 * The pools are too small to fill huge pages. Neither pool waits for the other
 * when it is destroyed, because the other cannot progress during the wait. */
static ucxpool_status_t create_pools(pair_t *pair, const char *wire)
{
    bool tests_ucx = (wire != NULL) && (strcmp(wire, "ucx") == 0);
    const setting_change_t changes[] = {
        {"REQUIRE", tests_ucx ? "any" : NULL},
        {"WIRE", wire},
        {"BLOCK_SIZE", "64k"},
        {"REGION_SIZE", "auto"},
        {"COMM_SIZE", "1m"},
        {"FRAG_SIZE", "auto"},
        {"HUGE_PAGES", "try"},
        {"CLOSE_TIMEOUT", "0"},
        {NULL, NULL},
    };
    const ucxpool_params_t params = {.field_mask = UCXPOOL_PARAM_FIELD_NAME,
                                     .name       = "ucxpool_info"};
    ucxpool_status_t       status =
        settings_create_pool(changes, false, &params, &pair->pools[0]);

    return status != UCXPOOL_OK
               ? status
               : settings_create_pool(changes, false, &params, &pair->pools[1]);
}

/* Connect the pools over loopback, so that UCX listens only there. */
static ucxpool_status_t connect_pools(pair_t *pair)
{
    char             where[32];
    ucxpool_status_t status =
        ucxpool_listener_create(pair->pools[1], "127.0.0.1:0", &pair->listener);

    if (status != UCXPOOL_OK) {
        return status;
    }
    snprintf(where, sizeof(where), "127.0.0.1:%u",
             (unsigned)ucxpool_listener_port(pair->listener));
    return ucxpool_channel_connect(pair->pools[0], where, NULL,
                                   &pair->channels[0]);
}

/* Create two pools and a channel, and wait until the channel has opened or
 * failed. The caller must close the pair also after an error. */
static ucxpool_status_t pair_open(pair_t *pair, const char *wire,
                                  ucxpool_channel_attr_t *attr)
{
    ucxpool_status_t status = create_pools(pair, wire);
    time_t           deadline;

    if (status == UCXPOOL_OK) {
        status = connect_pools(pair);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    deadline = time(NULL) + CONNECT_SECONDS;
    /* Each pool makes progress only in its own calls. */
    do {
        for (int i = 0; i < 2; i++) {
            ucxpool_progress(pair->pools[i]);
        }
        if (pair->channels[1] == NULL) {
            ucxpool_listener_accept(pair->listener, NULL, &pair->channels[1]);
        }
        ucxpool_channel_query(pair->channels[0], attr, sizeof(*attr));
    } while ((attr->state == UCXPOOL_CHANNEL_CONNECTING) &&
             (time(NULL) < deadline));
    return UCXPOOL_OK;
}

static void pair_close(pair_t *pair)
{
    for (int i = 0; i < 2; i++) {
        ucxpool_channel_close(pair->channels[i]);
    }
    ucxpool_listener_destroy(pair->listener);
    for (int i = 0; i < 2; i++) {
        ucxpool_destroy(pair->pools[i]);
    }
}

/* --- the self-test -------------------------------------------------------- */

/* Longer than an eager message, and longer than all blocks of a pool. */
#define MESSAGE_SIZE    ((size_t)4 << 20)
#define MESSAGE_TIMEOUT UINT64_C(10000000000)

/* Progress both pools until the request has ended. Returns its status. */
static ucxpool_status_t finish(pair_t *pair, ucxpool_request_t *request)
{
    ucxpool_status_t status;

    while (ucxpool_request_test(request) == UCXPOOL_INPROGRESS) {
        ucxpool_progress(pair->pools[0]);
        ucxpool_progress(pair->pools[1]);
    }
    status = ucxpool_request_wait(request, 0); /* sets the error's detail */
    ucxpool_request_release(request);
    return status;
}

/* Send a message from one pool to the other. */
static ucxpool_status_t send_message(pair_t *pair, const uint8_t *source,
                                     uint8_t *target)
{
    const ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT,
        .timeout_ns = MESSAGE_TIMEOUT};
    ucxpool_request_t *recv;
    ucxpool_request_t *send;
    ucxpool_status_t   status, sent;

    status = ucxpool_recv_buffer(pair->pools[1], NULL, target, MESSAGE_SIZE, 0,
                                 0, &params, &recv);
    if (status != UCXPOOL_OK) {
        return status;
    }
    sent = ucxpool_send_buffer(pair->channels[0], source, MESSAGE_SIZE, 0,
                               &params, &send);
    if (sent == UCXPOOL_OK) {
        sent = finish(pair, send);
    } else {
        ucxpool_request_cancel(recv);
    }
    status = finish(pair, recv);
    return sent == UCXPOOL_OK ? status : sent;
}

/* Send a message, and compare the bytes that arrive. Returns NULL, or why that
 * has failed. */
static const char *try_message(pair_t *pair)
{
    uint8_t         *bytes = malloc(2 * MESSAGE_SIZE);
    ucxpool_status_t status;
    bool             is_same;

    if (bytes == NULL) {
        return "no memory";
    }
    for (size_t i = 0; i < MESSAGE_SIZE; i++) {
        bytes[i] = (uint8_t)(i * 131 + (i >> 8));
    }
    memset(bytes + MESSAGE_SIZE, 0, MESSAGE_SIZE);
    status  = send_message(pair, bytes, bytes + MESSAGE_SIZE);
    is_same = memcmp(bytes, bytes + MESSAGE_SIZE, MESSAGE_SIZE) == 0;
    free(bytes);
    return status != UCXPOOL_OK ? ucxpool_error_detail()
           : is_same            ? NULL
                                : "the data arrived corrupted";
}

/*
 * Connect two pools and report the wire, or that this failed.
 *
 * wire       NULL: that of the settings.
 * self_test  Also send a message, and report whether it arrived instead.
 */
static bool report_pair(report_t *report, const char *wire, bool self_test)
{
    static const char *const names[] = {[UCXPOOL_WIRE_NONE] = "none",
                                        [UCXPOOL_WIRE_MAP]  = "map",
                                        [UCXPOOL_WIRE_UCX]  = "ucx"};
    const char              *key     = self_test ? "self_test" : "to_this_host";
    pair_t                   pair    = {.listener = NULL};
    ucxpool_channel_attr_t   attr;
    const char              *reason = NULL;

    if (pair_open(&pair, wire, &attr) != UCXPOOL_OK) {
        reason = ucxpool_error_detail();
    } else if (attr.state != UCXPOOL_CHANNEL_OPEN) {
        reason = attr.reason[0] != '\0' ? attr.reason : "no answer";
    } else if (self_test) {
        reason = try_message(&pair);
    }
    if (reason != NULL) {
        tool_error("two pools on this host did not %s%s: %s",
                   self_test ? "exchange a message over " : "connect",
                   self_test ? wire : "", reason);
        report_because(report, "%s", reason);
        report_text(report, key, "failed");
    } else if (self_test) {
        report_because(report, "over %s", wire);
        report_text(report, key, "passed");
    } else {
        report_because(report, "%s", attr.wire_reason);
        report_text(report, key, "%s", names[attr.wire]);
    }
    pair_close(&pair);
    return reason == NULL;
}

/* With COMM_SIZE=0 the pools of the user have no blocks and no channels, so no
 * pair is created. */
bool info_wire_report(report_t *report, const ucxpool_config_t *config,
                      bool self_test)
{
    bool is_good = true;

    report_section_begin(report, "wire", "Transport of the data");
    if (!has_value(config, "COMM_SIZE", "0")) {
        is_good = report_pair(report, NULL, false);
        if (is_good && self_test) {
            /* UCX is tested unless the settings forbid it. */
            is_good = report_pair(
                report, has_value(config, "WIRE", "map") ? "map" : "ucx", true);
        }
    } else {
        report_because(report, "no blocks");
        report_text(report, "to_this_host", "none");
        if (self_test) {
            is_good = false;
            tool_error("the self-test needs blocks, but UCXPOOL_COMM_SIZE is "
                       "0: set it to auto, or to a size");
        }
    }
    report_section_end(report);
    return is_good;
}
