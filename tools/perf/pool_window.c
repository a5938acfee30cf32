/*
 * Windows: the sender reads and writes the receiver's.
 */
#include "perf/pool_end.h"
#include "common/clock.h"
#include "perf/error.h"

#include <stdio.h>
#include <stdlib.h>

#define IMPORT_NS (UINT64_C(20) * 1000000000u)

/* What the sender says of the window that it was given. */
typedef struct answer {
    uint32_t is_missing;
    char     reason[JOB_REASON_SIZE];
} answer_t;

static const char *way_name(ucxpool_way_t way)
{
    switch (way) {
    case UCXPOOL_WAY_MESSAGES:
        return "messages";
    case UCXPOOL_WAY_PROCESS:
        return "process";
    case UCXPOOL_WAY_CUDA:
        return "cuda";
    default:
        return "none";
    }
}

static ucxpool_remote_attr_t query(const pool_end_t *pool_end)
{
    ucxpool_remote_attr_t attr;

    ucxpool_remote_query(pool_end->remote, &attr, sizeof(attr));
    return attr;
}

/* --- reading and writing -------------------------------------------------- */

static void ended(ucxpool_request_t *request, ucxpool_status_t status,
                  void *arg)
{
    end_slot_t *slot = arg;

    slot->replied = pool_end_ended_well(slot, request, status);
}

static ucxpool_data_t describe(const end_t *end, unsigned index)
{
    const buffers_t *buffers = &end->buffers;

    if (buffers->num_segments == 1) {
        return ucxpool_data_buffer(buffers_addresses(buffers, index)[0],
                                   buffers->size);
    }
    return ucxpool_data_pieces(buffers_addresses(buffers, index),
                               buffers->num_segments, end->work.size);
}

static int window_send(end_t *end, unsigned index)
{
    const pool_end_t *pool_end = (const pool_end_t *)end;
    size_t            num      = end->buffers.num_segments;
    ucxpool_data_t    data     = describe(end, index);
    ucxpool_places_t  places;
    end_slot_t       *slot = &end->slots[index];

    ucxpool_request_params_t params;

    places = ucxpool_places_even(pool_end->offsets + index * num, num,
                                 num == 1 ? end->buffers.size : end->work.size);
    pool_end_fill_params(&params, slot, ended, true);
    return pool_end_posted(
        slot,
        side_is_read(end->side)
            ? ucxpool_read(pool_end->remote, &places, &data, &params, NULL)
            : ucxpool_write(pool_end->remote, &places, &data, &params, NULL));
}

/* The receiver has no part in it. */
static int no_part(end_t *end, unsigned slot)
{
    (void)slot;
    return pool_end_fail(end, "the receiver is asked",
                         "for what only the sender does");
}

static void window_describe(const end_t *end, struct job_side *side)
{
    const pool_end_t     *pool_end = (const pool_end_t *)end;
    ucxpool_remote_attr_t attr;

    if (pool_end->remote != NULL) {
        attr = query(pool_end);
        snprintf(side->way, sizeof(side->way), "%s", way_name(attr.way));
        snprintf(side->way_reason, sizeof(side->way_reason), "%.*s",
                 (int)sizeof(side->way_reason) - 1, attr.way_reason);
    }
}

const end_ops_t pool_window_ops = {
    .send     = window_send,
    .expect   = no_part,
    .reply    = no_part,
    .progress = pool_end_progress,
    .destroy  = pool_end_destroy,
    .describe = window_describe,
};

/* --- beginning ------------------------------------------------------------ */

int pool_window_create(pool_end_t *pool_end)
{
    const end_t *end = &pool_end->end;

    if (!side_is_one_sided(end->side) || end->is_sender) {
        return 0;
    }
    if (ucxpool_window_create(pool_end->lane->pool, end->buffers.arena,
                              end->buffers.arena_size, NULL,
                              &pool_end->window) != UCXPOOL_OK) {
        return pool_end_fail(&pool_end->end, "no window",
                             ucxpool_error_detail());
    }
    return 0;
}

void pool_window_destroy(pool_end_t *pool_end)
{
    ucxpool_remote_release(pool_end->remote);
    ucxpool_window_destroy(pool_end->window);
    memory_list_free(pool_end->end.buffers.memory, pool_end->offsets);
    pool_end->remote  = NULL;
    pool_end->window  = NULL;
    pool_end->offsets = NULL;
}

static void idle(void *arg)
{
    ucxpool_progress(arg);
}

