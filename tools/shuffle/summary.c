#include <config.h>

#include "tools/shuffle/summary.h"
#include "tools/shuffle/verdict.h"

#include <inttypes.h>

static const char *const summary_modes[] = {
    "eager",      "map_packed",  "map_inplace",
    "ucx_packed", "ucx_inplace", "map_pushed",
};
#define SUMMARY_NUM_MODES (sizeof(summary_modes) / sizeof(summary_modes[0]))

static double summary_seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static double summary_megabytes(uint64_t bytes)
{
    return (double)bytes / 1e6;
}

/* Megabytes per second. */
static double summary_rate(uint64_t bytes, uint64_t ns)
{
    return ns > 0 ? (double)bytes * 1e3 / (double)ns : 0.0;
}

static const char *summary_wire(const result_t *result)
{
    if ((result->num_map > 0) && (result->num_ucx > 0)) {
        return "both";
    }
    if (result->num_map > 0) {
        return "map";
    }
    return result->num_ucx > 0 ? "ucx" : "none";
}

/* --- text --------------------------------------------------------------- */

/* What a pool had to become. */
static const char *summary_degraded(const result_t *result)
{
    static const char *const names[] = {
        [UCXPOOL_DEGRADED_NONE]   = "none",
        [UCXPOOL_DEGRADED_FEWER]  = "fewer",
        [UCXPOOL_DEGRADED_PINNED] = "pinned",
    };

    return names[result->degraded_to];
}

static void summary_text_workers(const summary_t *summary, FILE *stream)
{
    const result_t *result;

    fprintf(stream, "\n%-6s %9s %10s %9s %9s %11s %7s  %-4s  %s\n", "worker",
            "read MB", "written MB", "sent MB", "recv MB", "transfer s",
            "wait s", "wire", "registered");
    for (unsigned i = 0; i < summary->job->num_workers; i++) {
        result = &summary->results[i];
        fprintf(stream,
                "%6u %9.1f %10.1f %9.1f %9.1f %11.3f %7.3f  %-4s  %" PRIu64
                ", later %" PRIu64 "%s%s\n",
                i, summary_megabytes(result->in.bytes),
                summary_megabytes(result->out.bytes),
                summary_megabytes(result->times.bytes_sent),
                summary_megabytes(result->times.bytes_received),
                summary_seconds(result->times.transfer.wall_ns),
                summary_seconds(result->times.wait.wall_ns),
                summary_wire(result),
                pool_stats_value(&result->stats, "registrations"),
                pool_stats_value(&result->stats, "registrations_after_start"),
                result->degraded_to == UCXPOOL_DEGRADED_NONE ? ""
                                                             : "; degraded to ",
                result->degraded_to == UCXPOOL_DEGRADED_NONE
                    ? ""
                    : summary_degraded(result));
    }
}

/* Where the bytes of all workers went by. */
static void summary_text_modes(const result_t *sum, FILE *stream)
{
    uint64_t bytes;

    for (size_t i = 0; i < SUMMARY_NUM_MODES; i++) {
        bytes =
            pool_stats_value(&sum->stats, "sent_%s_bytes", summary_modes[i]);
        if (bytes > 0) {
            fprintf(stream, "  %s: %.1f MB in %" PRIu64 " operations\n",
                    summary_modes[i], summary_megabytes(bytes),
                    pool_stats_value(&sum->stats, "sent_%s_fragments",
                                     summary_modes[i]));
        }
    }
}

