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

int crew_init(crew_t *crew, const job_t *job)
{
    crew->job       = job;
    crew->num_alive = 0;
    crew->members   = calloc(job->num_workers, sizeof(*crew->members));
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

    for (unsigned i = 0; i < crew->job->num_workers; i++) {
        if (crew->members[i].socket >= 0) {
            /* One that is gone is noticed by crew_hear(). */
            send(crew->members[i].socket, &byte, 1,
                 MSG_NOSIGNAL | MSG_DONTWAIT);
        }
    }
}

void crew_kill(crew_t *crew)
{
    for (unsigned i = 0; i < crew->job->num_workers; i++) {
        if (crew->members[i].socket >= 0) {
            crew->members[i].was_killed = true;
            kill(crew->members[i].pid, SIGKILL);
        }
    }
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
        member->has_failed |= byte == BOARD_FAILED;
        return byte;
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

int crew_complain(const crew_t *crew)
{
    unsigned num_workers = crew->job->num_workers;

    for (unsigned i = 0; i < num_workers; i++) {
        if (crew_is_dead(crew, i)) {
            return crew_complain_dead(crew, i);
        }
    }
    for (int consequence = 0; consequence < 2; consequence++) {
        for (unsigned i = 0; i < num_workers; i++) {
            if (crew->members[i].has_failed &&
                (crew->board[i].is_consequence == (consequence != 0))) {
                return complain("%s", crew->board[i].complaint);
            }
        }
    }
    return complain("a worker did not end when it was told to");
}
