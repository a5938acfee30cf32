/*
 * Windows with failing calls: the n-th call of the allocator, of UCX and of the
 * system, for each n, over the life of a window. Each failure has an error
 * text, no block or descriptor is leaked, and the pools still work.
 */
#include "calls.h"
#include "pair.h"
#include "test.h"

#include "base/math.h"
#include "core/pool.h"

#include <errno.h>
#include <string.h>

static const char *const ways[] = {
    "WIRE=map",
    "WIRE=map WINDOW_WAY=messages",
    "WIRE=ucx PEER_TIMEOUT=1s",
};
#define NUM_WAYS ((int)(sizeof(ways) / sizeof(ways[0])))

/* The failing call, and the way that makes it; NUM_WAYS: all ways make it. */
static const struct {
    calls_name_t name;
    int          error;
    int          way;
} failures[] = {
    {CALLS_MALLOC, ENOMEM, NUM_WAYS},  {CALLS_CALLOC, ENOMEM, NUM_WAYS},
    {CALLS_RAND_BYTES, EIO, NUM_WAYS}, {CALLS_PROCESS_READ, EPERM, 0},
    {CALLS_PROCESS_WRITE, EPERM, 0},   {CALLS_UCP_AM_SEND, 0, 2},
    {CALLS_UCP_AM_RECV, 0, 2},
};
#define NUM_FAILURES ((int)(sizeof(failures) / sizeof(failures[0])))

#define SIZE       ((size_t)1 << 20)
#define NUM_PLACES 700u
#define BOTH       (UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE)
#define TAG        UINT64_C(5)

/* b owns the window; a reads and writes it. */
static pair_t                   pair;
static uint8_t                  memory[SIZE];
static uint8_t                  bytes[SIZE];
static ucxpool_place_t          places[NUM_PLACES];
static size_t                   length;
static ucxpool_window_t        *window;
static ucxpool_remote_window_t *remote;

/* Check allocates too: it is called only on failure. */
#define require(_condition) \
    do { \
        if (!(_condition)) { \
            calls_reset(); \
            ck_abort_msg("%s (%s)", #_condition, ucxpool_error_detail()); \
        } \
    } while (0)

/* Adjacent lengths all differ, so that the list of lengths does not fit in a
 * descriptor. */
static void make_places(void)
{
    length = 0;
    for (size_t i = 0; i < NUM_PLACES; i++) {
        places[i] = (ucxpool_place_t){i * (SIZE / NUM_PLACES), 300 + i % 7};
        length += places[i].length;
    }
}

static bool are_equal(void)
{
    const uint8_t *at = bytes;

    for (size_t i = 0; i < NUM_PLACES; i++) {
        if (memcmp(at, memory + places[i].offset, places[i].length) != 0) {
            return false;
        }
        at += places[i].length;
    }
    return true;
}

static ucxpool_status_t check_detail(ucxpool_status_t status,
                                     const char      *detail)
{
    require((status == UCXPOOL_OK) || (detail[0] != '\0'));
    return status;
}

static ucxpool_status_t finish(ucxpool_request_t *request)
{
    ucxpool_request_attr_t attr;

    pair_until(&pair, pair_ended(request));
    ucxpool_request_query(request, &attr, sizeof(attr));
    check_detail(attr.status, attr.detail);
    ucxpool_request_release(request);
    return attr.status;
}

/* With a notice to the owner, which arrives if all succeeded. */
static ucxpool_status_t move(bool is_write)
{
    ucxpool_places_t         list   = ucxpool_places(places, NUM_PLACES);
    ucxpool_data_t           data   = ucxpool_data_buffer(bytes, length);
    ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_NOTIFY |
                      UCXPOOL_REQUEST_PARAM_FIELD_METADATA,
        .notify_tag      = TAG,
        .metadata        = "there",
        .metadata_length = 5,
    };
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    pair_fill(bytes, length);
    status = is_write ? ucxpool_remote_window_write(remote, &list, &data,
                                                    &params, &request)
                      : ucxpool_remote_window_read(remote, &list, &data,
                                                   &params, &request);
    if (status != UCXPOOL_OK) {
        return check_detail(status, ucxpool_error_detail());
    }
    status = finish(request);
    require((status != UCXPOOL_OK) || are_equal());
    return status;
}

/* Receive the notices of two operations. */
static ucxpool_status_t take_notices(void)
{
    ucxpool_status_t   status = UCXPOOL_OK;
    ucxpool_request_t *request;

    for (int i = 0; (i < 2) && (status == UCXPOOL_OK); i++) {
        status = ucxpool_recv_buffer(pair.b, pair.to_a, NULL, 0, TAG,
                                     UINT64_MAX, NULL, &request);
        status = (status == UCXPOOL_OK)
                     ? finish(request)
                     : check_detail(status, ucxpool_error_detail());
    }
    return status;
}

