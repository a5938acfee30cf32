/* Messages that lie in a window of the sender's, in host memory: pulled from
 * there where the settings say so, and by blocks otherwise. */
#include "pair.h"

#include "window/window.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIRECT     "WIRE=map WINDOW_WAY=direct"
#define SIZE       ((size_t)8 << 20)
#define TAG        UINT64_C(77)
#define MAX_PIECES ((size_t)20000)

/* a sends out of its window, b receives. */
static pair_t            pair;
static uint8_t          *memory;
static uint8_t          *bytes; /* b's */
static ucxpool_window_t *window;

static uint64_t value_of(ucxpool_t *pool, const char *name)
{
    uint64_t value;

    ck_assert_int_eq(ucxpool_stats_get(pool, name, &value), UCXPOOL_OK);
    return value;
}

static uint64_t num_placed(void)
{
    uint64_t num = value_of(pair.a, "sent_map_placed_fragments");

    ck_assert_uint_eq(value_of(pair.b, "received_map_placed_fragments"), num);
    return num;
}

static unsigned num_pulling(void)
{
    ucxpool_window_attr_t attr;

    ucxpool_window_query(window, &attr, sizeof(attr));
    return attr.num_pulling;
}

static void begin_cold(const char *settings_a, const char *settings_b)
{
    pair_init(&pair, settings_a, settings_b);
    memory = malloc(SIZE);
    bytes  = malloc(SIZE);
    pair_fill(memory, SIZE);
    pair_poison(bytes, SIZE);
    ck_assert_int_eq(ucxpool_window_create(pair.a, memory, SIZE, NULL, &window),
                     UCXPOOL_OK);
}

static ucxpool_request_t *post_send(const ucxpool_data_t           *data,
                                    const ucxpool_request_params_t *params)
{
    ucxpool_request_t *request;

    ck_assert_int_eq(ucxpool_send(pair.to_b, data, TAG, params, &request),
                     UCXPOOL_OK);
    return request;
}

static ucxpool_request_t *post_recv(const ucxpool_data_t           *data,
                                    const ucxpool_request_params_t *params)
{
    ucxpool_request_t *request;

    ck_assert_int_eq(ucxpool_recv(pair.b, pair.to_a, data, TAG, UINT64_MAX,
                                  params, &request),
                     UCXPOOL_OK);
    return request;
}

/* One message from a to b. */
static void move(const ucxpool_data_t *from, const ucxpool_data_t *to)
{
    ucxpool_request_t *send = post_send(from, NULL);
    ucxpool_request_t *recv = post_recv(to, NULL);

    ck_assert_int_eq(pair_finish(&pair, recv), UCXPOOL_OK);
    ck_assert_int_eq(pair_finish(&pair, send), UCXPOOL_OK);
}

static void move_bytes(size_t offset, size_t length)
{
    ucxpool_data_t from = ucxpool_source_buffer(memory + offset, length);
    ucxpool_data_t to   = ucxpool_data_buffer(bytes, length);

    pair_poison(bytes, length);
    move(&from, &to);
    ck_assert_mem_eq(bytes, memory + offset, length);
}

/* The window has been offered and adopted. */
static void begin(void)
{
    begin_cold(DIRECT, DIRECT);
    move_bytes(0, 100000);
    ck_assert_uint_eq(num_placed(), 0);
    if (pair_has_pidfd()) {
        pair_until(&pair, num_pulling() == 1);
    }
}

/* So many messages have been pulled, where they can be. */
static void check_placed(uint64_t num)
{
    ck_assert_uint_eq(num_placed(), pair_has_pidfd() ? num : 0);
}

static bool is_let_go(void)
{
    return (num_pulling() == 0) && base_list_is_empty(&window->grants);
}

static bool importer_has_released(void)
{
    const core_channel_windows_t *importer = &pair.to_a->windows;

    return base_list_is_empty(&importer->remotes) &&
           (importer->num_offered == 0);
}

