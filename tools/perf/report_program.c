/*
 * For programs: JSON and CSV.
 */
#include "perf/report.h"

#include <ucxpool/version.h>

#include <string.h>
#include <sys/utsname.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

/* Text that UCX or the library made: quotes and control characters escaped. */
static void print_string(const char *text, FILE *stream)
{
    fputc('"', stream);
    for (; *text != '\0'; text++) {
        if ((*text == '"') || (*text == '\\')) {
            fprintf(stream, "\\%c", *text);
        } else if ((unsigned char)*text < ' ') {
            fprintf(stream, "\\u%04x", (unsigned)*text);
        } else {
            fputc(*text, stream);
        }
    }
    fputc('"', stream);
}

/* The pool's own stands with the job. */
static void json_pieces_target(const job_result_t *result, unsigned index,
                               FILE *stream)
{
    const char *verdict;
    double      target;

    if ((index == 0) || (index != report_pieces(result))) {
        return;
    }
    target = report_rate_target(result, index, &verdict);
    if (target != 0) {
        fprintf(stream, ", \"target_gb_per_s\": %g, \"verdict\": \"%s\"",
                target, verdict);
    }
}

static void json_side(const job_result_t *result, unsigned index, FILE *stream)
{
    const job_side_t *side = &result->sides[index];
    char              name[SIDE_NAME_SIZE];

    if (side->missing[0] != '\0') {
        fprintf(stream,
                "        {\"side\": \"%s\", \"mode\": \"%s\", \"verified\": "
                "false, \"missing\": ",
                side_name(side->side, name), side_mode_title(side->side.mode));
        print_string(side->missing, stream);
        fprintf(stream, "}%s\n", index + 1 < result->job.num_sides ? "," : "");
        return;
    }
    fprintf(stream,
            "        {\"side\": \"%s\", \"mode\": \"%s\", \"verified\": %s, "
            "\"batch_messages\": %llu, \"seconds\": %.9g, "
            "\"seconds_p05\": %.9g, \"seconds_p95\": %.9g, "
            "\"message_seconds_p50\": %.9g, \"message_seconds_p99\": %.9g",
            side_name(side->side, name), side_mode_title(side->side.mode),
            side->verified ? "true" : "false",
            (unsigned long long)side->num_messages, side->median, side->p05,
            side->p95, side->trip_p50, side->trip_p99);
    if (side->side.way != WAY_BLOCK) {
        fprintf(stream, ", \"gb_per_s\": %.6g",
                job_rate(&result->job, side->median));
    }
    if (side->num_moved < result->job.work.count) {
        fprintf(stream, ", \"buffers_moved\": %llu",
                (unsigned long long)side->num_moved);
    }
    json_pieces_target(result, index, stream);
    if (side->wire[0] != '\0') {
        fprintf(stream, ", \"wire\": \"%s\", \"wire_reason\": ", side->wire);
        print_string(side->wire_reason, stream);
        fprintf(stream, ", \"registrations_after_start\": %llu",
                (unsigned long long)side->registrations);
        if (!side_is(side->side, IS_ONE_SIDED)) {
            fprintf(stream, ", \"allocations_per_message\": %.6g",
                    side->allocations);
        }
    }
    if (side->way[0] != '\0') {
        fprintf(stream, ", \"way\": \"%s\", \"way_reason\": ", side->way);
        print_string(side->way_reason, stream);
    }
    fprintf(stream, "}%s\n", index + 1 < result->job.num_sides ? "," : "");
}

/* The device and its names; nothing for host memory. */
static void json_gpus(const job_result_t *result, FILE *stream)
{
    const job_t *job = &result->job;
    char         device[DEVICES_TEXT_SIZE];
    const char  *verdict;
    double       target = report_rate_target(result, 0, &verdict);

    if (!work_is_on_gpu(&job->work)) {
        return;
    }
    fprintf(stream, ", \"device\": \"%s\", \"gpus\": [",
            work_devices(&job->work, device));
    print_string(result->gpus[0], stream);
    fprintf(stream, ", ");
    print_string(result->gpus[1], stream);
    fprintf(stream, "]");
    if (job->work.pageable != 0) {
        fprintf(stream, ", \"pageable\": \"%s\"",
                work_pageable(job->work.pageable));
    }
    if (job->work.untold) {
        fprintf(stream, ", \"untold\": true");
    }
    if (target != 0) {
        fprintf(stream, ", \"target_gb_per_s\": %g, \"verdict\": \"%s\"",
                target, verdict);
    }
}

static void json_ratio(const job_result_t *result, unsigned index, FILE *stream)
{
    const job_ratio_t *ratio = &result->ratios[index];
    char               name[SIDE_NAME_SIZE];
    report_ratio_t     at = report_ratio(result, ratio);

    fprintf(stream,
            "        {\"against\": \"%s\", \"counts\": %s, \"of\": "
            "\"%s\", \"ratio\": %.6g, \"p05\": %.6g, \"p95\": %.6g",
            side_name(result->job.sides[ratio->raw], name),
            ratio->is_best ? "true" : "false",
            result->job.work.echo ? "time" : "speed", at.value, at.low,
            at.high);
    if (at.target != 0) {
        fprintf(stream, ", \"target\": %g, \"verdict\": \"%s\"", at.target,
                at.verdict);
    }
    if (at.aim != 0) {
        fprintf(stream, ", \"aim\": %g", at.aim);
    }
    if (ratio->pool != 0) {
        fprintf(stream, ", \"pool\": \"%s\"",
                side_name(result->job.sides[ratio->pool], name));
    }
    fprintf(stream, "}%s\n", index + 1 < result->num_ratios ? "," : "");
}

