/*
 * Runs a job on one host. The main process starts the workers, exchanges their
 * addresses, waits for them and compares their input with their output. Only
 * then does it give the files their final names.
 *
 *     start -> all ready: go -> all done: compare, leave -> all gone: commit
 *        \______________________ any failure: abort -> all park: kill, discard
 *
 * A worker that has failed does not exit, because its connections would break
 * while others use them. UCX would log errors, and 1.13 may abort the process.
 * The worker waits until all others have stopped, and then all are killed
 * together.
 *
 * A word on a worker's socket announces new data in the worker's slot of the
 * shared memory.
 */
#include "tools/shuffle/job.h"

#include "common/error.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Time limit for a worker to end after WORD_ABORT or SIGTERM. A worker normally
 * needs much less. */
#define LOCAL_GRACE_S      10u
#define LOCAL_GRACE_NS     (LOCAL_GRACE_S * UINT64_C(1000000000))
#define LOCAL_FAILED_MS    100
#define LOCAL_ADDRESS_SIZE 16384u
#define CHILD_WAIT_MS      20

typedef enum word {
    WORD_NONE   = 0,
    WORD_READY  = 'r', /* worker: the address is available */
    WORD_DONE   = 'd', /* worker: the result is available */
    WORD_FAILED = 'f', /* worker: the error is available; the worker waits */
    WORD_GO     = 'g', /* main: all addresses are valid */
    WORD_LEAVE  = 'l', /* main: all workers are done: exit */
    WORD_ABORT  = 'a'  /* main: a failure occurred: end */
} word_t;

/* A slot of the shared memory. Each worker writes only to its own slot. */
typedef struct place {
    size_t   address_length;
    char     address[LOCAL_ADDRESS_SIZE]; /* address of the worker's pool */
    result_t result;
    char     error[KEPT_ERROR_SIZE];
    bool     is_consequence; /* caused by another worker's end */
} place_t;

/* A worker, as the main process sees it. */
typedef struct member {
    pid_t    pid;        /* 0: never started */
    int      status;     /* from waitpid() */
    bool     has_failed; /* waits for the main process to end it */
    bool     was_killed; /* by the main process */
    bool     is_late;    /* failed or ended after the run had failed */
    unsigned order;      /* order in which workers failed or ended */
} member_t;

typedef struct local {
    job_t    *job;
    result_t *results;
    place_t  *places;
    member_t *members;
    /* The socket of each worker, then the signals. -1: closed, the process has
     * ended. */
    struct pollfd *polls;
    int            signal_fd;
    sigset_t       old_mask;
    unsigned       num_alive;
    unsigned       num_ready;
    unsigned       num_done;
    unsigned       num_ended; /* ended or failed */
    bool           has_failed;
    uint64_t       failed_at;
    int            signal_number; /* the signal that ended the run */
    char error[KEPT_ERROR_SIZE];  /* error of the main process, or "" */
} local_t;

