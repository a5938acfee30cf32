/*
 * ucxpool_perf: compares the same transfer through the pool and through raw
 * UCX.
 *
 *     options    the command line
 *     jobs       for each test, the work to do and the sides that do it
 *                (perf/job.h, perf/test.h)
 *     pair       two processes, here or on two hosts (pair.c, remote.c), that
 *                run the jobs as the sender and the receiver
 *     measure    in each round, each side sends a batch (measure.c)
 *     stage      lanes (raw.c, pool.c) and ends of all sides, and the control
 *                messages of the two processes for a batch (stage.c, batch.c)
 *     end        the loop over messages in flight (end.c, buffers.c)
 *     report     text, JSON
 */
#include <config.h>

#include "common/error.h"
#include "common/program.h"
#include "perf/pair.h"
#include "perf/report.h"
#include "perf/test.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#define MAX_JOBS 32

typedef struct options {
    const char *tests[MAX_JOBS];
    unsigned    num_tests;
    const char *table; /* one of test_row_t, "all", or NULL */
    work_t      work;  /* size and count: 0 for the test's default */
    bool        untold;
    unsigned    rounds;
    double      seconds; /* start no round of a job after this time */
    uint32_t    pool_mode;
    unsigned    num_sides; /* 0: the sides of the test */
    side_t      sides[JOB_MAX_SIDES];
    int         cpus[2]; /* -1: not pinned */
    bool        json;
    const char *listen;
    const char *connect;
    bool        list;
    bool        quiet;
} options_t;

/* --- options -------------------------------------------------------------- */

static int read_test(void *options_, const char *name)
{
    options_t *options = options_;

    if (options->num_tests == MAX_JOBS) {
        return options_wrong("-t %s: give at most %d tests", name, MAX_JOBS);
    }
    options->tests[options->num_tests++] = name;
    return test_find(name) != NULL ? 0 : -1;
}

static int read_table(void *options_, const char *name)
{
    options_t *options = options_;

    options->table = name;
    for (unsigned i = 0; test_row_at(i) != NULL; i++) {
        if (strcmp(test_row_at(i)->table, name) == 0) {
            return 0;
        }
    }
    return strcmp(name, "all") == 0 ? 0 : -1;
}

static int read_device(void *options, const char *text)
{
    return work_parse_devices(text, &((options_t *)options)->work);
}

static int read_pageable(void *options, const char *text)
{
    return work_parse_pageable(text, &((options_t *)options)->work.pageable);
}

static int read_wire(void *options, const char *text)
{
    for (uint32_t mode = MODE_AUTO; mode < MODE_LAST; mode++) {
        if (strcmp(side_mode_name(mode), text) == 0) {
            ((options_t *)options)->pool_mode = mode;
            return 0;
        }
    }
    return -1;
}

static int read_sides(void *options_, const char *text)
{
    options_t *options = options_;
    char       name[SIDE_NAME_SIZE];
    size_t     length;

    options->num_sides = 0;
    do {
        length = strcspn(text, ",");
        if ((length >= sizeof(name)) || (options->num_sides == JOB_MAX_SIDES)) {
            return -1;
        }
        memcpy(name, text, length);
        name[length] = '\0';
        if (side_parse(name, &options->sides[options->num_sides++]) != 0) {
            return -1;
        }
        text += length;
    } while (*text++ != '\0');
    return 0;
}

static int read_cpus(void *options, const char *text)
{
    int *cpus = ((options_t *)options)->cpus;
    char extra;

    return (sscanf(text, "%d,%d%c", &cpus[0], &cpus[1], &extra) == 2) &&
                   (cpus[0] >= 0) && (cpus[0] < CPU_SETSIZE) &&
                   (cpus[1] >= 0) && (cpus[1] < CPU_SETSIZE)
               ? 0
               : -1;
}

