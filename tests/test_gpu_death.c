/* State of the surviving process after its peer dies at any moment of transfers
 * between pools on two GPUs. */
#include "segments.h"
#include "slow.h"
#include "test.h"
#include "two_gpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAG      UINT64_C(0x77)
#define ALL_BITS UINT64_MAX
#define LENGTH   ((size_t)4 << 20)
#define PIECE    ((size_t)4096)
#define LANES    4

static const char *const kinds[] = {
    "CUDA_BACKING=alloc WIRE=map FRAG_SIZE=256k",
    "CUDA_BACKING=vmm WIRE=map FRAG_SIZE=256k",
    "CUDA_BACKING=alloc WIRE=map MAP_WAY=push FRAG_SIZE=256k",
    "CUDA_BACKING=alloc WIRE=map MAP_WAY=host FRAG_SIZE=256k",
    "CUDA_BACKING=alloc WIRE=ucx FRAG_SIZE=256k",
    "CUDA_BACKING=host WIRE=ucx FRAG_SIZE=256k",
};
#define NUM_KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

/* The survivor sends, receives, or does both. */
typedef enum role { ROLE_SENDS, ROLE_RECEIVES, ROLE_BOTH, NUM_ROLES } role_t;

/* Messages in flight at a time, packed and in place. */
typedef struct lane {
    uint8_t           *source;
    uint8_t           *target;
    bool               is_comm;
    ucxpool_segment_t  pieces[LENGTH / PIECE];
    ucxpool_request_t *send;
    ucxpool_request_t *recv;
} lane_t;

static two_t  two;
static lane_t lanes[LANES];

static void init_lanes(void)
{
    uint8_t *bytes = calloc(1, LENGTH);
    void    *source;

    for (int i = 0; i < LANES; i++) {
        lane_t *lane = &lanes[i];

        memset(lane, 0, sizeof(*lane));
        lane->is_comm = i == 0;
        if (lane->is_comm) {
            two_ok(ucxpool_comm_alloc(two.pool, LENGTH, &source));
            lane->source = source;
        } else {
            lane->source = gpu_alloc(LENGTH);
        }
        lane->target = gpu_alloc(LENGTH);
        gpu_write(lane->source, bytes, LENGTH);
        for (size_t j = 0; j < LENGTH / PIECE; j++) {
            lane->pieces[j] =
                (ucxpool_segment_t){lane->target + j * PIECE, PIECE};
        }
    }
    free(bytes);
}

static void free_lanes(void)
{
    for (int i = 0; i < LANES; i++) {
        ucxpool_request_release(lanes[i].send);
        ucxpool_request_release(lanes[i].recv);
        if (lanes[i].is_comm) {
            ucxpool_comm_free(two.pool, lanes[i].source);
        } else {
            gpu_free(lanes[i].source);
        }
        gpu_free(lanes[i].target);
    }
}

static void clear(ucxpool_request_t **request)
{
    if ((*request != NULL) && pair_ended(*request)) {
        ucxpool_request_release(*request);
        *request = NULL;
    }
}

static void run_step(bool sends, bool receives)
{
    for (int i = 0; i < LANES; i++) {
        lane_t *lane = &lanes[i];

        clear(&lane->send);
        clear(&lane->recv);
        if (sends && (lane->send == NULL)) {
            (void)ucxpool_send_buffer(two.channel, lane->source, LENGTH, TAG,
                                      NULL, &lane->send);
        }
        if (receives && (lane->recv == NULL)) {
            (void)recv_segments(two.pool, two.channel, lane->pieces,
                                LENGTH / PIECE, TAG, ALL_BITS, NULL,
                                &lane->recv);
        }
    }
    ucxpool_progress(two.pool);
}

/* Loops until it is killed. */
static void run_peer(role_t role)
{
    init_lanes();
    two_say(&two);
    for (;;) {
        run_step(role != ROLE_SENDS, role != ROLE_RECEIVES);
    }
}

static bool is_pending(const ucxpool_request_t *request)
{
    return (request != NULL) && !pair_ended(request);
}

static void require_lost(const ucxpool_request_t *request)
{
    ucxpool_request_attr_t attr;

    if (request == NULL) {
        return;
    }
    ucxpool_request_query(request, &attr, sizeof(attr));
    two_check((attr.status == UCXPOOL_OK) ||
              (attr.status == UCXPOOL_ERR_PEER_LOST));
    two_check((attr.status == UCXPOOL_OK) || (attr.detail[0] != '\0'));
}

static void await_end(void)
{
    uint64_t late = pair_deadline();
    bool     pending;

    do {
        ucxpool_wait(two.pool, 10000000);
        two_check(!pair_is_late(late));
        pending = ucxpool_send_buffer(two.channel, "x", 1, TAG, NULL, NULL) ==
                  UCXPOOL_OK;
        for (int i = 0; i < LANES; i++) {
            pending |= is_pending(lanes[i].send) || is_pending(lanes[i].recv);
        }
    } while (pending);
    for (int i = 0; i < LANES; i++) {
        require_lost(lanes[i].send);
        require_lost(lanes[i].recv);
    }
}

static void survive(role_t role)
{
    int  num_steps = rand() % 2000;
    char byte;

    init_lanes();
    two_recv(&two, &byte, 1);
    for (int i = 0; i < num_steps; i++) {
        run_step(role != ROLE_RECEIVES, role != ROLE_SENDS);
    }
    two_kill(&two);
    await_end();
    free_lanes();
    two_survive(&two);
    mem_cuda_device_close(gpu);
}

/* Live memory of the stand-in. The driver is loaded once in a process. */
static unsigned num_live(void)
{
    cuda_start("");
    return stand_in.live();
}

TEST_SETTINGS(.timeout = 120, .only_if = cuda_is_present);

TEST_EACH(killed_peer_fails_only_its_requests,
          NUM_KINDS *NUM_ROLES *(slow_is() ? 1 : 3))
{
    role_t role = (role_t)(_i % NUM_ROLES);

    /* Valgrind does not support pidfd_open(), which opening the peer's files
     * needs. */
    if ((RUNNING_ON_VALGRIND != 0) && (_i / NUM_ROLES % NUM_KINDS == 1)) {
        return;
    }
    /* Once per process: the child of a process that used CUDA cannot use it. */
    srand((unsigned)getpid());
    two_gpu_start(&two, kinds[_i / NUM_ROLES % NUM_KINDS]);
    if (two.is_child) {
        run_peer(role);
    }
    survive(role);
    ck_assert_int_eq(waitpid(two.child, NULL, WNOHANG), -1);
    if (!cuda_is_real()) {
        ck_assert_uint_eq(num_live(), 0);
    }
}
