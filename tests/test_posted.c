/* Posted receives: which of them matches a message. */
#include "base/math.h"
#include "pair.h"
#include "rounds.h"
#include "test.h"

#include "xfer/state.h"

#define TAG      UINT64_C(0x55)
#define ALL_BITS UINT64_MAX

static const char *const wires[] = {"WIRE=map", "WIRE=ucx"};

/* Ways to post a receive that matches TAG. */
typedef enum way {
    OF_CHANNEL,
    OF_ANY_CHANNEL,
    MASKED_OF_CHANNEL,
    MASKED_OF_ANY_CHANNEL,
    NUM_WAYS
} way_t;

static ucxpool_request_t *post_recv(const pair_t *pair, way_t way, uint64_t tag,
                                    uint32_t *target)
{
    bool is_any = (way == OF_ANY_CHANNEL) || (way == MASKED_OF_ANY_CHANNEL);
    bool is_masked =
        (way == MASKED_OF_CHANNEL) || (way == MASKED_OF_ANY_CHANNEL);
    ucxpool_request_t *request;

    *target = UINT32_MAX;
    assert_ok(ucxpool_recv_buffer(
        pair->b, is_any ? NULL : pair->to_a, target, sizeof(*target), tag,
        is_masked ? UINT64_C(0xff) : ALL_BITS, NULL, &request));
    return request;
}

static void post_send(const pair_t *pair, uint64_t tag, uint32_t *content)
{
    assert_ok(ucxpool_send_buffer(pair->to_b, content, sizeof(*content), tag,
                                  NULL, NULL));
}

static void finish(pair_t *pair, ucxpool_request_t *request,
                   const uint32_t *target, uint32_t content)
{
    assert_ok(pair_finish(pair, request));
    ck_assert_uint_eq(*target, content);
}

static pair_t pair;

TEST_SETTINGS(.timeout = 60);

/* All orders of four receives, after one that does not match the messages. */
TEST_EACH(messages_meet_receives_in_the_order_in_which_they_were_posted, 2)
{
    enum { NUM = 4, NUM_ORDERS = NUM_WAYS * NUM_WAYS * NUM_WAYS * NUM_WAYS };
    ucxpool_request_t *first;
    ucxpool_request_t *recvs[NUM];
    uint32_t           first_target;
    uint32_t           targets[NUM];
    uint32_t           contents[NUM + 1] = {0, 1, 2, 3, 4};

    pair_begin(&pair, wires[_i], wires[_i]);
    first = post_recv(&pair, OF_CHANNEL, TAG + 1, &first_target);
    for (unsigned order = 0; order < NUM_ORDERS; order++) {
        for (unsigned i = 0; i < NUM; i++) {
            recvs[i] = post_recv(&pair, (way_t)(order >> 2 * i) % NUM_WAYS, TAG,
                                 &targets[i]);
        }
        for (unsigned i = 0; i < NUM; i++) {
            post_send(&pair, TAG, &contents[i]);
        }
        for (unsigned i = 0; i < NUM; i++) {
            finish(&pair, recvs[i], &targets[i], contents[i]);
        }
    }
    post_send(&pair, TAG + 1, &contents[NUM]);
    finish(&pair, first, &first_target, contents[NUM]);
    ck_assert_uint_eq(pair.b->xfer->posted_index.num, 0);
}

TEST_EACH(canceled_receives_match_no_message, 2)
{
    ucxpool_request_t *recvs[NUM_WAYS][2];
    uint32_t           targets[NUM_WAYS][2];
    uint32_t           contents[NUM_WAYS] = {0, 1, 2, 3};

    pair_begin(&pair, wires[_i], wires[_i]);
    for (unsigned way = 0; way < NUM_WAYS; way++) {
        for (unsigned i = 0; i < 2; i++) {
            recvs[way][i] = post_recv(&pair, (way_t)way, TAG, &targets[way][i]);
        }
    }
    for (unsigned way = 0; way < NUM_WAYS; way++) {
        ucxpool_request_cancel(recvs[way][0]);
        assert_error(pair_finish(&pair, recvs[way][0]), CANCELED);
        post_send(&pair, TAG, &contents[way]);
    }
    for (unsigned way = 0; way < NUM_WAYS; way++) {
        finish(&pair, recvs[way][1], &targets[way][1], contents[way]);
    }
    ck_assert_uint_eq(pair.b->xfer->posted_index.num, 0);
}

/* The largest number of receives that a message is compared with. */
static unsigned longest_list(const xfer_index_t *index)
{
    unsigned longest = 0;

    for (uint32_t i = 0; i < index->size; i++) {
        unsigned length = 0;

        for (const base_list_t *at      = index->lists[i].next;
             at != &index->lists[i]; at = at->next) {
            length++;
        }
        longest = base_max(longest, length);
    }
    return longest;
}

TEST_EACH(last_of_many_posted_receives_is_found_in_few_steps, 2)
{
    uint32_t            num      = RUNNING_ON_VALGRIND ? 3000
                                   : rounds_are_few()  ? 10000
                                                       : 100000;
    ucxpool_request_t **recvs    = test_alloc(num * sizeof(*recvs));
    uint32_t           *targets  = test_alloc(num * sizeof(*targets));
    uint32_t           *contents = test_alloc(num * sizeof(*contents));

    pair_begin(&pair, wires[_i], wires[_i]);
    for (uint32_t i = 0; i < num; i++) {
        contents[i] = i;
        recvs[i]    = post_recv(&pair, OF_CHANNEL, i, &targets[i]);
    }
    for (uint32_t i = num; i-- > 0;) {
        post_send(&pair, i, &contents[i]);
        finish(&pair, recvs[i], &targets[i], i);
        if (i == num - 1) {
            ck_assert_uint_eq(pair.b->xfer->posted_index.num, num - 1);
            ck_assert_uint_lt(longest_list(&pair.b->xfer->posted_index), 32);
        }
    }
    ck_assert_uint_eq(pair.b->xfer->posted_index.num, 0);
}
