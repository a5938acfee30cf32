/* Compares and prints the results of the workers. */
#include "tools/shuffle/job.h"

#include "common/json.h"
#include "common/error.h"
#include "common/number.h"

#include <inttypes.h>
#include <string.h>

/* Add up all results. */
static void result_sum(const result_t *results, unsigned num_workers,
                       result_t *sum_p)
{
    exchange_report_t *sum = &sum_p->exchange;

    memset(sum_p, 0, sizeof(*sum_p));
    for (unsigned i = 0; i < num_workers; i++) {
        const result_t          *result   = &results[i];
        const exchange_report_t *exchange = &result->exchange;

        tally_add(&sum_p->in, &result->in);
        tally_add(&sum_p->out, &result->out);
        sum_p->num_added += result->num_added;
        stopwatch_add(&sum->transfer, &exchange->transfer);
        stopwatch_add(&sum->wait, &exchange->wait);
        sum->bytes_sent += exchange->bytes_sent;
        sum->bytes_received += exchange->bytes_received;
        sum->batches_sent += exchange->batches_sent;
        sum->batches_received += exchange->batches_received;
        sum->registrations_after_start += exchange->registrations_after_start;
        sum->num_map += exchange->num_map;
        sum->num_ucx += exchange->num_ucx;
    }
}

int results_check(const result_t *results, unsigned num_workers)
{
    result_t sum;

    result_sum(results, num_workers, &sum);
    if (tally_is_equal(&sum.in, &sum.out)) {
        return 0;
    }
    return keep_error("the output differs from the input: %" PRIu64
                      " records, %" PRIu64 " bytes, checksum %016" PRIx64
                      " were read, but %" PRIu64 " records, %" PRIu64
                      " bytes, checksum %016" PRIx64 " written",
                      sum.in.records, sum.in.bytes, sum.in.checksum,
                      sum.out.records, sum.out.bytes, sum.out.checksum);
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static double megabytes(uint64_t bytes)
{
    return (double)bytes / 1e6;
}

static const char *summary_wire(const exchange_report_t *exchange)
{
    if (exchange->num_map > 0) {
        return exchange->num_ucx > 0 ? "both" : "map";
    }
    return exchange->num_ucx > 0 ? "ucx" : "none";
}

/* --- text --------------------------------------------------------------- */

static void summary_text_transfer(const result_t *sum, FILE *stream)
{
    const exchange_report_t *exchange = &sum->exchange;

    fprintf(stream,
            "Between workers: %.1f MB in %" PRIu64 " batches, wire %s; all "
            "workers' transfer calls took %.3f s, %.3f s of CPU time\n",
            megabytes(exchange->bytes_received), exchange->batches_received,
            summary_wire(exchange), seconds(exchange->transfer.wall_ns),
            seconds(exchange->transfer.cpu_ns));
}

void summary_print_text(const job_t *job, const result_t *results,
                        uint64_t elapsed_ns, FILE *stream)
{
    result_t sum;

    result_sum(results, job->num_workers, &sum);
    fprintf(stream,
            "%" PRIu64 " records, %.1f MB, from %zu file%s into %" PRIu32
            " partition%s in %s: %.3f s (%.0f MB/s), %u worker%s\n",
            sum.in.records, megabytes(sum.in.bytes), job->inputs.num_files,
            number_plural(job->inputs.num_files), job->num_partitions,
            number_plural(job->num_partitions), job->folder.path,
            seconds(elapsed_ns),
            megabytes(sum.in.bytes) / seconds(elapsed_ns + 1), job->num_workers,
            number_plural(job->num_workers));
    fprintf(stream,
            "Checked: %" PRIu64 " records, %" PRIu64
            " bytes, checksum %016" PRIx64 " read and written\n",
            sum.out.records, sum.out.bytes, sum.out.checksum);
    if (sum.num_added > 0) {
        fprintf(stream,
                "Newlines added to last lines that had none: %" PRIu64 "\n",
                sum.num_added);
    }
    if (job->num_workers > 1) {
        summary_text_transfer(&sum, stream);
    }
}

/* --- JSON --------------------------------------------------------------- */

static void json_seconds(json_t *json, const char *key, uint64_t ns)
{
    json_bare(json, key, "%.6f", seconds(ns));
}

static void json_tally(json_t *json, const char *key, const tally_t *tally)
{
    char checksum[17];

    snprintf(checksum, sizeof(checksum), "%016" PRIx64, tally->checksum);
    json_open_inline(json, key, '{');
    json_number(json, "records", tally->records);
    json_number(json, "bytes", tally->bytes);
    json_text(json, "checksum", checksum);
    json_close(json);
}

static void json_transfer(json_t *json, const result_t *result)
{
    const exchange_report_t *exchange = &result->exchange;

    json_open_inline(json, "transfer", '{');
    json_number(json, "bytes_sent", exchange->bytes_sent);
    json_number(json, "bytes_received", exchange->bytes_received);
    json_number(json, "batches_sent", exchange->batches_sent);
    json_number(json, "batches_received", exchange->batches_received);
    json_seconds(json, "seconds", exchange->transfer.wall_ns);
    json_seconds(json, "cpu_seconds", exchange->transfer.cpu_ns);
    json_seconds(json, "wait_seconds", exchange->wait.wall_ns);
    json_close(json);
}

static void json_worker(json_t *json, unsigned index, const result_t *result)
{
    json_open_inline(json, NULL, '{');
    json_number(json, "worker", index);
    json_tally(json, "input", &result->in);
    json_tally(json, "output", &result->out);
    json_number(json, "max_resident_bytes", result->max_resident);
    json_transfer(json, result);
    json_text(json, "wire", summary_wire(&result->exchange));
    json_close(json);
}

void summary_print_json(const job_t *job, const result_t *results,
                        uint64_t elapsed_ns, FILE *stream)
{
    result_t sum;
    json_t   json;

    result_sum(results, job->num_workers, &sum);
    json_init(&json, stream);
    json_open_inline(&json, NULL, '{');
    json_text(&json, "output_folder", job->folder.path);
    json_number(&json, "workers", job->num_workers);
    json_number(&json, "partitions", job->num_partitions);
    json_number(&json, "files", job->inputs.num_files);
    json_number(&json, "field", job->field);
    json_seconds(&json, "seconds", elapsed_ns);
    json_tally(&json, "input", &sum.in);
    json_tally(&json, "output", &sum.out);
    json_number(&json, "newlines_added", sum.num_added);
    json_transfer(&json, &sum);
    json_number(&json, "registrations_after_start",
                sum.exchange.registrations_after_start);
    json_open_inline(&json, "by_worker", '[');
    for (unsigned i = 0; i < job->num_workers; i++) {
        json_worker(&json, i, &results[i]);
    }
    json_close(&json);
    json_close(&json);
}