/* Wait for a word while the pool progresses. */
static int recv_idle(pool_end_t *pool_end, control_t *control, void *data,
                     size_t length)
{
    int status;

    control->idle     = idle;
    control->idle_arg = pool_end->lane->pool;
    status            = control_recv(control, data, length);
    control->idle     = NULL;
    return status;
}

/* The owner's part. What cannot be had is let go before anybody goes on. */
static int give(pool_end_t *pool_end, control_t *control, char *missing)
{
    unsigned access = side_is_read(pool_end->end.side) ? UCXPOOL_WINDOW_READ
                                                       : UCXPOOL_WINDOW_WRITE;
    uint8_t  blob[UCXPOOL_WINDOW_BLOB_SIZE];
    answer_t answer;
    char     done = 1;

    if (ucxpool_window_export(pool_end->window, access, blob) != UCXPOOL_OK) {
        return pool_end_fail(&pool_end->end, "no window is given out",
                             ucxpool_error_detail());
    }
    if ((control_send(control, blob, sizeof(blob)) != 0) ||
        (recv_idle(pool_end, control, &answer, sizeof(answer)) != 0)) {
        return -1;
    }
    if (!answer.is_missing) {
        return 0;
    }
    answer.reason[sizeof(answer.reason) - 1] = '\0';
    snprintf(missing, JOB_REASON_SIZE, "%s", answer.reason);
    pool_window_destroy(pool_end);
    return control_send(control, &done, sizeof(done));
}

static int import(pool_end_t *pool_end, const uint8_t *blob)
{
    uint64_t              deadline = clock_now() + IMPORT_NS;
    ucxpool_remote_attr_t attr;

    if (ucxpool_window_import(pool_end->lane->channel, blob,
                              UCXPOOL_WINDOW_BLOB_SIZE,
                              &pool_end->remote) != UCXPOOL_OK) {
        return pool_end_fail(&pool_end->end, "no window is taken",
                             ucxpool_error_detail());
    }
    do {
        ucxpool_progress(pool_end->lane->pool);
        attr = query(pool_end);
    } while ((attr.status == UCXPOOL_INPROGRESS) && (clock_now() < deadline));
    if (attr.status == UCXPOOL_OK) {
        return 0;
    }
    return pool_end_fail(&pool_end->end, "no window is taken",
                         attr.status == UCXPOOL_INPROGRESS
                             ? "the owner does not answer"
                             : attr.reason);
}

static int make_offsets(pool_end_t *pool_end)
{
    const buffers_t *buffers = &pool_end->end.buffers;
    size_t           num     = buffers->num_slots * buffers->num_segments;

    pool_end->offsets =
        memory_list_alloc(buffers->memory, num, sizeof(*pool_end->offsets));
    if (pool_end->offsets == NULL) {
        return perf_error("out of memory for a list of offsets: lower -n");
    }
    /* The other end is laid out as this one. */
    for (size_t i = 0; i < num; i++) {
        pool_end->offsets[i] =
            (uint64_t)((const char *)buffers->segments[i].address -
                       (const char *)buffers->arena) -
            buffers->shift;
    }
    return 0;
}

static int take(pool_end_t *pool_end, control_t *control, char *missing)
{
    answer_t              answer = {0};
    ucxpool_remote_attr_t attr;
    uint8_t               blob[UCXPOOL_WINDOW_BLOB_SIZE];
    char                  done;

    if ((control_recv(control, blob, sizeof(blob)) != 0) ||
        (import(pool_end, blob) != 0) || (make_offsets(pool_end) != 0)) {
        return -1;
    }
    attr = query(pool_end);
    if (side_is_asleep(pool_end->end.side) &&
        (attr.way == UCXPOOL_WAY_MESSAGES)) {
        answer.is_missing = 1;
        snprintf(answer.reason, sizeof(answer.reason),
                 "by messages the owner has to progress (%.*s)",
                 JOB_REASON_SIZE - 48, attr.way_reason);
        snprintf(missing, JOB_REASON_SIZE, "%s", answer.reason);
    }
    if (control_send(control, &answer, sizeof(answer)) != 0) {
        return -1;
    }
    if (!answer.is_missing) {
        return 0;
    }
    pool_window_destroy(pool_end);
    return recv_idle(pool_end, control, &done, sizeof(done));
}

int pool_window_connect(pool_end_t *pool_end, control_t *control, char *missing)
{
    missing[0] = '\0';
    if (!side_is_one_sided(pool_end->end.side)) {
        return 0;
    }
    return pool_end->end.is_sender ? take(pool_end, control, missing)
                                   : give(pool_end, control, missing);
}
