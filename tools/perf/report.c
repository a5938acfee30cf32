#include "common/number.h"
#include "perf/report.h"
#include "perf/test.h"

#include <stdarg.h>
#include <string.h>

/* --- common to all reports ------------------------------------------------ */

static const char *size_text(uint64_t size, char text[REPORT_TEXT_SIZE])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
    unsigned                 unit    = 0;

    while ((unit < 3) && (size >= 1024) && (size % 1024 == 0)) {
        size /= 1024;
        unit++;
    }
    snprintf(text, REPORT_TEXT_SIZE, "%llu %s", (unsigned long long)size,
             units[unit]);
    return text;
}

const char *report_work(const work_t *work, char text[REPORT_TEXT_SIZE])
{
    char count[REPORT_TEXT_SIZE];
    char size[REPORT_TEXT_SIZE];

    size_text(work->size, size);
    if ((work->count == 1) && !work->mixed) {
        snprintf(text, REPORT_TEXT_SIZE, "%.40s", size);
    } else {
        number_print_commas(work->count, count);
        snprintf(text, REPORT_TEXT_SIZE, "%.20s x %s%.20s", count,
                 work->mixed ? "up to " : "", size);
    }
    return text;
}

/* Append to a text of REPORT_COMMAND_SIZE bytes by snprintf(). */
static void __attribute__((format(printf, 2, 3)))
append(char *text, const char *format, ...)
{
    size_t  length = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + length, REPORT_COMMAND_SIZE - length, format, args);
    va_end(args);
}

static void append_sides(char *text, const job_t *job)
{
    char name[SIDE_NAME_SIZE];

    for (unsigned i = 0; i < job->num_sides; i++) {
        append(text, "%s%s", i == 0 ? " --sides " : ",",
               side_name(job->sides[i], name));
    }
}

const char *report_command(const job_t *job, char text[REPORT_COMMAND_SIZE])
{
    const work_t *work = &job->work;
    char          device[DEVICES_TEXT_SIZE];

    snprintf(text, REPORT_COMMAND_SIZE, "ucxpool_perf -t %s", job->test);
    if (strcmp(job->test, "block") == 0) {
        return text;
    }
    append(text, " -s %llu -n %llu", (unsigned long long)work->size,
           (unsigned long long)work->count);
    if (!work->echo && (work->outstanding != JOB_OUTSTANDING)) {
        append(text, " -O %u", work->outstanding);
    }
    if (work->batch != JOB_BATCH) {
        append(text, " --batch %u", work->batch);
    }
    if (work_is_on_gpu(work)) {
        append(text, " --device %s", work_devices(work, device));
    }
    if (work->pageable != 0) {
        append(text, " --pageable %s", work_pageable(work->pageable));
    }
    if (work->untold) {
        append(text, " --untold");
    }
    if (job->has_own_sides) {
        append_sides(text, job);
    } else if (side_is(job->sides[0], IS_POOL)) {
        append(text, " --wire %s", side_mode_name(job->sides[0].mode));
    }
    return text;
}

report_ratio_t report_ratio(const job_result_t *result,
                            const job_ratio_t  *ratio)
{
    report_ratio_t at = {ratio->median, ratio->p05, ratio->p95};

    if (result->job.work.echo && (ratio->median > 0)) {
        at.value = 1 / ratio->median;
        at.low   = ratio->p95 > 0 ? 1 / ratio->p95 : 0;
        at.high  = ratio->p05 > 0 ? 1 / ratio->p05 : 0;
    }
    return at;
}

unsigned report_pieces(const job_result_t *result)
{
    const job_t *job = &result->job;

    return (job->num_sides > 1) && side_is(job->sides[0], IS_POOL) &&
           side_is(job->sides[1], IS_PIECES);
}

