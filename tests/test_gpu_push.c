/*
 * Messages that the sender's GPU writes to receive blocks which the receiver
 * lends: the child sends and the parent receives, or both do both.
 */
#include "base/clock.h"
#include "base/math.h"
#include "core/channel.h"
#include "core/pool.h"
#include "segments.h"
#include "slow.h"
#include "test.h"
#include "two_gpu.h"
#include "wire/wire.h"
#include "xfer/state.h"

#include <stdlib.h>
#include <string.h>

#define TAG      UINT64_C(9)
#define ALL_BITS UINT64_MAX
#define PIECE    ((size_t)4096)
#define NUM      ((size_t)2000)
#define SIZE     (NUM * PIECE)
#define PUSH     "WIRE=map MAP_WAY=push "

typedef struct side {
    uint8_t          *memory;
    ucxpool_segment_t pieces[NUM]; /* all segments, in random order */
} side_t;

static two_t  two;
static side_t source;
static side_t target;

static void init_side(side_t *side, size_t step)
{
    side->memory = gpu_alloc(SIZE);
    for (size_t i = 0; i < NUM; i++) {
        side->pieces[i] =
            (ucxpool_segment_t){side->memory + (i * step) % NUM * PIECE, PIECE};
    }
}

/* Copies do not complete at once, as on a GPU. */
#define LATE "run=late"

static void begin(const char *settings)
{
    setenv("CUDA_STAND_IN", LATE, 1);
    two_gpu_start(&two, settings);
    init_side(&source, 7);
    init_side(&target, 11);
}

static void end_both(void)
{
    two_settle(&two);
    gpu_free(source.memory);
    gpu_free(target.memory);
    two_gpu_stop(&two);
}

static ucxpool_request_t *post_send_of(size_t num, uint64_t tag)
{
    ucxpool_request_t *request;

    two_ok(send_segments(two.channel, source.pieces, num, tag, NULL, &request));
    return request;
}

static ucxpool_request_t *post_recv_of(size_t num, uint64_t tag)
{
    ucxpool_request_t *request;

    two_ok(recv_segments(two.pool, two.channel, target.pieces, num, tag,
                         ALL_BITS, NULL, &request));
    return request;
}

static ucxpool_request_t *post_send(void)
{
    return post_send_of(NUM, TAG);
}

static ucxpool_request_t *post_recv(void)
{
    return post_recv_of(NUM, TAG);
}

static void put(unsigned round)
{
    uint8_t *bytes = test_alloc(SIZE);

    pair_fill_of(bytes, SIZE, two.is_child, round);
    gpu_write(source.memory, bytes, SIZE);
    memset(bytes, 0xfe, SIZE);
    gpu_write(target.memory, bytes, SIZE);
}

static void check(unsigned round)
{
    uint8_t *bytes = test_alloc(SIZE);
    uint8_t *right = test_alloc(SIZE);

    pair_fill_of(right, SIZE, !two.is_child, round);
    gpu_read(bytes, target.memory, SIZE);
    for (size_t i = 0; i < NUM; i++) {
        two_check(memcmp(bytes + (i * 11) % NUM * PIECE,
                         right + (i * 7) % NUM * PIECE, PIECE) == 0);
    }
}

/* Both send to each other, several messages at a time. */
static void exchange(unsigned rounds, unsigned depth)
{
    ucxpool_request_t *requests[16];

    for (unsigned i = 0; i < rounds; i++) {
        put(i);
        two_meet(&two);
        for (unsigned j = 0; j < depth; j++) {
            requests[2 * j]     = post_recv();
            requests[2 * j + 1] = post_send();
        }
        two_finish_all(&two, requests, 2 * (size_t)depth);
        check(i);
    }
}

/* A quarter of the blocks is for receiving. */
static const struct {
    const char *settings;
    unsigned    depth; /* messages at a time */
} exchanges[] = {
    {PUSH "CUDA_BACKING=alloc BLOCK_SIZE=2m COMM_SIZE=32m", 1},
    {PUSH "REQUIRE=direct CUDA_BACKING=vmm BLOCK_SIZE=2m COMM_SIZE=32m", 1},
    {PUSH "CUDA_BACKING=alloc BLOCK_SIZE=2m COMM_SIZE=64m", 4},
    {PUSH "CUDA_BACKING=alloc BLOCK_SIZE=2m COMM_SIZE=16m FRAG_SIZE=256k", 8},
};
#define NUM_EXCHANGES ((int)(sizeof(exchanges) / sizeof(exchanges[0])))

static bool says_that_it_pushes(void)
{
    return strstr(pair_attr(two.channel).wire_reason, "writes to blocks") !=
           NULL;
}