static const option_row_t option_rows[] = {
    {"test", 't', "TEST",
     "the test to run, see --list (default: each); repeat the option to run "
     "several tests in turn",
     OPTION_CALL(read_test, "no such test; --list prints all")},
    {"table", 0, "TABLE",
     "run the tests of a table: map, ucx; cuda, cuda-ucx with a GPU's memory; "
     "or all",
     OPTION_CALL(read_table, "give map, ucx, cuda, cuda-ucx or all")},
    {"size", 's', "SIZE", "size of a buffer in bytes, such as 256, 4k, 64m",
     OPTION_SIZE(options_t, work.size, WORK_MAX_BYTES)},
    {"count", 'n', "COUNT", "number of buffers in a message",
     OPTION_SIZE(options_t, work.count, WORK_MAX_BUFFERS),
     .right = "give a number, 1 to 16m"},
    {"outstanding", 'O', "NUM", "messages in flight (default: 2)",
     OPTION_NUMBER(options_t, work.outstanding, WORK_MAX_OUTSTANDING)},
    {"rounds", 'r', "NUM", "maximum number of rounds (default: 40)",
     OPTION_NUMBER(options_t, rounds, 1000000)},
    {"time", 'T', "SECONDS", "start no round after this time (default: 10)",
     OPTION_SECONDS(options_t, seconds)},
    {"device", 0, "cuda[:N[,M]]",
     "buffers in the memory of GPU N (default: 0) for both processes, or N at "
     "the sender and M at the receiver; N or M may be host",
     OPTION_CALL(read_device, "give cuda, cuda:N for a GPU that both processes "
                              "use, cuda:N,M for one each, or host for N or "
                              "M")},
    {"pageable", 0, "SIDE",
     "with --device: the sides (send, recv or both) whose buffers are in host "
     "memory that no GPU can access",
     OPTION_CALL(read_pageable, "give send, recv or both")},
    {"untold", 0, NULL,
     "with --device: do not tell the pool which kind of memory the buffers are "
     "in",
     OPTION_FLAG(options_t, untold)},
    {"wire", 0, "WIRE", "the pool's wire: auto, map, ucx (default: auto)",
     OPTION_CALL(read_wire, "give auto, map or ucx")},
    {"sides", 0, "LIST",
     "sides to compare, such as am-each/peer,iov/none; if the first side is "
     "the pool, the others are compared with it",
     OPTION_CALL(read_sides, "give names from --list, with commas between")},
    {"cpus", 0, "A,B", "pin the sender to CPU A, the receiver to CPU B",
     OPTION_CALL(read_cpus, "give two numbers, as 0,1")},
    {"json", 0, NULL, "print one JSON object, for programs",
     OPTION_FLAG(options_t, json)},
    {"list", 0, NULL, "print the tests and sides, and exit",
     OPTION_FLAG(options_t, list)},
    {"listen", 'l', "PORT",
     "serve one run of another process, at PORT or HOST:PORT; a process of "
     "another host needs the same secret (UCXPOOL_SECRET_FILE)",
     OPTION_TEXT(options_t, listen)},
    {"quiet", 'q', NULL, "print no progress to standard error",
     OPTION_FLAG(options_t, quiet)},
    OPTION_LAST_ROWS,
};

static const options_t defaults = {
    .work = {.outstanding = JOB_OUTSTANDING, .devices = {WORK_HOST, WORK_HOST}},
    .rounds    = 40,
    .seconds   = 10,
    .pool_mode = MODE_AUTO,
    .cpus      = {-1, -1},
};

/* Returns true if this row is in the requested table. */
static bool is_asked_for(const options_t *options, const test_row_t *row)
{
    return strcmp(options->table, "all") == 0
               ? test_table_is_on_gpu(row->table) ==
                     work_is_on_gpu(&options->work)
               : strcmp(options->table, row->table) == 0;
}

/* The functions that check return -1 to continue, or the exit code. */
static int check_table(options_t *options)
{
    bool on_gpu = strcmp(options->table, "all") == 0
                      ? work_is_on_gpu(&options->work)
                      : test_table_is_on_gpu(options->table);

    if ((options->num_tests != 0) || (options->num_sides != 0) ||
        (options->pool_mode != MODE_AUTO) || (options->work.pageable != 0) ||
        options->untold ||
        (work_is_on_gpu(&options->work) &&
         ((options->work.devices[0] == WORK_HOST) ||
          (options->work.devices[1] == WORK_HOST)))) {
        return options_wrong(
            "a table has its own tests, sides and wires: omit -t, --sides, "
            "--wire, --pageable, --untold and the device host");
    }
    if (!on_gpu && work_is_on_gpu(&options->work)) {
        return options_wrong("--table %s uses host memory: omit --device",
                             options->table);
    }
    if (on_gpu && !work_is_on_gpu(&options->work)) {
        work_parse_devices("cuda", &options->work);
    }
    return -1;
}

