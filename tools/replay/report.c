#include "common/number.h"
#include "replay/measure.h"

#include <inttypes.h>

/* --- text ---------------------------------------------------------------- */

static void print_remarks(const trace_t *trace, FILE *stream)
{
    static const char *const texts[TRACE_NUM_REMARKS] = {
        [TRACE_FAILED] = "allocations failed when the log was written: omitted",
        [TRACE_UNKNOWN] = "frees of unknown addresses: omitted",
        [TRACE_TWICE]   = "allocations at a live address: the earlier "
                          "allocation is freed first",
        [TRACE_OTHER_SIZE] =
            "frees with a size that differs from the allocation: the "
            "allocation's size is used",
        [TRACE_EMPTY] = "calls for 0 bytes: omitted",
    };
    char text[NUMBER_TEXT_SIZE];

    for (unsigned i = 0; i < TRACE_NUM_REMARKS; i++) {
        const trace_remark_t *remark = &trace->remarks[i];

        if (remark->num != 0) {
            fprintf(stream, "  %s %s (first in line %" PRIu64 ")\n",
                    number_print_commas(remark->num, text), texts[i],
                    remark->line);
        }
    }
}

static void print_where(const measure_t *measure, FILE *stream)
{
    const measure_params_t *params = measure->params;
    const device_t         *device = measure->device;
    char                    text[NUMBER_TEXT_SIZE];

    if (device->ordinal == DEVICE_HOST) {
        fprintf(stream, "host memory");
    } else {
        fprintf(stream, "GPU %d, %s", device->ordinal, device->gpu.name);
    }
    if (params->capacity != 0) {
        number_print_bytes(params->capacity, text);
        fprintf(stream, "; capacity %s", text);
    }
    if (params->reserve_percent != 0) {
        fprintf(stream, "; the heap reserves %u%% of the free memory first",
                params->reserve_percent);
    } else if (params->reserve_bytes != 0) {
        number_print_bytes(params->reserve_bytes, text);
        fprintf(stream, "; the heap reserves %s first", text);
    }
    fprintf(stream,
            "; each call's time includes reading the clock, %" PRIu64 " ns\n",
            measure_clock());
}

void report_trace(const measure_t *measure, FILE *stream)
{
    const trace_t *trace = measure->trace;
    char           text[NUMBER_TEXT_SIZE];
    char           more[NUMBER_TEXT_SIZE];

    fprintf(stream, "%s: %s calls, %s allocation%s; %u stream%s\n", trace->name,
            number_print_commas(trace->num_events, text),
            number_print_commas(trace->num_allocations, more),
            number_plural(trace->num_allocations), trace->num_streams,
            number_plural(trace->num_streams));
    number_print_bytes(trace->peak_live, text);
    fprintf(stream, "  at most %s live, in %s allocation%s", text,
            number_print_commas(trace->peak_num, more),
            number_plural(trace->peak_num));
    if (trace->num_left != 0) {
        fprintf(stream, "; %s never freed",
                number_print_commas(trace->num_left, more));
    }
    fprintf(stream, "\n");
    if (trace->divisor != 1) {
        fprintf(stream, "  sizes are 1/%u of the trace's\n", trace->divisor);
    }
    if (trace->first_timed != 0) {
        fprintf(stream, "  the first %s calls prepare it, and are not timed\n",
                number_print_commas(trace->first_timed, text));
    }
    print_remarks(trace, stream);
    print_where(measure, stream);
}

static double ratio(const measure_t *measure, uint64_t bytes)
{
    return measure->trace->peak_live == 0
               ? 0
               : (double)bytes / (double)measure->trace->peak_live;
}

/* Write ns as "123", "12.3us", "1.23ms" or "1.23s". */
static const char *time_text(uint64_t ns, char text[NUMBER_TEXT_SIZE])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double                   time    = (double)ns;
    unsigned                 unit    = 0;

    while ((time >= 1000) && (unit < 3)) {
        time /= 1000;
        unit++;
    }
    snprintf(text, NUMBER_TEXT_SIZE,
             (unit == 0) || (time >= 100) ? "%.0f %s"
             : time >= 10                 ? "%.1f %s"
                                          : "%.2f %s",
             time, units[unit]);
    return text;
}

