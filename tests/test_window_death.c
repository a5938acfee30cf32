/* Windows between two processes. One of them dies, stops, or sleeps. */
#include "slow.h"

#include "pair.h"
#include "sealed.h"
#include "test.h"
#include "two.h"

#include "core/pool.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAPPED 3 /* memory of a file that both sides map */

static const char *const ways[] = {
    "WIRE=map",
    "WIRE=map WINDOW_WAY=messages",
    "WIRE=ucx",
    [MAPPED] = "WIRE=map WINDOW_WAY=direct",
};
/* For machines with RDMA, and slow ones. */
static const char *const rdma_ways[] = {"WIRE=ucx WINDOW_WAY=direct"};

static bool has_rdma(void)
{
    return getenv("TEST_RDMA") != NULL;
}

static bool lacks_rdma(void)
{
    return !has_rdma();
}

#define NUM_WAYS (has_rdma() ? 1 : (int)(sizeof(ways) / sizeof(ways[0])))
#define ROUNDS   (has_rdma() ? 3 : (slow_is() ? 1 : 20) * NUM_WAYS)
#define FEW      (has_rdma() ? 1 : 3 * NUM_WAYS)

#define SIZE   ((size_t)4 << 20)
#define PIECE  ((size_t)1000)
#define PIECES (SIZE / PIECE)
#define LANES  4

/* The owner exports its window; the importer imports it. */
typedef struct side {
    two_t                    two;
    uint8_t                 *memory;
    int                      fd;     /* of its file; -1: none */
    ucxpool_window_t        *window; /* the owner's */
    ucxpool_remote_window_t *remote; /* the importer's */
} side_t;

static uint64_t offsets[PIECES];

static void give(side_t *side)
{
    const ucxpool_window_params_t params = {
        .field_mask = (side->fd >= 0) ? UCXPOOL_WINDOW_PARAM_FIELD_FD : 0,
        .fd         = side->fd,
    };

    two_ok(ucxpool_window_create(side->two.pool, side->memory, SIZE, &params,
                                 &side->window));
    two_export(&side->two, side->window);
}

static ucxpool_status_t post(side_t *side, bool is_write,
                             ucxpool_request_t **request_p)
{
    ucxpool_places_t places = ucxpool_places_even(offsets, PIECES, PIECE);
    ucxpool_data_t   data   = ucxpool_data_buffer(side->memory, PIECES * PIECE);

    return is_write ? ucxpool_remote_window_write(side->remote, &places, &data,
                                                  NULL, request_p)
                    : ucxpool_remote_window_read(side->remote, &places, &data,
                                                 NULL, request_p);
}

/* UCX 1.13 aborts if the peer is killed while the two connect over RDMA; see
 * docs/known-issues.md. After an operation they are connected. */
static void connect_lanes(side_t *side, bool is_owner)
{
    ucxpool_request_t *request;

    if (!is_owner) {
        two_ok(post(side, true, &request));
        two_ok(ucxpool_request_wait(request, UCXPOOL_FOREVER));
        ucxpool_request_release(request);
    }
    two_meet(&side->two);
}

static void begin(side_t *side, int way, bool child_owns)
{
    for (size_t i = 0; i < PIECES; i++) {
        offsets[i] = ((i * 7919) % PIECES) * PIECE;
    }
    memset(side, 0, sizeof(*side));
    two_init(&side->two, has_rdma() ? rdma_ways[way] : ways[way]);
    side->fd = -1;
    if (!has_rdma() && (way == MAPPED)) {
        side->memory = sealed_get(SIZE, &side->fd);
    } else {
        side->memory = malloc(SIZE);
    }
    memset(side->memory, 1, SIZE);
    if (side->two.is_child == child_owns) {
        give(side);
    } else {
        side->remote = two_import(&side->two);
    }
    if (has_rdma()) {
        connect_lanes(side, side->two.is_child == child_owns);
    }
}

/* Until it is killed, or receives a byte that tells it to stop. */
static void operate_forever(side_t *side)
{
    ucxpool_request_t *requests[LANES] = {NULL};
    char               byte;

    while (recv(side->two.talk, &byte, 1, MSG_DONTWAIT) != 1) {
        for (int i = 0; i < LANES; i++) {
            if ((requests[i] != NULL) && pair_ended(requests[i])) {
                ucxpool_request_release(requests[i]);
                requests[i] = NULL;
            }
            if (requests[i] == NULL) {
                two_ok(post(side, i % 2 != 0, &requests[i]));
            }
        }
        ucxpool_progress(side->two.pool);
    }
    ucxpool_destroy(side->two.pool);
    _exit(0);
}