static void summary_text_transfer(const summary_t *summary, const result_t *sum,
                                  FILE *stream)
{
    uint64_t bytes = sum->times.bytes_received;

    if (summary->job->num_workers == 1) {
        return;
    }
    fprintf(stream,
            "Between workers: %.1f MB in %" PRIu64 " batches; all workers' "
            "transfer calls took %.3f s, %.3f s of processor time\n",
            summary_megabytes(bytes), sum->times.batches_received,
            summary_seconds(sum->times.transfer.wall_ns),
            summary_seconds(sum->times.transfer.cpu_ns));
    if (sum->copy.cpu_ns > 0) {
        fprintf(stream,
                "  memcpy of the same bytes: %.3f s, %.3f s of processor time; "
                "transfer takes %.2f times that\n",
                summary_seconds(sum->copy.wall_ns),
                summary_seconds(sum->copy.cpu_ns),
                (double)sum->times.transfer.cpu_ns / (double)sum->copy.cpu_ns);
    }
    summary_text_modes(sum, stream);
}

static void summary_text_gpu(const result_t *sum, FILE *stream)
{
    if (sum->gpu_store.size == 0) {
        return;
    }
    fprintf(stream,
            "In GPU memory: %.1f MB held, %.1f MB at the most, of %.1f MB; "
            "%.1f MB written before the end to make room\n",
            summary_megabytes(sum->gpu_store.held),
            summary_megabytes(sum->gpu_store.held_max),
            summary_megabytes(sum->gpu_store.size),
            summary_megabytes(sum->early));
}

void summary_print_text(const summary_t *summary, FILE *stream)
{
    const job_t *job = summary->job;
    result_t     sum;

    verdict_sum(summary->results, job->num_workers, &sum);
    fprintf(stream,
            "%" PRIu64 " records, %.1f MB, from %zu file%s into %" PRIu32
            " partition%s in %s: %.3f s (%.0f MB/s), %u worker%s\n",
            sum.in.records, summary_megabytes(sum.in.bytes),
            job->inputs.num_files, job->inputs.num_files == 1 ? "" : "s",
            job->num_partitions, job->num_partitions == 1 ? "" : "s",
            job->folder.path, summary_seconds(summary->elapsed_ns),
            summary_rate(sum.in.bytes, summary->elapsed_ns), job->num_workers,
            job->num_workers == 1 ? "" : "s");
    fprintf(stream,
            "Checked: %" PRIu64 " records, %" PRIu64
            " bytes, checksum %016" PRIx64 " read and written\n",
            sum.out.records, sum.out.bytes, sum.out.checksum);
    if (sum.num_added > 0) {
        fprintf(stream,
                "Newlines added to last lines that had none: %" PRIu64 "\n",
                sum.num_added);
    }
    summary_text_transfer(summary, &sum, stream);
    summary_text_gpu(&sum, stream);
    summary_text_workers(summary, stream);
}

/* --- JSON --------------------------------------------------------------- */

static void summary_json_string(const char *text, FILE *stream)
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

static void summary_json_tally(const char *name, const tally_t *tally,
                               FILE *stream)
{
    fprintf(stream,
            "\"%s\": {\"records\": %" PRIu64 ", \"bytes\": %" PRIu64
            ", \"checksum\": \"%016" PRIx64 "\"}",
            name, tally->records, tally->bytes, tally->checksum);
}

static void summary_json_transfer(const result_t *result, FILE *stream)
{
    const exchange_times_t *times = &result->times;

    fprintf(stream,
            "\"transfer\": {\"bytes_sent\": %" PRIu64
            ", \"bytes_received\": %" PRIu64 ", \"batches_sent\": %" PRIu64
            ", \"batches_received\": %" PRIu64
            ", \"seconds\": %.6f, \"cpu_seconds\": %.6f, "
            "\"wait_seconds\": %.6f, ",
            times->bytes_sent, times->bytes_received, times->batches_sent,
            times->batches_received, summary_seconds(times->transfer.wall_ns),
            summary_seconds(times->transfer.cpu_ns),
            summary_seconds(times->wait.wall_ns));
    if (result->copy.wall_ns > 0) {
        fprintf(stream,
                "\"memcpy_seconds\": %.6f, \"memcpy_cpu_seconds\": %.6f}",
                summary_seconds(result->copy.wall_ns),
                summary_seconds(result->copy.cpu_ns));
    } else {
        fprintf(stream,
                "\"memcpy_seconds\": null, \"memcpy_cpu_seconds\": null}");
    }
}