/* Returns the mean time of a call in a whole round. Uses the later rounds, if
 * there are any. */
static uint64_t call_ns(const measure_t *measure)
{
    size_t num = measure->trace->num_events - measure->trace->first_timed;

    if (num == 0) {
        return 0;
    }
    return (measure->again_ns == 0 ? measure->first_ns : measure->again_ns) /
           num;
}

static void print_times(const call_times_t *times, FILE *stream)
{
    char text[NUMBER_TEXT_SIZE];

    fprintf(stream, " %8s", time_text(times->median, text));
    fprintf(stream, " %8s", time_text(times->p99, text));
    fprintf(stream, " %8s", time_text(times->max, text));
}

static void print_row(const measure_t *measure, FILE *stream)
{
    char text[NUMBER_TEXT_SIZE];

    fprintf(stream, "%-9s", measure->kind->name);
    print_times(&measure->alloc, stream);
    print_times(&measure->free, stream);
    fprintf(stream, " %8s", time_text(measure->first_ns, text));
    fprintf(stream, " %8s",
            measure->again_ns == 0 ? "-" : time_text(measure->again_ns, text));
    fprintf(stream, " %8s", time_text(call_ns(measure), text));
    fprintf(stream, " %11s", number_print_bytes(measure->peak_reserved, text));
    fprintf(stream, " %6.3f %8s", ratio(measure, measure->peak_reserved),
            number_print_commas(measure->num_failures, text));
    fprintf(stream, "\n");
}

void report_table(const measure_t *measures, unsigned num, FILE *stream)
{
    fprintf(stream, "\n%-9s %-26s %-26s %-26s %s\n", "", "allocate", "free",
            "whole run", "held at most");
    fprintf(stream, "%-9s %8s %8s %8s %8s %8s %8s %8s %8s %8s %11s %6s %8s\n",
            "", "median", "p99", "max", "median", "p99", "max", "first",
            "again", "a call", "", "/ live", "failures");
    for (unsigned i = 0; i < num; i++) {
        print_row(&measures[i], stream);
    }
}

/* --- CSV ----------------------------------------------------------------- */

static void print_csv_string(const char *text, FILE *stream)
{
    fputc('"', stream);
    for (; *text != '\0'; text++) {
        fprintf(stream, *text == '"' ? "\"\"" : "%c", *text);
    }
    fputc('"', stream);
}

static void print_times_csv(const call_times_t *times, FILE *stream)
{
    fprintf(stream, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, times->median,
            times->p99, times->max);
}

void report_csv(const measure_t *measures, unsigned num, FILE *stream)
{
    const trace_t  *trace     = measures[0].trace;
    const device_t *device    = measures[0].device;
    uint64_t        capacity  = measures[0].params->capacity;
    char            place[16] = "host";

    if (device->ordinal != DEVICE_HOST) {
        snprintf(place, sizeof(place), "cuda:%d", device->ordinal);
    }
    fprintf(stream,
            "trace,divisor,device,capacity,peak_live,allocator,"
            "alloc_median_ns,alloc_p99_ns,alloc_max_ns,free_median_ns,"
            "free_p99_ns,free_max_ns,first_run_ns,later_runs_ns,call_ns,"
            "peak_reserved,failures\n");
    for (unsigned i = 0; i < num; i++) {
        const measure_t *measure = &measures[i];

        print_csv_string(trace->name, stream);
        fprintf(stream, ",%u,%s,%" PRIu64 ",%" PRIu64 ",%s", trace->divisor,
                place, capacity, trace->peak_live, measure->kind->name);
        print_times_csv(&measure->alloc, stream);
        print_times_csv(&measure->free, stream);
        fprintf(stream, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, measure->first_ns,
                measure->again_ns, call_ns(measure));
        fprintf(stream, ",%" PRIu64 ",%" PRIu64 "\n", measure->peak_reserved,
                measure->num_failures);
    }
}