static void check_nothing_left(void)
{
    ck_assert(base_list_is_empty(&pair.to_a->windows.placed));
    ck_assert_uint_eq(pair.to_a->windows.placed_size, 0);
    pair_check_blocks(&pair);
}

static void end(void)
{
    check_nothing_left();
    (void)ucxpool_window_revoke(window, 0);
    pair_until(&pair, is_let_go() && importer_has_released());
    ucxpool_window_destroy(window);
    ck_assert(base_list_is_empty(&pair.to_b->windows.offers));
    pair_cleanup(&pair);
    free(memory);
    free(bytes);
}

/* --- the bytes ------------------------------------------------------------ */

START_TEST(a_buffer_is_pulled)
{
    static const size_t lengths[] = {17000, 300001, 2000000, SIZE - 3};

    begin();
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        move_bytes(3, lengths[i]);
        check_placed(i + 1);
    }
    ck_assert_uint_eq(value_of(pair.b, "received_map_placed_bytes"),
                      pair_has_pidfd() ? 17000 + 300001 + 2000000 + SIZE - 3
                                       : 0);
    end();
}
END_TEST

/* Pieces in any order, of lengths that differ, some of them empty. Returns the
 * bytes of all. */
static size_t make_segments(ucxpool_segment_t *segments, size_t num,
                            uint8_t *right)
{
    size_t room   = SIZE / num;
    size_t length = 0;

    for (size_t i = 0; i < num; i++) {
        size_t slot = (i * 7919) % num;
        size_t part = (i % 10 == 3) ? 0 : (size_t)rand() % (room - 1);

        segments[i].address = memory + slot * room + (size_t)rand() % 2;
        segments[i].length  = part;
        if ((part == 0) && (i % 20 == 3)) {
            segments[i].address = NULL;
        }
        if (part != 0) {
            memcpy(right + length, segments[i].address, part);
        }
        length += part;
    }
    return length;
}

static size_t cut(size_t length, ucxpool_segment_t *segments)
{
    uint8_t *at    = bytes;
    size_t   count = 0;

    while (length != 0) {
        size_t part = (size_t)rand() % 3000;

        part              = (part < length) ? part : length;
        segments[count++] = (ucxpool_segment_t){at, part};
        at += part;
        length -= part;
    }
    return count;
}

START_TEST(what_peers_map_is_pulled)
{
    void *got;

    pair_init(&pair, DIRECT " MEMORY_LIMIT=256m", DIRECT);
    ck_assert_int_eq(ucxpool_heap_alloc(pair.a, SIZE, NULL, &got), UCXPOOL_OK);
    memory = got;
    bytes  = malloc(SIZE);
    pair_fill(memory, SIZE);
    ck_assert_int_eq(ucxpool_window_create(pair.a, memory, SIZE, NULL, &window),
                     UCXPOOL_OK);
    move_bytes(0, 100000);
    pair_until(&pair, num_pulling() == 1);
    move_bytes(1000, SIZE - 1000);
    ck_assert_uint_eq(num_placed(), 1);
    memory = NULL; /* it goes with the pool */
    end();
}
END_TEST

START_TEST(scattered_segments_meet_others)
{
    static ucxpool_segment_t from[MAX_PIECES];
    static ucxpool_segment_t to[MAX_PIECES];
    static const size_t      nums[] = {2, 7, 300, 511, 513, MAX_PIECES};
    uint8_t                 *right  = malloc(SIZE);

    begin();
    for (size_t i = 0; i < sizeof(nums) / sizeof(nums[0]); i++) {
        size_t         length = make_segments(from, nums[i], right);
        size_t         count  = cut(length, to);
        ucxpool_data_t source = ucxpool_data_segments(from, nums[i]);
        ucxpool_data_t target = ucxpool_data_segments(to, count);

        pair_poison(bytes, SIZE);
        move(&source, &target);
        ck_assert_mem_eq(bytes, right, length);
        check_placed(i + 1);
    }
    end();
    free(right);
}
END_TEST