static void send_word(int socket, word_t word)
{
    char byte = (char)word;

    send(socket, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* --- a worker's process ------------------------------------------------- */

typedef struct child {
    const local_t  *local;
    place_t        *place;
    int             socket; /* to the main process */
    worker_params_t worker;
    output_folder_t folder;
    bool            was_aborted;
} child_t;

static volatile sig_atomic_t child_stop;

/* Handle SIGTERM, which the kernel sends when the main process has died. A
 * worker that does not end soon is ended by the alarm. */
static void child_on_term(int signal_number)
{
    child_stop = 1;
    alarm(LOCAL_GRACE_S);
}

static void child_init_signals(pid_t parent)
{
    /* Ctrl-C sends SIGINT to all processes of the terminal, and the main
     * process handles it. With SIGXFSZ ignored, write() fails at the file size
     * limit. */
    static const int ignored[] = {SIGINT, SIGQUIT, SIGHUP, SIGPIPE, SIGXFSZ};
    struct sigaction action    = {0};
    sigset_t         none;

    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++) {
        signal(ignored[i], SIG_IGN);
    }
    action.sa_handler = child_on_term;
    sigaction(SIGTERM, &action, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        child_stop = 1;
    }
}

/* Read a word from the main process. An end of file counts as WORD_ABORT. */
static word_t child_recv_word(const child_t *child, int flags)
{
    char    byte;
    ssize_t got;

    do {
        got = recv(child->socket, &byte, 1, flags);
    } while ((got < 0) && (errno == EINTR) && !child_stop);
    if ((got < 0) && (errno == EAGAIN) && !child_stop) {
        return WORD_NONE;
    }
    return (got == 1) && !child_stop ? (word_t)byte : WORD_ABORT;
}

/* Check that the expected word arrived; otherwise the worker ends. */
static int child_expect(child_t *child, word_t word, word_t expected)
{
    if (word == expected) {
        return 0;
    }
    child->was_aborted = true;
    return keep_error("worker %u was aborted", child->worker.index);
}

static int child_interrupt(void *arg)
{
    child_t *child = arg;

    return child_expect(child, child_recv_word(child, MSG_DONTWAIT), WORD_NONE);
}

static int child_connect(child_t *child)
{
    unsigned    index    = child->worker.index;
    exchange_t *exchange = child->worker.exchange;
    const void *address;
    size_t      length;
    int         result;

    if (exchange == NULL) {
        return 0;
    }
    if (exchange_address(exchange, &address, &length) != 0) {
        return -1;
    }
    if (length > LOCAL_ADDRESS_SIZE) {
        return keep_error("the pool's address has %zu bytes, more than the "
                          "limit of %u; set UCX_NET_DEVICES to fewer devices",
                          length, LOCAL_ADDRESS_SIZE);
    }
    memcpy(child->place->address, address, length);
    child->place->address_length = length;
    send_word(child->socket, WORD_READY);
    result = child_expect(child, child_recv_word(child, 0), WORD_GO);
    for (unsigned i = 0; (i < child->local->job->num_workers) && (result == 0);
         i++) {
        const place_t *peer = &child->local->places[i];

        if (i != index) {
            result = exchange_connect(exchange, i, peer->address,
                                      peer->address_length);
        }
    }
    return result;
}

/* Stay until all workers are done, because they may still need this worker's
 * pool. */
static int child_await_others(child_t *child)
{
    exchange_t *exchange = child->worker.exchange;
    word_t      word;

    send_word(child->socket, WORD_DONE);
    while ((word = child_recv_word(child, exchange != NULL ? MSG_DONTWAIT
                                                           : 0)) == WORD_NONE) {
        exchange_wait(exchange, CHILD_WAIT_MS);
        exchange_progress(exchange);
    }
    return child_expect(child, word, WORD_LEAVE);
}

static void child_fail(child_t *child)
{
    exchange_t  *exchange = child->worker.exchange;
    output_set_t set = job_partitions(child->worker.job, child->worker.index);
    char         word;
    ssize_t      got;

    child->place->is_consequence =
        child->was_aborted ||
        ((exchange != NULL) && exchange_lost_peer(exchange));
    strcpy(child->place->error, kept_error());
    output_discard(&child->folder, &set);
    send_word(child->socket, WORD_FAILED);
    /* Wait until the main process ends this process, or has died itself. */
    do {
        got = recv(child->socket, &word, 1, 0);
    } while ((got > 0) || ((got < 0) && (errno == EINTR)));
    output_folder_close(&child->folder);
}

/* Run the worker in this process. Returns the exit status. */
static int child_main(local_t *local, unsigned index, int socket, pid_t parent)
{
    child_t child = {0};

    child.local                = local;
    child.place                = &local->places[index];
    child.socket               = socket;
    child.folder               = local->job->folder;
    child.worker.job           = local->job;
    child.worker.index         = index;
    child.worker.interrupt     = child_interrupt;
    child.worker.interrupt_arg = &child;
    child_init_signals(parent);
    if ((worker_prepare(&child.worker) != 0) || (child_connect(&child) != 0) ||
        (worker_run(&child.worker, &child.place->result) != 0) ||
        (child_await_others(&child) != 0)) {
        child_fail(&child);
        /* Do not close the connections: the other workers exit, too, and
         * closing would fail. */
        _exit(1);
    }
    exchange_destroy(child.worker.exchange);
    return 0;
}

/* --- the workers, as the main process sees them -------------------------- */

static int local_start_one(local_t *local, unsigned index)
{
    pid_t parent = getpid();
    int   sockets[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
        return keep_error("cannot create a socket pair for worker %u: %s",
                          index, strerror(errno));
    }
    pid = fork();
    if (pid < 0) {
        keep_error("cannot start worker %u: %s", index, strerror(errno));
        close(sockets[0]);
        close(sockets[1]);
        return -1;
    }
    if (pid == 0) {
        /* Close the other workers' sockets, so that only the main process sees
         * when they end. */
        close(sockets[0]);
        for (unsigned i = 0; i < index; i++) {
            close(local->polls[i].fd);
        }
        exit(child_main(local, index, sockets[1], parent));
    }
    close(sockets[1]);
    local->members[index].pid = pid;
    local->polls[index].fd    = sockets[0];
    local->num_alive++;
    return 0;
}

static void local_send_word(const local_t *local, word_t word)
{
    for (unsigned i = 0; i < local->job->num_workers; i++) {
        if (local->polls[i].fd >= 0) {
            send_word(local->polls[i].fd, word);
        }
    }
}

static void local_fail(local_t *local)
{
    if (!local->has_failed) {
        local->has_failed = true;
        local->failed_at  = clock_now();
        local_send_word(local, WORD_ABORT);
    }
}

/* Record a failure in the main process, with its error. */
static void local_fail_here(local_t *local)
{
    if (!local->has_failed) {
        strcpy(local->error, kept_error());
    }
    local_fail(local);
}

/* Kill all workers that are alive, at once, because UCX reports an error or
 * aborts the process when a peer ends. */
static void local_kill(local_t *local)
{
    static const int signals[] = {SIGSTOP, SIGKILL};

    local_fail(local);
    for (unsigned i = 0; i < 2 * local->job->num_workers; i++) {
        unsigned index = i % local->job->num_workers;

        if (local->polls[index].fd >= 0) {
            local->members[index].was_killed = true;
            kill(local->members[index].pid,
                 signals[i / local->job->num_workers]);
        }
    }
}

/* Read a worker's word; WORD_NONE after its end. */
static word_t local_recv_word(local_t *local, unsigned index)
{
    member_t *member = &local->members[index];
    int      *fd     = &local->polls[index].fd;
    char      byte;
    ssize_t   got;

    do {
        got = recv(*fd, &byte, 1, 0);
    } while ((got < 0) && (errno == EINTR));
    if ((got == 1) && (byte != WORD_FAILED)) {
        return (word_t)byte;
    }
    if (!member->has_failed) {
        member->is_late = local->has_failed;
        member->order   = local->num_ended++;
    }
    if (got == 1) {
        member->has_failed = true;
        return WORD_FAILED;
    }
    close(*fd);
    *fd = -1;
    local->num_alive--;
    while ((waitpid(member->pid, &member->status, 0) < 0) && (errno == EINTR)) {
    }
    return WORD_NONE;
}

/* Returns true if a worker ended without a message: by a signal, or by an exit
 * that is not the tool's own. */
static bool member_is_dead(const member_t *member)
{
    return (member->pid != 0) && !member->was_killed && !member->has_failed &&
           (member->status != 0);
}

/* Returns true if a worker was ended by a signal that UCX does not raise. */
static bool member_was_killed(const member_t *member)
{
    return member_is_dead(member) && WIFSIGNALED(member->status) &&
           (WTERMSIG(member->status) == SIGKILL);
}

/*
 * Returns how likely it is that a worker is the cause of the failure; 0 is the
 * most likely. The main process may see the end of a killed worker after the
 * consequences. A worker that failed before WORD_ABORT is a cause. A worker
 * that died by itself may only have lost a peer, because of a fault in UCX. A
 * worker that only lost a peer is not a cause.
 */
static unsigned local_blame(const local_t *local, unsigned index)
{
    const member_t *member = &local->members[index];

    if (member_was_killed(member)) {
        return 0;
    }
    if (member_is_dead(member)) {
        return member->is_late ? 4 : 2;
    }
    if (!member->has_failed) {
        return 6;
    }
    return local->places[index].is_consequence ? 5 : member->is_late ? 3 : 1;
}

/* Report an error about the worker that is the cause of the failure. */
static int local_report_cause(const local_t *local)
{
    unsigned        cause = 0;
    const member_t *member;

    for (unsigned i = 1; i < local->job->num_workers; i++) {
        unsigned one   = local_blame(local, i);
        unsigned other = local_blame(local, cause);

        if ((one < other) ||
            ((one == other) &&
             (local->members[i].order < local->members[cause].order))) {
            cause = i;
        }
    }
    member = &local->members[cause];
    if (member->has_failed) {
        return keep_error("%s", local->places[cause].error);
    }
    if (!member_is_dead(member)) {
        return keep_error("a worker did not end after it was aborted");
    }
    if (WIFSIGNALED(member->status)) {
        return keep_error(
            "worker %u (process %ld) was killed by signal %d (%s)", cause,
            (long)member->pid, WTERMSIG(member->status),
            strsignal(WTERMSIG(member->status)));
    }
    return keep_error(
        "worker %u (process %ld) ended early, with exit status %d", cause,
        (long)member->pid, WEXITSTATUS(member->status));
}

/* --- the main process --------------------------------------------------- */

static void local_compare(local_t *local)
{
    unsigned num_workers = local->job->num_workers;

    for (unsigned i = 0; i < num_workers; i++) {
        local->results[i] = local->places[i].result;
    }
    if (results_check(local->results, num_workers) != 0) {
        local_fail_here(local);
    } else {
        local_send_word(local, WORD_LEAVE);
    }
}

static void local_take_word(local_t *local, unsigned index)
{
    member_t *member      = &local->members[index];
    unsigned  num_workers = local->job->num_workers;

    switch (local_recv_word(local, index)) {
    case WORD_READY:
        if ((++local->num_ready == num_workers) && !local->has_failed) {
            local_send_word(local, WORD_GO);
        }
        break;
    case WORD_DONE:
        if ((++local->num_done == num_workers) && !local->has_failed) {
            local_compare(local);
        }
        break;
    case WORD_NONE:
        if ((local->num_done == num_workers) && (member->status == 0)) {
            break;
        }
        local_fail(local);
        /* Workers that are connected to this worker would fail before they read
         * WORD_ABORT. Before all are ready, some are still starting UCX, which
         * leaves files behind if it is killed. */
        if ((local->num_ready == num_workers) && member_was_killed(member)) {
            local_kill(local);
        }
        break;
    default:
        local_fail(local);
    }
}

static void local_take_signal(local_t *local)
{
    struct signalfd_siginfo info;

    if (read(local->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        /* After a second signal, end at once. */
        if (local->signal_number != 0) {
            local_kill(local);
        }
        local->signal_number = (int)info.ssi_signo;
        local_fail(local);
    }
}

/* Wait for an event and handle it. */
static void local_turn(local_t *local)
{
    unsigned num_workers = local->job->num_workers;

    if (poll(local->polls, num_workers + 1,
             local->has_failed ? LOCAL_FAILED_MS : -1) < 0) {
        return;
    }
    local_take_signal(local);
    for (unsigned i = 0; i < num_workers; i++) {
        if (local->polls[i].revents != 0) {
            local_take_word(local, i);
        }
    }
}

/* Returns true if all live workers have failed and wait to be ended. */
static bool local_is_parked(const local_t *local)
{
    bool is_parked = true;

    for (unsigned i = 0; i < local->job->num_workers; i++) {
        is_parked &= (local->polls[i].fd < 0) || local->members[i].has_failed;
    }
    return is_parked;
}

static void local_work(local_t *local)
{
    int result = 0;

    /* Otherwise every process would write the buffered output. */
    fflush(NULL);
    for (unsigned i = 0; (i < local->job->num_workers) && (result == 0); i++) {
        result = local_start_one(local, i);
    }
    if (result != 0) {
        local_fail_here(local);
    }
    while (local->num_alive > 0) {
        local_turn(local);
        if (local->has_failed &&
            (local_is_parked(local) ||
             (clock_now() - local->failed_at > LOCAL_GRACE_NS))) {
            local_kill(local);
        }
    }
}

static int local_end(local_t *local)
{
    job_t       *job = local->job;
    output_set_t all = {0, 1, job->num_partitions};

    if (!local->has_failed) {
        if (output_commit(&job->folder, &all) == 0) {
            output_settle(&job->folder, &all);
            return 0;
        }
        strcpy(local->error, kept_error());
    }
    output_discard(&job->folder, &all);
    if (local->signal_number != 0) {
        return local->signal_number;
    }
    return local->error[0] != '\0' ? keep_error("%s", local->error)
                                   : local_report_cause(local);
}

static int local_init_signals(local_t *local)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t         mask;

    sigemptyset(&mask);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        sigaddset(&mask, signals[i]);
    }
    sigprocmask(SIG_BLOCK, &mask, &local->old_mask);
    local->signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    local->polls[local->job->num_workers].fd = local->signal_fd;
    return local->signal_fd >= 0
               ? 0
               : keep_error("cannot create a signal descriptor: %s",
                            strerror(errno));
}

