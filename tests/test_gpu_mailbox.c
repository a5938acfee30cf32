/*
 * Messages between the GPUs of two processes. The sender writes them to
 * the mailbox that the receiver lent, before the receiver accepts them.
 */
#include "base/clock.h"
#include "core/channel.h"
#include "core/pool.h"
#include "core/request.h"
#include "segments.h"
#include "slow.h"
#include "test.h"
#include "two_gpu.h"
#include "wire/wire.h"
#include "xfer/send.h"
#include "xfer/state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TAG       UINT64_C(9)
#define ALL_BITS  UINT64_MAX
#define SIZE      ((size_t)2 << 20)
#define SLOT      ((size_t)14336)
#define NUM_SLOTS 36u
#define SHORT     ((size_t)4096)
#define LONG      (SLOT + 1000)
#define SETTINGS  "WIRE=map CUDA_BACKING=alloc COMM_SIZE=32m BLOCK_SIZE=2m "
#define MAX_NUM   4097u
#define MAX_LISTS 160u

static two_t    two;
static uint8_t *source;
static uint8_t *target;
static uint8_t *bytes;
static uint8_t *right;

static void put(unsigned round)
{
    pair_fill_of(bytes, SIZE, two.is_child, round);
    gpu_write(source, bytes, SIZE);
    memset(bytes, 0xfe, SIZE);
    gpu_write(target, bytes, SIZE);
}

/* Does the target contain what the peer sent from this offset on? */
static void check(unsigned round, size_t offset, size_t size)
{
    gpu_read(bytes, target, offset + size);
    pair_fill_of(right, offset + size, !two.is_child, round);
    two_check(memcmp(bytes + offset, right + offset, size) == 0);
}

/* False: the machine has only one real GPU. */
static bool begin_on(const char *stand_ins, const char *settings, bool is_far)
{
    setenv("CUDA_STAND_IN", stand_ins, 1);
    if (!two_gpu_start_apart(&two, settings, settings, is_far)) {
        return false;
    }
    source = gpu_alloc(SIZE);
    target = gpu_alloc(SIZE);
    bytes  = malloc(SIZE);
    right  = malloc(SIZE);
    return true;
}

/* Copies do not complete at once, as on a GPU. */
static bool begin(const char *settings, bool is_far)
{
    return begin_on("run=late,devices=2", settings, is_far);
}

static void free_memory(void)
{
    gpu_free(source);
    gpu_free(target);
    free(bytes);
    free(right);
}

static void end_both(void)
{
    two_settle(&two);
    free_memory();
    two_gpu_stop(&two);
}

/* `size` bytes in `num` segments; the last one has the remainder. The
 * list belongs to the caller until the request ends, and several may be
 * in flight. */
static ucxpool_segment_t *cut(uint8_t *memory, size_t size, size_t num)
{
    static ucxpool_segment_t lists[MAX_LISTS][MAX_NUM];
    static unsigned          next;
    ucxpool_segment_t       *segments = lists[next++ % MAX_LISTS];

    for (size_t i = 0; i < num; i++) {
        segments[i] =
            (ucxpool_segment_t){memory + i * (size / num), size / num};
    }
    segments[num - 1].length += size % num;
    return segments;
}

/* No stream dependency for the sent and received memory. */
static const ucxpool_request_params_t ready = {
    .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_STREAM,
    .stream     = UCXPOOL_STREAM_READY,
};

static ucxpool_request_t *post_send(size_t offset, size_t size, size_t num)
{
    ucxpool_segment_t *segments = cut(source + offset, size, num);
    ucxpool_request_t *request;

    two_ok(send_segments(two.channel, segments, num, TAG, &ready, &request));
    return request;
}

static ucxpool_request_t *post_recv(size_t offset, size_t size, size_t num)
{
    ucxpool_segment_t *segments = cut(target + offset, size, num);
    ucxpool_request_t *request;

    two_ok(recv_segments(two.pool, two.channel, segments, num, TAG, ALL_BITS,
                         &ready, &request));
    return request;
}

static uint64_t num_mailed(void)
{
    return two_count(&two, "sent_map_pushed_fragments");
}

/* The first messages are accepted normally; a mailbox is lent with them. */
static void get_mailbox(void)
{
    ucxpool_request_t *requests[2];
    uint64_t           late = pair_deadline();

    put(1000);
    two_meet(&two);
    requests[0] = post_recv(0, SHORT, 1);
    requests[1] = post_send(0, SHORT, 1);
    two_finish_all(&two, requests, 2);
    check(1000, 0, SHORT);
    while (two.channel->xfer->mailbox.at.slots == NULL) {
        two_check(!pair_is_late(late));
        ucxpool_progress(two.pool);
    }
}