START_TEST(even_pieces_meet_pieces)
{
    enum { NUM = 8000, LENGTH = 1000 };
    static void *from[NUM];
    static void *to[NUM];
    uint64_t     num_moved = 0;

    begin();
    for (size_t i = 0; i < NUM; i++) {
        from[i] = memory + ((i * 7919) % NUM) * LENGTH;
        to[i]   = bytes + i * (LENGTH + 5);
    }
    for (size_t num = 20; num <= NUM; num *= 20) {
        ucxpool_data_t source = ucxpool_data_pieces(from, num, LENGTH);
        ucxpool_data_t target = ucxpool_data_pieces(to, num, LENGTH);

        pair_poison(bytes, SIZE);
        move(&source, &target);
        check_placed(++num_moved);
        for (size_t i = 0; i < num; i++) {
            ck_assert_mem_eq(to[i], from[i], LENGTH);
        }
        ck_assert_uint_eq(((uint8_t *)to[0])[LENGTH], 0xfe);
    }
    end();
}
END_TEST

START_TEST(a_message_keeps_what_belongs_to_it)
{
    ucxpool_segment_t        from[] = {{memory, 0}, {memory, 0}, {memory, 0}};
    ucxpool_request_params_t params = {
        .field_mask      = UCXPOOL_REQUEST_PARAM_FIELD_METADATA,
        .metadata        = "whose it is",
        .metadata_length = 11,
    };
    size_t                 lengths[3];
    ucxpool_data_t         source, target;
    ucxpool_message_t     *message = NULL;
    ucxpool_message_attr_t attr;
    ucxpool_request_attr_t got;
    ucxpool_request_t     *send, *recv;

    begin();
    from[0] = (ucxpool_segment_t){memory + 9, 70000};
    from[1] = (ucxpool_segment_t){memory + 500000, 1};
    from[2] = (ucxpool_segment_t){memory + 300000, 999};
    source  = ucxpool_data_segments(from, 3);
    target  = ucxpool_data_buffer(bytes, SIZE);
    send    = post_send(&source, &params);
    pair_until(&pair, (ucxpool_probe(pair.b, NULL, TAG, UINT64_MAX, &message) ==
                       UCXPOOL_OK) &&
                          (message != NULL));
    ucxpool_message_query(message, &attr, sizeof(attr));
    ck_assert_uint_eq(attr.length, 71000);
    ck_assert_uint_eq(attr.num_segments, 3);
    ck_assert_uint_eq(ucxpool_message_lengths(message, 0, 3, lengths), 3);
    ck_assert_uint_eq(lengths[2], 999);
    ck_assert_int_eq(ucxpool_message_recv(message, &target, NULL, &recv),
                     UCXPOOL_OK);
    pair_until(&pair, pair_ended(recv));
    ucxpool_request_query(recv, &got, sizeof(got));
    ck_assert_uint_eq(got.length, 71000);
    ck_assert_uint_eq(got.tag, TAG);
    ck_assert_uint_eq(got.metadata_length, 11);
    ck_assert_mem_eq(got.metadata, "whose it is", 11);
    ck_assert_mem_eq(bytes, memory + 9, 70000);
    ck_assert_mem_eq(bytes + 70001, memory + 300000, 999);
    ck_assert_int_eq(pair_finish(&pair, recv), UCXPOOL_OK);
    ck_assert_int_eq(pair_finish(&pair, send), UCXPOOL_OK);
    check_placed(1);
    end();
}
END_TEST

