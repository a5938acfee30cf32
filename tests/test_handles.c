/*
 * Each public function that takes two objects of a pool, called with one of
 * another pool: it fails with UCXPOOL_ERR_INVALID_PARAM, the error says what to
 * change, and neither pool has changed. Functions without a return value report
 * the error by ucxpool_error_detail() only.
 *
 * ucxpool_channel_create() with an endpoint of another worker is missing: UCX
 * does not report the worker of an endpoint.
 */
#include "base/error.h"
#include "pair.h"
#include "test.h"

#include <ucxpool/framework.h>

#include <string.h>

#define ALL_BITS UINT64_MAX
#define SIZE     ((size_t)100)

/* The called pool, and objects of another pool. */
static pair_t                   pair;
static pair_t                   other;
static ucxpool_block_t          block;
static void                    *buffer;
static void                    *allocation;
static uint8_t                  blob[UCXPOOL_WINDOW_BLOB_SIZE];
static uint8_t                  bytes[SIZE];
static ucxpool_request_t       *request;
static ucxpool_message_t       *message;
static ucxpool_remote_window_t *remote;
static size_t                   number;
static ucxpool_heap_segment_t   segments[1];

static ucxpool_status_t said(void)
{
    return (strcmp(ucxpool_error_detail(), "nothing was said") == 0)
               ? UCXPOOL_OK
               : UCXPOOL_ERR_INVALID_PARAM;
}

static ucxpool_status_t call_recv(void)
{
    ucxpool_data_t data = ucxpool_data_buffer(bytes, SIZE);

    return ucxpool_recv(pair.a, other.to_b, &data, 1, ALL_BITS, NULL, &request);
}

static ucxpool_status_t call_recv_buffer(void)
{
    return ucxpool_recv_buffer(pair.a, other.to_b, bytes, SIZE, 1, ALL_BITS,
                               NULL, &request);
}

static ucxpool_status_t call_recv_of_peers_channel(void)
{
    return ucxpool_recv_buffer(pair.a, pair.to_a, bytes, SIZE, 1, ALL_BITS,
                               NULL, &request);
}

static ucxpool_status_t call_probe(void)
{
    return ucxpool_probe(pair.a, other.to_b, 0, 0, &message);
}

static ucxpool_status_t call_window_import(void)
{
    return ucxpool_remote_window_import(pair.to_b, blob, sizeof(blob), &remote);
}

static ucxpool_status_t call_block_put(void)
{
    ucxpool_block_put(pair.a, &block);
    return said();
}

static ucxpool_status_t call_comm_free(void)
{
    ucxpool_comm_free(pair.a, buffer);
    return said();
}

static ucxpool_status_t call_heap_free(void)
{
    return ucxpool_heap_free(pair.a, allocation, NULL);
}

static ucxpool_status_t call_heap_usable_size(void)
{
    return ucxpool_heap_usable_size(pair.a, allocation, &number);
}

static ucxpool_status_t call_heap_segments(void)
{
    return ucxpool_heap_segments(pair.a, allocation, SIZE, segments, 1,
                                 &number);
}

static ucxpool_status_t call_rmm_free(void)
{
    ucxpool_rmm_free(allocation, SIZE, NULL, pair.a);
    return said();
}

static const struct {
    const char *name;
    ucxpool_status_t (*call)(void);
    const char *advice; /* part of the detail */
} calls[] = {
    {"ucxpool_recv", call_recv, "pass the pool"},
    {"ucxpool_recv_buffer", call_recv_buffer, "pass the pool"},
    {"ucxpool_recv_buffer, the peer's end of a channel",
     call_recv_of_peers_channel, "pass the pool"},
    {"ucxpool_probe", call_probe, "pass the pool"},
    {"ucxpool_remote_window_import", call_window_import,
     "a channel to its owner"},
    {"ucxpool_block_put", call_block_put, "from this pool"},
    {"ucxpool_comm_free", call_comm_free, "the pool that allocated it"},
    {"ucxpool_heap_free", call_heap_free, "the pool that allocated it"},
    {"ucxpool_heap_usable_size", call_heap_usable_size,
     "the pool that allocated it"},
    {"ucxpool_heap_segments", call_heap_segments, "the pool that allocated it"},
    {"ucxpool_rmm_free", call_rmm_free, "the pool that allocated it"},
};
#define NUM_CALLS ((int)(sizeof(calls) / sizeof(calls[0])))

static ucxpool_window_t *window_of(ucxpool_t *pool)
{
    ucxpool_window_t *window;

    assert_ok(ucxpool_window_create(pool, bytes, SIZE, NULL, &window));
    assert_ok(ucxpool_window_export(window, UCXPOOL_WINDOW_READ, blob));
    return window;
}

static void check_refused(int index)
{
    (void)base_error(UCXPOOL_ERR_IO, "nothing was said");
    ck_assert_msg(calls[index].call() == UCXPOOL_ERR_INVALID_PARAM,
                  "%s accepts an object of another pool", calls[index].name);
    assert_detail(calls[index].advice);
}

/* With and without a heap and a block in the called pool. */
TEST_EACH(objects_of_another_pool_are_rejected, NUM_CALLS)
{
    ucxpool_window_t *window;
    void             *own;

    pair_begin(&pair, "", "");
    pair_init(&other, "", "");
    window = window_of(other.a);
    assert_ok(ucxpool_block_get(other.a, &block));
    assert_ok(ucxpool_comm_alloc(other.a, SIZE, &buffer));
    assert_ok(ucxpool_heap_alloc(other.a, SIZE, NULL, &allocation));
    check_refused(_i);
    assert_ok(ucxpool_heap_alloc(pair.a, SIZE, NULL, &own));
    assert_ok(ucxpool_block_get(pair.a, &(ucxpool_block_t){0}));
    check_refused(_i);
    assert_ok(ucxpool_heap_free(pair.a, own, NULL));

    ck_assert_ptr_null(request);
    ck_assert_ptr_null(message);
    ck_assert_ptr_null(remote);
    assert_ok(ucxpool_check(pair.a));
    assert_ok(ucxpool_heap_free(other.a, allocation, NULL));
    ucxpool_comm_free(other.a, buffer);
    ucxpool_block_put(other.a, &block);
    pair_check_blocks(&other);
    ucxpool_window_destroy(window);
    pair_exchange(&pair, SIZE);
    pair_cleanup(&other);
}