static const struct {
    size_t   size;
    size_t   num_sent; /* segments */
    size_t   num_received;
    uint64_t num_mailed;
} shapes[] = {
    {1, 1, 1, 1},
    {SHORT, 1, 1, 1},
    {SHORT, 16, 1, 1},
    {SHORT, 16, 16, 1},
    {SHORT + 5, 3, 3, 1},
    {SHORT + 5, 3, 1, 1},
    {SLOT, 1, 1, 1},
    {SLOT + 1, 1, 1, 1},
    {SLOT - 64, 2, 2, 1},
    {SLOT, 62, 1, 1},
    {100000, 7, 3, 1},
    {200000, 4095, 2, 1},
    {200000, 4096, 2, 0},
    {NUM_SLOTS * SLOT, 1, 5, 1},
    {NUM_SLOTS * SLOT + 1, 1, 1, 0},
};
#define NUM_SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))

TEST_SETTINGS(.before_fork = pair_warm_up, .timeout = 120,
              .only_if = cuda_is_present);

static void exchange_shape(int shape)
{
    size_t             size   = shapes[shape].size;
    uint64_t           before = num_mailed();
    ucxpool_request_t *requests[2];

    for (unsigned round = 0; round < 4; round++) {
        put(round);
        two_meet(&two);
        if (round % 2 != 0) {
            requests[1] = post_send(0, size, shapes[shape].num_sent);
            two_progress(&two, 20);
            two_meet(&two);
            requests[0] = post_recv(0, size, shapes[shape].num_received);
        } else {
            requests[0] = post_recv(0, size, shapes[shape].num_received);
            two_meet(&two);
            requests[1] = post_send(0, size, shapes[shape].num_sent);
        }
        two_finish_all(&two, requests, 2);
        check(round, 0, size);
    }
    two_check(num_mailed() - before == 4 * shapes[shape].num_mailed);
}

/* Segments other than the last are padded to 16 bytes in the stream. Under
 * valgrind, a process takes seconds to start, so all shapes share two. */
TEST_EACH(short_messages_use_the_mailbox, RUNNING_ON_VALGRIND ? 1 : NUM_SHAPES)
{
    int end = RUNNING_ON_VALGRIND ? NUM_SHAPES : _i + 1;

    if (!begin(SETTINGS, true)) {
        return;
    }
    get_mailbox();
    for (int shape = _i; shape < end; shape++) {
        exchange_shape(shape);
    }
    end_both();
}

/* The size of one of several messages, which occupies one or two slots. */
static size_t size_of(size_t i)
{
    return (i % 2 == 0) ? SHORT : LONG;
}

/* More messages at a time than slots: the others do not use the mailbox. */
TEST(full_mailbox_delays_no_message)
{
    const size_t       num = 2 * NUM_SLOTS;
    ucxpool_request_t *requests[4 * NUM_SLOTS];

    if (!begin(SETTINGS, true)) {
        return;
    }
    get_mailbox();
    for (unsigned round = 0; round < 3; round++) {
        put(round);
        two_meet(&two);
        for (size_t i = 0; i < num; i++) {
            requests[i] = post_send(i * LONG, size_of(i), 1);
        }
        two_progress(&two, 50);
        for (size_t i = 0; i < num; i++) {
            requests[num + i] = post_recv(i * LONG, size_of(i), 1);
        }
        two_finish_all(&two, requests, 2 * num);
        for (size_t i = 0; i < num; i++) {
            check(round, i * LONG, size_of(i));
        }
    }
    two_check(num_mailed() >= 3);
    two_check(two_count(&two, "sent_map_packed_fragments") >= 1 + 3);
    end_both();
}

static const struct {
    const char *settings;
    bool        is_far;
} without[] = {
    {SETTINGS "MAP_WAY=pull", true},
    {SETTINGS "MAP_WAY=push", false},
    {SETTINGS "BLOCK_SIZE=16k", true},
};
#define NUM_WITHOUT ((int)(sizeof(without) / sizeof(without[0])))