static void free_memory(side_t *side)
{
    if (side->fd >= 0) {
        sealed_put(side->memory, SIZE);
        close(side->fd);
    } else {
        free(side->memory);
    }
}

static void end_side(side_t *side)
{
    ucxpool_destroy(side->two.pool);
    close(side->two.talk);
    free_memory(side);
}

static void until_imported(side_t *side)
{
    uint64_t late = pair_deadline();

    while (pair_window_attr(side->window).num_peers == 0) {
        two_check(!pair_is_late(late));
        ucxpool_progress(side->two.pool);
    }
}

TEST_SETTINGS(.timeout = 100);

TEST_EACH(an_owner_gets_its_memory_back_when_a_peer_is_killed, ROUNDS)
{
    side_t side;
    int    rounds;

    srand((unsigned)_i);
    rounds = rand() % 20000;
    begin(&side, _i % NUM_WAYS, false);
    if (side.two.is_child) {
        operate_forever(&side);
    }
    two_progress(&side.two, rounds);
    two_kill(&side.two);
    two_ok(ucxpool_window_revoke(side.window, UCXPOOL_FOREVER));
    two_await_blocks(&side.two);
    ucxpool_window_destroy(side.window);
    end_side(&side);
}

TEST_EACH(operations_end_when_the_owner_is_killed, ROUNDS)
{
    ucxpool_request_t *requests[LANES];
    side_t             side;
    unsigned           rounds;

    srand((unsigned)_i);
    rounds = rand() % 2000;
    begin(&side, _i % NUM_WAYS, true);
    if (side.two.is_child) {
        for (;;) {
            ucxpool_wait(side.two.pool, UCXPOOL_FOREVER);
        }
    }
    for (int i = 0; i < LANES; i++) {
        two_ok(post(&side, i % 2 != 0, &requests[i]));
    }
    two_progress(&side.two, rounds);
    two_kill(&side.two);
    for (int i = 0; i < LANES; i++) {
        ucxpool_status_t status =
            ucxpool_request_wait(requests[i], UCXPOOL_FOREVER);

        two_check((status == UCXPOOL_OK) || (status == UCXPOOL_ERR_PEER_LOST));
        ucxpool_request_release(requests[i]);
    }
    two_await_blocks(&side.two);
    ucxpool_remote_window_release(side.remote);
    end_side(&side);
}

TEST_EACH(a_window_is_revoked_under_a_busy_peer, NUM_WAYS)
{
    side_t side;

    begin(&side, _i, false);
    if (side.two.is_child) {
        ucxpool_request_t *request;
        ucxpool_status_t   status = UCXPOOL_OK;

        while (status == UCXPOOL_OK) {
            status = post(&side, true, &request);
            if (status == UCXPOOL_OK) {
                status = ucxpool_request_wait(request, UCXPOOL_FOREVER);
                ucxpool_request_release(request);
            }
        }
        two_check(status == UCXPOOL_ERR_CANCELED);
        ucxpool_remote_window_release(side.remote);
        two_cleanup(&side.two);
    }
    until_imported(&side);
    two_progress(&side.two, 3000);
    pair_destroy_window(side.window);
    /* The memory may be reused at once. */
    memset(side.memory, 0x77, SIZE);
    two_progress(&side.two, 3000);
    for (size_t i = 1; i < SIZE; i *= 2) {
        two_check(side.memory[i] == 0x77);
    }
    two_cleanup(&side.two);
    free_memory(&side);
}

/* Writes until a write fails, and notifies the owner of that. After the given
 * number of progress rounds, the process stops until the owner continues it. */
