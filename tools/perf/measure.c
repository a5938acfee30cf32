/* Runs the rounds of a job, in which the sides take turns, and evaluates the
 * samples. */
#include "perf/pair.h"
#include "common/system.h"
#include "common/error.h"
#include "perf/stage.h"

#include <string.h>

/* Target duration of a batch, so that its start-up time does not matter.
 * Batches are longer if the job has more time, because launching some messages
 * with long lists takes half a millisecond of GPU time. */
#define BATCH_NS     20e6
#define BATCH_MAX_NS 100e6
#define BATCH_SHARE  0.05

/* Each side is measured at least this often, even if the time is over. */
#define MIN_ROUNDS 5u

typedef struct measure {
    samples_t batches; /* seconds per message, one for each round */
    samples_t trips;   /* seconds from post to reply */
    uint64_t  num_messages;
} measure_t;

static quantiles_t quantiles_of(samples_t *samples)
{
    return (quantiles_t){.median = samples_quantile(samples, 0.5),
                         .p05    = samples_quantile(samples, 0.05),
                         .p95    = samples_quantile(samples, 0.95)};
}

/* --- rounds --------------------------------------------------------------- */

static double batch_ns(const job_t *job)
{
    double ns = BATCH_SHARE * (double)job->time_ns;

    ns = ns < BATCH_MAX_NS ? ns : BATCH_MAX_NS;
    return ns > BATCH_NS ? ns : BATCH_NS;
}

/* Time a batch several times and keep the shortest, because a process may lose
 * its CPU during a batch. */
static int time_batch(stage_t *stage, const job_t *job, unsigned side,
                      uint64_t num_messages, double *best_p)
{
    double seconds;

    *best_p = 1e9;
    for (unsigned i = 0; (i < 3) && (*best_p * 1e9 >= batch_ns(job) / 2); i++) {
        if (batch_lead(stage, side, num_messages, false, NULL, &seconds) != 0) {
            return -1;
        }
        *best_p = seconds < *best_p ? seconds : *best_p;
    }
    return 0;
}

/*
 * Find the number of messages in a batch. A batch goes through the slots at
 * least twice, because there is no pipelining otherwise.
 */
static int calibrate(stage_t *stage, const job_t *job, unsigned side,
                     uint64_t *num_p)
{
    uint64_t num = job->work.echo ? 16 : 2 * job->work.outstanding;
    double   seconds;

    for (;;) {
        if (time_batch(stage, job, side, num, &seconds) != 0) {
            return -1;
        }
        if (seconds * 1e9 >= batch_ns(job) / 2) {
            break;
        }
        num *= seconds * 1e9 >= batch_ns(job) / 8 ? 2 : 4;
    }
    *num_p = num;
    return 0;
}

static int verify(stage_t *stage, const job_t *job)
{
    double seconds;

    for (unsigned side = 0; side < job->num_sides; side++) {
        if (stage_has(stage, side) &&
            (batch_lead(stage, side, job->work.outstanding, true, NULL,
                        &seconds) != 0)) {
            return -1;
        }
    }
    return 0;
}

/* Returns the bytes of a message divided by the bytes that the side moves. The
 * side's times are scaled by this factor. */
static double whole_of_part(const job_t *job, unsigned side)
{
    work_t part = side_work(job->sides[side], &job->work);

    return (double)work_bytes(&job->work) / (double)work_bytes(&part);
}

static int measure_round(stage_t *stage, const job_t *job, unsigned round,
                         measure_t *measures)
{
    double seconds;

    for (unsigned i = 0; i < job->num_sides; i++) {
        unsigned   side    = (round + i) % job->num_sides;
        measure_t *measure = &measures[side];

        if (!stage_has(stage, side)) {
            continue;
        }
        if (batch_lead(stage, side, measure->num_messages, false,
                       &measure->trips, &seconds) != 0) {
            return -1;
        }
        samples_add(&measure->batches, whole_of_part(job, side) * seconds /
                                           (double)measure->num_messages);
    }
    return 0;
}

static int measure_all(stage_t *stage, const job_t *job, measure_t *measures,
                       unsigned *num_rounds_p)
{
    uint64_t start = clock_now();
    unsigned round;

    for (unsigned side = 0; side < job->num_sides; side++) {
        if (stage_has(stage, side) &&
            (calibrate(stage, job, side, &measures[side].num_messages) != 0)) {
            return -1;
        }
    }
    for (round = 0; round < job->max_rounds; round++) {
        if ((round >= MIN_ROUNDS) && (clock_now() - start > job->time_ns)) {
            break;
        }
        if (measure_round(stage, job, round, measures) != 0) {
            return -1;
        }
    }
    *num_rounds_p = round;
    return 0;
}

static void add_ratio(job_result_t *result, measure_t *measures, unsigned pool,
                      unsigned raw)
{
    job_ratio_t *ratio   = &result->ratios[result->num_ratios++];
    samples_t    samples = {0};

    for (unsigned round = 0; round < result->num_rounds; round++) {
        double speed = measures[raw].batches.values[round] /
                       measures[pool].batches.values[round];

        samples_add(&samples, result->job.work.echo ? 1 / speed : speed);
    }
    ratio->pool   = pool;
    ratio->raw    = raw;
    ratio->values = quantiles_of(&samples);
    samples_cleanup(&samples);
}