/* Nor between two pools that share a GPU, which serves them in turn. */
TEST_EACH(no_mailbox_is_lent_without_benefit, NUM_WITHOUT)
{
    ucxpool_request_t *requests[2];

    if (!begin(without[_i].settings, without[_i].is_far)) {
        return;
    }
    for (unsigned round = 0; round < 3; round++) {
        put(round);
        two_meet(&two);
        requests[0] = post_recv(0, SHORT, 1);
        requests[1] = post_send(0, SHORT, 1);
        two_finish_all(&two, requests, 2);
        check(round, 0, SHORT);
    }
    two_check(two.channel->xfer->mailbox.at.slots == NULL);
    two_check(two.pool->wire->mail.num_lent == 0);
    end_both();
}

/* A GPU that is blocked for this long must not fail the channel. */
static void cancel_and_wait(ucxpool_request_t *request)
{
    uint64_t late = base_clock_deadline(UINT64_C(20000000));

    two.pool->drain_ns = 1000000;
    ucxpool_request_cancel(request);
    while (base_clock_now() < late) {
        ucxpool_progress(two.pool);
    }
    two_check(two.channel->state == UCXPOOL_CHANNEL_OPEN);
    two_check(!pair_ended(request));
}

/* Post a send, and let its gather start, but not end. */
static ucxpool_request_t *post_slow_send(size_t size)
{
    uint64_t           late = pair_deadline();
    ucxpool_request_t *request;

    cuda_start("run=n,devices=2");
    request = post_send(0, size, 2);
    while (two.channel->xfer->num_pushes == 0) {
        two_check(!pair_is_late(late));
        ucxpool_progress(two.pool);
    }
    return request;
}

/* Connect the processes, and let the child send a message whose gather does not
 * end. False: the machine has only one real GPU. */
static bool begin_slow_send(size_t size, ucxpool_request_t **request_p)
{
    if (!begin_on("devices=2", SETTINGS "MAP_WAY=push", true)) {
        return false;
    }
    get_mailbox();
    put(0);
    two_meet(&two);
    if (two.is_child) {
        *request_p = post_slow_send(size);
    }
    return true;
}

/* In the mailbox; and too long for it, so announced before it is gathered. */
static const size_t slow_sizes[] = {SHORT, (size_t)1 << 20};

/* The sender's GPU is slow: the receiver's GPU polls repeatedly, and a receive
 * or a send that is canceled during that time ends. */
STAND_IN_TEST_EACH(slow_message_is_awaited, 2 * 3)
{
    size_t             size = slow_sizes[_i / 3];
    int                end  = _i % 3; /* 1: canceled here, 2: by the sender */
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    if (!begin_slow_send(size, &request)) {
        return;
    }
    if (two.is_child) {
        two_check((size == SHORT) ||
                  base_list_is_empty(&request->send->unsent));
        if (end == 2) {
            cancel_and_wait(request);
        }
        two_say(&two);
        two_hear(&two);
        two_check(two.channel->xfer->num_pushes == 1);
        cuda_start("devices=2");
        while (stand_in.step(1) != 0) {
        }
    } else {
        request = post_recv(0, size, 2);
        two_hear(&two);
        two_progress(&two, 200);
        two_check((end == 2) || !pair_ended(request));
        if (end == 1) {
            ucxpool_request_cancel(request);
        }
        two_progress(&two, 20);
        two_say(&two);
    }
    status = two_finish(&two, request);
    two_check((status == UCXPOOL_OK) == (end == 0));
    if (!two.is_child && (end == 0)) {
        check(0, 0, size);
    }
    two_progress(&two, 100);
    two_check(two.channel->xfer->mailbox.free_slots == 0xfffffffff);
    end_both();
}

/* Let the copies of a slow send end, and say so. */
static void let_go(void)
{
    cuda_start("devices=2");
    while (stand_in.step(1) != 0) {
    }
    two_say(&two);
}

/* Without pauses, each round of progress would launch the kernel again. */
STAND_IN_TEST_EACH(late_flag_costs_few_launches, 2)
{
    const size_t       size = slow_sizes[_i];
    ucxpool_request_t *request;

    if (!begin_slow_send(size, &request)) {
        return;
    }
    if (two.is_child) {
        two_say(&two);
        two_hear(&two);
        let_go();
    } else {
        request = post_recv(0, size, 2);
        two_hear(&two);
        cuda_start("devices=2"); /* counts from here */
        two_progress(&two, 2000);
        two_check(stand_in.count("cuLaunchKernel") > 0);
        two_check(stand_in.count("cuLaunchKernel") < 1500);
        two_say(&two);
        two_hear(&two);
    }
    two_ok(two_finish(&two, request));
    if (!two.is_child) {
        check(0, 0, size);
    }
    end_both();
}