/* The channel has the counters of the pool, and each message is in one of the
 * histograms. */
static void check_counts(uint64_t num_messages)
{
    static const char *const names[] = {
        "sent_map_pushed_bytes",     "sent_map_pushed_fragments",
        "received_map_pushed_bytes", "received_map_pushed_fragments",
        "sent_map_packed_bytes",     "received_map_packed_bytes",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        two_check(two_count_of_channel(&two, names[i]) ==
                  two_count(&two, names[i]));
    }
    two_check(two_count_of_histogram(&two, "send_map_pushed") +
                  two_count_of_histogram(&two, "send_map_packed") ==
              num_messages);
    two_check(two_count_of_histogram(&two, "recv_map_pushed") +
                  two_count_of_histogram(&two, "recv_map_packed") ==
              num_messages);
    two_check(two_count_of_histogram(&two, "send_map_pushed") > 0);
    two_check(two_count_of_histogram(&two, "recv_map_pushed") > 0);
}

TEST_SETTINGS(.before_fork = pair_warm_up, .timeout = 120,
              .only_if = cuda_is_present);

TEST_EACH(messages_are_pushed_both_ways, NUM_EXCHANGES)
{
    const unsigned rounds = slow_is() ? 1 : 3;
    uint64_t       all    = SIZE * rounds * exchanges[_i].depth;

    begin(exchanges[_i].settings);
    two_check(says_that_it_pushes());
    exchange(rounds, exchanges[_i].depth);
    two_check(two_count(&two, "sent_map_pushed_bytes") +
                  two_count(&two, "sent_map_packed_bytes") ==
              all);
    two_check(two_count(&two, "received_map_pushed_bytes") +
                  two_count(&two, "received_map_packed_bytes") ==
              all);
    /* The first messages of each round found blocks. */
    two_check(two_count(&two, "sent_map_pushed_bytes") >= SIZE * rounds);
    two_check(two_count(&two, "received_map_pushed_bytes") >= SIZE * rounds);
    two_check((exchanges[_i].depth > 1) ||
              (two_count(&two, "sent_map_pushed_bytes") == all));
    check_counts(rounds * exchanges[_i].depth);
    end_both();
}

#define WAY(_way) "WIRE=map CUDA_BACKING=alloc COMM_SIZE=32m MAP_WAY=" _way

/* The direction of copies for two pools, on one GPU and on two. */
static const struct {
    const char *parents;
    const char *childs;
    bool        pushes_near;
    bool        pushes_far;
} settings[] = {
    {WAY("auto"), WAY("auto"), false, true},
    {WAY("push"), WAY("push"), true, true},
    {WAY("pull"), WAY("pull"), false, false},
    {WAY("auto"), WAY("pull"), false, false},
    {WAY("push"), WAY("pull"), false, false},
    {WAY("push"), WAY("auto"), false, true},
};
#define NUM_SETTINGS ((int)(sizeof(settings) / sizeof(settings[0])))

/* With the first three settings, data moves in each way, near and far. The
 * others differ only in how the sides choose the method. */
TEST_EACH(both_sides_choose_the_same_method,
          2 * (RUNNING_ON_VALGRIND ? 3 : NUM_SETTINGS))
{
    bool     is_far = _i % 2 != 0;
    int      i      = _i / 2;
    bool     pushes = is_far ? settings[i].pushes_far : settings[i].pushes_near;
    uint64_t pushed = pushes ? SIZE : 0;

    setenv("CUDA_STAND_IN", LATE ",devices=2", 1);
    if (!two_gpu_start_apart(&two, settings[i].parents, settings[i].childs,
                             is_far)) {
        return;
    }
    init_side(&source, 7);
    init_side(&target, 11);
    two_check(says_that_it_pushes() == pushes);
    exchange(1, 1);
    two_check(two_count(&two, "sent_map_pushed_bytes") == pushed);
    two_check(two_count(&two, "received_map_pushed_bytes") == pushed);
    two_check(two_count(&two, "sent_map_packed_bytes") == SIZE - pushed);
    end_both();
}

/* A message fits in a block. */
#define ONE_BLOCK(_way) \
    "WIRE=map CUDA_BACKING=alloc COMM_SIZE=128m BLOCK_SIZE=8m REGION_SIZE=8m " \
    "MAP_WAY=" _way

/* Unless push is required, only messages that benefit are written. If the
 * channel has a mailbox, these are all messages that are announced early. */