/* Placed, packed, and short ones, of one tag. */
START_TEST(messages_keep_their_order)
{
    enum { NUM = 90, LENGTH = 20000 };
    uint8_t           *other = malloc(LENGTH);
    ucxpool_request_t *sends[NUM];
    ucxpool_request_t *recvs[NUM];

    begin();
    pair_fill(other, LENGTH);
    for (size_t i = 0; i < NUM; i++) {
        size_t         length = (i % 3 == 2) ? 8 : LENGTH;
        uint8_t       *at     = (i % 3 == 1) ? other : memory + i * LENGTH;
        ucxpool_data_t from   = ucxpool_source_buffer(at, length);
        ucxpool_data_t to     = ucxpool_data_buffer(bytes + i * LENGTH, LENGTH);

        sends[i] = post_send(&from, NULL);
        recvs[i] = post_recv(&to, NULL);
    }
    for (size_t i = 0; i < NUM; i++) {
        size_t   length = (i % 3 == 2) ? 8 : LENGTH;
        uint8_t *at     = (i % 3 == 1) ? other : memory + i * LENGTH;

        ck_assert_int_eq(pair_finish(&pair, recvs[i]), UCXPOOL_OK);
        ck_assert_int_eq(pair_finish(&pair, sends[i]), UCXPOOL_OK);
        ck_assert_mem_eq(bytes + i * LENGTH, at, length);
    }
    check_placed(NUM / 3);
    end();
    free(other);
}
END_TEST

START_TEST(a_receive_may_be_longer_but_not_shorter)
{
    ucxpool_data_t     from, longer, shorter;
    ucxpool_request_t *send, *recv;

    begin();
    from    = ucxpool_source_buffer(memory, 100000);
    longer  = ucxpool_data_buffer(bytes, 200000);
    shorter = ucxpool_data_buffer(bytes, 99999);
    pair_poison(bytes, SIZE);
    move(&from, &longer);
    ck_assert_mem_eq(bytes, memory, 100000);
    ck_assert_uint_eq(bytes[100000], 0xfe);
    check_placed(1);
    send = post_send(&from, NULL);
    recv = post_recv(&shorter, NULL);
    ck_assert_int_eq(pair_finish(&pair, recv), UCXPOOL_ERR_TRUNCATED);
    ck_assert_int_eq(pair_finish(&pair, send), UCXPOOL_ERR_REFUSED);
    check_placed(1);
    end();
}
END_TEST

/* --- what goes by blocks -------------------------------------------------- */

static const struct {
    const char *sender, *receiver;
} others[] = {
    {"WIRE=map", "WIRE=map"},
    {"WIRE=map", DIRECT},
    {"WIRE=map WINDOW_WAY=messages", DIRECT},
    {DIRECT, "WIRE=map WINDOW_WAY=messages"},
    {DIRECT " CHECKSUM=crc32c", DIRECT},
    {"WIRE=ucx WINDOW_WAY=direct", "WIRE=ucx WINDOW_WAY=direct"},
};
#define NUM_OTHERS ((int)(sizeof(others) / sizeof(others[0])))

START_TEST(elsewhere_messages_go_by_blocks)
{
    begin_cold(others[_i].sender, others[_i].receiver);
    for (size_t i = 0; i < 20; i++) {
        move_bytes(i * 1000, 300000);
    }
    ck_assert_uint_eq(num_pulling(), 0);
    ck_assert_uint_eq(num_placed(), 0);
    end();
}
END_TEST