/* A sleeping thread need not look at the flag itself, which is in the GPU's
 * memory. */
STAND_IN_TEST(pool_sleeps_until_the_next_launch_for_a_late_flag)
{
    ucxpool_request_t *request;
    uint64_t           late;

    if (!begin_slow_send(SHORT, &request)) {
        return;
    }
    if (two.is_child) {
        two_hear(&two);
        let_go();
    } else {
        request = post_recv(0, SHORT, 2);
        late    = pair_deadline();
        while (base_list_is_empty(&two.pool->wire->deliveries) ||
               (wire_delivery_deadline(two.pool) <=
                base_clock_deadline(2 * COPY_LOOK_NS))) {
            two_check(!pair_is_late(late));
            ucxpool_progress(two.pool);
        }
        two_say(&two);
        two_hear(&two);
    }
    two_ok(two_finish(&two, request));
    end_both();
}

static void clear_flags(void)
{
    copy_flag_t flag;
    uint32_t   *word;

    for (unsigned slot = 0; slot < NUM_SLOTS; slot++) {
        two_check(wire_mailbox_find_flag(two.channel, slot, 0, &flag));
        word  = stand_in.bytes((uintptr_t)flag.word, sizeof(*word));
        *word = 0;
    }
}

/* A launch to pageable memory copies at most 512 KiB. The flag is set for all
 * launches of a message, so only the first one waits for it. */
STAND_IN_TEST(several_launches_wait_for_the_flag_once)
{
    const size_t       size = (size_t)1 << 20;
    uint8_t           *host = test_alloc(size);
    ucxpool_request_t *request;

    if (!begin_slow_send(size, &request)) {
        return;
    }
    if (two.is_child) {
        let_go();
    } else {
        cuda_start("run=n,devices=2");
        two_ok(ucxpool_recv_buffer(two.pool, two.channel, host, size, TAG,
                                   ALL_BITS, &ready, &request));
        two_hear(&two);
        while (stand_in.step(1) != 0) { /* the first launch */
        }
        clear_flags();
        cuda_start("devices=2");
    }
    two_ok(two_finish(&two, request));
    if (!two.is_child) {
        pair_fill_of(right, size, true, 0);
        two_check(memcmp(host, right, size) == 0);
    }
    end_both();
}

/* Too long for the mailbox, so announced before it is gathered. */
TEST(send_waiting_for_its_stream_holds_no_slot)
{
    const size_t             size   = (size_t)1 << 20;
    CUstream                 stream = NULL;
    ucxpool_request_params_t params = {.field_mask =
                                           UCXPOOL_REQUEST_PARAM_FIELD_STREAM};
    gpu_gate_t               gate;
    ucxpool_request_t       *request;

    if (!begin(SETTINGS "MAP_WAY=push", true)) {
        return;
    }
    get_mailbox();
    put(0);
    two_meet(&two);
    if (two.is_child) {
        cuda_start("run=late,devices=2");
        stream = gpu_stream(CU_STREAM_NON_BLOCKING);
        gpu_gate_init(&gate);
        gpu_gate_wait(&gate, stream);
        params.stream = stream;
        two_ok(ucxpool_send_buffer(two.channel, source, size, TAG, &params,
                                   &request));
        while (request->send->receive == 0) {
            ucxpool_progress(two.pool);
        }
        two_progress(&two, 20);
        two_check(request->send->is_early);
        two_check(two.channel->xfer->mailbox.free_slots == 0xfffffffff);
        gpu_gate_open(&gate);
    } else {
        request = post_recv(0, size, 2);
    }
    two_ok(two_finish(&two, request));
    if (two.is_child) {
        gpu_stream_wait(stream);
        gpu_gate_cleanup(&gate);
        gpu_stream_destroy(stream);
    } else {
        check(0, 0, size);
    }
    end_both();
}

#define NUM_LATE 20u

