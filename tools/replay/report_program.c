#include "replay/report.h"

#include <inttypes.h>

static void print_json_string(const char *text, FILE *stream)
{
    fputc('"', stream);
    for (; *text != '\0'; text++) {
        if ((*text == '"') || (*text == '\\')) {
            fprintf(stream, "\\%c", *text);
        } else if ((unsigned char)*text < 0x20) {
            fprintf(stream, "\\u%04x", (unsigned char)*text);
        } else {
            fputc(*text, stream);
        }
    }
    fputc('"', stream);
}

static void print_csv_string(const char *text, FILE *stream)
{
    fputc('"', stream);
    for (; *text != '\0'; text++) {
        fprintf(stream, *text == '"' ? "\"\"" : "%c", *text);
    }
    fputc('"', stream);
}

static void device_name(const report_t *report, char *text, size_t text_size)
{
    if (report->device->ordinal == DEVICE_HOST) {
        snprintf(text, text_size, "host");
    } else {
        snprintf(text, text_size, "cuda:%d", report->device->ordinal);
    }
}

static void print_times_csv(const times_summary_t *times, FILE *stream)
{
    fprintf(stream, ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, times->median,
            times->p99, times->max);
}

void report_csv(const report_t *report, FILE *stream)
{
    const trace_t *trace = report->trace;
    char           device[16];

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
                measure->again_ns, report_call_ns(report, measure));
        fprintf(stream, ",%" PRIu64 ",%" PRIu64 ",", measure->peak_reserved,
                measure->num_failures);
        if (measure->search.has_found) {
            fprintf(stream, "%" PRIu64, measure->search.capacity);
        }
        fprintf(stream, "\n");
    }
}

static void print_times_json(const char *name, const times_summary_t *times,
                             FILE *stream)
{
    fprintf(stream,
            "      \"%s_ns\": {\"median\": %" PRIu64 ", \"p99\": %" PRIu64
            ", \"max\": %" PRIu64 "},\n",
            name, times->median, times->p99, times->max);
}

static void print_measure(const report_t *report, const measure_t *measure,
                          FILE *stream)
{
    fprintf(stream,
            "    {\n      \"allocator\": \"%s\",\n"
            "      \"simulated\": %s,\n",
            measure->kind->name,
            measure->kind->is_simulated ? "true" : "false");
    print_times_json("alloc", &measure->alloc, stream);
    print_times_json("free", &measure->free, stream);
    fprintf(stream,
            "      \"first_run_ns\": %" PRIu64 ",\n"
            "      \"later_runs_ns\": %" PRIu64 ",\n"
            "      \"call_ns\": %" PRIu64 ",\n"
            "      \"peak_reserved\": %" PRIu64 ",\n"
            "      \"failures\": %" PRIu64,
            measure->first_ns, measure->again_ns,
            report_call_ns(report, measure), measure->peak_reserved,
            measure->num_failures);
    if (measure->search.has_found) {
        fprintf(stream, ",\n      \"smallest_capacity\": %" PRIu64,
                measure->search.capacity);
    } else if (measure->search.was_made) {
        fprintf(stream,
                ",\n      \"smallest_capacity\": null,\n"
                "      \"failed_with\": %" PRIu64,
                measure->search.capacity);
    }
    fprintf(stream, "\n    }");
}

static void print_remarks(const trace_remarks_t *remarks, FILE *stream)
{
    fprintf(stream,
            "  \"left_out\": {\"failures\": %" PRIu64
            ", \"unknown_frees\": %" PRIu64 ", \"address_twice\": %" PRIu64
            ", \"other_sizes\": %" PRIu64 ", \"empty\": %" PRIu64 "},\n",
            remarks->num_failures, remarks->num_unknown, remarks->num_twice,
            remarks->num_other_sizes, remarks->num_empty);
}

void report_json(const report_t *report, FILE *stream)
{
    const trace_t *trace = report->trace;
    char           device[16];

    device_name(report, device, sizeof(device));
    fprintf(stream, "{\n  \"trace\": ");
    print_json_string(trace->name, stream);
    fprintf(stream, ",\n  \"device\": \"%s\",\n", device);
    if (report->device->ordinal != DEVICE_HOST) {
        fprintf(stream, "  \"gpu\": ");
        print_json_string(report->device->gpu.name, stream);
        fprintf(stream, ",\n");
    }
    fprintf(stream,
            "  \"divisor\": %u,\n  \"calls\": %zu,\n"
            "  \"allocations\": %zu,\n  \"threads\": %u,\n"
            "  \"streams\": %u,\n  \"played_in_threads\": %s,\n"
            "  \"peak_live\": %" PRIu64 ",\n  \"capacity\": %" PRIu64 ",\n"
            "  \"clock_ns\": %" PRIu64 ",\n",
            trace->divisor, trace->num_events, trace->num_allocations,
            trace->num_threads, trace->num_streams,
            report->params.has_threads ? "true" : "false", trace->peak_live,
            report->params.capacity, report->clock_ns);
    print_remarks(&trace->remarks, stream);
    fprintf(stream, "  \"results\": [\n");
    for (unsigned i = 0; i < report->num_measures; i++) {
        print_measure(report, &report->measures[i], stream);
        fprintf(stream, i + 1 < report->num_measures ? ",\n" : "\n");
    }
    fprintf(stream, "  ]\n}\n");
}
