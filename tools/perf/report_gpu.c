/*
 * The tables of buffers in a GPU's memory: a line for each work, a column for
 * each group of sides that the pool is compared with.
 */
#include "perf/devices.h"
#include "perf/report.h"

#include <string.h>

/* The fastest side of a group and mode stands in its column. */
static const struct {
    side_group_t group;
    uint32_t     mode;
    const char  *title;
} columns[] = {
    {SIDE_EACH, MODE_PEER, "UCX, a message per buffer, failure handling on"},
    {SIDE_EACH, MODE_NONE, "the same, off"},
    {SIDE_WHOLE, MODE_PEER, "UCX, one contiguous buffer, on"},
    {SIDE_WHOLE, MODE_NONE, "the same, off"},
    {SIDE_COPY_EACH, MODE_COPY, "a copy per buffer"},
    {SIDE_COPY, MODE_COPY, "one copy of all"},
};

#define NUM_COLUMNS (sizeof(columns) / sizeof(columns[0]))

void report_gpu_begin(const char *table, const job_result_t *result,
                      FILE *stream)
{
    const int32_t *devices = result->job.work.devices;

    if (devices[0] == devices[1]) {
        fprintf(stream, "\nTwo processes on GPU %d, %s.\n", devices[0],
                result->gpus[0]);
    } else {
        fprintf(stream, "\nFrom GPU %d, %s, to GPU %d, %s.\n", devices[0],
                result->gpus[0], devices[1], result->gpus[1]);
    }
    fprintf(stream,
            "\n| work (%s) | the pool | 5%% to 95%% | at least | pieces of one "
            "length |",
            table);
    for (size_t i = 0; i < NUM_COLUMNS; i++) {
        fprintf(stream, " %s |", columns[i].title);
    }
    fprintf(stream, "\n|---|---|---|---|---|");
    for (size_t i = 0; i < NUM_COLUMNS; i++) {
        fprintf(stream, "---|");
    }
    fprintf(stream, "\n");
}

static void print_figure(const job_result_t *result, double seconds,
                         FILE *stream)
{
    if (result->job.work.echo) {
        fprintf(stream, "%.2f us", seconds * 1e6);
    } else {
        fprintf(stream, "%.3g GB/s", job_rate(&result->job, seconds));
    }
}

static void print_pieces(const job_result_t *result, FILE *stream)
{
    unsigned    side = report_pieces(result);
    const char *verdict;
    double      target;

    if (side == 0) {
        fprintf(stream, " |");
        return;
    }
    target = report_rate_target(result, side, &verdict);
    fprintf(stream, " ");
    print_figure(result, result->sides[side].median, stream);
    if (target != 0) {
        fprintf(stream, " (at least %g: %s)", target, verdict);
    }
    fprintf(stream, " |");
}

static void print_pool(const job_result_t *result, FILE *stream)
{
    const job_side_t *pool = &result->sides[0];
    const char       *verdict;
    double            target = report_rate_target(result, 0, &verdict);

    print_figure(result, pool->median, stream);
    fprintf(stream, " | ");
    print_figure(result, result->job.work.echo ? pool->p05 : pool->p95, stream);
    fprintf(stream, " to ");
    print_figure(result, result->job.work.echo ? pool->p95 : pool->p05, stream);
    fprintf(stream, " |");
    if (target != 0) {
        fprintf(stream, " %g GB/s: %s", target, verdict);
    }
    fprintf(stream, " |");
}

static void print_cell(const job_result_t *result, const job_ratio_t *ratio,
                       FILE *stream)
{
    report_ratio_t at;

    report_ratio_get(result, ratio, &at);
    fprintf(stream, " ");
    print_figure(result, result->sides[ratio->raw].median, stream);
    fprintf(stream, "; %.3g x%s", at.value,
            result->job.work.echo ? " its time" : "");
    if (at.target != 0) {
        fprintf(stream, " (at %s %g: %s)",
                result->job.work.echo ? "most" : "least", at.target,
                at.verdict);
    }
}

void report_gpu_row(const job_result_t *result, FILE *stream)
{
    const job_t *job = &result->job;
    char         work[REPORT_TEXT_SIZE];

    fprintf(stream, "| %s, %s | ", job->test, report_work(&job->work, work));
    if (result->missing[0] != '\0') {
        fprintf(stream, "none: %s | | | |", result->missing);
    } else {
        print_pool(result, stream);
        print_pieces(result, stream);
    }
    for (size_t i = 0; i < NUM_COLUMNS; i++) {
        for (unsigned k = 0; k < result->num_ratios; k++) {
            side_t side = job->sides[result->ratios[k].raw];

            if (result->ratios[k].is_best && (result->ratios[k].pool == 0) &&
                (side.mode == columns[i].mode) &&
                (side_group(side) == columns[i].group)) {
                print_cell(result, &result->ratios[k], stream);
                break;
            }
        }
        fprintf(stream, " |");
    }
    fprintf(stream, "\n");
}

/* Was the reason told of a side before this one? */
static bool is_told(const job_result_t *results, unsigned result, unsigned side)
{
    const char *reason = results[result].sides[side].missing;

    for (unsigned i = 0; i <= result; i++) {
        for (unsigned k = 0; k < results[i].job.num_sides; k++) {
            if ((i == result) && (k == side)) {
                return false;
            }
            if (strcmp(results[i].sides[k].missing, reason) == 0) {
                return true;
            }
        }
    }
    return false;
}

void report_gpu_end(const job_result_t *results, unsigned num_results,
                    FILE *stream)
{
    char number[REPORT_TEXT_SIZE];

    fprintf(stream,
            "\nWith each other side stands how many times as fast the pool is, "
            "median of\nthe rounds. Of a message's buffers the first %s were "
            "moved by a call each.\n",
            report_number(SIDE_MAX_CALLS, number));
    for (unsigned i = 0; i < num_results; i++) {
        for (unsigned k = 0; k < results[i].job.num_sides; k++) {
            const job_side_t *side = &results[i].sides[k];

            if ((side->missing[0] != '\0') && !is_told(results, i, k)) {
                fprintf(stream, "Empty columns of %s: %s.\n",
                        side_is_raw(side->side) ? "UCX" : "copies",
                        side->missing);
            }
        }
    }
}
