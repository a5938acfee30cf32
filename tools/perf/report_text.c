/*
 * For readers: a job in full, and the tables of targets.
 */
#include "perf/devices.h"
#include "perf/report.h"
#include "perf/target.h"

#include <string.h>

static bool counts_messages(const job_result_t *result)
{
    return test_find(result->job.test)->unit == TEST_UNIT_MESSAGES;
}

static void print_side(const job_result_t *result, unsigned index, FILE *stream)
{
    const job_side_t *side = &result->sides[index];
    char              name[SIDE_NAME_SIZE];

    fprintf(stream, "  %-18s ", side_name(side->side, name));
    if (side->missing[0] != '\0') {
        fprintf(stream, "missing: %s\n", side->missing);
    } else if (side->side.way == WAY_BLOCK) {
        fprintf(stream, "%9.1f %9.1f %9.1f  ns\n", side->median * 1e9,
                side->p05 * 1e9, side->p95 * 1e9);
    } else if (counts_messages(result)) {
        fprintf(stream, "%9.3f %9.3f %9.3f\n",
                job_message_rate(&result->job, side->median),
                job_message_rate(&result->job, side->p95),
                job_message_rate(&result->job, side->p05));
    } else if (result->job.work.echo) {
        fprintf(stream, "%9.2f %9.2f %9.2f  %10.1f %10.1f\n",
                side->median * 1e6, side->p05 * 1e6, side->p95 * 1e6,
                side->trip_p50 * 1e6, side->trip_p99 * 1e6);
    } else {
        fprintf(stream, "%9.3f %9.3f %9.3f  %10.1f %10.1f\n",
                job_rate(&result->job, side->median),
                job_rate(&result->job, side->p95),
                job_rate(&result->job, side->p05), side->trip_p50 * 1e6,
                side->trip_p99 * 1e6);
    }
}

static void print_ratio(const job_result_t *result, const job_ratio_t *ratio,
                        FILE *stream)
{
    char           pool[SIDE_NAME_SIZE];
    char           raw[SIDE_NAME_SIZE];
    report_ratio_t at;

    report_ratio_get(result, ratio, &at);
    side_name(result->sides[ratio->pool].side, pool);
    side_name(result->sides[ratio->raw].side, raw);
    if (result->job.work.echo) {
        fprintf(stream, "  %s takes %.2f times as long as %s (%.2f to %.2f)",
                pool, at.value, raw, at.low, at.high);
    } else {
        fprintf(stream, "  %s is %.2f times as fast as %s (%.2f to %.2f)", pool,
                at.value, raw, at.low, at.high);
    }
    if (at.target != 0) {
        fprintf(stream, "; at %s %g: %s",
                result->job.work.echo ? "most" : "least", at.target,
                at.verdict);
    }
    fprintf(stream, "\n");
}

static void print_pool(const job_side_t *side, FILE *stream)
{
    char name[SIDE_NAME_SIZE];

    if (side->wire[0] == '\0') {
        return;
    }
    fprintf(stream, "  %s: wire %s (%s)", side_name(side->side, name),
            side->wire, side->wire_reason);
    if (side->way[0] != '\0') {
        fprintf(stream, ", way %s (%s)", side->way, side->way_reason);
    }
    fprintf(stream, "; registrations after the start %llu",
            (unsigned long long)side->registrations);
    if (!side_is_one_sided(side->side)) {
        fprintf(stream, ", heap allocations per message %.2f",
                side->allocations);
    }
    fprintf(stream, "\n");
}

static void print_rate_target(const job_result_t *result, unsigned side,
                              FILE *stream)
{
    const char *verdict;
    char        name[SIDE_NAME_SIZE];
    double      target = report_rate_target(result, side, &verdict);

    if (target != 0) {
        fprintf(stream, "  %s has %.3g GB/s; at least %g: %s\n",
                side_name(result->sides[side].side, name),
                job_rate(&result->job, result->sides[side].median), target,
                verdict);
    }
}

static void print_heading(const job_result_t *result, FILE *stream)
{
    if (result->sides[0].side.way == WAY_BLOCK) {
        fprintf(stream, "  %-18s %9s %9s %9s\n", "side", "median", "5%", "95%");
    } else if (counts_messages(result)) {
        fprintf(stream, "  %-18s %9s %9s %9s\n", "side", "M/s", "5%", "95%");
    } else if (result->job.work.echo) {
        fprintf(stream, "  %-18s %9s %9s %9s  %10s %10s\n", "side", "us", "5%",
                "95%", "one p50 us", "one p99 us");
    } else {
        fprintf(stream, "  %-18s %9s %9s %9s  %10s %10s\n", "side",
                result->job.work.both ? "each way" : "GB/s", "5%", "95%",
                "one p50 us", "one p99 us");
    }
}