/* Whatever is not all in one window. */
START_TEST(what_lies_elsewhere_goes_by_blocks)
{
    enum { HALF = 50000 };
    char              path[] = "/tmp/ucxpool-placed-XXXXXX";
    int               file;
    ucxpool_window_t *first;
    ucxpool_segment_t split[2];
    ucxpool_range_t   ranges[2];
    ucxpool_data_t    from, to;

    begin();
    to = ucxpool_data_buffer(bytes, SIZE);

    /* Two windows beside each other, the first within the other one. */
    ck_assert_int_eq(
        ucxpool_window_create(pair.a, memory + 100, HALF, NULL, &first),
        UCXPOOL_OK);
    from = ucxpool_source_buffer(memory + 200, HALF);
    move(&from, &to);
    ck_assert_mem_eq(bytes, memory + 200, HALF);
    check_placed(0);
    ucxpool_window_destroy(first);

    split[0] = (ucxpool_segment_t){memory, HALF};
    split[1] = (ucxpool_segment_t){bytes + SIZE - HALF, HALF};
    from     = ucxpool_data_segments(split, 2);
    move(&from, &to);
    ck_assert_mem_eq(bytes, memory, HALF);
    check_placed(0);

    file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    unlink(path);
    ck_assert_int_eq(write(file, memory, HALF), HALF);
    ranges[0] = ucxpool_range_memory(memory, HALF);
    ranges[1] = ucxpool_range_file(file, 0, HALF, "a file");
    from      = ucxpool_source_ranges(ranges, 2);
    move(&from, &to);
    ck_assert_mem_eq(bytes + HALF, memory, HALF);
    close(file);
    move_bytes(0, 4000); /* with its descriptor */
    check_placed(0);
    move_bytes(0, HALF);
    check_placed(1);
    end();
}
END_TEST

START_TEST(memory_that_cannot_be_pulled_goes_by_blocks)
{
    begin();
    if (pair_has_pidfd()) {
        base_list_head(&pair.to_a->windows.remotes, ucxpool_remote_t, link)
            ->address = 16; /* where nobody has memory */
        move_bytes(5, 3000000);
        ck_assert_uint_eq(num_placed(), 0);
    }
    end();
}
END_TEST

START_TEST(a_list_without_room_goes_by_blocks)
{
    enum { LENGTH = 8, NUM = 1 << 20, MESSAGES = 6 };
    void             **pieces = calloc(NUM, sizeof(*pieces));
    ucxpool_data_t     from, to;
    ucxpool_request_t *sends[MESSAGES];
    ucxpool_request_t *recv;

    begin();
    for (size_t i = 0; i < NUM; i++) {
        pieces[i] = memory + i * LENGTH;
    }
    from = ucxpool_data_pieces(pieces, NUM, LENGTH);
    to   = ucxpool_data_buffer(bytes, SIZE);
    for (int i = 0; i < MESSAGES; i++) {
        sends[i] = post_send(&from, NULL);
    }
    if (pair_has_pidfd()) {
        pair_until(&pair, sends[MESSAGES - 1]->send.step == CORE_SEND_ACCEPT);
        ck_assert_uint_eq(pair.to_a->windows.placed_size,
                          PROTO_PLACED_SIZE_MAX);
    }
    for (int i = 0; i < MESSAGES; i++) {
        pair_poison(bytes, SIZE);
        recv = post_recv(&to, NULL);
        ck_assert_int_eq(pair_finish(&pair, recv), UCXPOOL_OK);
        ck_assert_int_eq(pair_finish(&pair, sends[i]), UCXPOOL_OK);
        ck_assert_mem_eq(bytes, memory, SIZE);
    }
    check_placed(PROTO_PLACED_SIZE_MAX / ((size_t)NUM * sizeof(uint64_t)));
    end();
    free(pieces);
}
END_TEST

/* --- ended early ---------------------------------------------------------- */

enum { STEPS = 60 };

/* Many pieces, so that a message takes many rounds. */
static ucxpool_data_t many_pieces(void)
{
    enum { LENGTH = 300 };
    static void *pieces[MAX_PIECES];

    for (size_t i = 0; i < MAX_PIECES; i++) {
        pieces[i] = memory + ((i * 7919) % MAX_PIECES) * LENGTH;
    }
    return ucxpool_data_pieces(pieces, MAX_PIECES, LENGTH);
}

typedef enum early {
    BY_SENDER,
    BY_RECEIVER,
    BY_SENDERS_DEADLINE,
    BY_RECEIVERS_DEADLINE,
    NUM_EARLY
} early_t;

static const ucxpool_request_params_t soon = {
    .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT,
    .timeout_ns = 1,
};

/* After so many rounds of one side, and then of both. */
static void progress_some(int step)
{
    for (int i = 0; i < step % 4; i++) {
        ucxpool_progress(pair.a);
    }
    for (int i = 0; i < step / 4; i++) {
        pair_progress(&pair);
    }
}

