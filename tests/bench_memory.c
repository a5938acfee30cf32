/*
 * Memory use of a process with a pool and its peers, and with messages that it
 * does not receive; and the time that a process takes to start and send four
 * words. These are the figures of docs/benchmarks/memory.md.
 *
 * All processes have a channel to each of the others. RSS and PSS of the first
 * process are read from /proc/PID/smaps_rollup: first when all channels are
 * open, then after it has sent 64 MiB in pieces to each of the others and
 * received as much from each. Its own buffers are not counted.
 *
 * usage: bench_memory [NUM_PEERS...]
 */
#include "common/system.h"
#include "segments.h"

#include <ucxpool/ucxpool.h>

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_RANKS    17
#define NUM_PIECES   2048
#define PIECE        4096
#define NUM_MESSAGES 8
#define NUM_STARTS   21
#define NUM_UNWANTED 100000u

typedef struct memory {
    double rss, pss; /* MiB */
} memory_t;

/* Shared by the processes. */
typedef struct board {
    atomic_uint num_arrived;
    size_t      lengths[MAX_RANKS];
    char        addresses[MAX_RANKS][8192];
    memory_t    idle, used;         /* of the first process */
    memory_t    before[2], with[2]; /* of sender and receiver */
    double      first_us, rest_us;  /* times to receive */
    unsigned    port;
} shared_t;

/* One process. */
typedef struct rank {
    shared_t          *board;
    unsigned           index, num_ranks, num_met;
    ucxpool_t         *pool;
    ucxpool_channel_t *channels[MAX_RANKS];
} rank_t;

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_memory: %s: %s\n", what, why);
    exit(EXIT_FAILURE);
}

static void must(ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        fail(ucxpool_status_string(status), ucxpool_error_detail());
    }
}

static void *shared(size_t size)
{
    void *address = mmap(NULL, size, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (address == MAP_FAILED) {
        fail("mmap", "no memory");
    }
    return address;
}

static void measure(memory_t *memory)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    char  line[256];

    if (file == NULL) {
        fail("/proc/self/smaps_rollup", "cannot be read");
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        (void)sscanf(line, "Rss: %lf", &memory->rss);
        (void)sscanf(line, "Pss: %lf", &memory->pss);
    }
    fclose(file);
    memory->rss /= 1024;
    memory->pss /= 1024;
}

