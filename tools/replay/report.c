#include <config.h>

#include "common/gnuplot.h"
#include "common/json.h"
#include "common/number.h"
#include "replay/measure.h"

#include <inttypes.h>
#include <string.h>

#define NUM_COLORS 6u

/* --- text ---------------------------------------------------------------- */

void report_size(uint64_t bytes, char text[REPORT_SIZE_TEXT])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double                   size    = (double)bytes;
    unsigned                 unit    = 0;

    while ((size >= 1024) && (unit < 4)) {
        size /= 1024;
        unit++;
    }
    snprintf(text, REPORT_SIZE_TEXT, unit == 0 ? "%.0f %s" : "%.2f %s", size,
             units[unit]);
}

static void remark(uint64_t num, const char *what, uint64_t line, FILE *stream)
{
    char text[REPORT_SIZE_TEXT];

    if (num != 0) {
        fprintf(stream, "  %s %s", number_print_commas(num, text), what);
        if (line != 0) {
            fprintf(stream, " (first in line %" PRIu64 ")", line);
        }
        fprintf(stream, "\n");
    }
}

static void print_remarks(const trace_remarks_t *remarks, FILE *stream)
{
    remark(remarks->num_failures,
           "allocations failed when it was written: left out", 0, stream);
    remark(remarks->num_unknown, "frees of unknown addresses: left out",
           remarks->unknown_line, stream);
    remark(remarks->num_twice,
           "allocations at an address that is live: what was there is freed "
           "before",
           remarks->twice_line, stream);
    remark(remarks->num_other_sizes,
           "frees with another size than the allocation: the allocation's "
           "counts",
           remarks->other_size_line, stream);
    remark(remarks->num_empty, "calls for 0 bytes: left out",
           remarks->empty_line, stream);
}

static void print_where(const report_t *report, FILE *stream)
{
    char text[REPORT_SIZE_TEXT];

    if (report->device->ordinal == DEVICE_HOST) {
        fprintf(stream, "host memory");
    } else {
        fprintf(stream, "GPU %d, %s", report->device->ordinal,
                report->device->gpu.name);
    }
    if (report->params.capacity != 0) {
        report_size(report->params.capacity, text);
        fprintf(stream, "; capacity %s", text);
    } else if (report->params.heap_limit != 0) {
        report_size(report->params.heap_limit, text);
        fprintf(stream,
                "; the heap and simulated pools have %s at most "
                "(UCXPOOL_MEMORY_LIMIT)",
                text);
    }
    if (report->params.reserve_percent != 0) {
        fprintf(stream, "; the heap takes %u%% before",
                report->params.reserve_percent);
    } else if (report->params.reserve_bytes != 0) {
        report_size(report->params.reserve_bytes, text);
        fprintf(stream, "; the heap takes %s before", text);
    }
    fprintf(stream,
            "; %s; a reading of the clock, %" PRIu64
            " ns, is in each call's time\n",
            report->params.has_threads ? "each thread in one of its own"
                                       : "one thread",
            report->clock_ns);
}

void report_trace(const report_t *report, FILE *stream)
{
    const trace_t *trace = report->trace;
    char           text[REPORT_SIZE_TEXT];
    char           more[REPORT_SIZE_TEXT];

    fprintf(stream, "%s: %s calls, %s allocation%s; %u thread%s, %u stream%s\n",
            trace->name, number_print_commas(trace->num_events, text),
            number_print_commas(trace->num_allocations, more),
            number_plural(trace->num_allocations), trace->num_threads,
            number_plural(trace->num_threads), trace->num_streams,
            number_plural(trace->num_streams));
    report_size(trace->peak_live, text);
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
    print_remarks(&trace->remarks, stream);
    print_where(report, stream);
}

static double ratio(const report_t *report, uint64_t bytes)
{
    return report->trace->peak_live == 0
               ? 0
               : (double)bytes / (double)report->trace->peak_live;
}