/* Where the buffers lie, and what was not done with all of them. */
static void print_gpus(const job_result_t *result, FILE *stream)
{
    const job_t *job = &result->job;
    char         device[DEVICES_TEXT_SIZE];
    char         number[REPORT_TEXT_SIZE];
    char         name[SIDE_NAME_SIZE];

    if (!work_is_on_gpu(&job->work)) {
        return;
    }
    fprintf(stream, "  in the memory of %s", devices_text(&job->work, device));
    if (result->gpus[0][0] != '\0') {
        fprintf(stream, ": %s%s%s", result->gpus[0],
                job->work.devices[0] == job->work.devices[1] ? "" : ", ",
                job->work.devices[0] == job->work.devices[1] ? ""
                                                             : result->gpus[1]);
    }
    if (job->work.pageable != 0) {
        fprintf(stream, "; pageable host memory: %s",
                devices_pageable_text(job->work.pageable));
    }
    if (job->work.untold) {
        fprintf(stream, "; the pool asks what memory it is");
    }
    fprintf(stream, "\n");
    for (unsigned i = 0; i < job->num_sides; i++) {
        const job_side_t *side = &result->sides[i];

        if ((side->missing[0] == '\0') && (side->num_moved < job->work.count)) {
            fprintf(stream, "  %s: of each message the first %s buffers\n",
                    side_name(side->side, name),
                    report_number(side->num_moved, number));
        }
    }
}

void report_text(const job_result_t *result, FILE *stream)
{
    const job_t  *job = &result->job;
    char          work[REPORT_TEXT_SIZE];
    const test_t *test = test_find(job->test);

    fprintf(stream, "%s: %s\n", job->test, test->title);
    if (test->unit != TEST_UNIT_BLOCK) {
        fprintf(stream, "  %s, %u in flight, %u rounds, every byte verified\n",
                report_work(&job->work, work), job->work.outstanding,
                result->num_rounds);
    }
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
    print_rate_target(result, 0, stream);
    if (report_pieces(result) != 0) {
        print_rate_target(result, report_pieces(result), stream);
    }
    for (unsigned i = 0; i < job->num_sides; i++) {
        print_pool(&result->sides[i], stream);
    }
    if (test->unit == TEST_UNIT_BLOCK) {
        fprintf(stream, "  at most %g ns: %s\n", TARGET_BLOCK_NS,
                result->sides[0].median * 1e9 <= TARGET_BLOCK_NS ? "met"
                                                                 : "missed");
    }
    fprintf(stream, "\n");
}

void report_table_begin(const char *table, FILE *stream)
{
    fprintf(stream,
            "\n| work (%s) | the pool | against | its figure | ratio | 5%% to "
            "95%% | target | verdict |\n"
            "|---|---|---|---|---|---|---|---|\n",
            table);
}

static void print_figure(const job_result_t *result, unsigned index,
                         FILE *stream)
{
    double seconds = result->sides[index].median;

    if (result->job.work.echo) {
        fprintf(stream, "%.2f us", seconds * 1e6);
    } else {
        fprintf(stream, "%.3g GB/s", job_rate(&result->job, seconds));
    }
}

static void print_target(const job_result_t *result, const report_ratio_t *at,
                         FILE *stream)
{
    if (at->target == 0) {
        fprintf(stream, "to be told | |\n");
        return;
    }
    fprintf(stream, "%s%g", result->job.work.echo ? "at most " : "",
            at->target);
    if (at->aim != 0) {
        fprintf(stream, ", aim %g", at->aim);
    }
    fprintf(stream, " | %s |\n", at->verdict);
}

void report_table_row(const job_result_t *result, FILE *stream)
{
    const job_t *job = &result->job;
    char         work[REPORT_TEXT_SIZE];
    char         name[SIDE_NAME_SIZE];

    if (result->missing[0] != '\0') {
        fprintf(stream, "| %s, %s | none: %s | | | | | | |\n", job->test,
                report_work(&job->work, work), result->missing);
        return;
    }
    if (job->sides[0].way == WAY_BLOCK) {
        double ns = result->sides[0].median * 1e9;

        fprintf(stream,
                "| block get + put, one thread | %.1f ns | | | | %.1f to %.1f "
                "| %g ns | %s |\n",
                ns, result->sides[0].p05 * 1e9, result->sides[0].p95 * 1e9,
                TARGET_BLOCK_NS, ns <= TARGET_BLOCK_NS ? "met" : "missed");
        return;
    }
    for (unsigned i = 0; i < result->num_ratios; i++) {
        const job_ratio_t *ratio = &result->ratios[i];
        report_ratio_t     at;

        if (!ratio->is_best) {
            continue;
        }
        report_ratio_get(result, ratio, &at);
        fprintf(stream, "| %s, %s | ", job->test,
                report_work(&job->work, work));
        print_figure(result, ratio->pool, stream);
        fprintf(stream, "%s | %s | ",
                side_is_pieces(job->sides[ratio->pool]) ? ", pieces" : "",
                side_name(job->sides[ratio->raw], name));
        print_figure(result, ratio->raw, stream);
        fprintf(stream, " | %.2f | %.2f to %.2f | ", at.value, at.low, at.high);
        print_target(result, &at, stream);
    }
}
