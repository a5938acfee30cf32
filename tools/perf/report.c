#include "common/number.h"
#include "perf/report.h"
#include "perf/test.h"

#define TEXT_SIZE 64

/* --- common to all reports ------------------------------------------------ */

/* Print the size of a message, for example "65,536 x 256 B". */
static const char *work_text(const work_t *work, char text[TEXT_SIZE])
{
    char count[NUMBER_TEXT_SIZE];
    char size[NUMBER_TEXT_SIZE];

    number_print_bytes(work->size, size);
    if (work->count == 1) {
        snprintf(text, TEXT_SIZE, "%s", size);
    } else {
        number_print_commas(work->count, count);
        snprintf(text, TEXT_SIZE, "%.20s x %.20s", count, size);
    }
    return text;
}

const char *report_command(const job_t *job, char text[REPORT_COMMAND_SIZE])
{
    const work_t *work   = &job->work;
    FILE         *stream = fmemopen(text, REPORT_COMMAND_SIZE, "w");

    text[0] = '\0';
    if (stream == NULL) {
        return text;
    }
    fprintf(stream, "ucxpool_perf -t %s -s %llu -n %llu", job->test,
            (unsigned long long)work->size, (unsigned long long)work->count);
    if (!work->echo && (work->outstanding != JOB_OUTSTANDING)) {
        fprintf(stream, " -O %u", work->outstanding);
    }
    if (work_is_on_gpu(work)) {
        fprintf(stream, " --device %s", work->device_text);
    }
    if (work->pageable != 0) {
        fprintf(stream, " --pageable %s", work_pageable(work->pageable));
    }
    if (work->untold) {
        fprintf(stream, " --untold");
    }
    for (unsigned i = 0; job->has_own_sides && (i < job->num_sides); i++) {
        fprintf(stream, "%s%s", i == 0 ? " --sides " : ",",
                side_name(job->sides[i]));
    }
    if (!job->has_own_sides && side_is(job->sides[0], IS_POOL)) {
        fprintf(stream, " --wire %s", side_mode_name(job->sides[0].mode));
    }
    fclose(stream);
    return text;
}

/* Returns a time in the job's unit: microseconds per round trip, millions of
 * messages, or GB/s. */
static double figure(const job_result_t *result, double seconds)
{
    switch (test_find(result->job.test)->unit) {
    case UNIT_TRIP:
        return seconds * 1e6;
    case UNIT_MESSAGES:
        return job_message_rate(&result->job, seconds);
    default:
        return job_rate(&result->job, seconds);
    }
}

/* --- one job in full ------------------------------------------------------ */

static void print_heading(const job_result_t *result, FILE *stream)
{
    static const char *const units[] = {
        [UNIT_RATE] = "GB/s", [UNIT_TRIP] = "us", [UNIT_MESSAGES] = "M/s"};

    fprintf(stream, "  %-18s %9s %9s %9s\n", "side",
            result->job.work.both ? "each way"
                                  : units[test_find(result->job.test)->unit],
            "5%", "95%");
}

static void print_side(const job_result_t *result, unsigned index, FILE *stream)
{
    const job_side_t *side    = &result->sides[index];
    bool              is_trip = test_find(result->job.test)->unit == UNIT_TRIP;

    fprintf(stream, "  %-18s ", side_name(side->side));
    if (side->missing[0] != '\0') {
        fprintf(stream, "missing: %s\n", side->missing);
        return;
    }
    fprintf(stream, is_trip ? "%9.2f %9.2f %9.2f\n" : "%9.3f %9.3f %9.3f\n",
            figure(result, side->median),
            figure(result, is_trip ? side->p05 : side->p95),
            figure(result, is_trip ? side->p95 : side->p05));
}

static void print_ratio(const job_result_t *result, const job_ratio_t *ratio,
                        FILE *stream)
{
    fprintf(stream,
            result->job.work.echo
                ? "  %s takes %.2f times as long as %s (%.2f to %.2f)\n"
                : "  %s is %.2f times as fast as %s (%.2f to %.2f)\n",
            side_name(result->sides[ratio->pool].side), ratio->median,
            side_name(result->sides[ratio->raw].side), ratio->p05, ratio->p95);
}

static void print_pool(const job_side_t *side, FILE *stream)
{
    if (side->wire[0] == '\0') {
        return;
    }
    fprintf(stream, "  %s: wire %s (%s)", side_name(side->side), side->wire,
            side->wire_reason);
    if (side->way[0] != '\0') {
        fprintf(stream, ", way %s (%s)", side->way, side->way_reason);
    }
    fprintf(stream, "; registrations after the start %llu\n",
            (unsigned long long)side->registrations);
}

/* Print the memory of the buffers, and the sides that transferred only some of
 * the buffers. */
static void print_gpus(const job_result_t *result, FILE *stream)
{
    const job_t *job = &result->job;
    char         number[TEXT_SIZE];

    if (!work_is_on_gpu(&job->work)) {
        return;
    }
    fprintf(stream, "  in the memory of %s", job->work.device_text);
    if (result->gpus[0][0] != '\0') {
        fprintf(stream, ": %s", result->gpus[0]);
        if (job->work.devices[0] != job->work.devices[1]) {
            fprintf(stream, ", %s", result->gpus[1]);
        }
    }
    if (job->work.pageable != 0) {
        fprintf(stream, "; pageable host memory: %s",
                work_pageable(job->work.pageable));
    }
    if (job->work.untold) {
        fprintf(stream, "; the pool determines the kind of memory");
    }
    fprintf(stream, "\n");
    for (unsigned i = 0; i < job->num_sides; i++) {
        const job_side_t *side = &result->sides[i];

        if ((side->missing[0] == '\0') && (side->num_moved < job->work.count)) {
            fprintf(stream, "  %s: only the first %s buffers of each message\n",
                    side_name(side->side),
                    number_print_commas(side->num_moved, number));
        }
    }
}

void report_text(const job_result_t *result, FILE *stream)
{
    const job_t *job = &result->job;
    char         work[TEXT_SIZE];

    fprintf(stream, "%s: %s\n", job->test, test_find(job->test)->title);
    if (result->missing[0] != '\0') {
        fprintf(stream, "  %s: missing: %s\n\n", work_text(&job->work, work),
                result->missing);
        return;
    }
    fprintf(stream, "  %s, %u in flight, %u rounds, every byte verified\n",
            work_text(&job->work, work), job->work.outstanding,
            result->num_rounds);
    print_gpus(result, stream);
    fprintf(stream, "\n");
    print_heading(result, stream);
    for (unsigned i = 0; i < job->num_sides; i++) {
        print_side(result, i, stream);
    }
    fprintf(stream, "\n");
    for (unsigned i = 0; i < result->num_ratios; i++) {
        print_ratio(result, &result->ratios[i], stream);
    }
    for (unsigned i = 0; i < job->num_sides; i++) {
        print_pool(&result->sides[i], stream);
    }
    fprintf(stream, "\n");
}