/* Write ns as "123", "12.3us", "1.23ms" or "1.23s". */
static const char *time_text(uint64_t ns, char text[REPORT_SIZE_TEXT])
{
    static const char *const units[] = {"ns", "us", "ms", "s"};
    double                   time    = (double)ns;
    unsigned                 unit    = 0;

    while ((time >= 1000) && (unit < 3)) {
        time /= 1000;
        unit++;
    }
    snprintf(text, REPORT_SIZE_TEXT,
             (unit == 0) || (time >= 100) ? "%.0f %s"
             : time >= 10                 ? "%.1f %s"
                                          : "%.2f %s",
             time, units[unit]);
    return text;
}

/* Returns the mean time of a call in a whole round. Uses the later rounds, if
 * there are any. */
static uint64_t call_ns(const report_t *report, const measure_t *measure)
{
    size_t num = report->trace->num_events - report->trace->first_timed;

    if (num == 0) {
        return 0;
    }
    return (measure->again_ns == 0 ? measure->first_ns : measure->again_ns) /
           num;
}

static void print_times(const call_times_t *times, FILE *stream)
{
    char text[REPORT_SIZE_TEXT];

    fprintf(stream, " %8s", time_text(times->median, text));
    fprintf(stream, " %8s", time_text(times->p99, text));
    fprintf(stream, " %8s", time_text(times->max, text));
}

static void print_search(const report_t *report, const search_t *search,
                         FILE *stream)
{
    if (!search->was_made) {
        return;
    }
    if (search->has_found) {
        fprintf(stream, " %8.3f", ratio(report, search->capacity));
    } else {
        fprintf(stream, " > %.2f", ratio(report, search->capacity));
    }
}

static void print_row(const report_t *report, const measure_t *measure,
                      FILE *stream)
{
    char text[REPORT_SIZE_TEXT];
    char name[REPORT_SIZE_TEXT];

    snprintf(name, sizeof(name), "%s%s", measure->kind->name,
             measure->kind->is_simulated ? "*" : "");
    fprintf(stream, "%-9s", name);
    print_times(&measure->alloc, stream);
    print_times(&measure->free, stream);
    fprintf(stream, " %8s", time_text(measure->first_ns, text));
    fprintf(stream, " %8s",
            measure->again_ns == 0 ? "-" : time_text(measure->again_ns, text));
    fprintf(stream, " %8s", time_text(call_ns(report, measure), text));
    report_size(measure->peak_reserved, text);
    fprintf(stream, " %11s %6.3f %8s", text,
            ratio(report, measure->peak_reserved),
            number_print_commas(measure->num_failures, name));
    print_search(report, &measure->search, stream);
    fprintf(stream, "\n");
}

int report_table(const void *arg, FILE *stream)
{
    const report_t *report       = arg;
    bool            is_searched  = report->params.is_searched;
    bool            is_simulated = false;

    fprintf(stream, "\n%-9s %-26s %-26s %-26s %-18s%s\n", "", "allocate",
            "free", "whole run", "held at most",
            is_searched ? "            passes" : "");
    fprintf(stream, "%-9s %8s %8s %8s %8s %8s %8s %8s %8s %8s %11s %6s %8s%s\n",
            "", "median", "p99", "max", "median", "p99", "max", "first",
            "again", "a call", "", "/ live", "failures",
            is_searched ? "   / live" : "");
    for (unsigned i = 0; i < report->num_measures; i++) {
        print_row(report, &report->measures[i], stream);
        is_simulated |= report->measures[i].kind->is_simulated;
    }
    if (is_simulated) {
        fprintf(stream, "* a simulation: its times are those of the "
                        "bookkeeping alone\n");
    }
    return 0;
}

/* --- CSV ----------------------------------------------------------------- */

static void device_name(const report_t *report, char *text, size_t text_size)
{
    if (report->device->ordinal == DEVICE_HOST) {
        snprintf(text, text_size, "host");
    } else {
        snprintf(text, text_size, "cuda:%d", report->device->ordinal);
    }
}

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