static void send_late(ucxpool_request_t **requests)
{
    void *memory;

    two_ok(ucxpool_comm_alloc(two.pool, SHORT, &memory));
    pair_fill_of(bytes, SIZE, two.is_child, 0);
    gpu_write(memory, bytes + SIZE - SHORT, SHORT);
    cuda_start("run=n,devices=2");
    for (unsigned i = 0; i < NUM_LATE; i++) {
        requests[i] = post_send(i * LONG, SHORT, 1);
    }
    two_ok(ucxpool_send_buffer(two.channel, memory, SHORT, TAG + 1, &ready,
                               &requests[NUM_LATE]));
    for (unsigned i = 0; i < NUM_LATE; i++) { /* its copy has started */
        two_check((requests[i]->send->slot == 0) ||
                  (requests[i]->send->busy != 0));
    }
    two_ok(two_finish(&two, requests[NUM_LATE]));
    two_check(num_mailed() > NUM_LATE / 2);
    cuda_start("devices=2");
    while (stand_in.step(1) != 0) {
    }
    ucxpool_comm_free(two.pool, memory);
}

/* The sender's GPU is stopped, and only a message in place arrives. There are
 * more messages in the mailbox than scatters may be in flight. They do not
 * delay the message in place. */
STAND_IN_TEST(late_messages_do_not_delay_others)
{
    ucxpool_request_t *requests[NUM_LATE + 1];

    if (!begin(SETTINGS, true)) {
        return;
    }
    get_mailbox();
    put(0);
    two_meet(&two);
    if (two.is_child) {
        send_late(requests);
    } else {
        for (unsigned i = 0; i < NUM_LATE; i++) {
            requests[i] = post_recv(i * LONG, SHORT, 1);
        }
        two_ok(ucxpool_recv_buffer(two.pool, two.channel, target + SIZE - SHORT,
                                   SHORT, TAG + 1, ALL_BITS, &ready,
                                   &requests[NUM_LATE]));
        two_ok(two_finish(&two, requests[NUM_LATE]));
        check(0, SIZE - SHORT, SHORT);
        two_check(!pair_ended(requests[0]));
    }
    two_finish_all(&two, requests, NUM_LATE);
    for (unsigned i = 0; !two.is_child && (i < NUM_LATE); i++) {
        check(0, i * LONG, SHORT);
    }
    end_both();
}

/* Progress until the receiver has lent blocks for a message that is announced
 * before it is gathered, or until the sender knows that it may announce it. */
static void until_announced(const ucxpool_request_t *request, bool is_send)
{
    uint64_t late = pair_deadline();

    while (!pair_ended(request) && (is_send ? !request->send->is_early
                                            : (request->recv->loan == NULL))) {
        two_check(!pair_is_late(late));
        ucxpool_progress(two.pool);
    }
}

/* Its slot is free again, and later messages are right. */
TEST_EACH(canceled_message_leaks_nothing, 4)
{
    const bool         is_long   = _i / 2 != 0;
    const size_t       size      = slow_sizes[is_long];
    int                num       = slow_is() ? 10 : 100;
    int                num_early = 0;
    bool               cancels;
    ucxpool_request_t *request;
    ucxpool_request_t *requests[2];

    if (!begin(SETTINGS "MAP_WAY=push", true)) {
        return;
    }
    get_mailbox();
    cancels = two.is_child == (_i % 2 == 0);
    srand((unsigned)_i);
    for (int i = 0; i < num; i++) {
        request = two.is_child ? post_send(0, size, 2) : post_recv(0, size, 1);
        two_progress(&two, rand() % 12);
        if (is_long && (i == 0)) {
            until_announced(request, two.is_child);
        }
        if (!cancels) {
            two_hear(&two);
        }
        num_early += (two.is_child && request->send->is_early) ? 1 : 0;
        ucxpool_request_cancel(request);
        two_check(two_is_early(two_finish(&two, request)));
        two_say(&two);
        if (cancels) {
            two_hear(&two);
        }
    }
    two_check((num_early != 0) == (is_long && two.is_child));
    put(1);
    two_meet(&two);
    /* A receive posted before a canceled message is read would match it. */
    two_progress(&two, 100);
    two_meet(&two);
    requests[0] = post_recv(SHORT, SHORT, 1);
    requests[1] = post_send(SHORT, SHORT, 1);
    two_finish_all(&two, requests, 2);
    check(1, SHORT, SHORT);
    two_check(two.channel->xfer->mailbox.free_slots == 0xfffffffff);
    end_both();
}

static void until_none_is_lent(void)
{
    uint64_t late = pair_deadline();

    while (two.pool->wire->mail.num_lent != 0) {
        two_check(!pair_is_late(late));
        ucxpool_progress(two.pool);
    }
}

/* The sender's GPU is slow, so its write ends only after all limits of the
 * destruction. The process lives on, but the mailbox is free. */