/* Start a process that ends when this one does. */
static pid_t start(void)
{
    pid_t pid = fork();

    if (pid < 0) {
        fail("fork", "no process");
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    return pid;
}

/* Wait for all processes, and progress the pool, which others may need. */
static void meet(rank_t *rank)
{
    unsigned last = ++rank->num_met * rank->num_ranks;

    atomic_fetch_add(&rank->board->num_arrived, 1);
    while (atomic_load(&rank->board->num_arrived) < last) {
        if (ucxpool_progress(rank->pool) == 0) {
            sched_yield();
        }
    }
}

static void tell_address(rank_t *rank)
{
    shared_t *board = rank->board;
    size_t    length;
    void     *address;

    must(ucxpool_address_get(rank->pool, &address, &length));
    if (length > sizeof(board->addresses[0])) {
        fail("the address of a pool", "it is too long");
    }
    memcpy(board->addresses[rank->index], address, length);
    board->lengths[rank->index] = length;
    ucxpool_address_release(address);
    meet(rank);
}

static void connect_all(rank_t *rank)
{
    for (unsigned i = 0; i < rank->num_ranks; i++) {
        ucxpool_channel_params_t params = {
            .field_mask     = UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS,
            .address        = rank->board->addresses[i],
            .address_length = rank->board->lengths[i],
        };

        if (i != rank->index) {
            must(ucxpool_channel_create(rank->pool, &params,
                                        &rank->channels[i]));
        }
    }
    for (unsigned i = 0; i < rank->num_ranks; i++) {
        if (i != rank->index) {
            must(ucxpool_channel_wait(rank->channels[i], UCXPOOL_FOREVER));
        }
    }
    meet(rank);
}

static void finish(ucxpool_request_t *request)
{
    must(ucxpool_request_wait(request, UCXPOOL_FOREVER));
    ucxpool_request_release(request);
}

/* A message to each of the others, and one from each. */
static void exchange(rank_t *rank, void *const *to_send, void *const *received)
{
    ucxpool_request_t *sends[MAX_RANKS], *receives[MAX_RANKS];

    for (unsigned i = 0; i < rank->num_ranks; i++) {
        if (i != rank->index) {
            must(recv_pieces(rank->pool, rank->channels[i], received,
                             NUM_PIECES, PIECE, 0, 0, NULL, &receives[i]));
            must(send_pieces(rank->channels[i], to_send, NUM_PIECES, PIECE, 0,
                             NULL, &sends[i]));
        }
    }
    for (unsigned i = 0; i < rank->num_ranks; i++) {
        if (i != rank->index) {
            finish(receives[i]);
            finish(sends[i]);
        }
    }
}

/* The content of received messages is not used, so all share one buffer. */
static void exchange_all(rank_t *rank)
{
    size_t size    = 2 * NUM_PIECES * (PIECE + sizeof(void *));
    char  *memory  = shared(size);
    char  *bytes   = memory + 2 * NUM_PIECES * sizeof(void *);
    void **to_send = (void **)memory, **received = to_send + NUM_PIECES;

    for (size_t i = 0; i < NUM_PIECES; i++) {
        to_send[i]  = bytes + 2 * i * PIECE;
        received[i] = bytes + (2 * i + 1) * PIECE;
        memset(to_send[i], (int)i, PIECE);
    }
    for (unsigned n = 0; n < NUM_MESSAGES; n++) {
        exchange(rank, to_send, received);
    }
    munmap(memory, size);
    meet(rank);
}

static ucxpool_t *make_pool(const char *wire)
{
    ucxpool_params_t  params = {.field_mask = UCXPOOL_PARAM_FIELD_CONFIG};
    ucxpool_config_t *config;
    ucxpool_t        *pool;

    must(ucxpool_config_read(&config));
    must(ucxpool_config_modify(config, "WIRE", wire));
    params.config = config;
    must(ucxpool_create(&params, &pool));
    ucxpool_config_release(config);
    return pool;
}

static void run(shared_t *board, const char *wire, unsigned index,
                unsigned num_ranks)
{
    rank_t rank = {.board = board, .index = index, .num_ranks = num_ranks};

    rank.pool = make_pool(wire);
    tell_address(&rank);
    connect_all(&rank);
    if (index == 0) {
        measure(&board->idle);
    }
    meet(&rank);
    exchange_all(&rank);
    if (index == 0) {
        measure(&board->used);
    }
    meet(&rank);
    ucxpool_destroy(rank.pool);
}

static void wait_for(unsigned num_children)
{
    int status;

    while (num_children-- > 0) {
        if ((wait(&status) < 0) || (status != 0)) {
            fail("a process", "it has failed");
        }
    }
}

static void tell_peers(const char *wire, unsigned num_peers)
{
    shared_t *board = shared(sizeof(*board));

    for (unsigned i = 0; i <= num_peers; i++) {
        if (start() == 0) {
            run(board, wire, i, num_peers + 1);
            _exit(EXIT_SUCCESS);
        }
    }
    wait_for(num_peers + 1);
    printf("| %s | %u | %.0f | %.0f | %.0f | %.0f |\n", wire, num_peers,
           board->idle.rss, board->idle.pss, board->used.rss, board->used.pss);
    munmap(board, sizeof(*board));
}

/* --- messages that are not received -----------------------------------------
 */

static void send_unwanted(rank_t *rank)
{
    static uint64_t           words[NUM_UNWANTED];
    static ucxpool_request_t *sends[NUM_UNWANTED];

    for (unsigned i = 0; i < NUM_UNWANTED; i++) {
        words[i] = i;
        must(ucxpool_send_buffer(rank->channels[1], &words[i], sizeof(words[i]),
                                 i, NULL, &sends[i]));
    }
    meet(rank);
    measure(&rank->board->with[0]);
    meet(rank);
    for (unsigned i = 0; i < NUM_UNWANTED; i++) {
        finish(sends[i]);
    }
}

static double receive_word(rank_t *rank, uint64_t tag)
{
    uint64_t           begin = clock_now();
    uint64_t           word;
    ucxpool_request_t *request;

    must(ucxpool_recv_buffer(rank->pool, rank->channels[0], &word, sizeof(word),
                             tag, UINT64_MAX, NULL, &request));
    finish(request);
    if (word != tag) {
        fail("a message", "it is another message");
    }
    return (double)(clock_now() - begin) / 1e3;
}

/* The last one first. */
static void receive_unwanted(rank_t *rank)
{
    shared_t          *board = rank->board;
    ucxpool_message_t *last;
    uint64_t           word, begin;
    ucxpool_data_t     data = ucxpool_data_buffer(&word, sizeof(word));
    ucxpool_request_t *request;

    while (ucxpool_probe(rank->pool, rank->channels[0], NUM_UNWANTED - 1,
                         UINT64_MAX, &last) != UCXPOOL_OK) {
        must(ucxpool_wait(rank->pool, UCXPOOL_FOREVER));
    }
    meet(rank);
    measure(&board->with[1]);
    meet(rank);
    begin = clock_now();
    must(ucxpool_message_recv(last, &data, NULL, &request));
    finish(request);
    board->first_us = (double)(clock_now() - begin) / 1e3;
    board->rest_us  = 0;
    for (unsigned i = NUM_UNWANTED - 1; i-- > 0;) {
        board->rest_us += receive_word(rank, i);
    }
}

static void run_unwanted(shared_t *board, const char *wire, unsigned index)
{
    rank_t rank = {.board = board, .index = index, .num_ranks = 2};

    rank.pool = make_pool(wire);
    tell_address(&rank);
    connect_all(&rank);
    measure(&board->before[index]);
    meet(&rank);
    if (index == 0) {
        send_unwanted(&rank);
    } else {
        receive_unwanted(&rank);
    }
    meet(&rank);
    ucxpool_destroy(rank.pool);
}

static void report_unwanted(const char *wire)
{
    shared_t *board = shared(sizeof(*board));

    for (unsigned i = 0; i < 2; i++) {
        if (start() == 0) {
            run_unwanted(board, wire, i);
            _exit(EXIT_SUCCESS);
        }
    }
    wait_for(2);
    printf("| %s | %.0f | %.0f | %.0f | %.0f | %.0f us | %.1f us |\n", wire,
           board->before[0].rss, board->with[0].rss, board->before[1].rss,
           board->with[1].rss, board->first_us,
           board->rest_us / (NUM_UNWANTED - 1));
    munmap(board, sizeof(*board));
}

/* --- starts ----------------------------------------------------------------
 */

/* Take one message from each process that connects. */
static void receive_words(shared_t *board)
{
    ucxpool_t          *pool = make_pool("auto");
    ucxpool_listener_t *listener;
    ucxpool_request_t  *request;
    ucxpool_channel_t  *channel;
    char                text[64];
    ucxpool_segment_t   segment = {text, sizeof(text)};

    must(ucxpool_listener_create(pool, "127.0.0.1:0", &listener));
    board->port = ucxpool_listener_port(listener);
    atomic_store(&board->num_arrived, 1);
    for (unsigned i = 0; i < NUM_STARTS; i++) {
        must(recv_segments(pool, NULL, &segment, 1, 0, 0, NULL, &request));
        while (ucxpool_listener_accept(listener, NULL, &channel) ==
               UCXPOOL_INPROGRESS) {
            must(ucxpool_wait(pool, UCXPOOL_FOREVER));
        }
        finish(request);
    }
    ucxpool_listener_destroy(listener);
    ucxpool_destroy(pool);
}

static void send_words(const shared_t *board)
{
    const ucxpool_segment_t words[] = {
        {"these", 5}, {"words", 5}, {"lie", 3}, {"anywhere", 8}};
    ucxpool_t         *pool = make_pool("auto");
    ucxpool_channel_t *channel;
    ucxpool_request_t *request;
    char               address[32];

    snprintf(address, sizeof(address), "127.0.0.1:%u", board->port);
    must(ucxpool_channel_connect(pool, address, NULL, &channel));
    must(send_segments(channel, words, 4, 1, NULL, &request));
    finish(request);
    ucxpool_destroy(pool);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The time from a process's start to its end. */
static void tell_starts(void)
{
    shared_t *board = shared(sizeof(*board));
    double    ms[NUM_STARTS];

    if (start() == 0) {
        receive_words(board);
        _exit(EXIT_SUCCESS);
    }
    while (atomic_load(&board->num_arrived) == 0) {
        sched_yield();
    }
    for (unsigned i = 0; i < NUM_STARTS; i++) {
        uint64_t begin = clock_now();

        if (start() == 0) {
            send_words(board);
            _exit(EXIT_SUCCESS);
        }
        wait_for(1);
        ms[i] = (double)(clock_now() - begin) / 1e6;
    }
    wait_for(1);
    qsort(ms, NUM_STARTS, sizeof(ms[0]), compare);
    printf("\nfour words: %.0f ms (%.0f to %.0f), median of %d processes\n",
           ms[NUM_STARTS / 2], ms[1], ms[NUM_STARTS - 2], NUM_STARTS);
    munmap(board, sizeof(*board));
}

int main(int argc, char **argv)
{
    static char       *usual[] = {"0", "1", "2", "4", "8"};
    static const char *wires[] = {"map", "ucx"};
    char             **counts  = argc > 1 ? argv + 1 : usual;
    int                num     = argc > 1 ? argc - 1 : 5;

    setbuf(stdout, NULL);
    printf("| wire | peers | RSS idle | PSS idle | RSS after | PSS after |\n"
           "|---|---|---|---|---|---|\n");
    for (unsigned w = 0; w < 2; w++) {
        for (int i = 0; i < num; i++) {
            int num_peers = atoi(counts[i]);

            if ((num_peers < 0) || (num_peers >= MAX_RANKS)) {
                fail(counts[i], "from 0 to 16 peers");
            }
            tell_peers(wires[w], (unsigned)num_peers);
        }
    }
    printf("\n%u messages of 8 bytes that are not received\n\n"
           "| wire | RSS of the sender before | with | RSS of the receiver "
           "before | with | last first | each other |\n"
           "|---|---|---|---|---|---|---|\n",
           NUM_UNWANTED);
    for (unsigned w = 0; w < 2; w++) {
        report_unwanted(wires[w]);
    }
    tell_starts();
    return EXIT_SUCCESS;
}
