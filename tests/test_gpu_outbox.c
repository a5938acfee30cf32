/*
 * Messages through the outbox: the sender's GPU copies them to pinned host
 * memory, and the receiver's GPU or CPU waits for a flag there. The parent
 * sends.
 */
#include "base/clock.h"
#include "core/pool.h"
#include "pair.h"
#include "segments.h"
#include "test.h"
#include "two_gpu.h"
#include "wire/wire.h"
#include "xfer/state.h"

#include <stdlib.h>
#include <string.h>

#define TAG      UINT64_C(9)
#define ALL_BITS UINT64_MAX
#define SIZE     ((size_t)2 << 20)
#define SLOT     ((size_t)65536)
#define SHORT    ((size_t)4096)
#define FLAG     ((size_t)64)

typedef enum receiver { OTHER_GPU, SAME_GPU, HOST, NUM_RECEIVERS } receiver_t;

static two_t    two;
static uint8_t *memory;
static uint8_t *bytes;
static uint8_t *right;

TEST_SETTINGS(.before_fork = pair_warm_up, .timeout = 120,
              .only_if = cuda_is_present);

/* No stream dependency for the sent and received memory. */
static const ucxpool_request_params_t ready = {
    .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_STREAM,
    .stream     = UCXPOOL_STREAM_READY,
};

/* The receiver is in the child. Returns false if the machine has too few
 * GPUs. */
static bool begin_with(const char *settings, const char *stand_ins,
                       receiver_t receiver)
{
    bool is_host;

    setenv("CUDA_STAND_IN", stand_ins, 1);
    if (receiver == HOST) {
        two_gpu_start_on(&two, (two_side_t){settings, 0},
                         (two_side_t){"WIRE=map", -1});
    } else if (!two_gpu_start_apart(&two, settings, settings,
                                    receiver == OTHER_GPU)) {
        return false;
    }
    is_host = two.is_child && (receiver == HOST);
    memory  = is_host ? malloc(SIZE) : gpu_alloc(SIZE);
    bytes   = malloc(SIZE);
    right   = malloc(SIZE);
    pair_fill_with(right, SIZE, 1);
    memset(bytes, 0xfe, SIZE);
    gpu_write(memory, two.is_child ? bytes : right, SIZE);
    two_meet(&two);
    return true;
}

static bool begin(const char *stand_ins, receiver_t receiver)
{
    return begin_with("WIRE=map MAP_WAY=host", stand_ins, receiver);
}

static void free_memory(receiver_t receiver)
{
    if (two.is_child && (receiver == HOST)) {
        free(memory);
    } else {
        gpu_free(memory);
    }
    free(bytes);
    free(right);
}

static void end(receiver_t receiver)
{
    two_settle(&two);
    two_check(two.pool->xfer->outbox.at.slots == NULL);
    free_memory(receiver);
    two_gpu_stop(&two);
}

static ucxpool_request_t *post(size_t offset, size_t size)
{
    ucxpool_request_t *request;

    if (two.is_child) {
        two_ok(ucxpool_recv_buffer(two.pool, two.channel, memory + offset, size,
                                   TAG, ALL_BITS, &ready, &request));
    } else {
        two_ok(ucxpool_send_buffer(two.channel, memory + offset, size, TAG,
                                   &ready, &request));
    }
    return request;
}

/* Has the child received these bytes, and written nothing after them? */
static void check(size_t offset, size_t size)
{
    if (two.is_child) {
        gpu_read(bytes, memory, SIZE);
        two_check(memcmp(bytes + offset, right + offset, size) == 0);
        two_check((offset + size == SIZE) || (bytes[offset + size] == 0xfe));
    }
}

static unsigned num_used(void)
{
    const xfer_mailbox_t *outbox = &two.pool->xfer->outbox;

    return (outbox->at.slots == NULL)
               ? 0
               : (unsigned)__builtin_popcountll(~outbox->free_slots);
}

static const struct {
    size_t   size;
    unsigned num_slots;
} sizes[] = {
    {1, 1},      {SHORT, 1},    {SLOT - FLAG, 1},  {SLOT - FLAG + 1, 2},
    {100000, 2}, {8 * SLOT, 9}, {8 * SLOT + 1, 0},
};
#define NUM_SIZES (sizeof(sizes) / sizeof(sizes[0]))

TEST_EACH(short_message_is_sent_before_it_is_accepted, NUM_RECEIVERS)
{
    receiver_t receiver = (receiver_t)_i;

    if (!begin("run=late,devices=2", receiver)) {
        return;
    }
    for (size_t i = NUM_SIZES; i-- > 0;) {
        ucxpool_request_t *request = NULL;

        for (int is_early = 0; is_early < 2; is_early++) {
            if (two.is_child == (is_early != 0)) {
                request = post(0, sizes[i].size);
            }
            two_progress(&two, 20);
            two_check(two.is_child || (is_early != 0) ||
                      (num_used() == sizes[i].num_slots));
            two_meet(&two);
        }
        two_ok(two_finish(&two, request));
        two_settle(&two);
        check(0, sizes[i].size);
        if (two.is_child) {
            memset(bytes, 0xfe, SIZE);
            gpu_write(memory, bytes, SIZE);
        }
        two_meet(&two);
    }
    end(receiver);
}