static bool is_alike(side_t a, side_t b)
{
    return (a.mode == b.mode) && (side_is(a, IS_EACH) == side_is(b, IS_EACH)) &&
           (side_is(a, IS_WHOLE) == side_is(b, IS_WHOLE));
}

/* Mark, among ratios of similar sides, the one that is worst for the pool. */
static void mark_best(job_result_t *result)
{
    for (unsigned i = 0; i < result->num_ratios; i++) {
        job_ratio_t *ratio = &result->ratios[i];

        ratio->is_best = true;
        for (unsigned k = 0; k < result->num_ratios; k++) {
            if ((result->ratios[k].pool == ratio->pool) &&
                is_alike(result->job.sides[result->ratios[k].raw],
                         result->job.sides[ratio->raw]) &&
                (result->job.work.echo
                     ? result->ratios[k].values.median > ratio->values.median
                     : result->ratios[k].values.median <
                           ratio->values.median)) {
                ratio->is_best = false;
            }
        }
    }
}

/* Batches are also compared with single posts. */
static bool is_compared(side_t pool, side_t other)
{
    return !side_is(other, IS_POOL) ||
           (side_is(pool, IS_BATCH) && (other.way == WAY_POOL_EACH));
}

static void add_ratios_of(job_result_t *result, measure_t *measures,
                          unsigned pool)
{
    const job_t *job = &result->job;

    if (measures[pool].batches.num == 0) {
        return;
    }
    for (unsigned i = 0; i < job->num_sides; i++) {
        if (is_compared(job->sides[pool], job->sides[i]) &&
            (measures[i].batches.num != 0)) {
            add_ratio(result, measures, pool, i);
        }
    }
}

/* Add all ratios. This must come before any median, because sorting the samples
 * loses the order of the rounds. */
static void add_ratios(job_result_t *result, measure_t *measures)
{
    const job_t *job = &result->job;

    if (side_is(job->sides[0], IS_POOL)) {
        add_ratios_of(result, measures, 0);
        if ((job->num_sides > 1) &&
            side_is(job->sides[1], IS_PIECES | IS_BATCH)) {
            add_ratios_of(result, measures, 1);
        }
        mark_best(result);
    }
}

static void set_trips(job_side_t *side, double whole, samples_t *trips)
{
    side->trip_p50 = whole * samples_quantile(trips, 0.5);
    side->trip_p99 = whole * samples_quantile(trips, 0.99);
}

static int measure_and_sum_up(stage_t *stage, const job_t *job,
                              job_result_t *result)
{
    measure_t measures[JOB_MAX_SIDES] = {0};
    int       status                  = -1;

    result->job = *job;
    if ((verify(stage, job) == 0) &&
        (measure_all(stage, job, measures, &result->num_rounds) == 0) &&
        (verify(stage, job) == 0)) {
        add_ratios(result, measures);
        for (unsigned i = 0; i < job->num_sides; i++) {
            result->sides[i].side  = job->sides[i];
            result->sides[i].times = quantiles_of(&measures[i].batches);
            set_trips(&result->sides[i], whole_of_part(job, i),
                      &measures[i].trips);
            stage_describe(stage, i, &result->sides[i]);
        }
        memcpy(result->gpus, stage->gpus, sizeof(result->gpus));
        status = batch_end(stage);
    }
    for (unsigned i = 0; i < job->num_sides; i++) {
        samples_cleanup(&measures[i].batches);
        samples_cleanup(&measures[i].trips);
    }
    return status;
}

/* Handle a failure of stage_init(): a feature is missing, or an error was
 * printed. */
static int miss(const job_t *job, const char *missing)
{
    if (missing[0] == '\0') {
        return -1;
    }
    return job->may_miss ? 0 : tool_error("%s", missing);
}

int measure_lead(const job_t *job, control_t *control, job_result_t *result_p)
{
    stage_t stage;
    int     status;

    memset(result_p, 0, sizeof(*result_p));
    if ((stage_check_memory(job, control->is_remote ? 1 : 2) != 0) ||
        (control_send(control, job, sizeof(*job)) != 0)) {
        return -1;
    }
    if (stage_init(&stage, job, control, true, result_p->missing) != 0) {
        result_p->job           = *job;
        result_p->job.num_sides = 0;
        return miss(job, result_p->missing);
    }
    status = measure_and_sum_up(&stage, job, result_p);
    stage_cleanup(&stage);
    return status;
}

static int follow(const job_t *job, control_t *control)
{
    char    missing[JOB_MISSING_SIZE] = "";
    stage_t stage;
    int     status;

    if (stage_init(&stage, job, control, false, missing) != 0) {
        return miss(job, missing);
    }
    status = batch_follow(&stage);
    stage_cleanup(&stage);
    return status;
}

int measure_follow(control_t *control)
{
    job_t job;

    for (;;) {
        if (control_recv(control, &job, sizeof(job)) != 0) {
            return -1;
        }
        if (job.num_sides == 0) {
            return 0;
        }
        if ((job_check(&job) != 0) || (follow(&job, control) != 0)) {
            return -1;
        }
    }
}

int measure_end(control_t *control)
{
    job_t last = {0};

    return control_send(control, &last, sizeof(last));
}
