/*
 * ucxpool_replay: a trace of allocations against the heap and the allocators
 * that it competes with.
 */
#include "common/output.h"
#include "replay/error.h"
#include "replay/log.h"
#include "replay/measure.h"
#include "replay/options.h"
#include "replay/picture.h"
#include "replay/progress.h"
#include "replay/report.h"
#include "replay/workload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A trace may take so much of the host's free memory. */
#define MEMORY_PERCENT 75

/* Everything that one run of the program does. */
typedef struct run {
    options_t options;
    FILE     *output; /* the standard output */
    trace_t  *trace;
    device_t  device;
    measure_t measures[OPTIONS_MAX_KINDS];
    unsigned  num_measures;
} run_t;

/* -1 to go on, or the exit code. */
static int load(run_t *run)
{
    options_t *options  = &run->options;
    bool       is_wrong = false;

    if (options->log != NULL) {
        progress_say("reading %s", options->log);
    }
    run->trace = options->workload != NULL
                     ? workload_make(options->workload, &is_wrong)
                     : log_read(options->log);
    progress_clear();
    if (run->trace == NULL) {
        return is_wrong ? 2 : 1;
    }
    if (options->divisor != 1) {
        trace_scale(run->trace, options->divisor);
        trace_survey(run->trace);
    }
    if (options->params.capacity == 0) {
        options->params.capacity = (run->trace->capacity + ALLOCATOR_UNIT - 1) /
                                   ALLOCATOR_UNIT * ALLOCATOR_UNIT;
    }
    return -1;
}

/* Host memory that the trace takes is taken from other programs. */
static int check_memory(run_t *run)
{
    const options_t *options = &run->options;
    char             needed[REPORT_SIZE_TEXT], left[REPORT_SIZE_TEXT];
    uint64_t         bytes;
    bool             is_real = false;

    for (unsigned i = 0; i < options->num_kinds; i++) {
        is_real |= !options->kinds[i]->is_simulated;
    }
    if ((options->ordinal != DEVICE_HOST) || !is_real) {
        return 0;
    }
    if (device_free_bytes(&run->device, &bytes) != 0) {
        return -1;
    }
    if (run->trace->peak_live > bytes / 100 * MEMORY_PERCENT) {
        report_size(run->trace->peak_live, needed);
        report_size(bytes, left);
        return replay_error("%s takes %s at its peak, and this machine has %s "
                            "left: divide its sizes with --scale",
                            run->trace->name, needed, left);
    }
    return 0;
}

static report_t report_of(const run_t *run, uint64_t clock_ns)
{
    return (report_t){.trace        = run->trace,
                      .device       = &run->device,
                      .params       = run->options.params,
                      .clock_ns     = clock_ns,
                      .measures     = run->measures,
                      .num_measures = run->num_measures};
}

/* What a file is to hold; 0, or -1 after having said why it cannot. */
typedef int (*printer_t)(const run_t *run, const report_t *report,
                         FILE *stream);

static int print_log(const run_t *run, const report_t *report, FILE *stream)
{
    (void)report;
    return log_write(run->trace, stream);
}

static int print_json(const run_t *run, const report_t *report, FILE *stream)
{
    (void)run;
    report_json(report, stream);
    return 0;
}

static int print_csv(const run_t *run, const report_t *report, FILE *stream)
{
    (void)run;
    report_csv(report, stream);
    return 0;
}

static int print_picture(const run_t *run, const report_t *report, FILE *stream)
{
    return picture_draw(report, run->options.files[FILE_PICTURE].path, stream);
}

/* Nothing is written to a file that no option names. */
static int print_to_file(run_t *run, const report_t *report, file_t which,
                         printer_t print)
{
    result_file_t *file = &run->options.files[which];
    char           error[RESULT_ERROR_SIZE];
    FILE          *stream;
    bool           is_good;

    if (file->path == NULL) {
        return 0;
    }
    stream = result_file_begin(file, error);
    if (stream == NULL) {
        return replay_error("%s", error);
    }
    is_good = print(run, report, stream) == 0;
    if (result_file_end(file, stream, is_good, error) != 0) {
        return is_good ? replay_error("%s", error) : -1;
    }
    return 0;
}