static ucxpool_status_t import(void)
{
    uint8_t                      blob[UCXPOOL_WINDOW_BLOB_SIZE];
    ucxpool_remote_window_attr_t attr = {.status = UCXPOOL_INPROGRESS};
    ucxpool_status_t             status;

    require(ucxpool_window_export(window, BOTH, blob) == UCXPOOL_OK);
    status =
        ucxpool_remote_window_import(pair.to_b, blob, sizeof(blob), &remote);
    if (status != UCXPOOL_OK) {
        return check_detail(status, ucxpool_error_detail());
    }
    pair_until(&pair, (ucxpool_remote_window_query(remote, &attr, sizeof(attr)),
                       attr.status != UCXPOOL_INPROGRESS));
    return check_detail(attr.status, attr.reason);
}

/* A window from its creation to its end. Returns the first error. */
static ucxpool_status_t live(void)
{
    ucxpool_status_t status;

    window = NULL;
    remote = NULL;
    status = ucxpool_window_create(pair.b, memory, SIZE, NULL, &window);
    if (status != UCXPOOL_OK) {
        require(window == NULL);
        return check_detail(status, ucxpool_error_detail());
    }
    pair_fill(memory, SIZE);
    status = import();
    status = (status == UCXPOOL_OK) ? move(false) : status;
    status = (status == UCXPOOL_OK) ? move(true) : status;
    status = (status == UCXPOOL_OK) ? take_notices() : status;
    ucxpool_remote_window_release(remote);
    pair_until(&pair, ucxpool_window_revoke(window, 0) == UCXPOOL_OK);
    ucxpool_window_destroy(window);
    return status;
}

/* At most a channel has failed, which progress ends. */
static void repair(void)
{
    pair_progress(&pair);
    if (pair_is_open(pair.to_a) && pair_is_open(pair.to_b)) {
        return;
    }
    ucxpool_channel_close(pair.to_a);
    ucxpool_channel_close(pair.to_b);
    pair_until(&pair,
               (pair.a->channels.count == 0) && (pair.b->channels.count == 0));
    pair_connect(&pair);
}

/* Did the n-th call fail? */
static bool live_with_failure(int way, int failure, unsigned n)
{
    ucxpool_status_t status;
    bool             has_failed;

    pair_init(&pair, ways[way], ways[way]);
    calls_fail(failures[failure].name, n, failures[failure].error);
    status     = live();
    has_failed = calls_has_failed();
    calls_reset();
    ck_assert_msg(has_failed || (status == UCXPOOL_OK), "call %u: %s", n,
                  ucxpool_status_string(status));
    repair();
    assert_ok(live());
    pair_check_blocks(&pair);
    pair_cleanup(&pair);
    return has_failed;
}

TEST_SETTINGS(.teardown = calls_reset, .timeout = 120);

TEST_EACH(a_failed_call_is_reported_and_leaks_nothing, NUM_WAYS *NUM_FAILURES)
{
    int      way     = _i / NUM_FAILURES;
    int      failure = _i % NUM_FAILURES;
    unsigned n       = 0;
    unsigned num_fds;

    make_places();
    /* Calls that are made only once, for example by UCX, are made here. */
    (void)live_with_failure(way, failure, 0);
    num_fds = fds_count();
    while (live_with_failure(way, failure, ++n)) {
        ck_assert_uint_eq(fds_count(), num_fds);
    }
    if ((failures[failure].way == NUM_WAYS) || (failures[failure].way == way)) {
        ck_assert_uint_gt(n, 1);
    }
}

static ucxpool_way_t way_of_remote(void)
{
    return pair_remote_attr(remote).way;
}

/* A seccomp filter may deny one of the two ways to copy. Then messages are
 * used. */
TEST_EACH(denied_copies_fall_back_to_messages, 2)
{
    bool denies_reads = (_i == 1);

    make_places();
    pair_begin(&pair, ways[0], ways[0]);
    calls_fail_from(denies_reads ? CALLS_PROCESS_READ : CALLS_PROCESS_WRITE, 1,
                    EPERM);
    assert_ok(ucxpool_window_create(pair.b, memory, SIZE, NULL, &window));
    pair_fill(memory, SIZE);
    assert_ok(import());
    if (pair_is_mapped(&pair)) {
        ck_assert_int_eq(way_of_remote(), denies_reads ? UCXPOOL_WAY_MESSAGES
                                                       : UCXPOOL_WAY_PROCESS);
    }
    assert_ok(move(false));
    assert_ok(move(true));
    assert_ok(take_notices());
    calls_reset();
    ucxpool_remote_window_release(remote);
    pair_until(&pair, ucxpool_window_revoke(window, 0) == UCXPOOL_OK);
    ucxpool_window_destroy(window);
    pair_check_blocks(&pair);
}