/* direction: "sent" or "received". */
static void summary_json_traffic(const pool_stats_t *stats,
                                 const char *direction, FILE *stream)
{
    fprintf(stream, "\"%s\": {", direction);
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

static void summary_json_gpu(const result_t *result, FILE *stream)
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

static uint64_t summary_blocks(const pool_stats_t *stats)
{
    return pool_stats_value(stats, "blocks_send_total") +
           pool_stats_value(stats, "blocks_recv_total") +
           pool_stats_value(stats, "blocks_user_total");
}

static void summary_json_worker(const result_t *result, unsigned index,
                                FILE *stream)
{
    const pool_stats_t *stats = &result->stats;

    fprintf(stream, "{\"worker\": %u, ", index);
    summary_json_tally("input", &result->in, stream);
    fprintf(stream, ", ");
    summary_json_tally("output", &result->out, stream);
    fprintf(stream,
            ", \"seconds\": %.6f, \"cpu_seconds\": %.6f, "
            "\"max_resident_bytes\": %" PRIu64 ", ",
            summary_seconds(result->whole.wall_ns),
            summary_seconds(result->whole.cpu_ns), result->max_resident);
    summary_json_gpu(result, stream);
    summary_json_transfer(result, stream);
    fprintf(stream, ", \"wire\": \"%s\", ", summary_wire(result));
    summary_json_traffic(stats, "sent", stream);
    fprintf(stream, ", ");
    summary_json_traffic(stats, "received", stream);
    fprintf(stream,
            ", \"registered_bytes\": %" PRIu64 ", \"registrations\": %" PRIu64
            ", \"registrations_after_start\": %" PRIu64
            ", \"copies_avoided_bytes\": %" PRIu64
            ", \"blocked_seconds\": %.6f, \"allocations\": %" PRIu64,
            pool_stats_value(stats, "registered_bytes"),
            pool_stats_value(stats, "registrations"),
            pool_stats_value(stats, "registrations_after_start"),
            pool_stats_value(stats, "copies_avoided_bytes"),
            summary_seconds(pool_stats_value(stats, "blocked_ns")),
            pool_stats_value(stats, "allocations"));
    fprintf(stream,
            ", \"bytes_asked\": %" PRIu64 ", \"blocks_asked\": %" PRIu64
            ", \"blocks\": %" PRIu64 ", \"degraded_to\": \"%s\"}",
            pool_stats_value(stats, "bytes_asked"),
            pool_stats_value(stats, "blocks_asked"), summary_blocks(stats),
            summary_degraded(result));
}

void summary_print_json(const summary_t *summary, FILE *stream)
{
    const job_t *job = summary->job;
    result_t     sum;

    verdict_sum(summary->results, job->num_workers, &sum);
    fprintf(stream, "{\"output_folder\": ");
    summary_json_string(job->folder.path, stream);
    fprintf(stream,
            ", \"workers\": %u, \"partitions\": %" PRIu32
            ", \"files\": %zu, \"field\": %u, \"seconds\": %.6f, ",
            job->num_workers, job->num_partitions, job->inputs.num_files,
            job->field, summary_seconds(summary->elapsed_ns));
    summary_json_tally("input", &sum.in, stream);
    fprintf(stream, ", ");
    summary_json_tally("output", &sum.out, stream);
    fprintf(stream, ", \"newlines_added\": %" PRIu64 ", ", sum.num_added);
    summary_json_transfer(&sum, stream);
    fprintf(stream,
            ", \"registrations_after_start\": %" PRIu64 ", \"by_worker\": [",
            pool_stats_value(&sum.stats, "registrations_after_start"));
    for (unsigned i = 0; i < job->num_workers; i++) {
        fprintf(stream, "%s", i > 0 ? ", " : "");
        summary_json_worker(&summary->results[i], i, stream);
    }
    fprintf(stream, "]}\n");
}
