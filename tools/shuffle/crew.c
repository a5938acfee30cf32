#include <config.h>

#include "tools/shuffle/crew.h"
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
typedef enum crew_blame {
    CREW_KILLED, /* by somebody else */
    CREW_FAILED,
    CREW_KILLED_LATE,
    CREW_DIED, /* by itself */
    CREW_FAILED_LATE,
    CREW_DIED_LATE,
    CREW_LOST_PEER,
    CREW_INNOCENT
} crew_blame_t;

int crew_init(crew_t *crew, const job_t *job)
{
    crew->job        = job;
    crew->num_alive  = 0;
    crew->num_failed = 0;
    crew->is_ending  = false;
    crew->members    = calloc(job->num_workers, sizeof(*crew->members));
    if (crew->members == NULL) {
        return complain("out of memory for %u workers", job->num_workers);
    }
    crew->board = board_create(job->num_workers);
    if (crew->board == NULL) {
        free(crew->members);
        return -1;
    }
    for (unsigned i = 0; i < job->num_workers; i++) {
        crew->members[i].socket = -1;
    }
    return 0;
}

void crew_cleanup(crew_t *crew)
{
    board_destroy(crew->board, crew->job->num_workers);
    free(crew->members);
}

/* In the new process. The sockets of the others must be closed here, or their
 * end could not be seen. */
static int crew_become(crew_t *crew, unsigned index, int socket, pid_t parent)
{
    child_params_t params = {crew->job, index, crew->board, socket, parent};

    for (unsigned i = 0; i < index; i++) {
        close(crew->members[i].socket);
    }
    return child_main(&params);
}

static int crew_start_one(crew_t *crew, unsigned index)
{
    pid_t parent = getpid();
    int   sockets[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
        return complain("cannot make a socket pair for worker %u: %s", index,
                        strerror(errno));
    }
    pid = fork();
    if (pid < 0) {
        complain("cannot start worker %u: %s", index, strerror(errno));
        close(sockets[0]);
        close(sockets[1]);
        return -1;
    }
    if (pid == 0) {
        int status;

        close(sockets[0]);
        status = crew_become(crew, index, sockets[1], parent);
        exit(status);
    }
    close(sockets[1]);
    crew->members[index].pid    = pid;
    crew->members[index].socket = sockets[0];
    crew->num_alive++;
    return 0;
}

int crew_start(crew_t *crew)
{
    /* What is buffered must not be written by every process. */
    fflush(NULL);
    for (unsigned i = 0; i < crew->job->num_workers; i++) {
        if (crew_start_one(crew, i) != 0) {
            return -1;
        }
    }
    return 0;
}

void crew_tell(crew_t *crew, board_word_t word)
{
    char byte = (char)word;

    crew->is_ending |= word == BOARD_ABORT;
    for (unsigned i = 0; i < crew->job->num_workers; i++) {
        if (crew->members[i].socket >= 0) {
            /* One that is gone is noticed by crew_hear(). */
            send(crew->members[i].socket, &byte, 1,
                 MSG_NOSIGNAL | MSG_DONTWAIT);
        }
    }
}

static void crew_signal(const crew_t *crew, int signal_number)
{
    for (unsigned i = 0; i < crew->job->num_workers; i++) {
        if (crew->members[i].socket >= 0) {
            kill(crew->members[i].pid, signal_number);
        }
    }
}

void crew_kill(crew_t *crew)
{
    crew->is_ending = true;
    for (unsigned i = 0; i < crew->job->num_workers; i++) {
        crew->members[i].was_killed |= crew->members[i].socket >= 0;
    }
    /* None may see another go, and between two kills there is time enough. */
    crew_signal(crew, SIGSTOP);
    crew_signal(crew, SIGKILL);
}

bool crew_is_parked(const crew_t *crew)
{
    for (unsigned i = 0; i < crew->job->num_workers; i++) {
        if ((crew->members[i].socket >= 0) && !crew->members[i].has_failed) {
            return false;
        }
    }
    return true;
}

static void crew_note_end(crew_t *crew, crew_member_t *member)
{
    member->is_late = crew->is_ending;
    member->order   = crew->num_failed++;
}

char crew_hear(crew_t *crew, unsigned index)
{
    crew_member_t *member = &crew->members[index];
    char           byte;
    ssize_t        got;

    do {
        got = recv(member->socket, &byte, 1, 0);
    } while ((got < 0) && (errno == EINTR));
    if (got == 1) {
        if (byte == BOARD_FAILED) {
            crew_note_end(crew, member);
            member->has_failed = true;
        }
        return byte;
    }
    if (!member->has_failed) {
        crew_note_end(crew, member);
    }
    close(member->socket);
    member->socket = -1;
    crew->num_alive--;
    while ((waitpid(member->pid, &member->status, 0) < 0) && (errno == EINTR)) {
    }
    return 0;
}

/* Ended without a word: by a signal, or by an exit that is not ours. */
static bool crew_is_dead(const crew_t *crew, unsigned index)
{
    const crew_member_t *member = &crew->members[index];

    return (member->pid != 0) && !member->was_killed && !member->has_failed &&
           (member->status != 0);
}

static int crew_complain_dead(const crew_t *crew, unsigned index)
{
    const crew_member_t *member = &crew->members[index];

    if (WIFSIGNALED(member->status)) {
        return complain("worker %u (process %ld) was killed by signal %d (%s)",
                        index, (long)member->pid, WTERMSIG(member->status),
                        strsignal(WTERMSIG(member->status)));
    }
    return complain("worker %u (process %ld) ended early, with exit status %d",
                    index, (long)member->pid, WEXITSTATUS(member->status));
}

bool crew_was_slain(const crew_t *crew, unsigned index)
{
    const crew_member_t *member = &crew->members[index];

    return crew_is_dead(crew, index) && WIFSIGNALED(member->status) &&
           (WTERMSIG(member->status) == SIGKILL);
}

static crew_blame_t crew_blame(const crew_t *crew, unsigned index)
{
    const crew_member_t *member = &crew->members[index];

    if (crew_was_slain(crew, index)) {
        return member->is_late ? CREW_KILLED_LATE : CREW_KILLED;
    }
    if (crew_is_dead(crew, index)) {
        return member->is_late ? CREW_DIED_LATE : CREW_DIED;
    }
    if (!member->has_failed) {
        return CREW_INNOCENT;
    }
    if (crew->board[index].is_consequence) {
        return CREW_LOST_PEER;
    }
    return member->is_late ? CREW_FAILED_LATE : CREW_FAILED;
}

/* The first one of the most to blame; num_workers: none is. */
static unsigned crew_cause(const crew_t *crew)
{
    crew_blame_t most  = CREW_INNOCENT;
    unsigned     cause = crew->job->num_workers;
    crew_blame_t blame;

    for (unsigned i = 0; i < crew->job->num_workers; i++) {
        blame = crew_blame(crew, i);
        if ((blame < most) ||
            ((blame == most) && (cause < crew->job->num_workers) &&
             (crew->members[i].order < crew->members[cause].order))) {
            most  = blame;
            cause = i;
        }
    }
    return cause;
}

int crew_complain(const crew_t *crew)
{
    unsigned cause = crew_cause(crew);

    if (cause == crew->job->num_workers) {
        return complain("a worker did not end when it was told to");
    }
    return crew_is_dead(crew, cause)
               ? crew_complain_dead(crew, cause)
               : complain("%s", crew->board[cause].complaint);
}
