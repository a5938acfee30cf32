/* The results of the workers, compared and printed. */
#include <config.h>

#include "tools/shuffle/error.h"
#include "tools/shuffle/job.h"

#include <inttypes.h>
#include <string.h>

static const char *const summary_modes[] = {
    "eager",      "map_packed",  "map_inplace",
    "ucx_packed", "ucx_inplace", "map_pushed",
};
#define SUMMARY_NUM_MODES (sizeof(summary_modes) / sizeof(summary_modes[0]))

static const char *const summary_degraded[] = {
    [UCXPOOL_DEGRADED_NONE]   = "none",
    [UCXPOOL_DEGRADED_FEWER]  = "fewer",
    [UCXPOOL_DEGRADED_PINNED] = "pinned",
};

void result_sum(const result_t *results, unsigned num_workers, result_t *sum_p)
{
    exchange_report_t *sum = &sum_p->exchange;

    memset(sum_p, 0, sizeof(*sum_p));
    for (unsigned i = 0; i < num_workers; i++) {
        const result_t          *result   = &results[i];
        const exchange_report_t *exchange = &result->exchange;

        tally_add(&sum_p->in, &result->in);
        tally_add(&sum_p->out, &result->out);
        sum_p->num_added += result->num_added;
        stopwatch_add(&sum_p->copy, &result->copy);
        stopwatch_add(&sum->transfer, &exchange->transfer);
        stopwatch_add(&sum->wait, &exchange->wait);
        sum->bytes_sent += exchange->bytes_sent;
        sum->bytes_received += exchange->bytes_received;
        sum->batches_sent += exchange->batches_sent;
        sum->batches_received += exchange->batches_received;
        pool_stats_add(&sum->stats, &exchange->stats);
        sum_p->gpu_store.size += result->gpu_store.size;
        sum_p->gpu_store.held += result->gpu_store.held;
        sum_p->gpu_store.held_max += result->gpu_store.held_max;
        sum_p->early += result->early;
    }
}

