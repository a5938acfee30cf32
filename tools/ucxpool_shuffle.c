/*
 * ucxpool_shuffle: partition record files by a key, through the pool.
 */
#include <config.h>

#include "tools/common/output.h"
#include "tools/shuffle/error.h"
#include "tools/shuffle/job.h"
#include "tools/shuffle/launcher.h"
#include "tools/shuffle/local.h"
#include "tools/shuffle/options.h"
#include "tools/shuffle/pool.h"
#include "tools/shuffle/ranks.h"
#include "tools/shuffle/stopwatch.h"
#include "tools/shuffle/summary.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

typedef enum status {
    STATUS_DONE   = 0,
    STATUS_FAILED = 1,
    STATUS_USAGE  = 2
} status_t;

static status_t main_fail(status_t status)
{
    fprintf(stderr, "ucxpool_shuffle: %s\n", error_text());
    if (status == STATUS_USAGE) {
        fprintf(stderr, "Try 'ucxpool_shuffle --help'.\n");
    }
    return status;
}

static unsigned main_count_processors(void)
{
    cpu_set_t set;
    int       count = 1;

    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        count = CPU_COUNT(&set);
    }
    return count < 64 ? (unsigned)count : 64;
}

/* All workers of a run write by one claim on the folder. */
static int main_open_folder(const options_t *options, launcher_t *launcher,
                            output_folder_t *folder)
{
    uint64_t run;

    if (getrandom(&run, sizeof(run), 0) != (ssize_t)sizeof(run)) {
        return say_error("cannot get random bytes: %s", strerror(errno));
    }
    if ((launcher != NULL) &&
        (launcher_share(launcher, (char *)&run, sizeof(run)) != 0)) {
        return -1;
    }
    return output_folder_open(folder, options->folder, run);
}

/* Everything that can be checked before a process is started. */
static int main_init_job(const options_t *options, launcher_t *launcher,
                         job_t *job)
{
    job->num_partitions = options->num_partitions != 0 ? options->num_partitions
                                                       : job->num_workers;
    job->field          = options->field;
    job->compare_memcpy = options->compare_memcpy;
    job->on_gpu         = options->on_gpu;
    job->gpu            = options->gpu;
    job->gpu_memory     = options->gpu_memory;
    job_choose_buckets(job);
    if (job_check_gpu_memory(job) != 0) {
        return -1;
    }
    if (inputs_init(&job->inputs, options->files, options->num_files,
                    options->delimiter) != 0) {
        return -1;
    }
    if ((options->has_header && (inputs_take_header(&job->inputs) != 0)) ||
        (main_open_folder(options, launcher, &job->folder) != 0)) {
        inputs_cleanup(&job->inputs);
        return -1;
    }
    return 0;
}

static int main_print(const options_t *options, const summary_t *summary,
                      FILE *stream)
{
    if (options->json) {
        summary_print_json(summary, stream);
    } else {
        summary_print_text(summary, stream);
    }
    if ((fflush(stream) != 0) || ferror(stream)) {
        return say_error("the partitions are complete, but the summary could "
                         "not be printed: %s",
                         strerror(errno));
    }
    return 0;
}

/* As if nobody had caught the signal: the shell sees how we ended. Of those
 * that a launcher ends together, one says so. */
static status_t main_raise(int signal_number, const launcher_t *launcher)
{
    if ((launcher == NULL) || (launcher->rank == 0)) {
        fprintf(stderr, "ucxpool_shuffle: ended by %s, nothing was written\n",
                strsignal(signal_number));
    }
    if (launcher != NULL) {
        launcher_delay_exit(launcher);
    }
    signal(signal_number, SIG_DFL);
    raise(signal_number);
    return STATUS_FAILED;
}

static status_t main_run(const options_t *options, launcher_t *launcher,
                         FILE *stream)
{
    uint64_t  since = stopwatch_now();
    summary_t summary;
    result_t *results;
    job_t     job = {0};
    int       result;

    job.num_workers = launcher != NULL            ? launcher->num_ranks
                      : options->num_workers != 0 ? options->num_workers
                                                  : main_count_processors();
    results         = calloc(job.num_workers, sizeof(*results));
    if (results == NULL) {
        say_error("out of memory for %u workers", job.num_workers);
        return main_fail(STATUS_FAILED);
    }
    if (main_init_job(options, launcher, &job) != 0) {
        free(results);
        return main_fail(STATUS_FAILED);
    }
    result = launcher != NULL ? ranks_run(&job, launcher, results)
                              : local_run(&job, results);
    if ((result == 0) && ((launcher == NULL) || (launcher->rank == 0))) {
        summary.job        = &job;
        summary.results    = results;
        summary.elapsed_ns = stopwatch_now() - since;
        result             = main_print(options, &summary, stream);
    }
    output_folder_close(&job.folder);
    inputs_cleanup(&job.inputs);
    free(results);
    if (result > 0) {
        return main_raise(result, launcher);
    }
    return result == 0 ? STATUS_DONE : main_fail(STATUS_FAILED);
}

static status_t main_run_launched(const options_t *options, FILE *stream)
{
    launcher_t launcher;
    status_t   status;

    if (options->num_workers != 0) {
        say_error("-w is not for use under a launcher: it starts the workers");
        return main_fail(STATUS_USAGE);
    }
    if (launcher_init(&launcher) != 0) {
        return main_fail(STATUS_FAILED);
    }
    status = main_run(options, &launcher, stream);
    if (status != STATUS_DONE) {
        launcher_abort(&launcher, status);
        /* UCX and PMIx would say good-bye to those that leave as well. */
        _exit((int)status);
    }
    launcher_cleanup(&launcher);
    return status;
}

/* What was not written was not shown. */
static status_t main_close(FILE *stream)
{
    if (output_close(stream) != 0) {
        say_error("standard output cannot be written: %s", strerror(errno));
        return main_fail(STATUS_FAILED);
    }
    return STATUS_DONE;
}

int main(int argc, char **argv)
{
    options_t options;
    status_t  status;
    FILE     *stream;

    switch (options_parse(&options, argc, argv)) {
    case OPTIONS_SHOWN:
        return main_close(stdout);
    case OPTIONS_WRONG:
        return main_fail(STATUS_USAGE);
    case OPTIONS_RUN:
        break;
    }
    if (pool_check_settings() != 0) {
        return main_fail(STATUS_USAGE);
    }
    if (output_take(&stream) != 0) {
        say_error("cannot use the standard output: %s", strerror(errno));
        return main_fail(STATUS_FAILED);
    }
    status = launcher_is_present() ? main_run_launched(&options, stream)
                                   : main_run(&options, NULL, stream);
    fclose(stream);
    return status;
}
