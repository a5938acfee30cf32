/*
 * open_loop - processes that open channels to each other at the same time, send
 * one message over each, and close it; a quarter is closed before it can be
 * open. Too long for make check.
 *
 * usage: open_loop [PROCESSES [OPENINGS [KILLS]]]
 *
 * By default, each of 3 processes opens 2,000 channels. With KILLS, they open
 * channels until this many of them were killed at random moments; each killed
 * process is replaced, and OPENINGS has no effect.
 *
 * Prints the numbers of channels that were opened, closed early or failed, and
 * of processes that died by themselves. The exit code is 1 if any process died
 * by itself, or if a channel failed whose peer was not killed.
 */
#include <ucxpool/ucxpool.h>

#include "segments.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NUM_SLOTS  12
#define MAX_LENGTH 600000u
#define MAX_EVENTS 64
#define TICK_NS    UINT64_C(1000000)
#define EARLY_NS   1500000u

#define MAX_PROCESSES 64
#define MAX_LIFE_US   500000u

/* Opening takes milliseconds; UCX's own timeouts are shorter. */
#define PATIENCE_NS UINT64_C(60000000000)

/* Shared by all processes. */
typedef struct board {
    unsigned num_ready; /* that listen */
    unsigned num_done;  /* that have made all their openings */
    unsigned is_over;   /* no more kills */
    uint64_t num_opened;
    uint64_t num_early;
    uint64_t num_failed;
    uint16_t ports[];
} shared_t;

/* A channel that this process opens. */
typedef struct slot {
    ucxpool_channel_t *channel; /* NULL: unused */
    ucxpool_request_t *request; /* its message; NULL: not open yet */
    uint64_t           since;
    uint64_t           early_at; /* time to close it in any case; 0: do not */
} slot_t;

static shared_t  *board;
static unsigned   num_processes = 3;
static unsigned   num_openings  = 2000;
static unsigned   num_kills;
static uint8_t    data[MAX_LENGTH];
static uint8_t    target[MAX_LENGTH];
static slot_t     slots[NUM_SLOTS];
static ucxpool_t *pool;

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void must(ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        fprintf(stderr, "open_loop: %s: %s\n", ucxpool_status_string(status),
                ucxpool_error_detail());
        exit(1);
    }
}