STAND_IN_TEST(destroyed_pool_with_a_slow_gpu_returns_the_mailbox)
{
    char byte;

    if (!begin_on("devices=2", SETTINGS "CLOSE_TIMEOUT=0", true)) {
        return;
    }
    get_mailbox();
    put(0);
    two_meet(&two);
    if (two.is_child) {
        (void)post_slow_send(SHORT); /* freed with its pool */
        ucxpool_destroy(two.pool);
        two.pool = NULL;
        two_check(recv(two.talk, &byte, 1, 0) == 1);
        free_memory();
        two_cleanup(&two);
    }
    until_none_is_lent();
    two_say(&two);
    free_memory();
    two_gpu_stop(&two);
}

/* The third and fourth send messages that are announced before they are
 * gathered. From the fifth on, only the time of the end differs. */
TEST_EACH(closed_channel_returns_the_mailbox, RUNNING_ON_VALGRIND ? 2 : 6)
{
    const bool         is_long = _i / 2 % 2 != 0;
    const size_t       size    = slow_sizes[is_long];
    ucxpool_request_t *requests[4];
    ucxpool_status_t   status;

    if (!begin(SETTINGS "MAP_WAY=push", true)) {
        return;
    }
    get_mailbox();
    two_check(two.pool->wire->mail.num_lent == 1);
    srand((unsigned)_i);
    two_meet(&two);
    for (int i = 0; i < 4; i++) {
        requests[i] =
            (i % 2 == 0) ? post_recv(0, size, 1) : post_send(0, size, 1);
    }
    two_progress(&two, rand() % 40);
    if (two.is_child == (_i % 2 == 0)) {
        if (is_long) {
            until_announced(requests[1], true);
            two_check(requests[1]->send->is_early);
        }
        ucxpool_channel_abort(two.channel);
        two.channel = NULL;
    }
    for (int i = 0; i < 4; i++) {
        status = two_finish(&two, requests[i]);
        two_check(two_is_early(status) || (status == UCXPOOL_ERR_CLOSED));
    }
    until_none_is_lent();
    end_both();
}

#define DEPTH 4u

static bool may_end(ucxpool_status_t status)
{
    return two_is_early(status) || (status == UCXPOOL_ERR_PEER_LOST);
}

static ucxpool_request_t *post_either(unsigned i)
{
    size_t size = (i / 2 == DEPTH - 1) ? slow_sizes[1] : size_of(i / 2);

    return (i % 2 == 0) ? post_recv(i * LONG, slow_sizes[1], 1)
                        : post_send(i * LONG, size, 1);
}

/* Messages in both directions, DEPTH at a time. One of them is announced before
 * it is gathered. Each message that ends is posted again. Returns the number of
 * announced messages that have ended. */
static unsigned flood(ucxpool_request_t **requests)
{
    unsigned num_early = 0;

    for (unsigned i = 0; i < 2 * DEPTH; i++) {
        if (!pair_ended(requests[i])) {
            continue;
        }
        two_check(may_end(ucxpool_request_test(requests[i])));
        num_early += (i % 2 != 0) && requests[i]->send->is_early;
        ucxpool_request_release(requests[i]);
        requests[i] = post_either(i);
    }
    ucxpool_progress(two.pool);
    return num_early;
}

/* The peer is killed in the middle. */
TEST_EACH(killed_peer_leaks_nothing, slow_is() ? 2 : 20)
{
    ucxpool_request_t *requests[2 * DEPTH];
    unsigned           num_early = 0;
    int                num_steps;
    uint64_t           late;

    if (!begin(SETTINGS "MAP_WAY=push", true)) {
        return;
    }
    get_mailbox();
    for (unsigned i = 0; i < 2 * DEPTH; i++) {
        requests[i] = post_either(i);
    }
    two_meet(&two);
    if (two.is_child) {
        for (;;) {
            (void)flood(requests);
        }
    }
    srand((unsigned)getpid());
    num_steps = rand() % 1000;
    late      = pair_deadline();
    for (int i = 0; (i < num_steps) || (num_early == 0); i++) {
        two_check(!pair_is_late(late));
        num_early += flood(requests);
    }
    two_check(num_mailed() != 0);
    two_kill(&two);
    for (unsigned i = 0; i < 2 * DEPTH; i++) {
        two_check(may_end(two_finish(&two, requests[i])));
    }
    until_none_is_lent();
    free_memory();
    two_survive(&two);
    mem_cuda_device_close(gpu);
}
