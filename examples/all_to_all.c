/*
 * all_to_all - three processes send to each other at the same time: each sends
 * one message of 10,000 scattered pieces of 256 bytes to each other process.
 * The processes exchange their addresses in shared memory; MPI, PMIx or files
 * work as well.
 */
#include <ucxpool/ucxpool.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUM_RANKS  3
#define NUM_PIECES 10000
#define PIECE      256
#define STRIDE     1000 /* distance between the starts of two pieces */
#define TAG        1

/* Shared by all processes. */
typedef struct board {
    pthread_barrier_t barrier;
    size_t            lengths[NUM_RANKS];
    char              addresses[NUM_RANKS][8192];
} board_t;

static void fail(const char *what)
{
    fprintf(stderr, "all_to_all: %s\n", what);
    exit(1);
}

static void must(ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        fprintf(stderr, "all_to_all: %s: %s\n", ucxpool_status_string(status),
                ucxpool_error_detail());
        exit(1);
    }
}

static board_t *make_board(void)
{
    pthread_barrierattr_t shared;
    board_t *board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (board == MAP_FAILED) {
        fail("no shared memory");
    }
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&board->barrier, &shared, NUM_RANKS);
    return board;
}

static void tell_address(board_t *board, int rank, ucxpool_t *pool)
{
    void *address;

    must(ucxpool_address_get(pool, &address, &board->lengths[rank]));
    if (board->lengths[rank] > sizeof(board->addresses[rank])) {
        fail("the address is too long");
    }
    memcpy(board->addresses[rank], address, board->lengths[rank]);
    ucxpool_address_release(address);
    pthread_barrier_wait(&board->barrier);
}

/* Create a channel to each other process. Both ends must do so. */
static void connect_all(board_t *board, int rank, ucxpool_t *pool,
                        ucxpool_channel_t **channels)
{
    for (int peer = 0; peer < NUM_RANKS; peer++) {
        ucxpool_channel_params_t params = {
            .field_mask     = UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS,
            .address        = board->addresses[peer],
            .address_length = board->lengths[peer],
        };

        channels[peer] = NULL;
        if (peer != rank) {
            must(ucxpool_channel_create(pool, &params, &channels[peer]));
        }
    }
}

/* Pieces with gaps between them, each filled with the number of a rank. */
static void **make_pieces(int number)
{
    void **pieces = malloc(NUM_PIECES * sizeof(*pieces));
    char  *memory = malloc((size_t)NUM_PIECES * STRIDE);

    if (pieces == NULL || memory == NULL) {
        fail("no memory for the pieces");
    }
    for (size_t i = 0; i < NUM_PIECES; i++) {
        pieces[i] = memory + i * STRIDE;
        memset(pieces[i], number, PIECE);
    }
    return pieces;
}

static void free_pieces(void **pieces)
{
    free(pieces[0]);
    free(pieces);
}

static void check_pieces(void **pieces, int number)
{
    for (size_t i = 0; i < NUM_PIECES; i++) {
        for (size_t byte = 0; byte < PIECE; byte++) {
            if (((char *)pieces[i])[byte] != number) {
                fail("the received bytes differ from those sent");
            }
        }
    }
}

static void finish(ucxpool_request_t *request)
{
    must(ucxpool_request_wait(request, UCXPOOL_FOREVER));
    ucxpool_request_release(request);
}

/* Describe the receive from a peer and the send to it. */
static void add_ops(ucxpool_op_t *ops, ucxpool_channel_t *channel,
                    void **received, void **to_send)
{
    ops[0] = (ucxpool_op_t){
        .kind    = UCXPOOL_OP_RECV,
        .data    = ucxpool_data_pieces(received, NUM_PIECES, PIECE),
        .channel = channel,
        .tag     = TAG,
        .mask    = UINT64_MAX,
    };
    ops[1] = (ucxpool_op_t){
        .kind    = UCXPOOL_OP_SEND,
        .data    = ucxpool_data_pieces(to_send, NUM_PIECES, PIECE),
        .channel = channel,
        .tag     = TAG,
    };
}

/* Post all operations in one call. */
static void post_all(ucxpool_t *pool, ucxpool_op_t *ops, size_t num_ops,
                     ucxpool_request_t **requests)
{
    size_t num_posted;

    for (size_t i = 0; i < num_ops; i++) {
        ops[i].request_p = &requests[i];
    }
    must(ucxpool_post(pool, ops, sizeof(ops[0]), num_ops, &num_posted));
}

/* Post everything before waiting: any wait progresses all requests. */
static void exchange(ucxpool_t *pool, int rank, ucxpool_channel_t **channels)
{
    ucxpool_op_t       ops[2 * NUM_RANKS];
    ucxpool_request_t *requests[2 * NUM_RANKS];
    size_t             num_ops = 0;
    void             **to_send = make_pieces('A' + rank);
    void             **received[NUM_RANKS];

    for (int peer = 0; peer < NUM_RANKS; peer++) {
        if (peer != rank) {
            received[peer] = make_pieces(0);
            add_ops(&ops[num_ops], channels[peer], received[peer], to_send);
            num_ops += 2;
        }
    }
    post_all(pool, ops, num_ops, requests);
    for (size_t i = 0; i < num_ops; i++) {
        finish(requests[i]);
    }
    for (int peer = 0; peer < NUM_RANKS; peer++) {
        if (peer != rank) {
            check_pieces(received[peer], 'A' + peer);
            printf("%d has %d pieces of %d\n", rank, NUM_PIECES, peer);
            free_pieces(received[peer]);
        }
    }
    free_pieces(to_send);
}

/* A pool belongs to one process: create it after the fork. */
static int run(board_t *board, int rank)
{
    ucxpool_channel_t *channels[NUM_RANKS];
    ucxpool_t         *pool;

    must(ucxpool_create(NULL, &pool));
    tell_address(board, rank, pool);
    connect_all(board, rank, pool, channels);
    exchange(pool, rank, channels);
    ucxpool_destroy(pool);
    return 0;
}

/* Kill the processes that still run. */
static void end_ranks(const pid_t *ranks)
{
    for (int rank = 0; rank < NUM_RANKS; rank++) {
        if (ranks[rank] > 0) {
            kill(ranks[rank], SIGTERM);
        }
    }
}

static int start_ranks(board_t *board, pid_t *ranks)
{
    for (int rank = 0; rank < NUM_RANKS; rank++) {
        ranks[rank] = fork();
        if (ranks[rank] == 0) {
            exit(run(board, rank));
        }
        if (ranks[rank] < 0) {
            perror("all_to_all: fork");
            end_ranks(ranks);
            return 1;
        }
    }
    return 0;
}

/* Wait for all ranks. If one fails, kill the others, because they may wait for
 * it at the barrier. */
static int reap_ranks(pid_t *ranks)
{
    int   result = 0, status;
    pid_t ended;

    while ((ended = wait(&status)) > 0) {
        for (int rank = 0; rank < NUM_RANKS; rank++) {
            if (ranks[rank] == ended) {
                ranks[rank] = 0;
            }
        }
        if (status != 0) {
            end_ranks(ranks);
            result = 1;
        }
    }
    return result;
}

int main(void)
{
    board_t *board            = make_board();
    pid_t    ranks[NUM_RANKS] = {0};
    int      result           = start_ranks(board, ranks);

    return reap_ranks(ranks) | result;
}