static void count(uint64_t *counter)
{
    __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* The possible results of a channel to a process that is or was killed. */
static bool is_of_kill(ucxpool_status_t status)
{
    return (status == UCXPOOL_ERR_PEER_LOST) ||
           (status == UCXPOOL_ERR_CLOSED) || (status == UCXPOOL_ERR_TIMED_OUT);
}

static void failed(const ucxpool_channel_t *channel, const char *what)
{
    ucxpool_channel_attr_t attr;

    ucxpool_channel_query(channel, &attr, sizeof(attr));
    if ((num_kills != 0) && is_of_kill(attr.status)) {
        return;
    }
    fprintf(stderr, "open_loop: %s: %s: %s\n", attr.name, what, attr.reason);
    count(&board->num_failed);
}

/* --- channels that this process opens ------------------------------------ */

static void release(slot_t *slot)
{
    if (slot->request != NULL) {
        ucxpool_request_release(slot->request);
    }
    ucxpool_channel_close(slot->channel);
    *slot = (slot_t){0};
}

static void open_one(slot_t *slot)
{
    unsigned port = board->ports[(unsigned)rand() % num_processes];
    char     where[32];

    snprintf(where, sizeof(where), "127.0.0.1:%u", port);
    must(ucxpool_channel_connect(pool, where, NULL, &slot->channel));
    slot->since = now();
    slot->early_at =
        (rand() % 4 == 0) ? slot->since + (unsigned)rand() % EARLY_NS : 0;
}

static bool is_open(const slot_t *slot)
{
    ucxpool_channel_attr_t attr;

    ucxpool_channel_query(slot->channel, &attr, sizeof(attr));
    return attr.state == UCXPOOL_CHANNEL_OPEN;
}

/* Has it failed, or does it take too long? */
static bool is_lost(const slot_t *slot)
{
    ucxpool_channel_attr_t attr;

    ucxpool_channel_query(slot->channel, &attr, sizeof(attr));
    if (attr.state > UCXPOOL_CHANNEL_OPEN) {
        failed(slot->channel, "it has ended");
        return true;
    }
    if (now() - slot->since > PATIENCE_NS) {
        failed(slot->channel, "nothing becomes of it");
        return true;
    }
    return false;
}

/* One step. Returns whether the channel is done. */
static bool advance(slot_t *slot)
{
    if ((slot->early_at != 0) && (now() >= slot->early_at)) {
        count(&board->num_early);
        release(slot);
        return true;
    }
    if ((slot->request != NULL) &&
        (ucxpool_request_test(slot->request) != UCXPOOL_INPROGRESS)) {
        count(&board->num_opened);
        release(slot);
        return true;
    }
    if (is_lost(slot)) {
        release(slot);
        return true;
    }
    if ((slot->request == NULL) && (slot->early_at == 0) && is_open(slot)) {
        must(ucxpool_send_buffer(slot->channel, data,
                                 1 + (unsigned)rand() % MAX_LENGTH, 0, NULL,
                                 &slot->request));
    }
    return false;
}

/* --- channels that others open ------------------------------------------- */

static void take_messages(ucxpool_channel_t *channel)
{
    ucxpool_segment_t  segment = {target, MAX_LENGTH};
    ucxpool_message_t *message;
    ucxpool_request_t *request;

    while (ucxpool_probe(pool, channel, 0, 0, &message) == UCXPOOL_OK) {
        if (message_recv_segments(message, &segment, 1, NULL, &request) !=
            UCXPOOL_OK) {
            failed(channel, "its message cannot be had");
            continue;
        }
        if (ucxpool_request_wait(request, PATIENCE_NS) != UCXPOOL_OK) {
            failed(channel, "its message did not come");
        }
        ucxpool_request_release(request);
    }
}

static bool is_own(const ucxpool_channel_t *channel)
{
    for (unsigned i = 0; i < NUM_SLOTS; i++) {
        if (slots[i].channel == channel) {
            return true;
        }
    }
    return false;
}

static void see_to(const ucxpool_event_t *event)
{
    ucxpool_channel_t     *channel;
    ucxpool_channel_attr_t attr;

    if (event->kinds & UCXPOOL_EVENT_CALLER) {
        while (ucxpool_listener_accept(event->listener, NULL, &channel) ==
               UCXPOOL_OK) {
        }
        return;
    }
    if (event->kinds & UCXPOOL_EVENT_MESSAGE) {
        take_messages(event->channel);
    }
    ucxpool_channel_query(event->channel, &attr, sizeof(attr));
    if ((attr.state > UCXPOOL_CHANNEL_OPEN) && !is_own(event->channel)) {
        if (attr.state == UCXPOOL_CHANNEL_FAILED) {
            failed(event->channel, "one that was taken has failed");
        }
        ucxpool_channel_close(event->channel);
    }
}

/* --- a process ------------------------------------------------------------ */

static bool all_are(const unsigned *number)
{
    return __atomic_load_n(number, __ATOMIC_ACQUIRE) >= num_processes;
}

/* Must this process stop opening? */
static bool is_enough(unsigned num_made)
{
    return (num_kills != 0)
               ? __atomic_load_n(&board->is_over, __ATOMIC_ACQUIRE) != 0
               : num_made == num_openings;
}

static void look(void)
{
    ucxpool_event_t events[MAX_EVENTS];
    size_t          num;

    must(ucxpool_event_get(pool, events, MAX_EVENTS, &num));
    for (size_t i = 0; i < num; i++) {
        see_to(&events[i]);
    }
    (void)ucxpool_wait(pool, TICK_NS);
}

static void run_process(unsigned index)
{
    unsigned            num_made = 0;
    unsigned            num_open = 0;
    ucxpool_listener_t *listener;

    srand((unsigned)getpid());
    must(ucxpool_create(NULL, &pool));
    must(ucxpool_listener_create(pool, "127.0.0.1:0", &listener));
    board->ports[index] = ucxpool_listener_port(listener);
    __atomic_fetch_add(&board->num_ready, 1, __ATOMIC_RELEASE);
    while (!all_are(&board->num_ready)) {
        look();
    }
    while (!is_enough(num_made) || (num_open != 0)) {
        for (unsigned i = 0; i < NUM_SLOTS; i++) {
            if ((slots[i].channel == NULL) && !is_enough(num_made)) {
                open_one(&slots[i]);
                num_made++;
                num_open++;
            } else if ((slots[i].channel != NULL) && advance(&slots[i])) {
                num_open--;
            }
        }
        look();
    }
    __atomic_fetch_add(&board->num_done, 1, __ATOMIC_RELEASE);
    while (!all_are(&board->num_done)) {
        look();
    }
    ucxpool_destroy(pool);
}

/* --- the parent ---------------------------------------------------------- */

static pid_t start(unsigned index)
{
    pid_t pid = fork();

    if (pid == 0) {
        signal(SIGTERM, SIG_DFL);
        run_process(index);
        exit(0);
    }
    return pid;
}

/* Returns whether it was killed, and had not died before. */
static bool kill_one(pid_t pid)
{
    int status;

    return (kill(pid, SIGKILL) == 0) && (waitpid(pid, &status, 0) == pid) &&
           WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL);
}