int result_check(const result_t *sum)
{
    if (tally_is_equal(&sum->in, &sum->out)) {
        return 0;
    }
    return say_error("the output differs from the input: %" PRIu64
                     " records, %" PRIu64 " bytes, checksum %016" PRIx64
                     " were read, but %" PRIu64 " records, %" PRIu64
                     " bytes, checksum %016" PRIx64 " written",
                     sum->in.records, sum->in.bytes, sum->in.checksum,
                     sum->out.records, sum->out.bytes, sum->out.checksum);
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static double megabytes(uint64_t bytes)
{
    return (double)bytes / 1e6;
}

static const char *plural(size_t num)
{
    return num == 1 ? "" : "s";
}

static const char *summary_wire(const exchange_report_t *exchange)
{
    if (exchange->num_map > 0) {
        return exchange->num_ucx > 0 ? "both" : "map";
    }
    return exchange->num_ucx > 0 ? "ucx" : "none";
}

/* --- text --------------------------------------------------------------- */

static void summary_text_worker(unsigned index, const result_t *result,
                                FILE *stream)
{
    const exchange_report_t *exchange = &result->exchange;

    fprintf(
        stream,
        "%6u %9.1f %10.1f %9.1f %9.1f %11.3f %7.3f  %-4s  %" PRIu64
        ", later %" PRIu64 "%s%s\n",
        index, megabytes(result->in.bytes), megabytes(result->out.bytes),
        megabytes(exchange->bytes_sent), megabytes(exchange->bytes_received),
        seconds(exchange->transfer.wall_ns), seconds(exchange->wait.wall_ns),
        summary_wire(exchange),
        pool_stats_value(&exchange->stats, "registrations"),
        pool_stats_value(&exchange->stats, "registrations_after_start"),
        exchange->degraded_to == UCXPOOL_DEGRADED_NONE ? "" : "; degraded to ",
        exchange->degraded_to == UCXPOOL_DEGRADED_NONE
            ? ""
            : summary_degraded[exchange->degraded_to]);
}

static void summary_text_transfer(const result_t *sum, FILE *stream)
{
    const exchange_report_t *exchange = &sum->exchange;

    fprintf(stream,
            "Between workers: %.1f MB in %" PRIu64 " batches; all workers' "
            "transfer calls took %.3f s, %.3f s of processor time\n",
            megabytes(exchange->bytes_received), exchange->batches_received,
            seconds(exchange->transfer.wall_ns),
            seconds(exchange->transfer.cpu_ns));
    if (sum->copy.cpu_ns > 0) {
        fprintf(stream,
                "  memcpy of the same bytes: %.3f s, %.3f s of processor time; "
                "transfer takes %.2f times that\n",
                seconds(sum->copy.wall_ns), seconds(sum->copy.cpu_ns),
                (double)exchange->transfer.cpu_ns / (double)sum->copy.cpu_ns);
    }
    for (size_t i = 0; i < SUMMARY_NUM_MODES; i++) {
        const char *mode = summary_modes[i];
        uint64_t    bytes =
            pool_stats_value(&exchange->stats, "sent_%s_bytes", mode);

        if (bytes > 0) {
            fprintf(
                stream, "  %s: %.1f MB in %" PRIu64 " operations\n", mode,
                megabytes(bytes),
                pool_stats_value(&exchange->stats, "sent_%s_fragments", mode));
        }
    }
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
            plural(job->inputs.num_files), job->num_partitions,
            plural(job->num_partitions), job->folder.path, seconds(elapsed_ns),
            megabytes(sum.in.bytes) / seconds(elapsed_ns + 1), job->num_workers,
            plural(job->num_workers));
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
    if (sum.gpu_store.size > 0) {
        fprintf(stream,
                "In GPU memory: %.1f MB held, %.1f MB at the most, of %.1f MB; "
                "%.1f MB written before the end to make room\n",
                megabytes(sum.gpu_store.held),
                megabytes(sum.gpu_store.held_max),
                megabytes(sum.gpu_store.size), megabytes(sum.early));
    }
    fprintf(stream, "\n%-6s %9s %10s %9s %9s %11s %7s  %-4s  %s\n", "worker",
            "read MB", "written MB", "sent MB", "recv MB", "transfer s",
            "wait s", "wire", "registered");
    for (unsigned i = 0; i < job->num_workers; i++) {
        summary_text_worker(i, &results[i], stream);
    }
}

/* --- JSON --------------------------------------------------------------- */

static void json_string(const char *text, FILE *stream)
{
    fputc('"', stream);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if ((c == '"') || (c == '\\')) {
            fprintf(stream, "\\%c", c);
        } else if (c < 0x20) {
            fprintf(stream, "\\u%04x", c);
        } else {
            fputc(c, stream);
        }
    }
    fputc('"', stream);
}

static void json_tally(const char *name, const tally_t *tally, FILE *stream)
{
    fprintf(stream,
            "\"%s\": {\"records\": %" PRIu64 ", \"bytes\": %" PRIu64
            ", \"checksum\": \"%016" PRIx64 "\"}, ",
            name, tally->records, tally->bytes, tally->checksum);
}

static void json_transfer(const result_t *result, FILE *stream)
{
    const exchange_report_t *exchange = &result->exchange;

    fprintf(
        stream,
        "\"transfer\": {\"bytes_sent\": %" PRIu64
        ", \"bytes_received\": %" PRIu64 ", \"batches_sent\": %" PRIu64
        ", \"batches_received\": %" PRIu64
        ", \"seconds\": %.6f, \"cpu_seconds\": %.6f, "
        "\"wait_seconds\": %.6f, ",
        exchange->bytes_sent, exchange->bytes_received, exchange->batches_sent,
        exchange->batches_received, seconds(exchange->transfer.wall_ns),
        seconds(exchange->transfer.cpu_ns), seconds(exchange->wait.wall_ns));
    if (result->copy.wall_ns > 0) {
        fprintf(stream,
                "\"memcpy_seconds\": %.6f, \"memcpy_cpu_seconds\": %.6f}",
                seconds(result->copy.wall_ns), seconds(result->copy.cpu_ns));
    } else {
        fprintf(stream,
                "\"memcpy_seconds\": null, \"memcpy_cpu_seconds\": null}");
    }
}

