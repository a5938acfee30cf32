#include "perf/batch.h"
#include "common/clock.h"
#include "perf/error.h"
#include "perf/exchange.h"
#include "perf/pattern.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

typedef enum batch_kind { BATCH_RUN, BATCH_OVER, BATCH_END } batch_kind_t;

typedef struct batch_order {
    uint32_t kind;
    uint32_t side;
    uint32_t verify;
    uint32_t unused;
    uint64_t num_messages;
    uint64_t seed;
} batch_order_t;

typedef struct batch_report {
    int32_t status;
    char    text[124];
} batch_report_t;

static int receive_report(control_t *control, end_t *end)
{
    batch_report_t report;
    char           name[SIDE_NAME_SIZE];

    if (control_recv(control, &report, sizeof(report)) != 0) {
        return -1;
    }
    if (report.status != 0) {
        report.text[sizeof(report.text) - 1] = '\0';
        return perf_error("%s moved wrong bytes: %s",
                          side_name(end->side, name), report.text);
    }
    return 0;
}

/* Progress calls of the follower between two looks for the leader's word, and
 * between two moments at which another process may have the processor. */
#define LOOK  64u
#define YIELD 256u

/* What goes the other way has bytes of its own. */
static uint64_t seed_of(const end_t *end, const stage_t *stage, unsigned side,
                        uint64_t seed)
{
    return end == stage->back_ends[side] ? seed + 1 : seed;
}

/* What is sent is new, and what comes finds none of it. */
static int prepare(const stage_t *stage, unsigned side, end_t *end,
                   uint64_t seed)
{
    if (buffers_poison(&end->buffers) != 0) {
        return -1;
    }
    return end_is_source(end)
               ? buffers_fill(&end->buffers, seed_of(end, stage, side, seed))
               : 0;
}

static int prepare_all(const stage_t *stage, const batch_order_t *order)
{
    end_t *end  = stage->ends[order->side];
    end_t *back = stage->back_ends[order->side];

    if (!order->verify) {
        return 0;
    }
    return (prepare(stage, order->side, end, order->seed) != 0) ||
                   ((back != NULL) &&
                    (prepare(stage, order->side, back, order->seed) != 0))
               ? -1
               : 0;
}

/* What came here: -1, with a sentence, where a byte differs. */
static int verify_here(const stage_t *stage, const batch_order_t *order,
                       char *text, size_t text_size)
{
    end_t *ends[] = {stage->ends[order->side], stage->back_ends[order->side]};

    for (unsigned i = 0; order->verify && (i < 2); i++) {
        if ((ends[i] != NULL) && !end_is_source(ends[i]) &&
            (buffers_verify(&ends[i]->buffers,
                            seed_of(ends[i], stage, order->side, order->seed),
                            text, text_size) != 0)) {
            return -1;
        }
    }
    return 0;
}

static int say_over(const stage_t *stage, const batch_order_t *order)
{
    batch_order_t over = {BATCH_OVER, order->side, 0, 0, 0, 0};

    return control_send(stage->control, &over, sizeof(over));
}

static int check_over(const batch_order_t *over)
{
    return over->kind == BATCH_OVER
               ? 0
               : perf_error("the other process speaks another version");
}

static int lead_one_sided(stage_t *stage, const batch_order_t *order,
                          samples_t *times, double *seconds_p)
{
    uint64_t      start = clock_now();
    batch_order_t over;

    if (exchange_send(stage->ends[order->side], order->num_messages, times,
                      seconds_p) != 0) {
        return -1;
    }
    if (stage->back_ends[order->side] != NULL) {
        if ((control_recv(stage->control, &over, sizeof(over)) != 0) ||
            (check_over(&over) != 0)) {
            return -1;
        }
        *seconds_p = (double)(clock_now() - start) * 1e-9;
    }
    return say_over(stage, order);
}

/* The clock runs. */
static int lead_messages(stage_t *stage, const batch_order_t *order,
                         samples_t *times, double *seconds_p)
{
    end_t *end  = stage->ends[order->side];
    end_t *back = stage->back_ends[order->side];

    if (side_is_one_sided(end->side)) {
        return lead_one_sided(stage, order, times, seconds_p);
    }
    return back != NULL
               ? exchange_both(end, back, order->num_messages, times, seconds_p)
               : exchange_send(end, order->num_messages, times, seconds_p);
}