int report_csv(const void *arg, FILE *stream)
{
    const report_t *report = arg;
    const trace_t  *trace  = report->trace;
    char            device[16];

    device_name(report, device, sizeof(device));
    fprintf(stream,
            "trace,divisor,device,threads,capacity,peak_live,allocator,"
            "simulated,alloc_median_ns,alloc_p99_ns,alloc_max_ns,"
            "free_median_ns,free_p99_ns,free_max_ns,first_run_ns,"
            "later_runs_ns,call_ns,peak_reserved,failures,smallest_capacity\n");
    for (unsigned i = 0; i < report->num_measures; i++) {
        const measure_t *measure = &report->measures[i];

        print_csv_string(trace->name, stream);
        fprintf(stream, ",%u,%s,%u,%" PRIu64 ",%" PRIu64 ",%s,%s",
                trace->divisor, device,
                report->params.has_threads ? trace->num_threads : 1,
                report->params.capacity, trace->peak_live, measure->kind->name,
                measure->kind->is_simulated ? "yes" : "no");
        print_times_csv(&measure->alloc, stream);
        print_times_csv(&measure->free, stream);
        fprintf(stream, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, measure->first_ns,
                measure->again_ns, call_ns(report, measure));
        fprintf(stream, ",%" PRIu64 ",%" PRIu64 ",", measure->peak_reserved,
                measure->num_failures);
        if (measure->search.has_found) {
            fprintf(stream, "%" PRIu64, measure->search.capacity);
        }
        fprintf(stream, "\n");
    }
    return 0;
}

/* --- JSON ---------------------------------------------------------------- */

static void json_times(json_t *json, const char *key, const call_times_t *times)
{
    json_open_inline(json, key, '{');
    json_number(json, "median", times->median);
    json_number(json, "p99", times->p99);
    json_number(json, "max", times->max);
    json_close(json);
}

static void json_measure(json_t *json, const report_t *report,
                         const measure_t *measure)
{
    json_open(json, NULL, '{');
    json_text(json, "allocator", measure->kind->name);
    json_bool(json, "simulated", measure->kind->is_simulated);
    json_times(json, "alloc_ns", &measure->alloc);
    json_times(json, "free_ns", &measure->free);
    json_number(json, "first_run_ns", measure->first_ns);
    json_number(json, "later_runs_ns", measure->again_ns);
    json_number(json, "call_ns", call_ns(report, measure));
    json_number(json, "peak_reserved", measure->peak_reserved);
    json_number(json, "failures", measure->num_failures);
    if (measure->search.has_found) {
        json_number(json, "smallest_capacity", measure->search.capacity);
    } else if (measure->search.was_made) {
        json_bare(json, "smallest_capacity", "null");
        json_number(json, "failed_with", measure->search.capacity);
    }
    json_close(json);
}

static void json_remarks(json_t *json, const trace_remarks_t *remarks)
{
    json_open_inline(json, "left_out", '{');
    json_number(json, "failures", remarks->num_failures);
    json_number(json, "unknown_frees", remarks->num_unknown);
    json_number(json, "address_twice", remarks->num_twice);
    json_number(json, "other_sizes", remarks->num_other_sizes);
    json_number(json, "empty", remarks->num_empty);
    json_close(json);
}

int report_json(const void *arg, FILE *stream)
{
    const report_t *report = arg;
    const trace_t  *trace  = report->trace;
    char            device[16];
    json_t          json;

    device_name(report, device, sizeof(device));
    json_init(&json, stream);
    json_open(&json, NULL, '{');
    json_text(&json, "trace", trace->name);
    json_text(&json, "device", device);
    if (report->device->ordinal != DEVICE_HOST) {
        json_text(&json, "gpu", report->device->gpu.name);
    }
    json_number(&json, "divisor", trace->divisor);
    json_number(&json, "calls", trace->num_events);
    json_number(&json, "allocations", trace->num_allocations);
    json_number(&json, "threads", trace->num_threads);
    json_number(&json, "streams", trace->num_streams);
    json_bool(&json, "played_in_threads", report->params.has_threads);
    json_number(&json, "peak_live", trace->peak_live);
    json_number(&json, "capacity", report->params.capacity);
    json_number(&json, "clock_ns", report->clock_ns);
    json_remarks(&json, &trace->remarks);
    json_open(&json, "results", '[');
    for (unsigned i = 0; i < report->num_measures; i++) {
        json_measure(&json, report, &report->measures[i]);
    }
    json_close(&json);
    json_close(&json);
    return 0;
}

