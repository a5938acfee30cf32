#include "perf/pool_lane.h"
#include "perf/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_NS (UINT64_C(20) * 1000000000u)

#define MIB ((size_t)1 << 20)

/* Half of a pool is the caller's, a quarter for what is sent (SEND_SHARE,
 * RECV_SHARE). A pool on a GPU has GPU_SIZE where that is not small; in any
 * pool the caller has at least SMALL_SIZE. */
#define GPU_SIZE   (500 * MIB)
#define SMALL_SIZE (8 * MIB)

static int fail(const char *what)
{
    return perf_error("%s: %s", what, ucxpool_error_detail());
}

static int set_size(ucxpool_config_t *config, const pool_lane_params_t *params)
{
    size_t size = 2 * params->comm_size + 64 * MIB;
    char   value[32];

    if (params->send_size != 0) {
        size = 4 * params->send_size;
    } else if ((params->comm_size <= SMALL_SIZE) ||
               (getenv("UCXPOOL_COMM_SIZE") != NULL)) {
        return 0;
    } else if ((params->device != WORK_HOST) && (size < GPU_SIZE)) {
        size = GPU_SIZE;
    }
    snprintf(value, sizeof(value), "%zum", size / MIB);
    return ucxpool_config_modify(config, "COMM_SIZE", value) == UCXPOOL_OK
               ? 0
               : fail("COMM_SIZE");
}

/*
 * Asked for the map wire, the pool would fail a channel that cannot have it.
 * With either allowed both ends see which one it is, and take the map wire
 * wherever they can.
 */
static const char *wire_setting(uint32_t mode)
{
    return side_mode_name(mode == MODE_MAP ? MODE_AUTO : mode);
}

int pool_lane_config(const pool_lane_params_t *params,
                     ucxpool_config_t        **config_p)
{
    ucxpool_config_t *config;

    if (ucxpool_config_read(&config) != UCXPOOL_OK) {
        return fail("the settings of the pool");
    }
    if ((params->mode != MODE_AUTO) &&
        (ucxpool_config_modify(config, "WIRE", wire_setting(params->mode)) !=
         UCXPOOL_OK)) {
        ucxpool_config_release(config);
        return fail("WIRE");
    }
    if (set_size(config, params) != 0) {
        ucxpool_config_release(config);
        return -1;
    }
    *config_p = config;
    return 0;
}

void pool_lane_set_device(ucxpool_params_t *params, int device)
{
    if (device != WORK_HOST) {
        params->field_mask |=
            UCXPOOL_PARAM_FIELD_MEMORY_KIND | UCXPOOL_PARAM_FIELD_DEVICE;
        params->memory_kind = UCXPOOL_MEMORY_CUDA;
        params->device      = device;
    }
}

static int create_pool(pool_lane_t *lane, const pool_lane_params_t *lane_params)
{
    ucxpool_params_t  params = {.field_mask = UCXPOOL_PARAM_FIELD_CONFIG |
                                              UCXPOOL_PARAM_FIELD_NAME,
                                .name = "perf"};
    ucxpool_config_t *config;
    ucxpool_status_t  status;

    if (pool_lane_config(lane_params, &config) != 0) {
        return -1;
    }
    pool_lane_set_device(&params, lane_params->device);
    params.config = config;
    status        = ucxpool_create(&params, &lane->pool);
    ucxpool_config_release(config);
    return status == UCXPOOL_OK ? 0 : fail("the pool cannot be made");
}

static void idle(void *arg)
{
    ucxpool_progress(arg);
}