static void json_job(const job_result_t *result, FILE *stream)
{
    const job_t *job = &result->job;

    fprintf(stream, "    {\"test\": \"%s\", \"command\": \"", job->test);
    report_command(job, stream);
    fprintf(stream,
            "\", \"size\": %llu, \"count\": %llu, \"outstanding\": %u, "
            "\"bytes\": %llu, \"rounds\": %u",
            (unsigned long long)job->work.size,
            (unsigned long long)job->work.count, job->work.outstanding,
            (unsigned long long)work_bytes(&job->work), result->num_rounds);
    json_gpus(result, stream);
    fprintf(stream, ",\n      ");
    if (result->missing[0] != '\0') {
        fprintf(stream, "\"missing\": ");
        print_string(result->missing, stream);
        fprintf(stream, ",\n      ");
    }
    fprintf(stream, "\"sides\": [\n");
    for (unsigned i = 0; i < job->num_sides; i++) {
        json_side(result, i, stream);
    }
    fprintf(stream, "      ],\n      \"ratios\": [\n");
    for (unsigned i = 0; i < result->num_ratios; i++) {
        json_ratio(result, i, stream);
    }
    fprintf(stream, "      ]}");
}

void report_json(const job_result_t *results, unsigned num_results,
                 FILE *stream)
{
    struct utsname system;

    uname(&system);
    fprintf(stream, "{\n  \"libucxpool\": \"%s\",\n  \"ucx\": ",
            ucxpool_version_string());
    print_string(ucp_get_version_string(), stream);
    fprintf(stream, ",\n  \"kernel\": ");
    print_string(system.release, stream);
    fprintf(stream, ",\n  \"machine\": ");
    print_string(system.machine, stream);
    fprintf(stream, ",\n  \"processors\": %ld,\n  \"jobs\": [\n",
            sysconf(_SC_NPROCESSORS_ONLN));
    for (unsigned i = 0; i < num_results; i++) {
        json_job(&results[i], stream);
        fprintf(stream, "%s\n", i + 1 < num_results ? "," : "");
    }
    fprintf(stream, "  ]\n}\n");
}

static const job_ratio_t *ratio_of(const job_result_t *result, unsigned side)
{
    for (unsigned i = 0; i < result->num_ratios; i++) {
        if ((result->ratios[i].raw == side) && (result->ratios[i].pool == 0)) {
            return &result->ratios[i];
        }
    }
    return NULL;
}

static void csv_ratio(const job_result_t *result, const job_ratio_t *ratio,
                      FILE *stream)
{
    report_ratio_t at;

    if (ratio == NULL) {
        fprintf(stream, ",,,,,");
        return;
    }
    at = report_ratio(result, ratio);
    fprintf(stream, ",%.6g,%.6g,%.6g,", at.value, at.low, at.high);
    if (at.target != 0) {
        fprintf(stream, "%g", at.target);
    }
    fprintf(stream, ",%s", at.verdict);
}

static void csv_side(const job_result_t *result, unsigned index, FILE *stream)
{
    const job_t       *job   = &result->job;
    const job_side_t  *side  = &result->sides[index];
    const job_ratio_t *ratio = ratio_of(result, index);
    char               name[SIDE_NAME_SIZE];

    if (side->missing[0] != '\0') {
        return;
    }
    fprintf(stream, "%s,%llu,%llu,%u,%u,%s,%s,%.9g,%.9g,%.9g,%.9g,%.9g,",
            job->test, (unsigned long long)job->work.size,
            (unsigned long long)job->work.count, job->work.outstanding,
            result->num_rounds, side_name(side->side, name), side->wire,
            side->median, side->p05, side->p95, side->trip_p50, side->trip_p99);
    if (side->side.way != WAY_BLOCK) {
        fprintf(stream, "%.6g", job_rate(job, side->median));
    }
    csv_ratio(result, ratio, stream);
    if (work_is_on_gpu(&job->work)) {
        fprintf(stream, ",%d,%d\n", job->work.devices[0], job->work.devices[1]);
    } else {
        fprintf(stream, ",,\n");
    }
}

void report_csv(const job_result_t *results, unsigned num_results, FILE *stream)
{
    fprintf(stream, "test,size,count,outstanding,rounds,side,wire,seconds,"
                    "seconds_p05,seconds_p95,message_seconds_p50,"
                    "message_seconds_p99,gb_per_s,pool_ratio,ratio_p05,"
                    "ratio_p95,target,verdict,sender_gpu,receiver_gpu\n");
    for (unsigned i = 0; i < num_results; i++) {
        for (unsigned k = 0; k < results[i].job.num_sides; k++) {
            csv_side(&results[i], k, stream);
        }
    }
}
