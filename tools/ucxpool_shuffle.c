/*
 * ucxpool_shuffle: partitions files of records by a key and transfers the
 * records through the pool.
 */
#include <config.h>

#include "tools/common/error.h"
#include "tools/common/program.h"
#include "tools/shuffle/job.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define MAX_WORKERS 256u
#define MAX_FIELD   1000000u

#define EXIT_FAILED 1

typedef struct options {
    unsigned    num_workers;    /* 0: not given */
    unsigned    num_partitions; /* 0: not given */
    int         delimiter;
    unsigned    field;
    const char *folder;
    bool        has_header;
    bool        json;
    char      **files; /* NULL after the last */
} options_t;

/* Under a launcher this process is one rank of several. */
typedef struct launch {
    bool     is_launched;
    unsigned rank;
    unsigned num_ranks;
} launch_t;

static int read_delimiter(void *arg, const char *value)
{
    options_t *options = arg;

    options->delimiter = field_delimiter_parse(value);
    return options->delimiter != FIELD_UNKNOWN ? 0 : -1;
}

static const option_row_t rows[] = {
    {"workers", 'w', "N", "number of worker processes (default: one per CPU)",
     OPTION_NUMBER(options_t, num_workers, MAX_WORKERS)},
    {"partitions", 'p', "N",
     "number of partitions (default: the number of workers)",
     OPTION_NUMBER(options_t, num_partitions, OUTPUT_MAX_PARTITIONS)},
    {"delimiter", 'd', "C",
     "field separator: one character, 'tab', or 'csv' for commas and quoted "
     "fields (default: by suffix: .tbl '|', .csv csv, .tsv .tab tab)",
     OPTION_CALL(read_delimiter, "give one character, 'tab' or 'csv'")},
    {"field", 'k', "N", "number of the key field, from 1 (default: 1)",
     OPTION_NUMBER(options_t, field, MAX_FIELD)},
    {"output", 'o', "DIR", "output directory, which must be empty or not exist",
     OPTION_TEXT(options_t, folder)},
    {"header", 0, NULL,
     "the first line of each file is a header, which becomes the first line of "
     "each output",
     OPTION_FLAG(options_t, has_header)},
    {"json", 0, NULL, "print the summary as JSON",
     OPTION_FLAG(options_t, json)},
    OPTION_LAST_ROWS,
};

static int check(void *arg, char **files)
{
    options_t        *options = arg;
    ucxpool_config_t *config;

    options->files = files;
    if ((options->folder == NULL) || (options->folder[0] == '\0')) {
        return options_wrong("name an output directory with -o");
    }
    if (files[0] == NULL) {
        return options_wrong("name at least one input file");
    }
    if (ranks_are_launched() && (options->num_workers != 0)) {
        return options_wrong(
            "omit -w under a launcher: the launcher starts the workers");
    }
    if (ucxpool_config_read(&config) != UCXPOOL_OK) {
        return options_wrong("%s", ucxpool_error_detail());
    }
    ucxpool_config_release(config);
    return -1;
}

static unsigned count_processors(void)
{
    cpu_set_t set;
    int       count = 1;

    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        count = CPU_COUNT(&set);
    }
    return count < 64 ? (unsigned)count : 64;
}

/* Choose the id of the run, which is part of the names of temporary files. */
static int init_run(launch_t *launch, uint64_t *run_p)
{
    if (launch->is_launched) {
        return ranks_init(&launch->rank, &launch->num_ranks, run_p);
    }
    return getrandom(run_p, sizeof(*run_p), 0) == (ssize_t)sizeof(*run_p)
               ? 0
               : keep_error("cannot get random bytes: %s", strerror(errno));
}

/* Initialize the job, and check everything that can be checked before a process
 * is started. */