/* Before the work. Returns as load() does. */
static int try_files(run_t *run)
{
    options_t           *options  = &run->options;
    const char          *log      = options->log;
    const result_other_t others[] = {
        {"the log that is read",
         (log != NULL) && (strcmp(log, "-") == 0) ? "/dev/stdin" : log},
        {"the file of UCXPOOL_HEAP_LOG", getenv("UCXPOOL_HEAP_LOG")},
    };
    char error[RESULT_ERROR_SIZE];
    int  code = result_files_try(options->files, FILE_LAST, others,
                                 sizeof(others) / sizeof(others[0]), error);

    if (code != 0) {
        replay_error("%s", error);
        return code;
    }
    return -1;
}

static int flush_output(const run_t *run)
{
    return (fflush(run->output) == 0) && !ferror(run->output)
               ? 0
               : replay_error("standard output cannot be written");
}

static int tell(run_t *run, const report_t *report)
{
    switch (run->options.format) {
    case FORMAT_JSON:
        report_json(report, run->output);
        break;
    case FORMAT_CSV:
        report_csv(report, run->output);
        break;
    default:
        report_table(report, run->output);
    }
    return (flush_output(run) == 0) &&
                   (print_to_file(run, report, FILE_JSON, print_json) == 0) &&
                   (print_to_file(run, report, FILE_CSV, print_csv) == 0)
               ? print_to_file(run, report, FILE_PICTURE, print_picture)
               : -1;
}

static int write_log(run_t *run)
{
    if (run->options.files[FILE_LOG].path != NULL) {
        return print_to_file(run, NULL, FILE_LOG, print_log);
    }
    return log_write(run->trace, run->output) == 0 ? flush_output(run) : -1;
}

/* The heap has a limit even without -c. What is compared with it and would have
 * none gets the same. */
static int limit_simulated(run_t *run)
{
    options_t *options  = &run->options;
    bool       has_heap = false, is_simulated = false;

    for (unsigned i = 0; i < options->num_kinds; i++) {
        has_heap |= options->kinds[i] == &allocator_heap;
        is_simulated |= options->kinds[i]->is_simulated;
    }
    if ((options->params.capacity != 0) || !has_heap || !is_simulated) {
        return 0;
    }
    return allocator_heap_limit(&run->device, &options->params.heap_limit);
}

static int measure_all(run_t *run)
{
    const options_t *options  = &run->options;
    uint64_t         clock_ns = measure_clock();
    report_t         report;

    if ((check_memory(run) != 0) || (limit_simulated(run) != 0)) {
        return -1;
    }
    report = report_of(run, clock_ns);
    if (options->format == FORMAT_TEXT) {
        report_trace(&report, run->output);
        fflush(run->output);
    }
    for (unsigned i = 0; i < options->num_kinds; i++) {
        if (measure_run(run->trace, &run->device, options->kinds[i],
                        &options->params, &run->measures[i]) != 0) {
            return -1;
        }
        run->num_measures++;
    }
    report = report_of(run, clock_ns);
    return tell(run, &report);
}

static int play(run_t *run)
{
    int code;

    if (device_open(&run->device, run->options.ordinal, run->trace) != 0) {
        return -1;
    }
    code = measure_all(run);
    device_close(&run->device);
    return code;
}

/* What was not written was not done. Returns the exit code. */
static int close_output(FILE *output, int code)
{
    if ((output_close(output) != 0) && (code == 0)) {
        replay_error("standard output cannot be written: %s", strerror(errno));
        return 1;
    }
    return code;
}

/* The exit code. */
static int run_with_output(run_t *run)
{
    int code;

    if (output_take(&run->output) != 0) {
        replay_error("cannot use the standard output: %s", strerror(errno));
        return 1;
    }
    code = (run->options.files[FILE_PICTURE].path != NULL) &&
                   (picture_check() != 0)
               ? 1
               : try_files(run);
    if (code < 0) {
        code = load(run);
    }
    if (code < 0) {
        code = (run->options.writes_log ? write_log(run) : play(run)) != 0;
    }
    return close_output(run->output, code);
}

static void print_list(void)
{
    printf("Workloads:\n");
    workload_list(stdout);
    printf("\nAllocators:\n");
    allocator_list(stdout);
}

int main(int argc, char **argv)
{
    run_t *run = calloc(1, sizeof(*run));
    int    code;

    if (run == NULL) {
        replay_error("out of memory");
        return 1;
    }
    code = options_parse(&run->options, argc, argv);
    if (code < 0) {
        if (run->options.list) {
            print_list();
            code = close_output(stdout, 0);
        } else {
            code = run_with_output(run);
        }
    } else {
        code = close_output(stdout, code);
    }
    trace_destroy(run->trace);
    free(run);
    return code;
}
