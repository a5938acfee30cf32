#include <config.h>

#include "tools/shuffle/child.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHILD_WAIT_MS 20
/* Milliseconds; the alarm comes later. */
#define CHILD_LEAVE_TRIES 1000u

typedef struct child {
    child_params_t  params;
    shared_place_t *place;
    gpu_store_t    *gpu_store;
    exchange_t     *exchange;
    output_folder_t folder; /* the job's, with a claim of the child's own */
    bool            told_to_end;
} child_t;

static volatile sig_atomic_t child_stop;

/* The kernel sends it when the main process has died. What does not end by
 * itself soon is ended by the alarm. */
static void child_on_term(int signal_number)
{
    child_stop = 1;
    alarm(2);
}

static void child_init_signals(pid_t parent)
{
    struct sigaction action = {0};
    sigset_t         none;

    /* Ctrl-C goes to all processes of the terminal; the main one decides. */
    signal(SIGINT, SIG_IGN);
    signal(SIGQUIT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    /* A file over the limit is an error of write(), with an error. */
    signal(SIGXFSZ, SIG_IGN);
    action.sa_handler = child_on_term;
    sigaction(SIGTERM, &action, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
        child_stop = 1;
    }
}

static void child_say(const child_t *child, shared_word_t word)
{
    char byte = (char)word;

    /* Nobody listens any more: the next interrupt() tells. */
    (void)!write(child->params.socket, &byte, 1);
}

/* One word of the main process. 0: none yet. End of file counts as abort. */
static char child_hear(child_t *child, int flags)
{
    char    byte = SHARED_ABORT;
    ssize_t got;

    do {
        got = recv(child->params.socket, &byte, 1, flags);
    } while ((got < 0) && (errno == EINTR) && !child_stop);
    if ((got < 0) && (errno == EAGAIN)) {
        return 0;
    }
    return got == 1 ? byte : (char)SHARED_ABORT;
}

static int child_interrupt(void *arg)
{
    child_t *child = arg;
    char     word  = child_hear(child, MSG_DONTWAIT);

    if (child_stop || (word == SHARED_ABORT)) {
        child->told_to_end = true;
        return say_error("worker %u was told to end", child->params.index);
    }
    return 0;
}

static int child_connect(child_t *child)
{
    const child_params_t *params = &child->params;
    const shared_place_t *peer;

    for (unsigned i = 0; i < params->job->num_workers; i++) {
        peer = &params->shared[i];
        if ((i != params->index) &&
            (exchange_connect(child->exchange, i, peer->address,
                              peer->address_length) != 0)) {
            return -1;
        }
    }
    return 0;
}

static int child_meet(child_t *child, const batch_shape_t *shape)
{
    exchange_params_t params = {child->params.index,
                                child->params.job->num_workers, shape,
                                child->gpu_store};
    const void       *address;
    size_t            length;

    if ((exchange_create(&params, &child->exchange) != 0) ||
        (exchange_address(child->exchange, &address, &length) != 0)) {
        return -1;
    }
    if (length > SHARED_ADDRESS_SIZE) {
        return say_error("the pool's address has %zu bytes, more than %u",
                         length, SHARED_ADDRESS_SIZE);
    }
    memcpy(child->place->address, address, length);
    child->place->address_length = length;
    child_say(child, SHARED_READY);
    if (child_hear(child, 0) != SHARED_GO) {
        child->told_to_end = true;
        return say_error("worker %u was told to end", child->params.index);
    }
    return child_connect(child);
}

static int child_work(child_t *child)
{
    worker_params_t params = {0};

    params.job           = child->params.job;
    params.index         = child->params.index;
    params.exchange      = child->exchange;
    params.gpu_store     = child->gpu_store;
    params.progress      = &child->place->progress;
    params.interrupt     = child_interrupt;
    params.interrupt_arg = child;
    return worker_run(&params, &child->place->result);
}

/* The others may still need our pool: stay until all are done. */
static int child_stay(child_t *child)
{
    char word;

    child_say(child, SHARED_DONE);
    for (;;) {
        word = child_hear(child, child->exchange != NULL ? MSG_DONTWAIT : 0);
        if (word == SHARED_LEAVE) {
            return 0;
        }
        if (child_stop || (word != 0)) {
            child->told_to_end = true;
            return say_error("worker %u was told to end", child->params.index);
        }
        exchange_wait(child->exchange, CHILD_WAIT_MS);
        exchange_progress(child->exchange);
    }
}

static void child_discard(child_t *child)
{
    output_set_t set = job_partitions(child->params.job, child->params.index);

    output_discard(&child->folder, &set);
}

/* Until the main process ends this one, or has died itself. */
static void child_park(const child_t *child)
{
    char    word;
    ssize_t got;

    do {
        got = recv(child->params.socket, &word, 1, 0);
    } while ((got > 0) || ((got < 0) && (errno == EINTR)));
}

/* As long as the main process is there, the folder is its business: another
 * worker may be about to create its files, and would fail for want of it. Its
 * socket is closed a moment before its claim. */
static void child_leave_folder(child_t *child)
{
    for (unsigned i = 0;
         (i < CHILD_LEAVE_TRIES) && (getppid() == child->params.parent); i++) {
        poll(NULL, 0, 1);
    }
    output_folder_close(&child->folder);
}

static void child_fail(child_t *child)
{
    shared_place_t *place = child->place;

    place->is_consequence =
        child->told_to_end ||
        ((child->exchange != NULL) && exchange_lost_peer(child->exchange));
    strcpy(place->error, error_text());
    /* Even after a failure each block is where the pool thinks it is. */
    if ((child->exchange != NULL) && (exchange_check(child->exchange) != 0)) {
        place->is_consequence = false;
        strcpy(place->error, error_text());
    }
    child_discard(child);
    child_say(child, SHARED_FAILED);
    child_park(child);
    child_leave_folder(child);
}

int child_main(const child_params_t *params)
{
    batch_shape_t shape;
    child_t       child = {0};
    int           result;

    child.params = *params;
    child.place  = &params->shared[params->index];
    child_init_signals(params->parent);
    child.folder = params->job->folder;
    job_batch_shape(params->job, &shape);
    result = output_folder_join(&child.folder);
    if (result == 0) {
        result = job_make_gpu_store(params->job, params->index, &shape,
                                    &child.gpu_store);
    }
    if ((result == 0) && (params->job->num_workers > 1)) {
        result = child_meet(&child, &shape);
    }
    if ((result != 0) || (child_work(&child) != 0) ||
        (child_stay(&child) != 0)) {
        child_fail(&child);
        /* To say good-bye to others that leave as well would be in vain. */
        _exit(1);
    }
    exchange_destroy(child.exchange);
    gpu_store_destroy(child.gpu_store);
    return 0;
}
