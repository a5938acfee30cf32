#include "perf/stage.h"
#include "common/system.h"
#include "common/error.h"

#include <sched.h>
#include <string.h>

typedef struct batch_order {
    uint32_t side;
    uint32_t verify;
    uint64_t num_messages; /* 0: no more batches */
    uint64_t seed;
} batch_order_t;

/* Sent when one side has finished its part of a batch. */
static const char done_byte = 'o';

/* Number of the follower's progress calls between two checks for the leader's
 * message, and between two calls that yield the CPU. */
#define LOOK  64u
#define YIELD 256u

/* --- both sides ----------------------------------------------------------- */

/* Fill the sources with new bytes and overwrite the targets. Each direction has
 * its own seed. */
static int prepare(const stage_t *stage, const batch_order_t *order)
{
    for (unsigned i = 0; order->verify && (i < 2); i++) {
        end_t *end = stage->ends[order->side][i];

        if ((end != NULL) &&
            ((buffers_poison(&end->buffers) != 0) ||
             (end_is_source(end) &&
              (buffers_fill(&end->buffers, order->seed + i) != 0)))) {
            return -1;
        }
    }
    return 0;
}

/* Compare the bytes that arrived here. Returns -1, after printing an error, if
 * one differs. */
static int verify(const stage_t *stage, const batch_order_t *order)
{
    for (unsigned i = 0; order->verify && (i < 2); i++) {
        end_t *end = stage->ends[order->side][i];

        if ((end != NULL) && !end_is_source(end) &&
            (buffers_verify(&end->buffers, order->seed + i, false,
                            side_name(end->side)) != 0)) {
            return -1;
        }
    }
    return 0;
}

/* Destroy the ends that map memory of the other process, in both processes,
 * before either frees that memory. */
static int leave(stage_t *stage)
{
    char byte = 1;

    stage_destroy_senders(stage);
    return control_swap(stage->control, &byte, &byte, sizeof(byte));
}

/* --- the leader ----------------------------------------------------------- */

/* Run a batch of messages. The clock is running. */
static int lead_messages(const stage_t *stage, const batch_order_t *order,
                         samples_t *times, double *seconds_p)
{
    end_t *const *ends  = stage->ends[order->side];
    uint64_t      start = clock_now();
    char          byte;

    if (!side_is(ends[0]->side, IS_ONE_SIDED)) {
        return end_exchange(ends[0], ends[1], order->num_messages, times,
                            seconds_p);
    }
    if (end_exchange(ends[0], NULL, order->num_messages, times, seconds_p) !=
        0) {
        return -1;
    }
    if (ends[1] != NULL) {
        if (control_recv(stage->control, &byte, sizeof(byte)) != 0) {
            return -1;
        }
        *seconds_p = (double)(clock_now() - start) * 1e-9;
    }
    return control_send(stage->control, &done_byte, sizeof(done_byte));
}

int batch_lead(stage_t *stage, unsigned side, uint64_t num_messages,
               bool is_verified, samples_t *times, double *seconds_p)
{
    end_t        *end   = stage_enter(stage, side);
    end_t        *back  = stage->ends[side][1];
    batch_order_t order = {side, is_verified, num_messages, 0};
    char          byte;

    if (is_verified) {
        order.seed = buffers_seed();
    }
    if ((prepare(stage, &order) != 0) ||
        ((back != NULL) && !side_is(end->side, IS_ONE_SIDED) &&
         (end_expect(back, num_messages) != 0)) ||
        (control_send(stage->control, &order, sizeof(order)) != 0) ||
        (control_recv(stage->control, &byte, sizeof(byte)) != 0) ||
        (lead_messages(stage, &order, times, seconds_p) != 0) ||
        (control_recv(stage->control, &byte, sizeof(byte)) != 0) ||
        (verify(stage, &order) != 0)) {
        return -1;
    }
    return is_verified && end->work.echo
               ? buffers_verify(&end->buffers, order.seed, true,
                                side_name(end->side))
               : 0;
}

/* --- the follower --------------------------------------------------------- */

/* Let the leader read and write until the leader reports that it is done. In
 * the modes in which this side sleeps, this side only waits for that report. */
static int serve(stage_t *stage, end_t *end)
{
    control_t *control = stage->control;
    char       byte;
    size_t     length;
    int        taken = 0;

    if (side_is(end->side, IS_ASLEEP)) {
        control->idle = NULL;
        taken         = control_recv(control, &byte, sizeof(byte));
        stage_enter(stage, stage->current);
        return taken;
    }
    for (unsigned calls = 1; taken == 0; calls++) {
        end->ops->progress(end);
        if (end->failed) {
            return -1;
        }
        if (calls % YIELD == 0) {
            sched_yield();
        }
        if (calls % LOOK == 0) {
            taken = control->poll(control, 0, &byte, sizeof(byte), &length);
        }
    }
    if ((taken > 0) && (length != sizeof(byte))) {
        return tool_error("the other process has another version: run the "
                          "same ucxpool_perf on both sides");
    }
    return taken < 0 ? -1 : 0;
}

static int follow_messages(stage_t *stage, const batch_order_t *order)
{
    end_t *const *ends = stage->ends[order->side];
    double        seconds;

    if (!side_is(ends[0]->side, IS_ONE_SIDED)) {
        return end_exchange(ends[1], ends[0], order->num_messages, NULL,
                            &seconds);
    }
    if ((ends[1] != NULL) &&
        ((end_exchange(ends[1], NULL, order->num_messages, NULL, &seconds) !=
          0) ||
         (control_send(stage->control, &done_byte, sizeof(done_byte)) != 0))) {
        return -1;
    }
    return serve(stage, ends[0]);
}

static int follow_one(stage_t *stage, const batch_order_t *order)
{
    end_t *end;

    if ((order->side >= stage->num_sides) || !stage_has(stage, order->side)) {
        return tool_error("the other process sent an invalid order: run the "
                          "same ucxpool_perf on both sides");
    }
    end = stage_enter(stage, order->side);
    if ((prepare(stage, order) != 0) ||
        (!side_is(end->side, IS_ONE_SIDED) &&
         (end_expect(end, order->num_messages) != 0)) ||
        (control_send(stage->control, &done_byte, sizeof(done_byte)) != 0) ||
        (follow_messages(stage, order) != 0) || (verify(stage, order) != 0)) {
        return -1;
    }
    return control_send(stage->control, &done_byte, sizeof(done_byte));
}

int batch_follow(stage_t *stage)
{
    batch_order_t order;

    do {
        if (control_recv(stage->control, &order, sizeof(order)) != 0) {
            return -1;
        }
        if (order.num_messages == 0) {
            return leave(stage);
        }
    } while (follow_one(stage, &order) == 0);
    return -1;
}

int batch_end(stage_t *stage)
{
    batch_order_t order = {0};

    return control_send(stage->control, &order, sizeof(order)) != 0
               ? -1
               : leave(stage);
}