/* Check the options of a server. Its client selects the work. */
static int check_listen(const options_t *options)
{
    if ((options->table != NULL) || (options->num_tests != 0) ||
        (options->num_sides != 0) || (options->pool_mode != MODE_AUTO) ||
        (options->work.size != 0) || (options->work.count != 0) ||
        (options->work.outstanding != defaults.work.outstanding) ||
        (options->rounds != defaults.rounds) ||
        (options->seconds != defaults.seconds) ||
        (options->work.pageable != 0) || options->untold || options->json ||
        work_is_on_gpu(&options->work)) {
        return options_wrong(
            "the process that connects selects the test: pass -t, --table, -s, "
            "-n, -O, -r, -T, --sides, --wire, --device, --pageable, "
            "--untold and --json to it, not to -l");
    }
    return -1;
}

static int check_options(options_t *options)
{
    if ((options->listen != NULL) && (options->connect != NULL)) {
        return options_wrong(
            "use -l PORT on one host and HOST:PORT on the other");
    }
    if (options->listen != NULL) {
        return check_listen(options);
    }
    if ((options->num_sides != 0) && (options->pool_mode != MODE_AUTO)) {
        return options_wrong(
            "--sides names the pool's wires, as in pool/ucx: omit --wire");
    }
    if (((options->work.pageable != 0) || options->untold) &&
        !work_is_on_gpu(&options->work)) {
        return options_wrong("%s needs pools on a GPU: add --device",
                             options->untold ? "--untold" : "--pageable");
    }
    return options->table != NULL ? check_table(options) : -1;
}

/* --- jobs ----------------------------------------------------------------- */

typedef struct run {
    options_t    options; /* first: an options_t * is a run_t * */
    FILE        *output;  /* the standard output */
    unsigned     num_jobs;
    job_t        jobs[MAX_JOBS];
    job_result_t results[MAX_JOBS];
} run_t;

/* Add the pool, and each way of raw UCX in both modes. */
static void add_sides(job_t *job, const test_t *test, uint32_t pool_mode)
{
    const uint32_t *ways =
        work_is_on_gpu(&job->work) ? test->gpu_ways : test->raw_ways;

    job->sides[job->num_sides++] = (side_t){test->pool_way, pool_mode};
    if (test->second_way != WAY_NONE) {
        job->sides[job->num_sides++] = (side_t){test->second_way, pool_mode};
    }
    for (unsigned i = 0; ways[i] != WAY_NONE; i++) {
        job->sides[job->num_sides++] = (side_t){ways[i], MODE_PEER};
        job->sides[job->num_sides++] = (side_t){ways[i], MODE_NONE};
    }
}

/* The functions that add jobs return -1 to continue, or the exit code. */
static int add_job(run_t *run, const test_t *test, uint64_t size,
                   uint64_t count, uint32_t pool_mode)
{
    const options_t *options = &run->options;
    job_t           *job     = &run->jobs[run->num_jobs];
    bool             is_trip = test->unit == UNIT_TRIP;

    *job = (job_t){
        .work          = options->work,
        .max_rounds    = options->rounds,
        .may_miss      = options->table != NULL,
        .has_own_sides = options->num_sides != 0,
        .time_ns       = (uint64_t)(options->seconds * 1e9),
    };
    job->work.size        = size != 0 ? size : test->size;
    job->work.count       = count != 0 ? count : test->count;
    job->work.outstanding = is_trip ? 1 : options->work.outstanding;
    job->work.echo        = is_trip;
    job->work.misaligned  = test->misaligned;
    job->work.both        = test->is_both;
    job->work.untold      = options->untold;
    strncpy(job->test, test->name, sizeof(job->test) - 1);
    if (options->num_sides != 0) {
        job->num_sides = options->num_sides;
        memcpy(job->sides, options->sides, sizeof(job->sides));
    } else {
        add_sides(job, test, pool_mode);
    }
    run->num_jobs++;
    return job_check(job) == 0 ? -1 : 2;
}

/* Returns the smaller of a row's value and the option's value. The option is
 * for machines with little memory. */
static uint64_t at_most(uint64_t row, uint64_t option)
{
    return (option != 0) && (option < row) ? option : row;
}