static void write_and_stop(side_t *side, unsigned stop_after)
{
    ucxpool_request_t *request = NULL;
    ucxpool_status_t   status  = UCXPOOL_OK;
    unsigned           rounds  = 0;

    while (status >= UCXPOOL_OK) {
        if (status == UCXPOOL_OK) {
            ucxpool_request_release(request);
            request = NULL;
            status  = post(side, true, &request);
        }
        ucxpool_progress(side->two.pool);
        if (++rounds == stop_after) {
            raise(SIGSTOP);
        }
        if (request != NULL) {
            status = ucxpool_request_test(request);
        }
    }
    ucxpool_request_release(request);
    ucxpool_remote_window_release(side->remote);
    two_say(&side->two);
    ucxpool_destroy(side->two.pool);
    _exit(0);
}

static void wait_until_stopped(side_t *side)
{
    int status = 0;

    while (waitpid(side->two.child, &status, WNOHANG | WUNTRACED) == 0) {
        ucxpool_progress(side->two.pool);
    }
    two_check(WIFSTOPPED(status));
}

/* Only the owner uses the memory. The importer continues, and ends. */
static void check_nothing_is_written(side_t *side, ucxpool_t *pool)
{
    char byte;
    int  status;

    memset(side->memory, 0x77, SIZE);
    two_check(kill(side->two.child, SIGCONT) == 0);
    while (recv(side->two.talk, &byte, 1, MSG_DONTWAIT) != 1) {
        if (pool != NULL) {
            ucxpool_progress(pool);
        }
    }
    two_check(waitpid(side->two.child, &status, 0) == side->two.child);
    two_check(WIFEXITED(status) && (WEXITSTATUS(status) == 0));
    two_check(pair_is_all(side->memory, SIZE, 0x77));
}

/* The importer is stopped between two steps of a copy. */
static void begin_stopped(side_t *side, int i)
{
    begin(side, i % NUM_WAYS, false);
    if (side->two.is_child) {
        write_and_stop(side, 20 + 10 * (unsigned)i);
    }
    wait_until_stopped(side);
}

/* On `map` the owner sees that it is stopped. */
TEST_EACH(destroy_does_not_wait_for_a_stopped_importer, FEW)
{
    side_t side;

    begin_stopped(&side, _i);
    ucxpool_window_destroy(side.window);
    check_nothing_is_written(&side, side.two.pool);
    end_side(&side);
}

TEST_EACH(no_importer_writes_after_pool_destroy, FEW)
{
    side_t side;

    begin_stopped(&side, _i);
    ucxpool_destroy(side.two.pool);
    check_nothing_is_written(&side, NULL);
    close(side.two.talk);
    free_memory(&side);
}

TEST_EACH(pool_destroy_waits_for_importers_that_copy, FEW)
{
    side_t side;

    begin(&side, _i % NUM_WAYS, false);
    if (side.two.is_child) {
        write_and_stop(&side, 0);
    }
    until_imported(&side);
    two_progress(&side.two, 1000 * (1 + _i));
    side.two.pool->config.close_timeout_ns = UCXPOOL_FOREVER;
    ucxpool_destroy(side.two.pool);
    check_nothing_is_written(&side, NULL);
    close(side.two.talk);
    free_memory(&side);
}

/* The owner of a window. It makes no progress after the import. */
static void only_own(side_t *side)
{
    char byte;

    memset(side->memory, 9, SIZE);
    until_imported(side);
    two_recv(&side->two, &byte, 1);
    pair_destroy_window(side->window);
    two_cleanup(&side->two);
}

TEST_WITH(the_owner_need_not_make_progress_within_a_host, .end = 2,
          .only_if = lacks_rdma)
{
    side_t                       side;
    ucxpool_request_t           *request;
    ucxpool_remote_window_attr_t attr;

    begin(&side, _i * MAPPED, true);
    if (side.two.is_child) {
        only_own(&side);
    }
    attr = two_import_ended(&side.two, side.remote);
    two_check((_i == 0) ? (attr.way == UCXPOOL_WAY_PROCESS) == pair_has_pidfd()
                        : attr.way == UCXPOOL_WAY_MAPPED);
    if (attr.way != UCXPOOL_WAY_MESSAGES) {
        two_ok(post(&side, false, &request));
        two_ok(ucxpool_request_wait(request, UCXPOOL_FOREVER));
        ucxpool_request_release(request);
        two_check(pair_is_all(side.memory, PIECES * PIECE, 9));
    }
    ucxpool_remote_window_release(side.remote);
    two_say(&side.two);
    two_cleanup(&side.two);
    free_memory(&side);
}