int batch_lead(stage_t *stage, unsigned side, uint64_t num_messages,
               bool verify, samples_t *times, double *seconds_p)
{
    end_t        *end   = stage_enter(stage, side);
    end_t        *back  = stage->back_ends[side];
    batch_order_t order = {BATCH_RUN, side, verify, 0, num_messages, 0};
    char          text[124];
    char          name[SIDE_NAME_SIZE];

    if (verify) {
        order.seed = pattern_seed();
    }
    if ((prepare_all(stage, &order) != 0) ||
        ((back != NULL) && !side_is_one_sided(end->side) &&
         (exchange_expect(back, num_messages) != 0))) {
        return -1;
    }
    if ((control_send(stage->control, &order, sizeof(order)) != 0) ||
        (receive_report(stage->control, end) != 0) ||
        (lead_messages(stage, &order, times, seconds_p) != 0) ||
        (receive_report(stage->control, end) != 0)) {
        return -1;
    }
    if ((verify_here(stage, &order, text, sizeof(text)) != 0) ||
        (verify && end->work.echo &&
         (buffers_verify_replies(&end->buffers, order.seed, text,
                                 sizeof(text)) != 0))) {
        return perf_error("%s moved wrong bytes back: %s",
                          side_name(end->side, name), text);
    }
    return 0;
}

/* Let the leader read and write, until it says that it is through. Asleep, only
 * its word is waited for. */
static int serve(stage_t *stage, end_t *end)
{
    control_t    *control = stage->control;
    batch_order_t over;
    size_t        length = 0;
    int           taken  = 0;

    if (side_is_asleep(end->side)) {
        control->idle = NULL;
        taken  = control_recv(control, &over, sizeof(over)) == 0 ? 1 : -1;
        length = sizeof(over);
        stage_enter(stage, stage->current);
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
            taken = control->poll(control, 0, &over, sizeof(over), &length);
        }
    }
    if (taken < 0) {
        return -1;
    }
    return length == sizeof(over)
               ? check_over(&over)
               : perf_error("the other process speaks another version");
}

static int follow_one_sided(stage_t *stage, const batch_order_t *order)
{
    end_t *back = stage->back_ends[order->side];
    double seconds;

    if ((back != NULL) &&
        ((exchange_send(back, order->num_messages, NULL, &seconds) != 0) ||
         (say_over(stage, order) != 0))) {
        return -1;
    }
    return serve(stage, stage->ends[order->side]);
}

static int follow_messages(stage_t *stage, const batch_order_t *order)
{
    end_t *end  = stage->ends[order->side];
    end_t *back = stage->back_ends[order->side];
    double seconds;

    if (side_is_one_sided(end->side)) {
        return follow_one_sided(stage, order);
    }
    return back != NULL
               ? exchange_both(back, end, order->num_messages, NULL, &seconds)
               : exchange_recv(end, order->num_messages);
}

static int follow_one(stage_t *stage, const batch_order_t *order)
{
    batch_report_t report = {0};
    end_t         *end;

    if ((order->side >= stage->num_sides) || !stage_has(stage, order->side) ||
        (order->num_messages == 0)) {
        return perf_error("the other process asks for nonsense");
    }
    end = stage_enter(stage, order->side);
    if ((prepare_all(stage, order) != 0) ||
        (!side_is_one_sided(end->side) &&
         (exchange_expect(end, order->num_messages) != 0)) ||
        (control_send(stage->control, &report, sizeof(report)) != 0) ||
        (follow_messages(stage, order) != 0)) {
        return -1;
    }
    report.status = verify_here(stage, order, report.text, sizeof(report.text));
    return control_send(stage->control, &report, sizeof(report));
}

int batch_follow(stage_t *stage)
{
    batch_order_t order;

    for (;;) {
        if (control_recv(stage->control, &order, sizeof(order)) != 0) {
            return -1;
        }
        if (order.kind == BATCH_END) {
            return 0;
        }
        if (follow_one(stage, &order) != 0) {
            return -1;
        }
    }
}

int batch_end(stage_t *stage)
{
    batch_order_t order = {BATCH_END, 0, 0, 0, 0, 0};

    return control_send(stage->control, &order, sizeof(order));
}