/* Returns how many had died by themselves. */
static unsigned kill_some(pid_t *pids)
{
    unsigned num_died = 0;
    unsigned index;

    while (!all_are(&board->num_ready)) {
        usleep(1000);
    }
    for (unsigned i = 0; i < num_kills; i++) {
        usleep((unsigned)rand() % MAX_LIFE_US);
        index = (unsigned)rand() % num_processes;
        num_died += kill_one(pids[index]) ? 0 : 1;
        pids[index] = start(index);
    }
    __atomic_store_n(&board->is_over, 1, __ATOMIC_RELEASE);
    return num_died;
}

/* The number of processes that died or exited with an error. */
static unsigned wait_for_all(void)
{
    unsigned num_died = 0;
    int      status   = 0;

    for (unsigned i = 0; i < num_processes; i++) {
        if ((wait(&status) < 0) || (status != 0)) {
            num_died += (WTERMSIG(status) == SIGTERM) ? 0 : 1;
            kill(0, SIGTERM); /* otherwise the others would wait for it */
        }
    }
    return num_died;
}

static unsigned number(const char *text, unsigned max)
{
    char         *end;
    unsigned long value = strtoul(text, &end, 10);

    if ((*end != '\0') || (value == 0) || (value > max)) {
        fprintf(stderr, "usage: open_loop [PROCESSES [OPENINGS [KILLS]]]\n");
        exit(2);
    }
    return (unsigned)value;
}

int main(int argc, char **argv)
{
    uint64_t since    = now();
    unsigned num_died = 0;
    pid_t    pids[MAX_PROCESSES];

    num_processes = (argc > 1) ? number(argv[1], MAX_PROCESSES) : num_processes;
    num_openings  = (argc > 2) ? number(argv[2], 10000000) : num_openings;
    num_kills     = (argc > 3) ? number(argv[3], 10000000) : 0;
    board = mmap(NULL, sizeof(*board) + num_processes * sizeof(uint16_t),
                 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        perror("open_loop: mmap");
        return 1;
    }
    setpgid(0, 0);
    signal(SIGTERM, SIG_IGN);
    for (unsigned i = 0; i < num_processes; i++) {
        pids[i] = start(i);
    }
    if (num_kills != 0) {
        num_died = kill_some(pids);
    }
    num_died += wait_for_all();
    printf("%llu opened, %llu closed early, %llu failed, %u processes died, "
           "%.1f s\n",
           (unsigned long long)board->num_opened,
           (unsigned long long)board->num_early,
           (unsigned long long)board->num_failed, num_died,
           (double)(now() - since) / 1e9);
    return ((board->num_failed == 0) && (num_died == 0)) ? 0 : 1;
}