/* direction: "sent" or "received". */
static void json_traffic(const pool_stats_t *stats, const char *direction,
                         FILE *stream)
{
    fprintf(stream, ", \"%s\": {", direction);
    for (size_t i = 0; i < SUMMARY_NUM_MODES; i++) {
        const char *mode = summary_modes[i];

        fprintf(stream,
                "%s\"%s\": {\"bytes\": %" PRIu64 ", \"fragments\": %" PRIu64
                "}",
                i > 0 ? ", " : "", mode,
                pool_stats_value(stats, "%s_%s_bytes", direction, mode),
                pool_stats_value(stats, "%s_%s_fragments", direction, mode));
    }
    fputc('}', stream);
}

static void json_stats(const exchange_report_t *exchange, FILE *stream)
{
    static const char *const names[] = {
        "registered_bytes",     "registrations", "registrations_after_start",
        "copies_avoided_bytes", "allocations",   "bytes_asked",
        "blocks_asked",
    };
    const pool_stats_t *stats = &exchange->stats;

    json_traffic(stats, "sent", stream);
    json_traffic(stats, "received", stream);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        fprintf(stream, ", \"%s\": %" PRIu64, names[i],
                pool_stats_value(stats, names[i]));
    }
    fprintf(stream,
            ", \"blocked_seconds\": %.6f, \"blocks\": %" PRIu64
            ", \"degraded_to\": \"%s\"}",
            seconds(pool_stats_value(stats, "blocked_ns")),
            pool_stats_value(stats, "blocks_send_total") +
                pool_stats_value(stats, "blocks_recv_total") +
                pool_stats_value(stats, "blocks_user_total"),
            summary_degraded[exchange->degraded_to]);
}

static void json_gpu(const result_t *result, FILE *stream)
{
    if (result->gpu_store.size == 0) {
        fprintf(stream, "\"gpu\": null, ");
        return;
    }
    fprintf(stream,
            "\"gpu\": {\"number\": %" PRId32 ", \"bytes\": %" PRIu64
            ", \"held_bytes\": %" PRIu64 ", \"max_held_bytes\": %" PRIu64
            ", \"early_bytes\": %" PRIu64 "}, ",
            result->gpu_store.gpu, result->gpu_store.size,
            result->gpu_store.held, result->gpu_store.held_max, result->early);
}

static void json_worker(const result_t *result, unsigned index, FILE *stream)
{
    fprintf(stream, "{\"worker\": %u, ", index);
    json_tally("input", &result->in, stream);
    json_tally("output", &result->out, stream);
    fprintf(stream,
            "\"seconds\": %.6f, \"cpu_seconds\": %.6f, "
            "\"max_resident_bytes\": %" PRIu64 ", ",
            seconds(result->whole.wall_ns), seconds(result->whole.cpu_ns),
            result->max_resident);
    json_gpu(result, stream);
    json_transfer(result, stream);
    fprintf(stream, ", \"wire\": \"%s\"", summary_wire(&result->exchange));
    json_stats(&result->exchange, stream);
}

void summary_print_json(const job_t *job, const result_t *results,
                        uint64_t elapsed_ns, FILE *stream)
{
    result_t sum;

    result_sum(results, job->num_workers, &sum);
    fprintf(stream, "{\"output_folder\": ");
    json_string(job->folder.path, stream);
    fprintf(stream,
            ", \"workers\": %u, \"partitions\": %" PRIu32
            ", \"files\": %zu, \"field\": %u, \"seconds\": %.6f, ",
            job->num_workers, job->num_partitions, job->inputs.num_files,
            job->field, seconds(elapsed_ns));
    json_tally("input", &sum.in, stream);
    json_tally("output", &sum.out, stream);
    fprintf(stream, "\"newlines_added\": %" PRIu64 ", ", sum.num_added);
    json_transfer(&sum, stream);
    fprintf(stream,
            ", \"registrations_after_start\": %" PRIu64 ", \"by_worker\": [",
            pool_stats_value(&sum.exchange.stats, "registrations_after_start"));
    for (unsigned i = 0; i < job->num_workers; i++) {
        fprintf(stream, "%s", i > 0 ? ", " : "");
        json_worker(&results[i], i, stream);
    }
    fprintf(stream, "]}\n");
}