/* With small blocks, the outbox is smaller than some messages. */
TEST(message_longer_than_the_outbox_keeps_no_block)
{
    ucxpool_request_t *request = NULL;

    (void)begin_with("WIRE=map CUDA_BACKING=host COMM_SIZE=4m BLOCK_SIZE=64k",
                     "run=late,devices=2", HOST);
    for (size_t size = 60000; size <= 70000; size += 10000) {
        if (!two.is_child) {
            request = post(0, size);
            two_progress(&two, 20);
            two_check((num_used() != 0) == (size == 60000));
            two_check((num_used() != 0) ==
                      (two.pool->xfer->outbox.at.slots != NULL));
        }
        two_meet(&two);
        if (two.is_child) {
            request = post(0, size);
        }
        two_ok(two_finish(&two, request));
        two_settle(&two);
        check(0, size);
    }
    end(HOST);
}

/* A message uses the outbox only if its copy can start at once. */
static void await_job(void)
{
    uint64_t late = pair_deadline();

    while (!copy_engine_has_job(two.pool->engine)) {
        two_check(!pair_is_late(late));
        ucxpool_progress(two.pool);
    }
}

/* More messages than slots. At first, none has a receive. */
TEST_EACH(full_outbox_delays_no_message, NUM_RECEIVERS)
{
    const size_t       num = 100;
    ucxpool_request_t *requests[100];
    receiver_t         receiver = (receiver_t)_i;

    if (!begin("run=late,devices=2", receiver)) {
        return;
    }
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; !two.is_child && (i < num); i++) {
            requests[i] = post(2 * i * SHORT, SHORT + i % 2);
            await_job();
        }
        two_check(two.is_child || (num_used() == PROTO_SLOTS_MAX));
        two_meet(&two);
        for (size_t i = 0; two.is_child && (i < num); i++) {
            requests[i] = post(2 * i * SHORT, SHORT + i % 2);
        }
        two_finish_all(&two, requests, num);
        for (size_t i = 0; i < num; i++) {
            check(2 * i * SHORT, SHORT + i % 2);
        }
    }
    end(receiver);
}

typedef enum canceler { NOBODY, RECEIVER, SENDER, NUM_CANCELERS } canceler_t;

/* Require that the GPU waits for a flag, again and again, or never. */
static void check_waits(bool is_expected)
{
    const unsigned *num_p = &two.pool->engine->num_waiting;
    uint64_t        late  = pair_deadline();

    while (is_expected && (*num_p == 0)) {
        two_check(!pair_is_late(late));
        ucxpool_progress(two.pool);
    }
    two_check((*num_p != 0) == is_expected);
}

/* The sender's GPU is slow. The receiver waits with its GPU, or with the CPU if
 * both use the same GPU or the message is long. Either side may cancel in the
 * meantime. */
STAND_IN_TEST_EACH(slow_message_is_awaited, 2 * NUM_RECEIVERS * NUM_CANCELERS)
{
    receiver_t         receiver = (receiver_t)(_i / 2 % NUM_RECEIVERS);
    canceler_t         canceler = (canceler_t)(_i / 2 / NUM_RECEIVERS);
    size_t             size     = SHORT + (size_t)_i % 2;
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    two_check(begin("devices=2", receiver));
    if (!two.is_child) {
        cuda_start("run=n,devices=2");
        request = post(0, size);
        two_meet(&two);
        two_hear(&two);
        two_check(num_used() == 1);
        if (canceler == SENDER) {
            ucxpool_request_cancel(request);
            two_progress(&two, 20);
        }
        cuda_start("devices=2");
        while (stand_in.step(1) != 0) {
        }
    } else {
        request = post(0, size);
        two_meet(&two);
        two_progress(&two, 200);
        two_check(!pair_ended(request));
        two_check(wire_delivery_deadline(two.pool) != BASE_CLOCK_FOREVER);
        check_waits((receiver == OTHER_GPU) && (size == SHORT));
        if (canceler == RECEIVER) {
            ucxpool_request_cancel(request);
        }
        two_progress(&two, 20);
        two_say(&two);
    }
    status = two_finish(&two, request);
    two_check((canceler == NOBODY) ? status == UCXPOOL_OK
                                   : two_is_early(status));
    if (canceler == NOBODY) {
        check(0, size);
    }
    end(receiver);
}

/* Slots that the peer may read are in use until its process has ended. */
TEST_EACH(killed_receiver_keeps_no_slot, NUM_RECEIVERS)
{
    receiver_t         receiver = (receiver_t)_i;
    ucxpool_request_t *requests[20];
    uint64_t           late;

    if (!begin("run=late,devices=2", receiver)) {
        return;
    }
    for (size_t i = 0; i < 20; i++) {
        requests[i] = post(i * SHORT, SHORT);
    }
    if (two.is_child) {
        two_meet(&two);
        two_progress(&two, 1000000000);
    }
    two_meet(&two);
    two_kill(&two);
    for (size_t i = 0; i < 20; i++) {
        (void)two_finish(&two, requests[i]);
    }
    late = pair_deadline();
    while (num_used() != 0) {
        two_check(!pair_is_late(late));
        ucxpool_progress(two.pool);
    }
    free_memory(receiver);
    two_survive(&two);
    mem_cuda_device_close(gpu);
}