static int local_init(local_t *local)
{
    unsigned num_workers = local->job->num_workers;

    local->members = tool_calloc(num_workers, sizeof(*local->members));
    local->polls   = tool_calloc(num_workers + 1, sizeof(*local->polls));
    local->places =
        mmap(NULL, num_workers * sizeof(*local->places), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (local->places == MAP_FAILED) {
        return keep_error("out of memory for %u workers", num_workers);
    }
    for (unsigned i = 0; i <= num_workers; i++) {
        local->polls[i] = (struct pollfd){-1, POLLIN, 0};
    }
    return local_init_signals(local);
}

int local_run(job_t *job, result_t *results)
{
    local_t local  = {.job = job, .results = results, .signal_fd = -1};
    int     result = -1;

    if (local_init(&local) == 0) {
        local_work(&local);
        result = local_end(&local);
    }
    if (local.signal_fd >= 0) {
        close(local.signal_fd);
    }
    /* Once the files have their names, a signal is ignored, because it could
     * only interrupt the summary. */
    if (result != 0) {
        sigprocmask(SIG_SETMASK, &local.old_mask, NULL);
    }
    if (local.places != MAP_FAILED) {
        munmap(local.places, job->num_workers * sizeof(*local.places));
    }
    free(local.polls);
    free(local.members);
    return result;
}
