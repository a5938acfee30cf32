#include <config.h>

#include "tools/shuffle/local.h"
#include "tools/shuffle/bar.h"
#include "tools/shuffle/worker_group.h"
#include "tools/shuffle/stopwatch.h"
#include "tools/shuffle/verdict.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define LOCAL_BAR_MS 100
/* A worker that was told to end has this long; it needs much less. */
#define LOCAL_GRACE_NS 10000000000u

typedef struct local {
    job_t         *job;
    result_t      *results;
    worker_group_t group;
    bar_t          bar;
    struct pollfd *polls; /* by worker, then the signals */
    int            signal_fd;
    sigset_t       old_mask;
    unsigned       num_ready;
    unsigned       num_done;
    bool           has_failed;
    uint64_t       failed_at;
    int            signal_number;     /* that ended the run */
    char           error[ERROR_SIZE]; /* of the main process, "" */
} local_t;

static int local_signals_init(local_t *local)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t         mask;

    sigemptyset(&mask);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        sigaddset(&mask, signals[i]);
    }
    sigprocmask(SIG_BLOCK, &mask, &local->old_mask);
    local->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (local->signal_fd < 0) {
        say_error("cannot make a signal descriptor: %s", strerror(errno));
        sigprocmask(SIG_SETMASK, &local->old_mask, NULL);
        return -1;
    }
    return 0;
}

/* Once the files have their names it is too late for a signal: it could only
 * end the summary, and make what is complete look as if it were not. */
static void local_signals_cleanup(local_t *local, bool is_complete)
{
    close(local->signal_fd);
    if (!is_complete) {
        sigprocmask(SIG_SETMASK, &local->old_mask, NULL);
    }
}

static void local_fail(local_t *local)
{
    if (!local->has_failed) {
        local->has_failed = true;
        local->failed_at  = stopwatch_now();
        group_tell(&local->group, SHARED_ABORT);
    }
}

/* The cause is in the main process: keep its error. */
static void local_fail_here(local_t *local)
{
    if (!local->has_failed) {
        strcpy(local->error, error_text());
    }
    local_fail(local);
}

static void local_take_signal(local_t *local)
{
    struct signalfd_siginfo info;

    if (read(local->signal_fd, &info, sizeof(info)) != sizeof(info)) {
        return;
    }
    /* Asked a second time: no more patience. */
    if (local->signal_number != 0) {
        group_kill(&local->group);
    }
    local->signal_number = (int)info.ssi_signo;
    local_fail(local);
}

static void local_compare(local_t *local)
{
    result_t sum;

    for (unsigned i = 0; i < local->job->num_workers; i++) {
        local->results[i] = local->group.shared[i].result;
    }
    verdict_sum(local->results, local->job->num_workers, &sum);
    if (verdict_check(&sum) != 0) {
        local_fail_here(local);
    } else {
        group_tell(&local->group, SHARED_LEAVE);
    }
}

/* A worker is gone. Those that are connected to it run into its end before they
 * can be told; those that are not yet are in the middle of UCX's start, which
 * leaves files behind if it is cut off. */
static void local_lose(local_t *local, unsigned index)
{
    local_fail(local);
    if ((local->num_ready == local->job->num_workers) &&
        group_was_slain(&local->group, index)) {
        group_kill(&local->group);
    }
}

static void local_take_word(local_t *local, unsigned index)
{
    char word = group_hear(&local->group, index);

    if (word == SHARED_READY) {
        if ((++local->num_ready == local->job->num_workers) &&
            !local->has_failed) {
            group_tell(&local->group, SHARED_GO);
        }
    } else if (word == SHARED_DONE) {
        if ((++local->num_done == local->job->num_workers) &&
            !local->has_failed) {
            local_compare(local);
        }
    } else if (word == SHARED_FAILED) {
        local_fail(local);
    } else if ((local->num_done < local->job->num_workers) ||
               (local->group.members[index].status != 0)) {
        local_lose(local, index);
    }
}

static void local_draw(local_t *local)
{
    uint64_t bytes_read    = 0;
    uint64_t bytes_written = 0;

    for (unsigned i = 0; i < local->job->num_workers; i++) {
        const progress_t *progress = &local->group.shared[i].progress;

        bytes_read += progress_get(&progress->bytes_read);
        bytes_written += progress_get(&progress->bytes_written);
    }
    bar_draw(&local->bar, bytes_read, bytes_written);
}

/* Wait for something, and take it. */
static void local_turn(local_t *local)
{
    unsigned num_workers = local->job->num_workers;
    bool     needs_time  = local->bar.is_shown || local->has_failed;

    for (unsigned i = 0; i < num_workers; i++) {
        local->polls[i].fd      = local->group.members[i].socket;
        local->polls[i].events  = POLLIN;
        local->polls[i].revents = 0;
    }
    local->polls[num_workers].fd     = local->signal_fd;
    local->polls[num_workers].events = POLLIN;
    if (poll(local->polls, num_workers + 1, needs_time ? LOCAL_BAR_MS : -1) <
        0) {
        return;
    }
    local_take_signal(local);
    for (unsigned i = 0; i < num_workers; i++) {
        if (local->polls[i].revents != 0) {
            local_take_word(local, i);
        }
    }
    local_draw(local);
    if (local->has_failed &&
        (group_is_parked(&local->group) ||
         (stopwatch_now() - local->failed_at > LOCAL_GRACE_NS))) {
        group_kill(&local->group);
    }
}

static void local_work(local_t *local)
{
    bar_init(&local->bar, local->job->inputs.size);
    if (group_start(&local->group) != 0) {
        local_fail_here(local);
    }
    while (local->group.num_alive > 0) {
        local_turn(local);
    }
    bar_clear(&local->bar);
}

static int local_end(local_t *local)
{
    job_t       *job = local->job;
    output_set_t all = {0, 1, job->num_partitions};

    if (!local->has_failed && (output_commit(&job->folder, &all) == 0)) {
        output_settle(&job->folder, &all);
        return 0;
    }
    if (!local->has_failed) {
        strcpy(local->error, error_text());
    }
    output_discard(&job->folder, &all);
    if (local->signal_number != 0) {
        return local->signal_number;
    }
    if (local->error[0] != '\0') {
        return say_error("%s", local->error);
    }
    return group_say_error(&local->group);
}

int local_run(job_t *job, result_t *results)
{
    local_t local  = {0};
    int     result = -1;

    local.job     = job;
    local.results = results;
    local.polls   = calloc(job->num_workers + 1, sizeof(*local.polls));
    if (local.polls == NULL) {
        return say_error("out of memory for %u workers", job->num_workers);
    }
    if (group_init(&local.group, job) != 0) {
        goto err_free;
    }
    if (local_signals_init(&local) != 0) {
        goto err_group_cleanup;
    }
    local_work(&local);
    result = local_end(&local);
    local_signals_cleanup(&local, result == 0);
err_group_cleanup:
    group_cleanup(&local.group);
err_free:
    free(local.polls);
    return result;
}
