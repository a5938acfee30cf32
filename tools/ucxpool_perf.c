/*
 * ucxpool_perf: the same transfer through the pool and through raw UCX.
 */
#include "common/output.h"
#include "perf/devices.h"
#include "perf/error.h"
#include "perf/list.h"
#include "perf/options.h"
#include "perf/pair.h"
#include "perf/plot.h"
#include "perf/remote.h"
#include "perf/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RESULTS OPTIONS_MAX_TESTS

/* Everything that one run of the program does. */
typedef struct run {
    options_t    options;
    FILE        *output; /* the standard output */
    unsigned     num_jobs;
    job_t        jobs[MAX_RESULTS];
    const char  *tables[MAX_RESULTS]; /* of each job; NULL: a job by itself */
    job_result_t results[MAX_RESULTS];
} run_t;

static void add_sides(job_t *job, const test_t *test, uint32_t pool_mode)
{
    const uint32_t *ways =
        work_is_on_gpu(&job->work) ? test->gpu_ways : test->raw_ways;

    job->sides[job->num_sides++] = (side_t){test->pool_way, pool_mode};
    if (test->has_pieces) {
        job->sides[job->num_sides++] = (side_t){WAY_POOL_PIECES, pool_mode};
    }
    for (unsigned i = 0; ways[i] != WAY_LAST; i++) {
        side_t side = {ways[i], MODE_PEER};

        if (side_is_copy(side) && (job->work.pageable != 0)) {
            continue;
        }
        if (side_is_copy(side)) {
            side.mode                    = MODE_COPY;
            job->sides[job->num_sides++] = side;
            continue;
        }
        job->sides[job->num_sides++] = side;
        side.mode                    = MODE_NONE;
        job->sides[job->num_sides++] = side;
    }
}

/* Why a job is none; what options_parse() has checked is not looked at. */
static void say_why_insane(const job_t *job)
{
    if (job->work.echo && (job->work.count != 1)) {
        perf_error("%s sends one buffer there and back: leave out -n",
                   job->test);
        return;
    }
    if (job->work.mixed && (job->work.size < 8)) {
        perf_error("mixed wants buffers of up to 8 bytes or more: raise -s");
        return;
    }
    for (unsigned i = 0; i < job->num_sides; i++) {
        if (side_is_copy(job->sides[i]) && !work_is_on_gpu(&job->work)) {
            perf_error("--sides: copies are a GPU's: give --device");
            return;
        }
        if (side_is_copy(job->sides[i]) && (job->work.pageable != 0)) {
            perf_error("--sides: copies are between GPUs: leave out "
                       "--pageable");
            return;
        }
        if ((side_is_even(job->sides[i]) || side_is_one_sided(job->sides[i])) &&
            job->work.mixed) {
            perf_error("--sides: pieces have one length, those of %s do not",
                       job->test);
            return;
        }
        if (side_is_one_sided(job->sides[i]) && job->work.echo) {
            perf_error("--sides: a read or a write goes one way, and %s goes "
                       "both",
                       job->test);
            return;
        }
        if (job->work.both && !side_goes_both_ways(job->sides[i])) {
            perf_error("--sides: of reads and writes, pool-read and pool-write "
                       "go both ways");
            return;
        }
        if (side_is_rma(job->sides[i]) && work_is_on_gpu(&job->work)) {
            perf_error("--sides: get and put are of host memory: leave out "
                       "--device");
            return;
        }
    }
    perf_error("-s, -n and -O together ask for too much memory");
}

static int add_job(run_t *run, const test_t *test, uint64_t size,
                   uint64_t count, uint32_t pool_mode, const char *table)
{
    const options_t *options = &run->options;
    job_t           *job     = &run->jobs[run->num_jobs];

    memset(job, 0, sizeof(*job));
    strncpy(job->test, test->name, sizeof(job->test) - 1);
    job->work.size        = size != 0 ? size : test->size;
    job->work.count       = count != 0 ? count : test->count;
    job->work.echo        = test->unit == TEST_UNIT_TRIP;
    job->work.outstanding = job->work.echo ? 1 : options->outstanding;
    job->work.mixed       = test->is_mixed;
    job->work.misaligned  = test->misaligned;
    job->work.both        = test->is_both;
    job->send_size        = test->send_size;
    memcpy(job->work.devices, options->devices, sizeof(options->devices));
    job->work.pageable = options->pageable;
    job->work.untold   = options->untold;
    job->max_rounds    = options->rounds;
    job->may_miss      = table != NULL;
    job->time_ns       = (uint64_t)(options->seconds * 1e9);
    if (options->num_sides != 0) {
        job->num_sides = options->num_sides;
        memcpy(job->sides, options->sides, sizeof(job->sides));
    } else {
        add_sides(job, test, pool_mode);
    }
    if (!job_is_sane(job)) {
        say_why_insane(job);
        return 2;
    }
    run->tables[run->num_jobs++] = table;
    return -1;
}

