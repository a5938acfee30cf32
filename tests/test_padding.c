/* Padding between the segments of a message discloses no other data to the
 * peer. */
#include "core/pool.h"
#include "pair.h"
#include "xfer/recv.h"
#include "segments.h"
#include "test.h"

#include "core/stats.h"

#include <string.h>
#include <sys/mman.h>

static const char *const wires[] = {"WIRE=map", "WIRE=ucx"};
#define MAP       0
#define NUM_WIRES 2

#define TAG      UINT64_C(5)
#define ALL_BITS UINT64_MAX

/* Fill bytes: old content of the sender's blocks, and the payload sent now. */
#define SECRET 0xa7
#define PUBLIC 0x11

/* Segments that leave 15 bytes of padding after each. */
#define ODD_LENGTH   17
#define STRIDE       32
#define NUM_SEGMENTS 5000
/* Metadata sent with the descriptor. */
#define NUM_EAGER 100

static pair_t pair;

/* Fills the pool's blocks with data of earlier messages to another peer. */
static void hide_secrets(ucxpool_t *pool)
{
    size_t   size = block_pool_block_size(pool->memory.blocks);
    uint32_t blocks[64];
    uint32_t count = 0;

    while (block_pool_get(pool->memory.blocks, BLOCK_SHARE_SEND,
                          &blocks[count]) == UCXPOOL_OK) {
        memset(block_pool_address(pool->memory.blocks, blocks[count]), SECRET,
               size);
        count++;
    }
    while (count > 0) {
        block_pool_put(pool->memory.blocks, BLOCK_SHARE_SEND, blocks[--count]);
    }
}

typedef void (*visit_t)(const uint8_t *bytes, size_t size);

/* Maps all memory of a pool once more, as a peer would, and visits it. */
static void visit(ucxpool_t *pool, visit_t action)
{
    for (unsigned i = 0; i < pool->memory.regions.num_regions; i++) {
        const mem_region_t *region = &pool->memory.regions.regions[i];
        void               *bytes;

        bytes = mmap(NULL, region->size, PROT_READ, MAP_SHARED, region->fd, 0);
        ck_assert_ptr_ne(bytes, MAP_FAILED);
        action(bytes, region->size);
        munmap(bytes, region->size);
    }
}

static void check_has_none(const uint8_t *bytes, size_t size)
{
    ck_assert_ptr_null(memchr(bytes, SECRET, size));
}

/* A stride that holds bytes of the message holds no secret. */
static void check_beside_message(const uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at < size; at += STRIDE) {
        if (memchr(bytes + at, PUBLIC, STRIDE) != NULL) {
            check_has_none(bytes + at, STRIDE);
        }
    }
}

static size_t make_segments(ucxpool_segment_t *segments, uint8_t *bytes,
                            size_t count)
{
    for (size_t i = 0; i < count; i++) {
        segments[i] = (ucxpool_segment_t){bytes, ODD_LENGTH};
    }
    /* The last segment has no padding. */
    segments[count - 1].length = STRIDE;
    return (count - 1) * ODD_LENGTH + STRIDE;
}

TEST_SETTINGS(.timeout = 60);

TEST_EACH(blocks_disclose_no_earlier_messages, NUM_WIRES)
{
    static uint8_t           target[NUM_SEGMENTS * STRIDE];
    static ucxpool_segment_t segments[NUM_SEGMENTS];
    uint8_t                  source[STRIDE];
    size_t                   length;
    ucxpool_request_t       *send;
    ucxpool_request_t       *recv;

    memset(source, PUBLIC, sizeof(source));
    pair_begin(&pair, wires[_i], wires[_i]);
    /* Without this, the send would write directly to the target. */
    pair.b->needs_registration = true;
    hide_secrets(pair.a);
    length = make_segments(segments, source, NUM_SEGMENTS);
    recv   = pair_recv(pair.b, NULL, target, length, TAG);
    assert_ok(
        send_segments(pair.to_b, segments, NUM_SEGMENTS, TAG, NULL, &send));
    pair_finish_both(&pair, send, recv);
    if (_i == MAP) {
        visit(pair.a, check_beside_message);
    } else {
        visit(pair.b, check_has_none);
    }
}

/* Send a message of the given size with metadata, and receive it. */
static ucxpool_message_t *send_eager(const ucxpool_segment_t *segments,
                                     size_t                   count)
{
    ucxpool_request_t *send;
    ucxpool_message_t *message;

    assert_ok(send_segments(pair.to_b, segments, count, TAG, NULL, &send));
    message = pair_probe(&pair, TAG);
    assert_ok(pair_finish(&pair, send));
    return message;
}

TEST_EACH(descriptors_disclose_no_earlier_messages, NUM_WIRES)
{
    ucxpool_segment_t  segments[NUM_EAGER];
    uint8_t            source[4096];
    ucxpool_segment_t  secret = {source, sizeof(source)};
    ucxpool_message_t *message;

    pair_begin(&pair, wires[_i], wires[_i]);
    for (int round = 0; round < 100; round++) {
        memset(source, SECRET, sizeof(source));
        ucxpool_message_refuse(send_eager(&secret, 1), "was a secret");
        memset(source, PUBLIC, sizeof(source));
        make_segments(segments, source, NUM_EAGER);
        message = send_eager(segments, NUM_EAGER);
        ck_assert_ptr_nonnull(message->stream);
        ck_assert_uint_eq(message->totals.stream_size, NUM_EAGER * STRIDE);
        check_has_none(message->stream, NUM_EAGER * STRIDE);
        ucxpool_message_refuse(message, "seen");
    }
}
