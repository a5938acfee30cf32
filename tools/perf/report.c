#include "common/json.h"
#include "common/number.h"
#include "perf/report.h"
#include "perf/test.h"

#include <ucxpool/version.h>

#include <ucp/api/ucp.h>

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

/* Returns the GB/s of a message that takes this time. */
static double rate(const job_result_t *result, double seconds)
{
    return (double)work_bytes(&result->job.work) / seconds * 1e-9;
}

/* Returns a time in the job's unit: microseconds per round trip, millions of
 * messages of one buffer each, or GB/s. */
static double figure(const job_result_t *result, double seconds)
{
    switch (test_find(result->job.test)->unit) {
    case UNIT_TRIP:
        return seconds * 1e6;
    case UNIT_MESSAGES:
        return (double)result->job.work.count / seconds * 1e-6;
    default:
        return rate(result, seconds);
    }
}

static bool is_rate(const job_result_t *result)
{
    test_unit_t unit = test_find(result->job.test)->unit;

    return (unit == UNIT_RATE) || (unit == UNIT_MESSAGES);
}

/* --- one job in full ------------------------------------------------------ */

static void print_heading(const job_result_t *result, FILE *stream)
{
    static const struct {
        const char *unit;
        const char *more;
    } headings[] = {
        [UNIT_RATE]     = {"GB/s", "  one p50 us one p99 us"},
        [UNIT_TRIP]     = {"us", "  one p50 us one p99 us"},
        [UNIT_MESSAGES] = {"M/s", ""},
    };
    test_unit_t unit = test_find(result->job.test)->unit;

    fprintf(stream, "  %-18s %9s %9s %9s%s\n", "side",
            result->job.work.both ? "each way" : headings[unit].unit, "5%",
            "95%", headings[unit].more);
}

static void print_side(const job_result_t *result, unsigned index, FILE *stream)
{
    const job_side_t *side = &result->sides[index];
    test_unit_t       unit = test_find(result->job.test)->unit;

    fprintf(stream, "  %-18s ", side_name(side->side));
    if (side->missing[0] != '\0') {
        fprintf(stream, "missing: %s\n", side->missing);
        return;
    }
    fprintf(
        stream, unit == UNIT_TRIP ? "%9.2f %9.2f %9.2f" : "%9.3f %9.3f %9.3f",
        figure(result, side->times.median),
        figure(result, is_rate(result) ? side->times.p95 : side->times.p05),
        figure(result, is_rate(result) ? side->times.p05 : side->times.p95));
    if ((unit == UNIT_RATE) || (unit == UNIT_TRIP)) {
        fprintf(stream, "  %10.1f %10.1f", side->trip_p50 * 1e6,
                side->trip_p99 * 1e6);
    }
    fprintf(stream, "\n");
}

