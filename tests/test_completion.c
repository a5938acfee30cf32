/* Completions: the results of requests, collected in batches. */
#include "pair.h"
#include "test.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define TAG         UINT64_C(5)
#define ALL_BITS    UINT64_MAX
#define MILLISECOND UINT64_C(1000000)

static const char *const wires[] = {"WIRE=map", "WIRE=ucx"};
#define NUM_WIRES 2

enum { NUM = 6 };

static int  places[NUM]; /* their addresses identify the requests */
static char received[NUM][8];

static pair_t pair;

static const ucxpool_request_params_t *with_completion(int index)
{
    static ucxpool_request_params_t params;

    params.field_mask     = UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION;
    params.completion_ptr = &places[index];
    return &params;
}

static void post_recv(int index, ucxpool_request_t **request_p)
{
    assert_ok(ucxpool_recv_buffer(
        pair.b, NULL, received[index], sizeof(received[index]),
        TAG + (uint64_t)index, ALL_BITS, with_completion(index), request_p));
}

static void send_word(int index)
{
    assert_ok(ucxpool_send_buffer(pair.to_b, "word", 5, TAG + (uint64_t)index,
                                  NULL, NULL));
}

static size_t collect(ucxpool_t *pool, ucxpool_completion_t *completions,
                      size_t max)
{
    size_t num = 77;

    memset(completions, 0xff, max * sizeof(*completions));
    assert_ok(ucxpool_completion_get(pool, completions, max, &num));
    ck_assert_uint_le(num, max);
    for (size_t i = 0; i < num; i++) {
        const uint64_t *reserved = completions[i].reserved;

        ck_assert_uint_eq(reserved[0] | reserved[1] | reserved[2], 0);
    }
    return num;
}

static void check_word(const ucxpool_completion_t *completion, int index)
{
    ck_assert_ptr_eq(completion->completion_ptr, &places[index]);
    assert_ok(completion->status);
    ck_assert_uint_eq(completion->tag, TAG + (uint64_t)index);
    ck_assert_uint_eq(completion->length, 5);
    ck_assert_str_eq(received[index], "word");
}

TEST_EACH(completions_are_reported_once_in_order, NUM_WIRES)
{
    static const int     order[NUM] = {3, 1, 5, 0, 4, 2};
    ucxpool_completion_t completions[NUM], none;
    ucxpool_request_t   *requests[NUM];
    size_t               num;

    pair_begin(&pair, wires[_i], wires[_i]);
    ck_assert_uint_eq(collect(pair.b, completions, NUM), 0);
    for (int i = 0; i < NUM; i++) {
        post_recv(i, &requests[i]);
    }
    ck_assert_uint_eq(collect(pair.b, completions, NUM), 0);
    for (int i = 0; i < NUM; i++) {
        send_word(order[i]);
        pair_until(&pair, pair_ended(requests[order[i]]));
    }
    num = collect(pair.b, completions, 4);
    ck_assert_uint_eq(num, 4);
    ck_assert_uint_eq(collect(pair.b, completions + num, NUM - num), NUM - num);
    ck_assert_uint_eq(collect(pair.b, &none, 1), 0);
    ck_assert_uint_eq(collect(pair.b, completions, 0), 0);
    for (int i = 0; i < NUM; i++) {
        check_word(&completions[i], order[i]);
        ck_assert_ptr_eq(completions[i].request, requests[order[i]]);
        ucxpool_request_release(completions[i].request);
    }
}

/* The completion is the only trace of the request, whose memory is reused. */
TEST_EACH(completion_of_an_unheld_request_is_reported, NUM_WIRES)
{
    ucxpool_completion_t completion;

    pair_begin(&pair, wires[_i], wires[_i]);
    for (int i = 0; i < 20; i++) {
        memset(received[0], 0, sizeof(received[0]));
        post_recv(0, NULL);
        send_word(0);
        pair_until(&pair, collect(pair.b, &completion, 1) == 1);
        check_word(&completion, 0);
        ck_assert_ptr_null(completion.request);
        ck_assert_uint_eq(collect(pair.b, &completion, 1), 0);
    }
}

TEST_EACH(released_request_has_no_completion, NUM_WIRES)
{
    ucxpool_completion_t completion;
    ucxpool_request_t   *before, *after;

    pair_begin(&pair, wires[_i], wires[_i]);
    post_recv(0, &before);
    post_recv(1, &after);
    ucxpool_request_release(before);
    send_word(1);
    pair_until(&pair, pair_ended(after));
    ucxpool_request_release(after);
    send_word(0);
    pair_until(&pair, strcmp(received[0], "word") == 0);
    ck_assert_uint_eq(collect(pair.b, &completion, 1), 0);
}