static bool is_early(ucxpool_status_t status)
{
    return (status == UCXPOOL_OK) || (status == UCXPOOL_ERR_CANCELED) ||
           (status == UCXPOOL_ERR_TIMED_OUT) || (status == UCXPOOL_ERR_REFUSED);
}

START_TEST(one_that_is_ended_early_leaves_nothing)
{
    ucxpool_data_t     from, to;
    ucxpool_request_t *send, *recv;
    ucxpool_status_t   sent, received;
    int                num_early = 0;

    begin();
    from = many_pieces();
    to   = ucxpool_data_buffer(bytes, SIZE);
    for (int step = 0; step < STEPS; step++) {
        send = post_send(&from, (_i == BY_SENDERS_DEADLINE) ? &soon : NULL);
        progress_some(step % 8);
        recv = post_recv(&to, (_i == BY_RECEIVERS_DEADLINE) ? &soon : NULL);
        progress_some(step);
        if (_i == BY_SENDER) {
            ucxpool_request_cancel(send);
        } else {
            ucxpool_request_cancel(recv);
        }
        received = pair_finish(&pair, recv);
        /* It may have ended before it met the message. */
        recv = post_recv(&to, NULL);
        sent = pair_finish(&pair, send);
        ucxpool_request_cancel(recv);
        pair_finish(&pair, recv);
        ck_assert(is_early(sent) && is_early(received));
        num_early += (received != UCXPOOL_OK);
        check_nothing_left();
    }
    ck_assert_int_ge(num_early, STEPS / 10);
    move_bytes(0, SIZE);
    end();
}
END_TEST

START_TEST(nothing_counts_that_was_pulled_too_late)
{
    ucxpool_data_t     from, to;
    ucxpool_request_t *send, *recv;

    begin();
    from = many_pieces();
    to   = ucxpool_data_buffer(bytes, SIZE);
    for (int step = 0; step < STEPS; step++) {
        send = post_send(&from, NULL);
        recv = post_recv(&to, NULL);
        progress_some(step);
        ucxpool_request_cancel(send);
        if (pair_ended(send) &&
            (ucxpool_request_test(send) == UCXPOOL_ERR_CANCELED)) {
            /* The memory is the caller's: a receive that counts it lies. */
            memset(memory, step, SIZE);
            for (int i = 0; i < 20; i++) {
                ucxpool_progress(pair.b);
            }
            ck_assert_int_ne(pair_finish(&pair, recv), UCXPOOL_OK);
        } else {
            ck_assert_int_eq(pair_finish(&pair, recv), UCXPOOL_OK);
        }
        pair_finish(&pair, send);
    }
    end();
}
END_TEST

START_TEST(a_send_outlives_its_window)
{
    uint8_t           *right = malloc(SIZE);
    ucxpool_data_t     from, to;
    ucxpool_request_t *send, *recv;

    for (int step = 0; step < STEPS; step += 3) {
        size_t length = MAX_PIECES * 300;

        begin();
        from = many_pieces();
        to   = ucxpool_data_buffer(right, SIZE);
        move(&from, &to);
        to   = ucxpool_data_buffer(bytes, SIZE);
        send = post_send(&from, NULL);
        recv = NULL;
        if (step % 2 == 0) {
            progress_some(step / 2);
            recv = post_recv(&to, NULL);
            progress_some(step);
        }
        (void)ucxpool_window_revoke(window, 0);
        pair_until(&pair, is_let_go());
        if (recv == NULL) {
            recv = post_recv(&to, NULL);
        }
        ck_assert_int_eq(pair_finish(&pair, recv), UCXPOOL_OK);
        ck_assert_int_eq(pair_finish(&pair, send), UCXPOOL_OK);
        ck_assert_mem_eq(bytes, right, length);
        /* And what is sent later goes as it went before. */
        move_bytes(0, SIZE);
        ck_assert_uint_le(num_placed(), 2);
        end();
    }
    free(right);
}
END_TEST