static const struct {
    const char *settings;
    size_t      num; /* segments of the message */
    bool        pushes;
} lengths[] = {
    {ONE_BLOCK("auto"), 1, false},
    {ONE_BLOCK("auto"), 8, false},
    {ONE_BLOCK("auto"), 32, true},
    {ONE_BLOCK("push"), 8, true},
};
#define NUM_LENGTHS ((int)(sizeof(lengths) / sizeof(lengths[0])))

static void cut_evenly(side_t *side, size_t num)
{
    for (size_t i = 0; i < num; i++) {
        side->pieces[i] =
            (ucxpool_segment_t){side->memory + i * (SIZE / num), SIZE / num};
    }
}

/* The same as check() for memory whose segments are in order. */
static void check_in_order(unsigned round)
{
    uint8_t *bytes = test_alloc(SIZE);
    uint8_t *right = test_alloc(SIZE);

    pair_fill_of(right, SIZE, !two.is_child, round);
    gpu_read(bytes, target.memory, SIZE);
    two_check(memcmp(bytes, right, SIZE) == 0);
}

TEST_EACH(long_segments_are_pulled_without_a_mailbox, NUM_LENGTHS)
{
    size_t             num    = lengths[_i].num;
    uint64_t           pushed = lengths[_i].pushes ? SIZE : 0;
    ucxpool_request_t *requests[2];

    setenv("CUDA_STAND_IN", LATE ",devices=2", 1);
    if (!two_gpu_start_apart(&two, lengths[_i].settings, lengths[_i].settings,
                             true)) {
        return;
    }
    init_side(&source, 1);
    init_side(&target, 1);
    cut_evenly(&source, num);
    cut_evenly(&target, num);
    for (unsigned round = 0; round < 2; round++) {
        put(round);
        two_meet(&two);
        requests[0] = post_recv_of(num, TAG);
        requests[1] = post_send_of(num, TAG);
        two_finish_all(&two, requests, 2);
        check_in_order(round);
        /* The mailbox was lent with the first message. */
        two_check(two_count(&two, "sent_map_pushed_bytes") ==
                  pushed + round * SIZE);
        two_check(two_count(&two, "received_map_pushed_bytes") ==
                  pushed + round * SIZE);
    }
    two_check(two_count(&two, "sent_map_packed_bytes") == SIZE - pushed);
    end_both();
}

/* Read the peer's window with one message of one segment. */
static void read_window(void)
{
    ucxpool_remote_window_t *remote = two_import(&two);
    ucxpool_place_t          place  = {0, SIZE};
    ucxpool_places_t         places = ucxpool_places(&place, 1);
    ucxpool_data_t           data   = ucxpool_data_buffer(target.memory, SIZE);
    ucxpool_request_t       *request;

    two_ok(two_import_ended(&two, remote).status);
    two_ok(ucxpool_remote_window_read(remote, &places, &data, NULL, &request));
    two_ok(two_finish(&two, request));
    ucxpool_remote_window_release(remote);
}

#define WINDOWS ONE_BLOCK("auto") " WINDOW_WAY=messages"

/* They are never announced early, so a mailbox changes nothing. */
TEST(long_segments_of_windows_are_pulled_with_a_mailbox)
{
    ucxpool_window_t  *window;
    ucxpool_request_t *requests[2];

    setenv("CUDA_STAND_IN", LATE ",devices=2", 1);
    if (!two_gpu_start_apart(&two, WINDOWS, WINDOWS, true)) {
        return;
    }
    init_side(&source, 1);
    init_side(&target, 1);
    put(0);
    two_meet(&two);
    requests[0] = post_recv_of(1, TAG);
    requests[1] = post_send_of(1, TAG);
    two_finish_all(&two, requests, 2);
    two_check(wire_mailbox_is_lent(two.channel));
    if (two.is_child) {
        two_ok(ucxpool_window_create(two.pool, source.memory, SIZE, NULL,
                                     &window));
        two_export(&two, window);
        two_hear(&two);
        pair_destroy_window(window);
    } else {
        put(0);
        read_window();
        check_in_order(0);
        two_check(two_count(&two, "received_map_packed_bytes") >= SIZE);
        two_check(two_count(&two, "received_map_pushed_bytes") == 0);
        two_say(&two);
    }
    end_both();
}

#define BIG "WIRE=map CUDA_BACKING=alloc COMM_SIZE=128m"