static void print_ratio(const job_result_t *result, const job_ratio_t *ratio,
                        FILE *stream)
{
    fprintf(stream,
            result->job.work.echo
                ? "  %s takes %.2f times as long as %s (%.2f to %.2f)\n"
                : "  %s is %.2f times as fast as %s (%.2f to %.2f)\n",
            side_name(result->sides[ratio->pool].side), ratio->values.median,
            side_name(result->sides[ratio->raw].side), ratio->values.p05,
            ratio->values.p95);
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
        const job_side_t *side      = &result->sides[i];
        uint64_t          num_moved = side_work(side->side, &job->work).count;

        if ((side->missing[0] == '\0') && (num_moved < job->work.count)) {
            fprintf(stream, "  %s: only the first %s buffers of each message\n",
                    side_name(side->side),
                    number_print_commas(num_moved, number));
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

/* --- all jobs as JSON ------------------------------------------------------
 */

/* Write the wire and the way that a side of the pool used. */
static void json_pool(json_t *json, const job_side_t *side)
{
    if (side->wire[0] != '\0') {
        json_text(json, "wire", side->wire);
        json_text(json, "wire_reason", side->wire_reason);
        json_number(json, "registrations_after_start", side->registrations);
    }
    if (side->way[0] != '\0') {
        json_text(json, "way", side->way);
        json_text(json, "way_reason", side->way_reason);
    }
}

static void json_side(json_t *json, const job_result_t *result, unsigned index)
{
    const job_side_t *side       = &result->sides[index];
    bool              is_missing = side->missing[0] != '\0';
    uint64_t num_moved = side_work(side->side, &result->job.work).count;

    json_open_inline(json, NULL, '{');
    json_text(json, "side", side_name(side->side));
    json_text(json, "mode", side_mode_title(side->side.mode));
    json_bool(json, "verified", !is_missing);
    if (is_missing) {
        json_text(json, "missing", side->missing);
        json_close(json);
        return;
    }
    json_bare(json, "seconds", "%.9g", side->times.median);
    json_bare(json, "seconds_p05", "%.9g", side->times.p05);
    json_bare(json, "seconds_p95", "%.9g", side->times.p95);
    json_bare(json, "message_seconds_p50", "%.9g", side->trip_p50);
    json_bare(json, "message_seconds_p99", "%.9g", side->trip_p99);
    json_bare(json, "gb_per_s", "%.6g", rate(result, side->times.median));
    if (num_moved < result->job.work.count) {
        json_number(json, "buffers_moved", num_moved);
    }
    json_pool(json, side);
    json_close(json);
}

/* Write the device and its names; nothing for host memory. */
static void json_gpus(json_t *json, const job_result_t *result)
{
    const work_t *work = &result->job.work;

    if (!work_is_on_gpu(work)) {
        return;
    }
    json_text(json, "device", work->device_text);
    json_open_inline(json, "gpus", '[');
    json_text(json, NULL, result->gpus[0]);
    json_text(json, NULL, result->gpus[1]);
    json_close(json);
    if (work->pageable != 0) {
        json_text(json, "pageable", work_pageable(work->pageable));
    }
    if (work->untold) {
        json_bool(json, "untold", true);
    }
}

static void json_ratio(json_t *json, const job_result_t *result,
                       const job_ratio_t *ratio)
{
    const job_t *job = &result->job;

    json_open_inline(json, NULL, '{');
    json_text(json, "against", side_name(job->sides[ratio->raw]));
    json_bool(json, "counts", ratio->is_best);
    json_bare(json, "ratio", "%.6g", ratio->values.median);
    json_bare(json, "p05", "%.6g", ratio->values.p05);
    json_bare(json, "p95", "%.6g", ratio->values.p95);
    if (ratio->pool != 0) {
        json_text(json, "pool", side_name(job->sides[ratio->pool]));
    }
    json_close(json);
}

static void json_job(json_t *json, const job_result_t *result)
{
    const job_t *job = &result->job;
    char         command[REPORT_COMMAND_SIZE];

    json_open_inline(json, NULL, '{');
    json_text(json, "test", job->test);
    json_text(json, "command", report_command(job, command));
    json_number(json, "size", job->work.size);
    json_number(json, "count", job->work.count);
    json_number(json, "outstanding", job->work.outstanding);
    json_number(json, "rounds", result->num_rounds);
    json_gpus(json, result);
    if (result->missing[0] != '\0') {
        json_text(json, "missing", result->missing);
    }
    json_open(json, "sides", '[');
    for (unsigned i = 0; i < job->num_sides; i++) {
        json_side(json, result, i);
    }
    json_close(json);
    json_open(json, "ratios", '[');
    for (unsigned i = 0; i < result->num_ratios; i++) {
        json_ratio(json, result, &result->ratios[i]);
    }
    json_close(json);
    json_close(json);
}

void report_json(const job_result_t *results, unsigned num_results,
                 FILE *stream)
{
    json_t json;

    json_init(&json, stream);
    json_open(&json, NULL, '{');
    json_text(&json, "libucxpool", ucxpool_version_string());
    json_text(&json, "ucx", ucp_get_version_string());
    json_open(&json, "jobs", '[');
    for (unsigned i = 0; i < num_results; i++) {
        json_job(&json, &results[i]);
    }
    json_close(&json);
    json_close(&json);
}