TEST_EACH(failed_requests_report_their_status, NUM_WIRES)
{
    ucxpool_completion_t completion;
    ucxpool_request_t   *request;

    pair_begin(&pair, wires[_i], wires[_i]);
    post_recv(2, &request);
    ucxpool_request_cancel(request);
    ck_assert_uint_eq(collect(pair.b, &completion, 1), 1);
    ck_assert_int_eq(completion.status, UCXPOOL_ERR_CANCELED);
    ck_assert_ptr_eq(completion.completion_ptr, &places[2]);
    ck_assert_ptr_eq(completion.request, request);
    ucxpool_request_release(request);
    /* A request that was never posted has no completion. */
    assert_error(ucxpool_recv_buffer(pair.b, NULL, NULL, 1, TAG, ALL_BITS,
                                     with_completion(0), &request),
                 INVALID_PARAM);
    ck_assert_uint_eq(collect(pair.b, &completion, 1), 0);
    /* Completions that were not collected are freed with the pool. */
    post_recv(3, NULL);
    post_recv(4, &request);
    ucxpool_request_cancel(request);
}

/* Until it is collected, as with level-triggered epoll. */
TEST_EACH(pending_completion_keeps_the_descriptor_readable, NUM_WIRES)
{
    struct pollfd        event = {.events = POLLIN};
    ucxpool_completion_t completion;
    ucxpool_request_t   *request;

    pair_begin(&pair, wires[_i], wires[_i]);
    post_recv(0, &request);
    send_word(0);
    pair_until(&pair, pair_ended(request));
    assert_ok(ucxpool_event_fd(pair.b, &event.fd));
    for (int i = 0; i < 3; i++) {
        assert_ok(ucxpool_wait(pair.b, UCXPOOL_FOREVER));
        while (ucxpool_arm(pair.b) == UCXPOOL_ERR_BUSY) {
            pair_progress(&pair);
        }
        ck_assert_int_eq(poll(&event, 1, 0), 1);
    }
    ck_assert_uint_eq(collect(pair.b, &completion, 1), 1);
    pair_until(&pair, ucxpool_wait(pair.b, MILLISECOND) == UCXPOOL_INPROGRESS);
    ucxpool_request_release(request);
}

static void arm(pair_t *pools)
{
    while (ucxpool_arm(pools->b) == UCXPOOL_ERR_BUSY) {
        pair_progress(pools);
    }
}

static void collect_one(void)
{
    ucxpool_completion_t completion;

    while (collect(pair.b, &completion, 1) == 0) {
        pair_progress(&pair);
    }
}

/* Events that the loop has handled must not make arm return busy again. Other
 * events may, but not in each round. */
TEST_EACH(event_loop_sleeps_after_collecting_all, NUM_WIRES)
{
    struct pollfd   event     = {.events = POLLIN};
    int             num_awake = 0;
    ucxpool_event_t told;
    size_t          num;

    pair_begin(&pair, wires[_i], wires[_i]);
    assert_ok(ucxpool_event_fd(pair.b, &event.fd));
    do {
        pair_progress(&pair);
        assert_ok(ucxpool_event_get(pair.b, &told, 1, &num));
    } while (num != 0);
    for (int i = 0; i < 20; i++) {
        post_recv(0, NULL);
        arm(&pair);
        ucxpool_progress(pair.b);
        send_word(0);
        collect_one();
        assert_ok(ucxpool_send_buffer(pair.to_a, "answer", 7, TAG,
                                      with_completion(0), NULL));
        collect_one();
        arm(&pair);
        num_awake += poll(&event, 1, 0);
    }
    ck_assert_int_lt(num_awake, 10);
}

/* It may wake for other reasons, but not for each message. Without a pidfd, it
 * checks for the peer's process twenty times a second. */
TEST_WITH(sender_stays_asleep_while_the_peer_reads, .end = 1,
          .only_if = pair_has_pidfd)
{
    struct pollfd event     = {.events = POLLIN};
    int           num_woken = 0;

    pair_begin(&pair, "WIRE=map", "WIRE=map");
    assert_ok(ucxpool_event_fd(pair.a, &event.fd));
    for (int i = 0; i < 20; i++) {
        received[0][0] = '\0';
        post_recv(0, NULL);
        send_word(0);
        /* Only its own post may keep it busy. */
        do {
            ucxpool_progress(pair.a);
        } while (ucxpool_arm(pair.a) == UCXPOOL_ERR_BUSY);
        while (received[0][0] == '\0') {
            ucxpool_progress(pair.b);
        }
        num_woken += poll(&event, 1, 10);
    }
    ck_assert_int_lt(num_woken, 10);
}