static int init_job(const options_t *options, uint64_t run, job_t *job)
{
    size_t num_files = 0;

    while (options->files[num_files] != NULL) {
        num_files++;
    }
    job->num_partitions = options->num_partitions != 0 ? options->num_partitions
                                                       : job->num_workers;
    job->field          = options->field;
    worker_choose_batch(job);
    return (inputs_init(&job->inputs, options->files, num_files,
                        options->delimiter) == 0) &&
                   (!options->has_header ||
                    (inputs_take_header(&job->inputs) == 0)) &&
                   (output_folder_open(&job->folder, options->folder, run) == 0)
               ? 0
               : -1;
}

static int print_summary(const options_t *options, const job_t *job,
                         const result_t *results, uint64_t elapsed_ns,
                         FILE *stream)
{
    (options->json ? summary_print_json
                   : summary_print_text)(job, results, elapsed_ns, stream);
    if ((fflush(stream) != 0) || ferror(stream)) {
        return keep_error("the partitions are complete, but the summary could "
                          "not be printed: %s",
                          strerror(errno));
    }
    return 0;
}

/* Run the job. Returns 0, -1 with an error, or the signal that ended the run.
 */
static int run_job(const options_t *options, const launch_t *launch,
                   uint64_t run, FILE *stream)
{
    uint64_t  since   = clock_now();
    job_t     job     = {0};
    result_t *results = NULL;
    int       result;

    job.num_workers = launch->is_launched         ? launch->num_ranks
                      : options->num_workers != 0 ? options->num_workers
                                                  : count_processors();
    result          = init_job(options, run, &job);
    if (result == 0) {
        results = tool_calloc(job.num_workers, sizeof(*results));
        result  = launch->is_launched ? ranks_run(&job, results)
                                      : local_run(&job, results);
        if ((result == 0) && (launch->rank == 0)) {
            result = print_summary(options, &job, results, clock_now() - since,
                                   stream);
        }
        output_folder_close(&job.folder);
        free(results);
    }
    inputs_cleanup(&job.inputs);
    return result;
}

/* End the process by the signal as if it had not been caught, so that the shell
 * sees the signal. Rank 0 prints the message for all ranks. */
static void end_by_signal(int signal_number, const launch_t *launch)
{
    if (launch->rank == 0) {
        tool_error("ended by %s, nothing was written",
                   strsignal(signal_number));
    }
    if (launch->is_launched) {
        ranks_abort(EXIT_FAILED, signal_number);
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

static int run(void *options, FILE *output)
{
    launch_t launch = {.is_launched = ranks_are_launched()};
    uint64_t id     = 0;
    int      result = init_run(&launch, &id);

    if (result == 0) {
        result = run_job(options, &launch, id, output);
    }
    if (result > 0) {
        end_by_signal(result, &launch);
    }
    if (result != 0) {
        tool_error("%s", kept_error());
    }
    if (launch.is_launched && (result == 0)) {
        ranks_cleanup();
    } else if (launch.is_launched) {
        ranks_abort(EXIT_FAILED, 0);
        /* A normal exit would let UCX and PMIx notify processes that also exit.
         */
        _exit(EXIT_FAILED);
    }
    return result == 0 ? 0 : EXIT_FAILED;
}

static const program_t program = {
    .name  = "ucxpool_shuffle",
    .usage = "[-w WORKERS] [OPTION...] -o DIR FILE...\n"
             "[OPTION...] -o DIR FILE...   (under mpirun or srun)",
    .purpose =
        "Partition the records (lines) of files by a key field. Workers "
        "exchange the records through libucxpool; records with equal keys end "
        "in the same file DIR/part-NNNNN.",
    .rows = rows,
    .notes =
        "Under mpirun or srun (PMIx), each process is one worker: omit -w. "
        "Settings of the pool: UCXPOOL_*, see ucxpool_info -c. Exit "
        "status: 0 done, 1 failed, 2 wrong usage.",
    .max_arguments = INT_MAX,
    .check         = check,
    .run           = run,
};

int main(int argc, char **argv)
{
    options_t options = {.delimiter = FIELD_UNKNOWN, .field = 1};

    return program_main(&program, &options, argc, argv);
}