/* The channel stands when both have seen it: until then, progress. */
static int wait_both(pool_lane_t *lane, control_t *control)
{
    ucxpool_channel_attr_t attr;
    char                   mine   = 1;
    void                  *theirs = NULL;
    size_t                 length;
    int                    result;

    if (ucxpool_channel_wait(lane->channel, CONNECT_NS) != UCXPOOL_OK) {
        ucxpool_channel_query(lane->channel, &attr, sizeof(attr));
        return perf_error(
            "%s: the two pools do not connect: %s", side_mode_title(lane->mode),
            attr.reason[0] != '\0' ? attr.reason
                                   : "no answer from the peer yet");
    }
    control->idle     = idle;
    control->idle_arg = lane->pool;
    result = control_exchange(control, &mine, sizeof(mine), &theirs, &length);
    control->idle = NULL;
    free(theirs);
    return result;
}

static int check_wire(const pool_lane_t *lane, char *missing)
{
    ucxpool_channel_attr_t attr;
    const char            *used;

    ucxpool_channel_query(lane->channel, &attr, sizeof(attr));
    used = attr.wire == UCXPOOL_WIRE_MAP ? "map" : "ucx";
    if ((lane->mode != MODE_AUTO) &&
        (strcmp(used, side_mode_name(lane->mode)) != 0)) {
        snprintf(missing, JOB_MISSING_SIZE,
                 "the wire %s cannot be had between these two (%.*s)",
                 side_mode_name(lane->mode), JOB_REASON_SIZE, attr.wire_reason);
        return -1;
    }
    return 0;
}

static int connect_pool(pool_lane_t *lane, control_t *control, char *missing)
{
    ucxpool_channel_params_t params = {.field_mask =
                                           UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS};
    void                    *mine;
    void                    *theirs;
    size_t                   length;
    ucxpool_status_t         status;
    int                      result;

    if (ucxpool_address_get(lane->pool, &mine, &length) != UCXPOOL_OK) {
        return fail("the pool tells no address");
    }
    result = control_exchange(control, mine, length, &theirs,
                              &params.address_length);
    ucxpool_address_release(mine);
    if (result != 0) {
        return -1;
    }
    params.address = theirs;
    status = ucxpool_channel_create(lane->pool, &params, &lane->channel);
    free(theirs);
    if (status != UCXPOOL_OK) {
        return fail("no channel to the other process");
    }
    return wait_both(lane, control) != 0 ? -1 : check_wire(lane, missing);
}

int pool_lane_create(const pool_lane_params_t *params, control_t *control,
                     char *missing, pool_lane_t **lane_p)
{
    pool_lane_t *lane = calloc(1, sizeof(*lane));

    if (lane == NULL) {
        return perf_error("out of memory for a lane");
    }
    lane->mode = params->mode;
    if ((create_pool(lane, params) != 0) ||
        (connect_pool(lane, control, missing) != 0)) {
        pool_lane_destroy(lane);
        return -1;
    }
    *lane_p = lane;
    return 0;
}

void pool_lane_destroy(pool_lane_t *lane)
{
    if (lane != NULL) {
        ucxpool_destroy(lane->pool);
        free(lane);
    }
}

pool_count_t pool_lane_count(const pool_lane_t *lane)
{
    pool_count_t count = {0};

    (void)ucxpool_stats_get(lane->pool, "allocations", &count.num_allocations);
    (void)ucxpool_stats_get(lane->pool, "messages_sent", &count.num_messages);
    return count;
}

void pool_lane_describe(const pool_lane_t *lane, const pool_count_t *count,
                        job_side_t *side)
{
    ucxpool_channel_attr_t attr;

    ucxpool_channel_query(lane->channel, &attr, sizeof(attr));
    snprintf(side->wire, sizeof(side->wire), "%s",
             attr.wire == UCXPOOL_WIRE_MAP ? "map" : "ucx");
    snprintf(side->wire_reason, sizeof(side->wire_reason), "%.*s",
             (int)sizeof(side->wire_reason) - 1, attr.wire_reason);
    (void)ucxpool_stats_get(lane->pool, "registrations_after_start",
                            &side->registrations);
    side->allocations =
        count->num_messages == 0
            ? 0
            : (double)count->num_allocations / (double)count->num_messages;
}