double report_figure(const job_result_t *result, double seconds)
{
    switch (test_find(result->job.test)->unit) {
    case UNIT_TRIP:
        return seconds * 1e6;
    case UNIT_BLOCK:
        return seconds * 1e9;
    case UNIT_MESSAGES:
        return job_message_rate(&result->job, seconds);
    default:
        return job_rate(&result->job, seconds);
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
        [UNIT_BLOCK]    = {"median", ""},
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
    char              name[SIDE_NAME_SIZE];

    fprintf(stream, "  %-18s ", side_name(side->side, name));
    if (side->missing[0] != '\0') {
        fprintf(stream, "missing: %s\n", side->missing);
        return;
    }
    fprintf(stream,
            unit == UNIT_TRIP    ? "%9.2f %9.2f %9.2f"
            : unit == UNIT_BLOCK ? "%9.1f %9.1f %9.1f  ns"
                                 : "%9.3f %9.3f %9.3f",
            report_figure(result, side->median),
            report_figure(result, is_rate(result) ? side->p95 : side->p05),
            report_figure(result, is_rate(result) ? side->p05 : side->p95));
    if ((unit == UNIT_RATE) || (unit == UNIT_TRIP)) {
        fprintf(stream, "  %10.1f %10.1f", side->trip_p50 * 1e6,
                side->trip_p99 * 1e6);
    }
    fprintf(stream, "\n");
}

static void print_ratio(const job_result_t *result, const job_ratio_t *ratio,
                        FILE *stream)
{
    char           pool[SIDE_NAME_SIZE];
    char           raw[SIDE_NAME_SIZE];
    report_ratio_t at = report_ratio(result, ratio);

    side_name(result->sides[ratio->pool].side, pool);
    side_name(result->sides[ratio->raw].side, raw);
    if (result->job.work.echo) {
        fprintf(stream, "  %s takes %.2f times as long as %s (%.2f to %.2f)",
                pool, at.value, raw, at.low, at.high);
    } else {
        fprintf(stream, "  %s is %.2f times as fast as %s (%.2f to %.2f)", pool,
                at.value, raw, at.low, at.high);
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
    if (!side_is(side->side, IS_ONE_SIDED)) {
        fprintf(stream, ", heap allocations per message %.2f",
                side->allocations);
    }
    fprintf(stream, "\n");
}

/* Print the memory of the buffers, and the sides that transferred only some of
 * the buffers. */
static void print_gpus(const job_result_t *result, FILE *stream)
{
    const job_t *job = &result->job;
    char         device[DEVICES_TEXT_SIZE];
    char         number[REPORT_TEXT_SIZE];
    char         name[SIDE_NAME_SIZE];

    if (!work_is_on_gpu(&job->work)) {
        return;
    }
    fprintf(stream, "  in the memory of %s", work_devices(&job->work, device));
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
        fprintf(stream, "; the pool asks what memory it is");
    }
    fprintf(stream, "\n");
    for (unsigned i = 0; i < job->num_sides; i++) {
        const job_side_t *side = &result->sides[i];

        if ((side->missing[0] == '\0') && (side->num_moved < job->work.count)) {
            fprintf(stream, "  %s: of each message the first %s buffers\n",
                    side_name(side->side, name),
                    number_print_commas(side->num_moved, number));
        }
    }
}

void report_text(const job_result_t *result, FILE *stream)
{
    const job_t  *job = &result->job;
    char          work[REPORT_TEXT_SIZE];
    const test_t *test = test_find(job->test);

    fprintf(stream, "%s: %s\n", job->test, test->title);
    if (test->unit != UNIT_BLOCK) {
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
    for (unsigned i = 0; i < job->num_sides; i++) {
        print_pool(&result->sides[i], stream);
    }
    fprintf(stream, "\n");
}

/* --- tables --------------------------------------------------------------- */

static void print_figure(const job_result_t *result, double seconds,
                         FILE *stream)
{
    fprintf(stream, result->job.work.echo ? "%.2f us" : "%.3g GB/s",
            report_figure(result, seconds));
}

static void print_host_row(const job_result_t *result, FILE *stream)
{
    const job_t *job = &result->job;
    char         work[REPORT_TEXT_SIZE];
    char         name[SIDE_NAME_SIZE];

    if (job->sides[0].way == WAY_BLOCK) {
        fprintf(stream,
                "| block get + put, one thread | %.1f ns | | | | %.1f to %.1f "
                "|\n",
                result->sides[0].median * 1e9, result->sides[0].p05 * 1e9,
                result->sides[0].p95 * 1e9);
        return;
    }
    for (unsigned i = 0; i < result->num_ratios; i++) {
        const job_ratio_t *ratio = &result->ratios[i];
        report_ratio_t     at    = report_ratio(result, ratio);

        if (!ratio->is_best) {
            continue;
        }
        fprintf(stream, "| %s, %s | ", job->test,
                report_work(&job->work, work));
        print_figure(result, result->sides[ratio->pool].median, stream);
        fprintf(stream, "%s | %s | ",
                side_is(job->sides[ratio->pool], IS_PIECES) ? ", pieces" : "",
                side_name(job->sides[ratio->raw], name));
        print_figure(result, result->sides[ratio->raw].median, stream);
        fprintf(stream, " | %.2f | %.2f to %.2f |\n", at.value, at.low,
                at.high);
    }
}

/* A column shows the fastest side of its group and mode. */
static const struct {
    side_group_t group;
    uint32_t     mode;
    const char  *title;
} columns[] = {
    {GROUP_EACH, MODE_PEER, "UCX, a message per buffer, failure handling on"},
    {GROUP_EACH, MODE_NONE, "the same, off"},
    {GROUP_WHOLE, MODE_PEER, "UCX, one contiguous buffer, on"},
    {GROUP_WHOLE, MODE_NONE, "the same, off"},
    {GROUP_COPY_EACH, MODE_COPY, "a copy per buffer"},
    {GROUP_COPY, MODE_COPY, "one copy of all"},
};

#define NUM_COLUMNS (sizeof(columns) / sizeof(columns[0]))

static void print_pieces(const job_result_t *result, FILE *stream)
{
    unsigned side = report_pieces(result);

    if (side != 0) {
        fprintf(stream, " ");
        print_figure(result, result->sides[side].median, stream);
    }
    fprintf(stream, " |");
}

static void print_pool_cells(const job_result_t *result, FILE *stream)
{
    const job_side_t *pool = &result->sides[0];

    print_figure(result, pool->median, stream);
    fprintf(stream, " | ");
    print_figure(result, result->job.work.echo ? pool->p05 : pool->p95, stream);
    fprintf(stream, " to ");
    print_figure(result, result->job.work.echo ? pool->p95 : pool->p05, stream);
    fprintf(stream, " |");
}

static void print_cell(const job_result_t *result, const job_ratio_t *ratio,
                       FILE *stream)
{
    report_ratio_t at = report_ratio(result, ratio);

    fprintf(stream, " ");
    print_figure(result, result->sides[ratio->raw].median, stream);
    fprintf(stream, "; %.3g x%s", at.value,
            result->job.work.echo ? " its time" : "");
}

static void print_gpu_row(const job_result_t *result, FILE *stream)
{
    const job_t *job = &result->job;

    print_pool_cells(result, stream);
    print_pieces(result, stream);
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

static void begin_gpu_table(const char *table, const job_result_t *result,
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
            "\n| work (%s) | the pool | 5%% to 95%% | pieces of one length "
            "|",
            table);
    for (size_t i = 0; i < NUM_COLUMNS; i++) {
        fprintf(stream, " %s |", columns[i].title);
    }
    fprintf(stream, "\n|---|---|---|---|");
    for (size_t i = 0; i < NUM_COLUMNS; i++) {
        fprintf(stream, "---|");
    }
    fprintf(stream, "\n");
}

void report_table_begin(const char *table, const job_result_t *result,
                        FILE *stream)
{
    if (test_table_is_on_gpu(table)) {
        begin_gpu_table(table, result, stream);
        return;
    }
    fprintf(stream,
            "\n| work (%s) | the pool | against | its figure | ratio | 5%% to "
            "95%% |\n"
            "|---|---|---|---|---|---|\n",
            table);
}

void report_table_row(const char *table, const job_result_t *result,
                      FILE *stream)
{
    bool on_gpu = test_table_is_on_gpu(table);
    char work[REPORT_TEXT_SIZE];

    if (result->missing[0] != '\0') {
        fprintf(stream, "| %s, %s | none: %s |", result->job.test,
                report_work(&result->job.work, work), result->missing);
        for (size_t i = 0; i < (on_gpu ? 2 + NUM_COLUMNS : 4); i++) {
            fprintf(stream, " |");
        }
        fprintf(stream, "\n");
    } else if (on_gpu) {
        fprintf(stream, "| %s, %s | ", result->job.test,
                report_work(&result->job.work, work));
        print_gpu_row(result, stream);
    } else {
        print_host_row(result, stream);
    }
}

/* Returns true if this reason has been printed for an earlier side. */
static bool was_printed(const job_result_t *results, unsigned result,
                        unsigned side)
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

void report_table_end(const char *table, const job_result_t *results,
                      unsigned num_results, FILE *stream)
{
    char number[REPORT_TEXT_SIZE];

    if (!test_table_is_on_gpu(table)) {
        return;
    }
    fprintf(stream,
            "\nWith each other side stands how many times as fast the pool is, "
            "median of\nthe rounds. Of a message's buffers the first %s were "
            "moved by a call each.\n",
            number_print_commas(SIDE_MAX_CALLS, number));
    for (unsigned i = 0; i < num_results; i++) {
        for (unsigned k = 0; k < results[i].job.num_sides; k++) {
            const job_side_t *side = &results[i].sides[k];

            if ((side->missing[0] != '\0') && !was_printed(results, i, k)) {
                fprintf(stream, "Empty columns of %s: %s.\n",
                        side_is(side->side, IS_RAW) ? "UCX" : "copies",
                        side->missing);
            }
        }
    }
}