/* One segment of it fills a fragment. */
TEST(longest_segments_are_pushed)
{
    const size_t       size = (size_t)16 << 20;
    uint8_t           *from;
    uint8_t           *to;
    uint8_t           *bytes = test_alloc(size);
    ucxpool_request_t *requests[2];
    ucxpool_segment_t  segments[2];

    setenv("CUDA_STAND_IN", LATE ",devices=2", 1);
    if (!two_gpu_start_apart(&two, BIG, BIG, true)) {
        return;
    }
    from = gpu_alloc(size);
    to   = gpu_alloc(size);
    memset(bytes, two.is_child ? 1 : 2, size);
    gpu_write(from, bytes, size);
    segments[0] = (ucxpool_segment_t){to, size};
    segments[1] = (ucxpool_segment_t){from, size};
    two_ok(recv_segments(two.pool, two.channel, &segments[0], 1, TAG, ALL_BITS,
                         NULL, &requests[0]));
    two_ok(
        send_segments(two.channel, &segments[1], 1, TAG, NULL, &requests[1]));
    two_finish_all(&two, requests, 2);
    gpu_read(bytes, to, size);
    two_check(pair_is_all(bytes, size, two.is_child ? 2 : 1));
    two_check(two_count(&two, "sent_map_pushed_bytes") == size);
    two_check(two_count(&two, "received_map_pushed_bytes") == size);
    two_meet(&two);
    gpu_free(from);
    gpu_free(to);
    two_gpu_stop(&two);
}

/* --- ended early --------------------------------------------------------- */

/* Each side has read all messages of the other: no canceled message waits for a
 * receive. */
static void catch_up(void)
{
    ucxpool_request_t *requests[] = {post_recv_of(1, TAG + 1),
                                     post_send_of(1, TAG + 1)};

    two_finish_all(&two, requests, 2);
}

/* The lent blocks come back, and later messages are right. */
TEST_EACH(canceled_message_leaks_nothing, 2)
{
    int                num = slow_is() ? 5 : 60;
    bool               cancels;
    ucxpool_request_t *request;

    begin(PUSH "CUDA_BACKING=alloc BLOCK_SIZE=256k COMM_SIZE=8m");
    cancels = two.is_child == (_i == 0);
    srand((unsigned)_i);
    for (int i = 0; i < num; i++) {
        request = two.is_child ? post_send() : post_recv();
        two_progress(&two, rand() % 60);
        /* The peer's messages may wait for canceled ones. */
        if (!cancels) {
            two_hear(&two);
        }
        ucxpool_request_cancel(request);
        two_check(two_is_early(two_finish(&two, request)));
        two_say(&two);
        if (cancels) {
            two_hear(&two);
        }
    }
    catch_up();
    exchange(1, 1);
    two_check(two_count(&two, "received_map_pushed_bytes") >= SIZE);
    end_both();
}

/* From the third on, only the time of the end differs. */
TEST_EACH(closed_channel_leaks_nothing, RUNNING_ON_VALGRIND ? 2 : 6)
{
    ucxpool_request_t *requests[4];
    bool               closes;
    ucxpool_status_t   status;

    begin(PUSH "CUDA_BACKING=alloc BLOCK_SIZE=256k COMM_SIZE=8m");
    closes = two.is_child == (_i % 2 == 0);
    srand((unsigned)_i);
    two_meet(&two);
    for (int i = 0; i < 4; i++) {
        requests[i] = (i % 2 == 0) ? post_recv() : post_send();
    }
    two_progress(&two, rand() % 200);
    if (closes) {
        ucxpool_channel_abort(two.channel);
        two.channel = NULL;
    }
    for (int i = 0; i < 4; i++) {
        status = two_finish(&two, requests[i]);
        two_check(two_is_early(status) || (status == UCXPOOL_ERR_CLOSED));
    }
    end_both();
}

/* The sender's channel fails while its GPU writes, and the write takes longer
 * than a failed channel waits. The receiver is notified when it ends. */
STAND_IN_TEST(end_of_a_late_write_is_reported)
{
    ucxpool_request_t *request;
    uint64_t           late;

    begin(PUSH "CUDA_BACKING=alloc BLOCK_SIZE=2m COMM_SIZE=32m");
    two_meet(&two);
    if (two.is_child) {
        cuda_start("run=n");
        request = post_send();
        late    = pair_deadline();
        while (two.channel->xfer->num_pushes == 0) {
            two_check(!pair_is_late(late));
            stand_in.step(1); /* until the caller's stream is waited for */
            ucxpool_progress(two.pool);
        }
        core_lock(two.pool);
        core_channel_fail(two.channel, UCXPOOL_ERR_IO, "failed by the test");
        core_unlock(two.pool);
        late = base_clock_deadline(UINT64_C(200000000));
        while (base_clock_now() < late) {
            ucxpool_progress(two.pool);
        }
        two_check(two.channel->xfer->num_pushes != 0);
        cuda_start("");
        while (stand_in.step(1) != 0) {
        }
    } else {
        request = post_recv();
    }
    two_check(two_finish(&two, request) != UCXPOOL_OK);
    end_both();
}
