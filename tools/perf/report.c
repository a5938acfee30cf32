#include "perf/report.h"
#include "perf/devices.h"
#include "perf/target.h"

#include <string.h>

const char *report_size(uint64_t size, char text[REPORT_TEXT_SIZE])
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

const char *report_number(uint64_t n, char text[REPORT_TEXT_SIZE])
{
    char     digits[REPORT_TEXT_SIZE / 2];
    unsigned length = (unsigned)snprintf(digits, sizeof(digits), "%llu",
                                         (unsigned long long)n);
    unsigned at     = 0;

    for (unsigned i = 0; i < length; i++) {
        if ((i != 0) && ((length - i) % 3 == 0)) {
            text[at++] = ',';
        }
        text[at++] = digits[i];
    }
    text[at] = '\0';
    return text;
}

const char *report_work(const work_t *work, char text[REPORT_TEXT_SIZE])
{
    char count[REPORT_TEXT_SIZE];
    char size[REPORT_TEXT_SIZE];

    report_size(work->size, size);
    if ((work->count == 1) && !work->mixed) {
        snprintf(text, REPORT_TEXT_SIZE, "%.40s", size);
    } else {
        report_number(work->count, count);
        snprintf(text, REPORT_TEXT_SIZE, "%.20s x %s%.20s", count,
                 work->mixed ? "up to " : "", size);
    }
    return text;
}

void report_command(const job_t *job, FILE *stream)
{
    char device[DEVICES_TEXT_SIZE];

    fprintf(stream, "ucxpool_perf -t %s", job->test);
    if (strcmp(job->test, "block") == 0) {
        return;
    }
    fprintf(stream, " -s %llu -n %llu", (unsigned long long)job->work.size,
            (unsigned long long)job->work.count);
    if (work_is_on_gpu(&job->work)) {
        fprintf(stream, " --device %s", devices_text(&job->work, device));
    }
    if (job->work.pageable != 0) {
        fprintf(stream, " --pageable %s",
                devices_pageable_text(job->work.pageable));
    }
    if (job->work.untold) {
        fprintf(stream, " --untold");
    }
    if (side_is_pool(job->sides[0])) {
        fprintf(stream, " --wire %s", side_mode_name(job->sides[0].mode));
    }
}

/* The wire that the pool used, as a mode. */
static uint32_t used_mode(const job_side_t *side)
{
    if (strcmp(side->wire, "map") == 0) {
        return MODE_MAP;
    }
    return strcmp(side->wire, "ucx") == 0 ? MODE_UCX : side->side.mode;
}

void report_ratio_get(const job_result_t *result, const job_ratio_t *ratio,
                      report_ratio_t *ratio_p)
{
    const job_t    *job    = &result->job;
    const target_t *target = target_find(
        job, used_mode(&result->sides[ratio->pool]), job->sides[ratio->raw]);

    memset(ratio_p, 0, sizeof(*ratio_p));
    ratio_p->value   = ratio->median;
    ratio_p->low     = ratio->p05;
    ratio_p->high    = ratio->p95;
    ratio_p->verdict = "";
    if (job->work.echo && (ratio->median > 0)) {
        ratio_p->value = 1 / ratio->median;
        ratio_p->low   = ratio->p95 > 0 ? 1 / ratio->p95 : 0;
        ratio_p->high  = ratio->p05 > 0 ? 1 / ratio->p05 : 0;
    }
    if ((target == NULL) || (target->ratio == 0) || !ratio->is_best) {
        return;
    }
    ratio_p->target  = target->ratio;
    ratio_p->aim     = target->aim;
    ratio_p->verdict = "missed";
    if (target->at_most ? ratio_p->value <= target->ratio
                        : ratio_p->value >= target->ratio) {
        ratio_p->verdict = "met";
    }
}

unsigned report_pieces(const job_result_t *result)
{
    const job_t *job = &result->job;

    return (job->num_sides > 1) && side_is_pool(job->sides[0]) &&
           side_is_pieces(job->sides[1]);
}

double report_rate_target(const job_result_t *result, unsigned side,
                          const char **verdict_p)
{
    const job_side_t *pool   = &result->sides[side];
    double            target = 0;

    *verdict_p = "";
    if (side_is_pool(pool->side) && (pool->missing[0] == '\0')) {
        target = target_rate(result, used_mode(pool));
    }
    if (target != 0) {
        *verdict_p =
            job_rate(&result->job, pool->median) >= target ? "met" : "missed";
    }
    return target;
}