/* Rows of a GPU's table are made smaller where it has little memory. */
static uint64_t at_most(uint64_t row, uint64_t option)
{
    return (option != 0) && (option < row) ? option : row;
}

/* Is a row of the table that was asked for? */
static bool is_asked_for(const options_t *options, const test_row_t *row)
{
    return strcmp(options->table, "all") == 0
               ? test_table_is_on_gpu(row->table) ==
                     (options->devices[0] != WORK_HOST)
               : strcmp(options->table, row->table) == 0;
}

/* Those that -t names, in its order. Returns as add_jobs() does. */
static int add_tests(run_t *run)
{
    const options_t *options = &run->options;
    unsigned         num     = options->num_tests;
    int              code    = -1;

    for (unsigned i = 0; (code < 0) && ((i < num) || (i == 0)); i++) {
        const char *name = num != 0 ? options->tests[i] : "each";

        code = add_job(run, test_find(name), options->size, options->count,
                       options->pool_mode, NULL);
    }
    return code;
}

/* Returns -1 to go on, or the exit code: a table has all of its rows. */
static int add_jobs(run_t *run)
{
    const options_t  *options = &run->options;
    const test_row_t *row;
    int               code = -1;

    if (options->table == NULL) {
        return add_tests(run);
    }
    for (unsigned i = 0; (code < 0) && ((row = test_row_at(i)) != NULL); i++) {
        if (is_asked_for(options, row)) {
            code = add_job(run, test_find(row->test),
                           at_most(row->size, options->size),
                           at_most(row->count, options->count), row->pool_mode,
                           row->table);
        }
    }
    return code;
}

static void tell_progress(const run_t *run, unsigned index)
{
    if (!run->options.quiet && (run->num_jobs > 1)) {
        fprintf(stderr, "[%u/%u] ", index + 1, run->num_jobs);
        report_command(&run->jobs[index], stderr);
        fprintf(stderr, "\n");
    }
}

static void print_text(const run_t *run, unsigned index)
{
    const job_result_t *result = &run->results[index];
    const char         *table  = run->tables[index];
    bool                begins =
        (table != NULL) &&
        ((index == 0) || (strcmp(run->tables[index - 1], table) != 0));

    if (table == NULL) {
        report_text(result, run->output);
    } else if (test_table_is_on_gpu(table)) {
        if (begins) {
            report_gpu_begin(table, result, run->output);
        }
        report_gpu_row(result, run->output);
        if (index + 1 == run->num_jobs) {
            report_gpu_end(run->results, run->num_jobs, run->output);
        }
    } else {
        if (begins) {
            report_table_begin(table, run->output);
        }
        report_table_row(result, run->output);
    }
    fflush(run->output);
}

/* In two processes here, or with one on another host (remote not NULL). */
static int run_jobs(run_t *run, remote_t *remote)
{
    for (unsigned i = 0; i < run->num_jobs; i++) {
        tell_progress(run, i);
        if ((remote != NULL
                 ? remote_run(remote, &run->jobs[i], &run->results[i])
                 : pair_run(&run->jobs[i], run->options.cpus,
                            &run->results[i])) != 0) {
            return -1;
        }
        if (run->options.format == FORMAT_TEXT) {
            print_text(run, i);
        }
    }
    return 0;
}

static int run_remote(run_t *run)
{
    remote_t *remote;
    int       status;

    if ((pair_pin(run->options.cpus[0]) != 0) ||
        (remote_connect(run->options.connect, &remote) != 0)) {
        return -1;
    }
    status = run_jobs(run, remote);
    remote_destroy(remote);
    return status;
}

