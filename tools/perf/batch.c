#include "perf/batch.h"
#include "perf/error.h"
#include "perf/exchange.h"
#include "perf/pattern.h"

#include <stdio.h>
#include <string.h>

typedef enum batch_kind { BATCH_RUN, BATCH_END } batch_kind_t;

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

int batch_lead(stage_t *stage, unsigned side, uint64_t num_messages,
               bool verify, samples_t *times, double *seconds_p)
{
    end_t        *end   = stage_enter(stage, side);
    batch_order_t order = {BATCH_RUN, side, verify, 0, num_messages, 0};
    char          text[124];
    char          name[SIDE_NAME_SIZE];

    if (verify) {
        order.seed = pattern_seed();
        if ((buffers_poison(&end->buffers) != 0) ||
            (buffers_fill(&end->buffers, order.seed) != 0)) {
            return -1;
        }
    }
    if ((control_send(stage->control, &order, sizeof(order)) != 0) ||
        (receive_report(stage->control, end) != 0) ||
        (exchange_send(end, num_messages, times, seconds_p) != 0) ||
        (receive_report(stage->control, end) != 0)) {
        return -1;
    }
    if (verify && end->work.echo &&
        (buffers_verify_replies(&end->buffers, order.seed, text,
                                sizeof(text)) != 0)) {
        return perf_error("%s moved wrong bytes back: %s",
                          side_name(end->side, name), text);
    }
    return 0;
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
    if (order->verify && (buffers_poison(&end->buffers) != 0)) {
        return -1;
    }
    if ((exchange_expect(end, order->num_messages) != 0) ||
        (control_send(stage->control, &report, sizeof(report)) != 0) ||
        (exchange_recv(end, order->num_messages) != 0)) {
        return -1;
    }
    if (order->verify) {
        report.status = buffers_verify(&end->buffers, order->seed, report.text,
                                       sizeof(report.text));
    }
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