static void end_without_window(void)
{
    ck_assert_int_eq(ucxpool_window_revoke(window, 0), UCXPOOL_OK);
    ucxpool_window_destroy(window);
    pair_cleanup(&pair);
    free(memory);
    free(bytes);
}

START_TEST(messages_end_with_their_channel)
{
    ucxpool_data_t     from, to;
    ucxpool_request_t *send, *recv;

    for (int step = 0; step < STEPS; step += 3) {
        begin();
        from = many_pieces();
        to   = ucxpool_data_buffer(bytes, SIZE);
        send = post_send(&from, NULL);
        recv = post_recv(&to, NULL);
        progress_some(step);
        ucxpool_channel_abort((_i == 0) ? pair.to_a : pair.to_b);
        pair_finish(&pair, send);
        pair_finish(&pair, recv);
        pair_until(&pair, is_let_go());
        pair_check_blocks(&pair);
        end_without_window();
    }
}
END_TEST

START_TEST(pools_go_with_what_was_left)
{
    ucxpool_data_t from, to;

    for (int step = 0; step < STEPS; step += 5) {
        begin();
        from = many_pieces();
        to   = ucxpool_data_buffer(bytes, SIZE);
        ucxpool_request_release(post_send(&from, NULL));
        ucxpool_request_release(post_recv(&to, NULL));
        ucxpool_request_release(post_send(&from, NULL));
        progress_some(step);
        pair_cleanup(&pair);
        free(memory);
        free(bytes);
    }
}
END_TEST

START_TEST(a_message_in_a_window_can_be_refused)
{
    ucxpool_message_t *message = NULL;
    ucxpool_data_t     from;
    ucxpool_request_t *send;

    begin();
    from = many_pieces();
    send = post_send(&from, NULL);
    pair_until(&pair, (ucxpool_probe(pair.b, NULL, TAG, UINT64_MAX, &message) ==
                       UCXPOOL_OK) &&
                          (message != NULL));
    ucxpool_message_refuse(message, "not wanted");
    ck_assert_int_eq(pair_finish(&pair, send), UCXPOOL_ERR_REFUSED);
    move_bytes(0, 300000);
    check_placed(1);
    end();
}
END_TEST

int main(void)
{
    Suite   *suite  = suite_create("placed");
    TCase   *tcase  = tcase_create("messages out of a window");
    SRunner *runner = srunner_create(suite);
    int      failed;

    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, a_buffer_is_pulled);
    tcase_add_test(tcase, what_peers_map_is_pulled);
    tcase_add_test(tcase, scattered_segments_meet_others);
    tcase_add_test(tcase, even_pieces_meet_pieces);
    tcase_add_test(tcase, a_message_keeps_what_belongs_to_it);
    tcase_add_test(tcase, messages_keep_their_order);
    tcase_add_test(tcase, a_receive_may_be_longer_but_not_shorter);
    tcase_add_loop_test(tcase, elsewhere_messages_go_by_blocks, 0, NUM_OTHERS);
    tcase_add_test(tcase, what_lies_elsewhere_goes_by_blocks);
    tcase_add_test(tcase, memory_that_cannot_be_pulled_goes_by_blocks);
    tcase_add_test(tcase, a_list_without_room_goes_by_blocks);
    tcase_add_loop_test(tcase, one_that_is_ended_early_leaves_nothing, 0,
                        NUM_EARLY);
    tcase_add_test(tcase, nothing_counts_that_was_pulled_too_late);
    tcase_add_test(tcase, a_send_outlives_its_window);
    tcase_add_loop_test(tcase, messages_end_with_their_channel, 0, 2);
    tcase_add_test(tcase, pools_go_with_what_was_left);
    tcase_add_test(tcase, a_message_in_a_window_can_be_refused);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? 0 : 1;
}
