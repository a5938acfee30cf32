/* The report for programs, as JSON. */
#include "common/json.h"
#include "perf/report.h"

#include <ucxpool/version.h>

#include <string.h>
#include <sys/utsname.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

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

    json_open_inline(json, NULL, '{');
    json_text(json, "side", side_name(side->side));
    json_text(json, "mode", side_mode_title(side->side.mode));
    json_bool(json, "verified", side->verified && !is_missing);
    if (is_missing) {
        json_text(json, "missing", side->missing);
        json_close(json);
        return;
    }
    json_bare(json, "seconds", "%.9g", side->median);
    json_bare(json, "seconds_p05", "%.9g", side->p05);
    json_bare(json, "seconds_p95", "%.9g", side->p95);
    json_bare(json, "gb_per_s", "%.6g", job_rate(&result->job, side->median));
    if (side->num_moved < result->job.work.count) {
        json_number(json, "buffers_moved", side->num_moved);
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
    json_text(json, "of", job->work.echo ? "time" : "speed");
    json_bare(json, "ratio", "%.6g", ratio->median);
    json_bare(json, "p05", "%.6g", ratio->p05);
    json_bare(json, "p95", "%.6g", ratio->p95);
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
    json_number(json, "bytes", work_bytes(&job->work));
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
    struct utsname system;
    json_t         json;

    uname(&system);
    json_init(&json, stream);
    json_open(&json, NULL, '{');
    json_text(&json, "libucxpool", ucxpool_version_string());
    json_text(&json, "ucx", ucp_get_version_string());
    json_text(&json, "kernel", system.release);
    json_text(&json, "machine", system.machine);
    json_number(&json, "processors", (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    json_open(&json, "jobs", '[');
    for (unsigned i = 0; i < num_results; i++) {
        json_job(&json, &results[i]);
    }
    json_close(&json);
    json_close(&json);
}