/* --- a picture ----------------------------------------------------------- */

/* Print one data block for each allocator: event, live, held. */
static void print_data(const report_t *report, FILE *stream)
{
    for (unsigned i = 0; i < report->num_measures; i++) {
        const curve_t *curve = &report->measures[i].curve;

        fprintf(stream, "$curve%u << EOD\n", i);
        for (size_t k = 0; k <= curve->num; k++) {
            bool   is_end = k == curve->num; /* repeat the last sample */
            size_t at     = is_end ? k - 1 : k;

            if (curve->num > 0) {
                fprintf(stream, "%zu %" PRIu64 " %" PRIu64 "\n",
                        is_end ? report->trace->num_events
                               : curve->points[at].event,
                        curve->points[at].live, curve->points[at].reserved);
            }
        }
        fprintf(stream, "EOD\n");
    }
}

/* Choose the unit of the axis so that the numbers are short. */
static const char *unit_of(const report_t *report, double *unit_p)
{
    uint64_t peak = report->trace->peak_live;

    if (peak >= UINT64_C(1) << 30) {
        *unit_p = 0x1p30;
        return "GiB";
    }
    if (peak >= UINT64_C(1) << 20) {
        *unit_p = 0x1p20;
        return "MiB";
    }
    *unit_p = 0x1p10;
    return "KiB";
}

/* Returns the width of a line. The first line is the widest and is drawn first,
 * so that coinciding lines remain visible. */
static double line_width(unsigned index, unsigned num)
{
    double step = num > 4 ? 9.0 / (num - 1) : 3;

    return 2 + step * (num - 1 - index);
}

static void print_curve(const report_t *report, unsigned index, double unit,
                        FILE *stream)
{
    const measure_t *measure = &report->measures[index];
    unsigned         color   = index % NUM_COLORS + 1;
    char             peak[REPORT_SIZE_TEXT];

    report_size(measure->peak_reserved, peak);
    fprintf(stream,
            ", \\\n  $curve%u using 1:($3/%.0f) with steps lw %.2g lc rgb "
            "c[%u] title '%s holds (at most %s)'",
            index, unit, line_width(index, report->num_measures), color,
            measure->kind->name, peak);
    /* The peak was reached in a round that is not drawn, or between two
     * samples. */
    if (measure->peak_reserved > measure->curve.peak) {
        fprintf(stream,
                ", \\\n  %.17g with lines lw 1 dt 3 lc rgb c[%u] notitle",
                (double)measure->peak_reserved / unit, color);
    }
}

static void print_script(const report_t *report, const char *path, FILE *stream)
{
    double      unit;
    const char *unit_name = unit_of(report, &unit);

    print_data(report, stream);
    gnuplot_terminal(path, 960, 480, stream);
    fprintf(stream, "set title ");
    gnuplot_quote(report->trace->name, stream);
    fprintf(stream,
            " noenhanced\nset encoding utf8\nset border 3 lc rgb \"#808080\"\n"
            "set tics nomirror\nset grid y lc rgb \"#e0e0e0\"\n"
            "set xlabel \"calls\"\nset ylabel \"%s\"\n"
            "set xrange [0:%zu]\nset yrange [0:*]\n"
            "set key outside bottom center horizontal noenhanced\n"
            "set rmargin 4\n"
            "array c[%u] = [0x1b7837, 0xb2182b, 0x2166ac, 0xd9a441, 0x762a83, "
            "0x35978f]\n"
            "plot $curve0 using 1:($2/%.0f) with fillsteps fs solid "
            "noborder lc rgb \"#d0d0d0\" title 'live'",
            unit_name, report->trace->num_events, NUM_COLORS, unit);
    for (unsigned i = 0; i < report->num_measures; i++) {
        print_curve(report, i, unit, stream);
    }
    fprintf(stream, "\n");
}

int report_picture(const void *arg, FILE *stream)
{
    const report_t *report = arg;
    FILE           *script = gnuplot_begin();

    if (script == NULL) {
        return -1;
    }
    print_script(report, report->picture_path, script);
    return gnuplot_end(script, report->picture_path, stream);
}
