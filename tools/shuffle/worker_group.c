#include <config.h>

#include "tools/shuffle/worker_group.h"
#include "tools/shuffle/child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* How likely a worker is the cause of the failure, the likeliest first. */
typedef enum group_blame {
    CREW_KILLED, /* by somebody else */
    CREW_FAILED,
    CREW_KILLED_LATE,
    CREW_DIED, /* by itself */
    CREW_FAILED_LATE,
    CREW_DIED_LATE,
    CREW_LOST_PEER,
    CREW_INNOCENT
} group_blame_t;

int group_init(worker_group_t *group, const job_t *job)
{
    group->job        = job;
    group->num_alive  = 0;
    group->num_failed = 0;
    group->is_ending  = false;
    group->members    = calloc(job->num_workers, sizeof(*group->members));
    if (group->members == NULL) {
        return say_error("out of memory for %u workers", job->num_workers);
    }
    group->shared = shared_create(job->num_workers);
    if (group->shared == NULL) {
        free(group->members);
        return -1;
    }
    for (unsigned i = 0; i < job->num_workers; i++) {
        group->members[i].socket = -1;
    }
    return 0;
}

void group_cleanup(worker_group_t *group)
{
    shared_destroy(group->shared, group->job->num_workers);
    free(group->members);
}

/* In the new process. The sockets of the others must be closed here, or their
 * end could not be seen. */
static int group_become(worker_group_t *group, unsigned index, int socket,
                        pid_t parent)
{
    child_params_t params = {group->job, index, group->shared, socket, parent};

    for (unsigned i = 0; i < index; i++) {
        close(group->members[i].socket);
    }
    return child_main(&params);
}

static int group_start_one(worker_group_t *group, unsigned index)
{
    pid_t parent = getpid();
    int   sockets[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
        return say_error("cannot make a socket pair for worker %u: %s", index,
                         strerror(errno));
    }
    pid = fork();
    if (pid < 0) {
        say_error("cannot start worker %u: %s", index, strerror(errno));
        close(sockets[0]);
        close(sockets[1]);
        return -1;
    }
    if (pid == 0) {
        int status;

        close(sockets[0]);
        status = group_become(group, index, sockets[1], parent);
        exit(status);
    }
    close(sockets[1]);
    group->members[index].pid    = pid;
    group->members[index].socket = sockets[0];
    group->num_alive++;
    return 0;
}

int group_start(worker_group_t *group)
{
    /* What is buffered must not be written by every process. */
    fflush(NULL);
    for (unsigned i = 0; i < group->job->num_workers; i++) {
        if (group_start_one(group, i) != 0) {
            return -1;
        }
    }
    return 0;
}

void group_tell(worker_group_t *group, shared_word_t word)
{
    char byte = (char)word;

    group->is_ending |= word == SHARED_ABORT;
    for (unsigned i = 0; i < group->job->num_workers; i++) {
        if (group->members[i].socket >= 0) {
            /* One that is gone is noticed by group_hear(). */
            send(group->members[i].socket, &byte, 1,
                 MSG_NOSIGNAL | MSG_DONTWAIT);
        }
    }
}

static void group_signal(const worker_group_t *group, int signal_number)
{
    for (unsigned i = 0; i < group->job->num_workers; i++) {
        if (group->members[i].socket >= 0) {
            kill(group->members[i].pid, signal_number);
        }
    }
}

void group_kill(worker_group_t *group)
{
    group->is_ending = true;
    for (unsigned i = 0; i < group->job->num_workers; i++) {
        group->members[i].was_killed |= group->members[i].socket >= 0;
    }
    /* None may see another go, and between two kills there is time enough. */
    group_signal(group, SIGSTOP);
    group_signal(group, SIGKILL);
}

bool group_is_parked(const worker_group_t *group)
{
    for (unsigned i = 0; i < group->job->num_workers; i++) {
        if ((group->members[i].socket >= 0) && !group->members[i].has_failed) {
            return false;
        }
    }
    return true;
}

static void group_note_end(worker_group_t *group, worker_process_t *member)
{
    member->is_late = group->is_ending;
    member->order   = group->num_failed++;
}

char group_hear(worker_group_t *group, unsigned index)
{
    worker_process_t *member = &group->members[index];
    char              byte;
    ssize_t           got;

    do {
        got = recv(member->socket, &byte, 1, 0);
    } while ((got < 0) && (errno == EINTR));
    if (got == 1) {
        if (byte == SHARED_FAILED) {
            group_note_end(group, member);
            member->has_failed = true;
        }
        return byte;
    }
    if (!member->has_failed) {
        group_note_end(group, member);
    }
    close(member->socket);
    member->socket = -1;
    group->num_alive--;
    while ((waitpid(member->pid, &member->status, 0) < 0) && (errno == EINTR)) {
    }
    return 0;
}

/* Ended without a word: by a signal, or by an exit that is not ours. */
static bool group_is_dead(const worker_group_t *group, unsigned index)
{
    const worker_process_t *member = &group->members[index];

    return (member->pid != 0) && !member->was_killed && !member->has_failed &&
           (member->status != 0);
}

static int group_complain_dead(const worker_group_t *group, unsigned index)
{
    const worker_process_t *member = &group->members[index];

    if (WIFSIGNALED(member->status)) {
        return say_error("worker %u (process %ld) was killed by signal %d (%s)",
                         index, (long)member->pid, WTERMSIG(member->status),
                         strsignal(WTERMSIG(member->status)));
    }
    return say_error("worker %u (process %ld) ended early, with exit status %d",
                     index, (long)member->pid, WEXITSTATUS(member->status));
}

bool group_was_slain(const worker_group_t *group, unsigned index)
{
    const worker_process_t *member = &group->members[index];

    return group_is_dead(group, index) && WIFSIGNALED(member->status) &&
           (WTERMSIG(member->status) == SIGKILL);
}

static group_blame_t group_blame(const worker_group_t *group, unsigned index)
{
    const worker_process_t *member = &group->members[index];

    if (group_was_slain(group, index)) {
        return member->is_late ? CREW_KILLED_LATE : CREW_KILLED;
    }
    if (group_is_dead(group, index)) {
        return member->is_late ? CREW_DIED_LATE : CREW_DIED;
    }
    if (!member->has_failed) {
        return CREW_INNOCENT;
    }
    if (group->shared[index].is_consequence) {
        return CREW_LOST_PEER;
    }
    return member->is_late ? CREW_FAILED_LATE : CREW_FAILED;
}

/* The first one of the most to blame; num_workers: none is. */
static unsigned group_cause(const worker_group_t *group)
{
    group_blame_t most  = CREW_INNOCENT;
    unsigned      cause = group->job->num_workers;
    group_blame_t blame;

    for (unsigned i = 0; i < group->job->num_workers; i++) {
        blame = group_blame(group, i);
        if ((blame < most) ||
            ((blame == most) && (cause < group->job->num_workers) &&
             (group->members[i].order < group->members[cause].order))) {
            most  = blame;
            cause = i;
        }
    }
    return cause;
}

int group_say_error(const worker_group_t *group)
{
    unsigned cause = group_cause(group);

    if (cause == group->job->num_workers) {
        return say_error("a worker did not end when it was told to");
    }
    return group_is_dead(group, cause)
               ? group_complain_dead(group, cause)
               : say_error("%s", group->shared[cause].error);
}