static int add_rows(run_t *run)
{
    const options_t  *options = &run->options;
    const test_row_t *row;
    int               code = -1;

    for (unsigned i = 0; (code < 0) && ((row = test_row_at(i)) != NULL); i++) {
        if (is_asked_for(options, row)) {
            code = add_job(run, test_find(row->test),
                           at_most(row->size, options->work.size),
                           at_most(row->count, options->work.count),
                           row->pool_mode);
        }
    }
    return code;
}

static int add_jobs(run_t *run)
{
    options_t *options = &run->options;
    int        code    = -1;

    if (options->table != NULL) {
        return add_rows(run);
    }
    if (options->num_tests == 0) {
        options->tests[options->num_tests++] = "each";
    }
    for (unsigned i = 0; (code < 0) && (i < options->num_tests); i++) {
        code = add_job(run, test_find(options->tests[i]), options->work.size,
                       options->work.count, options->pool_mode);
    }
    return code;
}

/* --- running -------------------------------------------------------------- */

static void report_progress(const run_t *run, unsigned index)
{
    char command[REPORT_COMMAND_SIZE];

    if (!run->options.quiet && (run->num_jobs > 1)) {
        fprintf(stderr, "[%u/%u] %s\n", index + 1, run->num_jobs,
                report_command(&run->jobs[index], command));
    }
}

static int run_jobs(run_t *run, control_t *control)
{
    for (unsigned i = 0; i < run->num_jobs; i++) {
        report_progress(run, i);
        if (measure_lead(&run->jobs[i], control, &run->results[i]) != 0) {
            return -1;
        }
        if (!run->options.json) {
            report_text(&run->results[i], run->output);
            fflush(run->output);
        }
    }
    return 0;
}

/* Run the jobs with a receiver that is forked here, or that runs on another
 * host. */
static int run_pair(run_t *run)
{
    const options_t *options = &run->options;
    control_t       *control;
    int              status = 0;

    if (options->connect == NULL) {
        status = pair_start(options->cpus, &control);
    } else if ((pair_pin(options->cpus[0]) != 0) ||
               (remote_connect(options->connect, &control) != 0)) {
        status = -1;
    }
    if (status != 0) {
        return -1;
    }
    if (work_is_on_gpu(&options->work) && !control->is_remote) {
        status = pair_check_devices(options->work.devices);
    }
    if (status == 0) {
        status = run_jobs(run, control);
    }
    return control->end(control, status);
}

/* --- the program ---------------------------------------------------------- */

static int check(void *arg, char **arguments)
{
    run_t     *run     = arg;
    options_t *options = &run->options;
    int        code;

    options->connect = arguments[0];
    code             = check_options(options);
    if ((code < 0) && options->list) {
        test_list();
        return 0;
    }
    return (code < 0) && (options->listen == NULL) ? add_jobs(run) : code;
}

static int run_all(void *arg, FILE *output)
{
    run_t           *run     = arg;
    const options_t *options = &run->options;

    run->output = output;
    if (options->listen != NULL) {
        return (pair_pin(options->cpus[1]) != 0) ||
               (remote_serve(options->listen, output) != 0);
    }
    if (run_pair(run) != 0) {
        return 1;
    }
    if (options->json) {
        report_json(run->results, run->num_jobs, output);
    }
    return 0;
}

static const program_t program = {
    .name    = "ucxpool_perf",
    .usage   = "[-t TEST] [-s SIZE] [-n COUNT] [OPTION]...\n"
               "--table map|ucx|cuda|cuda-ucx|all [OPTION]...\n"
               "-l PORT               on one host, and on the other\n"
               "[OPTION]... HOST:PORT",
    .purpose = "Run the same transfer through the pool and through raw UCX, in "
               "turn, and show the speed of each.",
    .rows    = option_rows,
    .notes   = "UCX_ and UCXPOOL_ variables apply to both processes. Exit "
               "status: 0 done, 1 something failed, 2 wrong usage.",
    .max_arguments = 1,
    .ucx_version   = ucp_get_version_string,
    .check         = check,
    .run           = run_all,
};

int main(int argc, char **argv)
{
    run_t *run = tool_calloc(1, sizeof(*run));
    int    code;

    run->options = defaults;
    code         = program_main(&program, run, argc, argv);
    free(run);
    return code;
}