static int num_called;

static void count_call(ucxpool_request_t *request, ucxpool_status_t status,
                       void *arg)
{
    ucxpool_completion_t completion;

    num_called++;
    /* The completion is queued after the callback returns. */
    ck_assert_uint_eq(collect(arg, &completion, 1), 0);
}

TEST_EACH(completion_follows_the_callback, NUM_WIRES)
{
    ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION |
                      UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK,
        .callback = count_call,
    };
    ucxpool_completion_t completion;

    pair_begin(&pair, wires[_i], wires[_i]);
    num_called          = 0;
    params.callback_arg = pair.b;
    assert_ok(ucxpool_recv_buffer(pair.b, NULL, received[0],
                                  sizeof(received[0]), TAG, ALL_BITS, &params,
                                  NULL));
    send_word(0);
    pair_until(&pair, num_called == 1);
    ck_assert_uint_eq(collect(pair.b, &completion, 1), 1);
}

/* --- callbacks ------------------------------------------------------------ */

/* The memory that a callback writes, and the values that it reads. */
typedef struct called {
    unsigned         count;
    ucxpool_status_t tested;
    ucxpool_status_t waited;
    ucxpool_status_t queried;
} called_t;

static void look_within(ucxpool_request_t *request, ucxpool_status_t status,
                        void *arg)
{
    called_t              *called = arg;
    ucxpool_request_attr_t attr;

    ucxpool_request_query(request, &attr, sizeof(attr));
    called->count++;
    called->tested  = ucxpool_request_test(request);
    called->waited  = ucxpool_request_wait(request, UCXPOOL_FOREVER);
    called->queried = attr.status;
}

/* No function reports the request as complete: its callback has not run. */
static void check_not_ended(ucxpool_t *pool, ucxpool_request_t *request)
{
    ucxpool_completion_t completion;

    ck_assert_int_eq(ucxpool_request_test(request), UCXPOOL_INPROGRESS);
    ck_assert_int_eq(pair_request_attr(request).status, UCXPOOL_INPROGRESS);
    ck_assert_uint_eq(collect(pool, &completion, 1), 0);
}

static void check_called(called_t *called, ucxpool_status_t status)
{
    ck_assert_uint_eq(called->count, 1);
    ck_assert_int_eq(called->tested, status);
    ck_assert_int_eq(called->waited, status);
    ck_assert_int_eq(called->queried, status);
    free(called); /* no longer in use */
}

static ucxpool_request_params_t with_callback(called_t *called)
{
    return (ucxpool_request_params_t){
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK |
                      UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION,
        .callback     = look_within,
        .callback_arg = called,
    };
}

/* Requests that complete inside the function that posts or cancels them. */
TEST_EACH(request_completes_after_its_callback, NUM_WIRES)
{
    called_t                *called[3];
    ucxpool_request_params_t params;
    ucxpool_request_t       *requests[3];
    ucxpool_completion_t     completions[3];

    pair_begin(&pair, wires[_i], wires[_i]);
    for (int i = 0; i < 3; i++) {
        called[i] = calloc(1, sizeof(*called[i]));
    }
    params = with_callback(called[0]);
    assert_ok(
        ucxpool_send_buffer(pair.to_b, "word", 5, TAG, &params, &requests[0]));
    params = with_callback(called[1]);
    assert_ok(ucxpool_channel_flush(pair.to_b, &params, &requests[1]));
    params = with_callback(called[2]);
    assert_ok(ucxpool_recv_buffer(pair.a, NULL, received[0], 8, TAG, ALL_BITS,
                                  &params, &requests[2]));
    ucxpool_request_cancel(requests[2]);
    for (int i = 0; i < 3; i++) {
        check_not_ended(pair.a, requests[i]);
    }
    assert_ok(ucxpool_request_wait(requests[0], UCXPOOL_FOREVER));
    check_called(called[0], UCXPOOL_OK);
    assert_ok(ucxpool_request_wait(requests[1], UCXPOOL_FOREVER));
    check_called(called[1], UCXPOOL_OK);
    assert_error(ucxpool_request_wait(requests[2], UCXPOOL_FOREVER), CANCELED);
    check_called(called[2], UCXPOOL_ERR_CANCELED);
    ck_assert_uint_eq(collect(pair.a, completions, 3), 3);
    for (int i = 0; i < 3; i++) {
        ucxpool_request_release(requests[i]);
    }
}