static int serve(const run_t *run)
{
    if (pair_pin(run->options.cpus[1]) != 0) {
        return -1;
    }
    return remote_serve(run->options.listen, run->output);
}

/* What a file is to hold; 0, or -1 after having said why it cannot. */
typedef int (*printer_t)(const run_t *run, FILE *stream);

static int print_json(const run_t *run, FILE *stream)
{
    report_json(run->results, run->num_jobs, stream);
    return 0;
}

static int print_csv(const run_t *run, FILE *stream)
{
    report_csv(run->results, run->num_jobs, stream);
    return 0;
}

static int print_plot(const run_t *run, FILE *stream)
{
    return plot_draw(run->results, run->num_jobs,
                     run->options.files[FILE_PLOT].path, stream);
}

/* Nothing is written to a file that no option names. */
static int print_to_file(run_t *run, file_t which, printer_t print)
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
        return perf_error("%s", error);
    }
    is_good = print(run, stream) == 0;
    if (result_file_end(file, stream, is_good, error) != 0) {
        return is_good ? perf_error("%s", error) : -1;
    }
    return 0;
}

/* Is there a bar for any of the jobs? */
static bool can_be_drawn(const run_t *run)
{
    for (unsigned i = 0; i < run->num_jobs; i++) {
        if (test_find(run->jobs[i].test)->unit != TEST_UNIT_BLOCK) {
            return true;
        }
    }
    return false;
}

/* Before the work. Returns -1 to go on, or the exit code. */
static int try_files(run_t *run)
{
    options_t *options = &run->options;
    char       error[RESULT_ERROR_SIZE];
    int        code;

    if (options->files[FILE_PLOT].path != NULL) {
        if (!can_be_drawn(run)) {
            perf_error("--plot: a block's get and put is nothing to draw: "
                       "leave it out, or give another test");
            return 2;
        }
        if (plot_check() != 0) {
            return 1;
        }
    }
    code = result_files_try(options->files, FILE_LAST, NULL, 0, error);
    if (code != 0) {
        perf_error("%s", error);
        return code;
    }
    return -1;
}

static int report(run_t *run)
{
    if (run->options.format == FORMAT_JSON) {
        report_json(run->results, run->num_jobs, run->output);
    } else if (run->options.format == FORMAT_CSV) {
        report_csv(run->results, run->num_jobs, run->output);
    }
    if ((fflush(run->output) != 0) || ferror(run->output)) {
        return perf_error("standard output cannot be written");
    }
    return (print_to_file(run, FILE_JSON, print_json) == 0) &&
                   (print_to_file(run, FILE_CSV, print_csv) == 0)
               ? print_to_file(run, FILE_PLOT, print_plot)
               : -1;
}

static int run_and_report(run_t *run)
{
    if ((run->options.devices[0] != WORK_HOST) &&
        (run->options.connect == NULL) &&
        (devices_check(run->options.devices) != 0)) {
        return -1;
    }
    if ((run->options.connect != NULL ? run_remote(run)
                                      : run_jobs(run, NULL)) != 0) {
        return -1;
    }
    return report(run);
}

/* What was not written was not done. Returns the exit code. */
static int close_output(FILE *output, int code)
{
    if ((output_close(output) != 0) && (code == 0)) {
        perf_error("standard output cannot be written: %s", strerror(errno));
        return 1;
    }
    return code;
}

/* The exit code. */
static int run_with_output(run_t *run)
{
    int code;

    if (output_take(&run->output) != 0) {
        perf_error("cannot use the standard output: %s", strerror(errno));
        return 1;
    }
    if (run->options.listen != NULL) {
        code = serve(run) != 0;
    } else {
        code = add_jobs(run);
        if (code < 0) {
            code = try_files(run);
        }
        if (code < 0) {
            code = run_and_report(run) != 0;
        }
    }
    return close_output(run->output, code);
}

int main(int argc, char **argv)
{
    run_t *run = calloc(1, sizeof(*run));
    int    code;

    if (run == NULL) {
        perf_error("out of memory");
        return 1;
    }
    code = options_parse(&run->options, argc, argv);
    if (code >= 0) {
        free(run);
        return close_output(stdout, code);
    }
    if (run->options.list) {
        list_print();
        code = close_output(stdout, 0);
    } else {
        code = run_with_output(run);
    }
    free(run);
    return code;
}
