/* Windows: memory that peers read and write by themselves. Tested on both
 * wires, by all ways that need no GPU, and in memory of all origins. */
#include "pair.h"
#include "sealed.h"
#include "segments.h"
#include "slow.h"
#include "test.h"

#include "window/service.h"
#include "window/way.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The origin of the window's memory. */
typedef enum source { MALLOC, SEALED, HEAP, COMM } source_t;

#define COMM_WAY    5
#define PROCESS_WAY 7

/* Each test runs once for each way. */
static const char *const ways[] = {
    "WIRE=map WINDOW_WAY=messages",
    "WIRE=map WINDOW_WAY=messages EAGER_SIZE=0",
    "WIRE=ucx",
    "WIRE=ucx CHECKSUM=crc32c",
    "WIRE=map WINDOW_WAY=direct",
    [COMM_WAY] = "WIRE=map COMM_SIZE=32m",
    "WIRE=map MEMORY_LIMIT=256m",
    [PROCESS_WAY] = "WIRE=map",
    "WIRE=ucx WINDOW_WAY=direct",
};
static const source_t sources[] = {MALLOC, MALLOC, MALLOC, MALLOC, SEALED,
                                   COMM,   HEAP,   MALLOC, MALLOC};

/* Valgrind does not support pidfd_open(), so PROCESS_WAY uses messages there,
 * and the last way differs from "WIRE=ucx" only in what it requires. */
#define NUM_WAYS \
    (RUNNING_ON_VALGRIND ? PROCESS_WAY : (int)(sizeof(ways) / sizeof(ways[0])))

#define SIZE ((size_t)8 << 20)
/* Bytes that tests of many lists of places move. Valgrind copies them one by
 * one, because they are not aligned. */
#define LONG       (RUNNING_ON_VALGRIND ? SIZE / 8 : SIZE)
#define TAG        UINT64_C(77)
#define BOTH       PAIR_READ_AND_WRITE
#define MAX_PLACES ((size_t)20000)

/* b owns the window; a reads and writes it. */
static pair_t                   pair;
static uint8_t                 *memory;
static ucxpool_window_t        *window;
static ucxpool_remote_window_t *remote;
static uint8_t                  blob[UCXPOOL_WINDOW_BLOB_SIZE];

static ucxpool_remote_window_attr_t asked(void)
{
    return pair_remote_attr(remote);
}

static void get_memory(source_t source, ucxpool_window_params_t *params)
{
    void *got = NULL;

    switch (source) {
    case MALLOC:
        got = malloc(SIZE);
        break;
    case SEALED:
        got                = sealed_get(SIZE, &params->fd);
        params->field_mask = UCXPOOL_WINDOW_PARAM_FIELD_FD;
        break;
    case HEAP:
        assert_ok(ucxpool_heap_alloc(pair.b, SIZE, NULL, &got));
        break;
    case COMM:
        assert_ok(ucxpool_comm_alloc(pair.b, SIZE, &got));
        break;
    }
    memory = got;
}

static source_t origin;

static void make_window(int way, unsigned access)
{
    ucxpool_window_params_t params = {.field_mask = 0};

    origin = sources[way];
    get_memory(origin, &params);
    pair_fill(memory, SIZE);
    assert_ok(ucxpool_window_create(pair.b, memory, SIZE, &params, &window));
    if (origin == SEALED) {
        close(params.fd);
    }
    assert_ok(ucxpool_window_export(window, access, blob));
}

/* The pool has freed its own memory, and may have been destroyed. */
static void free_memory(void)
{
    if (origin == MALLOC) {
        free(memory);
    } else if (origin == SEALED) {
        sealed_put(memory, SIZE);
    }
}

static void import(void)
{
    assert_ok(
        ucxpool_remote_window_import(pair.to_b, blob, sizeof(blob), &remote));
}

static void import_and_wait(void)
{
    import();
    pair_until(&pair, asked().status != UCXPOOL_INPROGRESS);
}

static void open_window(int way, unsigned access)
{
    pair_init(&pair, ways[way], ways[way]);
    /* Under valgrind, UCX may take longer to complete canceled operations. */
    pair.a->drain_ns             = UCXPOOL_FOREVER;
    pair.b->drain_ns             = UCXPOOL_FOREVER;
    pair.a->windows->may_emulate = true; /* over tcp */
    make_window(way, access);
    import_and_wait();
    ck_assert_msg(asked().status == UCXPOOL_OK, "%s", asked().reason);
    ck_assert_msg((origin == MALLOC) ||
                      ((origin == COMM) && (access == UCXPOOL_WINDOW_WRITE)) ||
                      (asked().way == UCXPOOL_WAY_MAPPED) ||
                      !pair_is_mapped(&pair),
                  "%s", asked().way_reason);
    ck_assert(asked().way == UCXPOOL_WAY_RMA ||
              strncmp(ways[way], "WIRE=ucx", 8) != 0);
}

/* Release the import, and check that nothing is leaked. */
static void end(void)
{
    ucxpool_remote_window_release(remote);
    pair_until(&pair, pair_window_attr(window).num_peers == 0);
    ck_assert(base_list_is_empty(&pair.to_a->windows->served));
    ck_assert_uint_eq(pair.to_a->windows->served_size, 0);
    ck_assert_uint_eq(pair.to_b->windows->num_calls, 0);
    ck_assert_uint_eq(pair.to_b->windows->calls_size, 0);
    ck_assert_uint_eq(pair.to_b->windows->num_rma, 0);
    ck_assert(base_list_is_empty(&pair.to_b->windows->remotes));
    ucxpool_window_destroy(window);
    if (origin == COMM) {
        ucxpool_comm_free(pair.b, memory);
    }
    pair_check_blocks(&pair);
    pair_cleanup(&pair);
    free_memory();
}

static void begin(int way, unsigned access)
{
    open_window(way, access);
    test_at_end(end);
}

static ucxpool_status_t post(bool is_write, const ucxpool_places_t *places,
                             const ucxpool_data_t           *data,
                             const ucxpool_request_params_t *params,
                             ucxpool_request_t             **request_p)
{
    return is_write ? ucxpool_remote_window_write(remote, places, data, params,
                                                  request_p)
                    : ucxpool_remote_window_read(remote, places, data, params,
                                                 request_p);
}

/* A request and its completion report the total bytes of all places, and no
 * tag, for every way. */
static void check_reported(const ucxpool_request_t *request, uint64_t length)
{
    ucxpool_request_attr_t attr;
    ucxpool_completion_t   completion;
    size_t                 num;

    ucxpool_request_query(request, &attr, sizeof(attr));
    ck_assert_uint_eq(attr.length, length);
    ck_assert_uint_eq(attr.tag, 0);
    ck_assert_uint_eq(attr.metadata_length, 0);
    assert_ok(ucxpool_completion_get(pair.a, &completion, 1, &num));
    ck_assert_uint_eq(num, 1);
    ck_assert_uint_eq(completion.length, length);
    ck_assert_uint_eq(completion.tag, 0);
}

static void move(bool is_write, const ucxpool_places_t *places,
                 const ucxpool_data_t *data)
{
    const ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION,
    };
    uint64_t           length = places->count * places->length;
    ucxpool_request_t *request;

    for (size_t i = 0; (places->places != NULL) && (i < places->count); i++) {
        length += places->places[i].length;
    }
    assert_ok(post(is_write, places, data, &params, &request));
    pair_until(&pair, pair_ended(request));
    check_reported(request, length);
    assert_ok(pair_finish(&pair, request));
}

/* One place, and one buffer. */
static void move_bytes(bool is_write, uint64_t offset, void *bytes,
                       size_t length)
{
    ucxpool_place_t  place  = {offset, length};
    ucxpool_places_t places = ucxpool_places(&place, 1);
    ucxpool_data_t   data   = ucxpool_data_buffer(bytes, length);

    move(is_write, &places, &data);
}

/* --- the bytes ------------------------------------------------------------ */

TEST_SETTINGS(.timeout = 60);

TEST_EACH(a_buffer_is_read_and_written, NUM_WAYS)
{
    const size_t lengths[] = {1, 100, 5000, 300001, LONG - 3};
    uint8_t     *bytes     = test_alloc(SIZE);
    uint8_t     *before    = test_alloc(SIZE);

    begin(_i, BOTH);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        pair_poison(bytes, LONG);
        move_bytes(false, 3, bytes, lengths[i]);
        ck_assert_mem_eq(bytes, memory + 3, lengths[i]);
        pair_fill(bytes, lengths[i]);
        memcpy(before, memory, SIZE);
        move_bytes(true, 3, bytes, lengths[i]);
        memcpy(before + 3, bytes, lengths[i]);
        ck_assert_mem_eq(memory, before, SIZE);
    }
    test_end();
}

/* Except by messages: these send the places of each operation to the owner. */
TEST_EACH(repeated_operations_allocate_nothing, NUM_WAYS)
{
    uint8_t *bytes  = test_alloc(SIZE);
    uint64_t before = 0;

    begin(_i, BOTH);
    for (unsigned i = 0; i < 4; i++) {
        move_bytes(false, 0, bytes, LONG);
        move_bytes(true, 0, bytes, LONG);
        if (i == 0) {
            before = pair.a->stats.allocations;
        }
    }
    if ((remote->way != &window_messages) &&
        (remote->write_way != &window_messages)) {
        ck_assert_uint_eq(pair.a->stats.allocations, before);
    }
    test_end();
}

/* Create places in any order and of different lengths, and memory for them that
 * is split differently. Returns the total bytes. */
static size_t make_places(ucxpool_place_t *places, size_t num)
{
    size_t room   = LONG / num;
    size_t length = 0;

    for (size_t i = 0; i < num; i++) {
        places[i].length = (size_t)rand() % (room - 1);
        places[i].offset = i * room + (size_t)rand() % 2;
        length += places[i].length;
    }
    for (size_t i = 0; i < num; i++) {
        size_t          other = (size_t)rand() % num;
        ucxpool_place_t kept  = places[i];

        places[i]     = places[other];
        places[other] = kept;
    }
    return length;
}

static void gather(const ucxpool_place_t *places, size_t num, uint8_t *bytes)
{
    for (size_t i = 0; i < num; i++) {
        memcpy(bytes, memory + places[i].offset, places[i].length);
        bytes += places[i].length;
    }
}

TEST_EACH(scattered_places_match_segments_split_differently, NUM_WAYS)
{
    static ucxpool_place_t   list[MAX_PLACES];
    static ucxpool_segment_t segments[MAX_PLACES];
    static const size_t      nums[] = {1, 7, 300, 511, 700, MAX_PLACES};
    uint8_t                 *bytes  = test_alloc(LONG);
    uint8_t                 *right  = test_alloc(LONG);

    begin(_i, BOTH);
    for (size_t i = 0; i < sizeof(nums) / sizeof(nums[0]); i++) {
        size_t length = make_places(list, nums[i]);
        size_t count =
            cut_segments(bytes, length, 3000, 0, segments, MAX_PLACES);
        ucxpool_places_t places = ucxpool_places(list, nums[i]);
        ucxpool_data_t   data   = ucxpool_data_segments(segments, count);

        pair_poison(bytes, length);
        move(false, &places, &data);
        gather(list, nums[i], right);
        ck_assert_mem_eq(bytes, right, length);
        pair_fill(bytes, length);
        move(true, &places, &data);
        gather(list, nums[i], right);
        ck_assert_mem_eq(bytes, right, length);
    }
    test_end();
}

TEST_EACH(equal_places_match_pieces, NUM_WAYS)
{
    enum { NUM = 8000 };
    static uint64_t offsets[NUM];
    static void    *pieces[NUM];
    uint8_t        *bytes  = test_alloc(LONG);
    size_t          length = LONG / NUM - 20;

    begin(_i, BOTH);
    for (size_t i = 0; i < NUM; i++) {
        offsets[i] = ((i * 7919) % NUM) * length;
        pieces[i]  = bytes + i * (length + 5);
    }
    for (size_t num = 1; num <= NUM; num = num * 20 - 1) {
        ucxpool_places_t places = ucxpool_places_even(offsets, num, length);
        ucxpool_data_t   data   = ucxpool_data_pieces(pieces, num, length);

        pair_poison(bytes, LONG);
        move(false, &places, &data);
        for (size_t i = 0; i < num; i++) {
            ck_assert_mem_eq(pieces[i], memory + offsets[i], length);
            pair_fill(pieces[i], length);
        }
        move(true, &places, &data);
        for (size_t i = 0; i < num; i++) {
            ck_assert_mem_eq(pieces[i], memory + offsets[i], length);
        }
        ck_assert_uint_eq(((uint8_t *)pieces[0])[length], 0xfe);
    }
    test_end();
}

TEST_EACH(empty_places_are_allowed_anywhere, NUM_WAYS)
{
    uint8_t          bytes[1000], right[1000];
    ucxpool_place_t  list[] = {{5, 0},     {100, 600}, {SIZE, 0}, {0, 0},
                               {900, 400}, {SIZE, 0},  {3, 0}};
    ucxpool_places_t places = ucxpool_places(list, 7);
    ucxpool_data_t   data   = ucxpool_data_buffer(bytes, sizeof(bytes));

    begin(_i, BOTH);
    pair_poison(bytes, sizeof(bytes));
    move(false, &places, &data);
    gather(list, 7, right);
    ck_assert_mem_eq(bytes, right, sizeof(bytes));
    pair_fill(bytes, sizeof(bytes));
    move(true, &places, &data);
    gather(list, 7, right);
    ck_assert_mem_eq(bytes, right, sizeof(bytes));
}

TEST_EACH(empty_operations_succeed, NUM_WAYS)
{
    uint64_t         offsets[2] = {0, 0};
    ucxpool_place_t  empty      = {SIZE, 0};
    ucxpool_places_t lists[]    = {ucxpool_places(NULL, 0),
                                   ucxpool_places(&empty, 1),
                                   ucxpool_places_even(offsets, 2, 0)};
    ucxpool_data_t   data       = ucxpool_data_buffer(NULL, 0);

    begin(_i, BOTH);
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        move(false, &lists[i], &data);
        move(true, &lists[i], &data);
    }
}

TEST_EACH(many_operations_are_pending_at_once, NUM_WAYS)
{
    enum { NUM = 300, LENGTH = 20000 };
    static uint8_t     bytes[NUM][LENGTH];
    ucxpool_request_t *requests[NUM];

    begin(_i, BOTH);
    for (size_t i = 0; i < NUM; i++) {
        pair_fill(bytes[i], LENGTH);
        requests[i] =
            pair_access(remote, i % 2 != 0, i * LENGTH, bytes[i], LENGTH);
    }
    for (size_t i = 0; i < NUM; i++) {
        assert_ok(pair_finish(&pair, requests[i]));
        ck_assert_mem_eq(bytes[i], memory + i * LENGTH, LENGTH);
    }
}

/* More operations than an owner serves at a time. Both sides progress
 * separately, so that one calls again before the other has released what it has
 * answered. */
TEST_EACH(an_owner_accepts_calls_before_it_has_released_earlier_ones, NUM_WAYS)
{
    enum { NUM = 200, LENGTH = 1000 };
    static uint8_t     bytes[NUM][LENGTH];
    ucxpool_request_t *requests[NUM];

    begin(_i, BOTH);
    for (size_t i = 0; i < NUM; i++) {
        requests[i] = pair_access(remote, false, i * LENGTH, bytes[i], LENGTH);
    }
    for (size_t i = 0; i < NUM; i++) {
        while (!pair_ended(requests[i])) {
            while (ucxpool_progress(pair.a) != 0) {
            }
            ucxpool_progress(pair.b);
        }
        assert_ok(pair_finish(&pair, requests[i]));
        ck_assert_mem_eq(bytes[i], memory + i * LENGTH, LENGTH);
    }
}

/* There is no credit or room to announce the operation, so the owner has not
 * received it. */
TEST_EACH(an_operation_canceled_before_its_call_leaves_nothing_behind, NUM_WAYS)
{
    static char        byte;
    uint8_t            bytes[5000] = {1};
    ucxpool_request_t *send, *recv, *request;
    uint32_t           announced;

    begin(_i, BOTH);
    pair.a->announce_ns = UCXPOOL_FOREVER;
    for (size_t i = 0; i < 64; i++) {
        send = pair_send(pair.to_b, &byte, 1, TAG);
        ucxpool_request_release(send);
    }
    announced                 = pair.to_b->flow.announced;
    pair.to_b->flow.announced = pair.to_b->peer.max_unexpected;
    request = pair_access(remote, true, 10, bytes, sizeof(bytes));
    ucxpool_request_cancel(request);
    (void)pair_finish(&pair, request);
    pair.to_b->flow.announced = announced;
    for (size_t i = 0; i < 64; i++) {
        recv = pair_recv(pair.b, pair.to_a, &byte, 1, TAG);
        assert_ok(pair_finish(&pair, recv));
    }
    for (int i = 0; i < 1000; i++) {
        pair_progress(&pair);
    }
    ck_assert(base_list_is_empty(&pair.to_a->windows->served));
}

TEST_EACH(operations_posted_before_the_import_completes_wait, NUM_WAYS)
{
    uint8_t            bytes[5000];
    ucxpool_request_t *request;

    pair.a                       = pair_pool(ways[_i]);
    pair.b                       = pair_pool(ways[_i]);
    pair.a->windows->may_emulate = true;
    pair.to_b                    = pair_meet(pair.a, pair.b);
    make_window(_i, BOTH);
    import();
    ck_assert_int_eq(asked().status, UCXPOOL_INPROGRESS);
    ck_assert_int_eq(asked().way, UCXPOOL_WAY_NONE);
    request   = pair_access(remote, false, 10, bytes, sizeof(bytes));
    pair.to_a = pair_meet(pair.b, pair.a);
    assert_ok(pair_finish(&pair, request));
    ck_assert_mem_eq(bytes, memory + 10, sizeof(bytes));
    end();
}

TEST_EACH(the_owner_is_notified, NUM_WAYS)
{
    uint8_t                  bytes[100];
    ucxpool_place_t          place  = {0, sizeof(bytes)};
    ucxpool_places_t         places = ucxpool_places(&place, 1);
    ucxpool_data_t           data   = ucxpool_data_buffer(bytes, sizeof(bytes));
    ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_NOTIFY |
                      UCXPOOL_REQUEST_PARAM_FIELD_METADATA,
        .notify_tag      = TAG,
        .metadata        = "all there",
        .metadata_length = 9,
    };
    ucxpool_request_attr_t attr;
    ucxpool_request_t     *request, *recv;

    begin(_i, BOTH);
    for (int is_write = 0; is_write < 2; is_write++) {
        recv = pair_recv(pair.b, pair.to_a, NULL, 0, TAG);
        pair_fill(bytes, sizeof(bytes));
        assert_ok(post(is_write, &places, &data, &params, &request));
        pair_until(&pair, pair_ended(recv));
        /* The data arrives before the notice. */
        ck_assert_mem_eq(bytes, memory, sizeof(bytes));
        ucxpool_request_query(recv, &attr, sizeof(attr));
        ck_assert_uint_eq(attr.metadata_length, 9);
        ck_assert_mem_eq(attr.metadata, "all there", 9);
        pair_finish_both(&pair, recv, request);
    }
}

/* The caller's own messages do not match those of windows. */
TEST_EACH(receives_of_the_caller_do_not_match_window_messages, NUM_WAYS)
{
    enum { LENGTH = 100000 };
    static uint8_t     bytes[LENGTH], mine[LENGTH], sent[LENGTH];
    ucxpool_request_t *request, *recv, *send;

    begin(_i, BOTH);
    for (int is_write = 0; is_write < 2; is_write++) {
        ucxpool_t         *receiver = is_write ? pair.b : pair.a;
        ucxpool_channel_t *sender   = is_write ? pair.to_b : pair.to_a;

        pair_fill(sent, LENGTH);
        assert_ok(ucxpool_recv_buffer(receiver, NULL, mine, LENGTH, 0, 0, NULL,
                                      &recv));
        request = pair_access(remote, is_write, 0, bytes, LENGTH);
        assert_ok(pair_finish(&pair, request));
        ck_assert(!pair_ended(recv));
        send = pair_send(sender, sent, LENGTH, TAG);
        pair_finish_both(&pair, recv, send);
        ck_assert_mem_eq(mine, sent, LENGTH);
    }
}

/* --- rejected arguments --------------------------------------------------- */

static void refuses(bool is_write, const ucxpool_places_t *places,
                    const ucxpool_data_t *data, ucxpool_status_t status,
                    const char *words)
{
    ucxpool_request_t *request = NULL;

    ck_assert_int_eq(post(is_write, places, data, NULL, &request), status);
    ck_assert_ptr_null(request);
    assert_detail(words);
}

TEST_EACH(operations_beyond_the_window_are_rejected_at_once, NUM_WAYS)
{
    uint8_t         bytes[100];
    uint64_t        offset     = SIZE - 50;
    uint64_t        offsets[2] = {0, UINT64_MAX};
    ucxpool_place_t beyond     = {SIZE - 50, 100};
    ucxpool_place_t wraps[2]   = {{0, 1}, {2, UINT64_MAX}};
    ucxpool_place_t fits       = {0, 101};
    const struct {
        ucxpool_places_t places;
        ucxpool_status_t status;
        const char      *words;
    } cases[] = {
        {ucxpool_places(&beyond, 1), UCXPOOL_ERR_INVALID_PARAM,
         "place 0 is beyond the end of the window"},
        {ucxpool_places_even(&offset, 1, 100), UCXPOOL_ERR_INVALID_PARAM,
         "place 0 is beyond"},
        {ucxpool_places_even(offsets, 2, 50), UCXPOOL_ERR_INVALID_PARAM,
         "place 1 is beyond"},
        {ucxpool_places(wraps, 2), UCXPOOL_ERR_INVALID_PARAM,
         "place 1 is beyond"},
        {ucxpool_places(&fits, 1), UCXPOOL_ERR_INVALID_PARAM,
         "the data has 100 bytes, but the places have 101"},
        {ucxpool_places(NULL, 1), UCXPOOL_ERR_INVALID_PARAM,
         "the list of places is NULL"},
        {ucxpool_places_even(offsets, (size_t)1 << 21, 1), UCXPOOL_ERR_LIMIT,
         "for one operation"},
    };
    ucxpool_places_t places = ucxpool_places(&fits, 1);
    ucxpool_data_t   data   = ucxpool_data_buffer(bytes, 100);
    ucxpool_data_t   source = ucxpool_source_buffer(bytes, 100);

    begin(_i, BOTH);
    refuses(false, &places, &source, UCXPOOL_ERR_INVALID_PARAM,
            "use ucxpool_data_");
    places.reserved[1] = 1;
    for (int is_write = 0; is_write < 2; is_write++) {
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            refuses(is_write, &cases[i].places, &data, cases[i].status,
                    cases[i].words);
        }
        refuses(is_write, &places, &data, UCXPOOL_ERR_UNSUPPORTED,
                "does not know these places");
    }
}

/* The library does not read the array of a list that is too long. */
TEST_EACH(a_count_above_the_limit_is_rejected_before_the_list_is_read, NUM_WAYS)
{
    uint8_t bytes[100];
    void   *unreadable =
        mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ucxpool_places_t places = ucxpool_places(unreadable, SIZE_MAX);
    ucxpool_data_t   data   = ucxpool_data_buffer(bytes, 100);

    ck_assert_ptr_ne(unreadable, MAP_FAILED);
    begin(_i, BOTH);
    for (int is_write = 0; is_write < 2; is_write++) {
        refuses(is_write, &places, &data, UCXPOOL_ERR_LIMIT,
                "for one operation");
    }
    munmap(unreadable, 4096);
}

TEST_EACH(a_blob_allows_only_the_access_it_was_exported_for, NUM_WAYS)
{
    uint8_t          bytes[10];
    ucxpool_place_t  place  = {0, 10};
    ucxpool_places_t places = ucxpool_places(&place, 1);
    ucxpool_data_t   data   = ucxpool_data_buffer(bytes, 10);

    begin(_i, UCXPOOL_WINDOW_READ);
    move(false, &places, &data);
    refuses(true, &places, &data, UCXPOOL_ERR_PERMISSION,
            "not exported for writing");
    test_end();
    begin(_i, UCXPOOL_WINDOW_WRITE);
    move(true, &places, &data);
    refuses(false, &places, &data, UCXPOOL_ERR_PERMISSION,
            "not exported for reading");
}

static void import_fails(ucxpool_status_t status, const char *words)
{
    ucxpool_remote_window_t *none = NULL;

    ck_assert_int_eq(
        ucxpool_remote_window_import(pair.to_b, blob, sizeof(blob), &none),
        status);
    ck_assert_ptr_null(none);
    assert_detail(words);
}

/* Change a byte of the blob, and fix its checksum. */
static void forge(size_t byte, uint8_t bits)
{
    window_blob_t forged;

    blob[byte] ^= bits;
    memcpy(&forged, blob, sizeof(forged));
    forged.checksum = window_blob_checksum(&forged);
    memcpy(blob, &forged, sizeof(forged));
}

TEST_EACH(a_blob_with_any_bit_flipped_is_rejected, NUM_WAYS)
{
    uint8_t            bytes[10];
    ucxpool_request_t *innocent;
    ucxpool_request_t *send;

    begin(_i, BOTH);
    innocent = pair_recv(pair.a, pair.to_b, bytes, sizeof(bytes), TAG);
    for (size_t bit = 0; bit < 8 * sizeof(blob); bit++) {
        blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
        import_fails(UCXPOOL_ERR_INVALID_PARAM,
                     (bit < 32) ? "are not a window" : "damaged");
        blob[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    pair_progress(&pair);
    ck_assert(pair_is_open(pair.to_b));
    ck_assert(!pair_ended(innocent));
    send = pair_send(pair.to_a, memory, sizeof(bytes), TAG);
    pair_finish_both(&pair, innocent, send);
}

TEST_EACH(a_blob_of_another_length_fails_only_the_import, NUM_WAYS)
{
    ucxpool_remote_window_t *damaged;

    begin(_i, BOTH);
    damaged = remote;
    forge(offsetof(window_blob_t, length), 1);
    import_and_wait();
    assert_error(asked().status, INVALID_PARAM);
    ck_assert_int_eq(asked().way, UCXPOOL_WAY_NONE);
    assert_has(asked().reason, "its blob says");
    ucxpool_remote_window_release(remote);
    remote = damaged;
    ck_assert(pair_is_open(pair.to_b));
    ck_assert(pair_is_open(pair.to_a));
    assert_ok(asked().status);
    forge(offsetof(window_blob_t, length), 1);
    forge(offsetof(window_blob_t, reserved), 1);
    import_fails(UCXPOOL_ERR_INVALID_PARAM, "reserved");
}

TEST_EACH(a_damaged_or_foreign_blob_is_rejected, NUM_WAYS)
{
    ucxpool_window_t        *own;
    ucxpool_remote_window_t *none = NULL;

    pair_init(&pair, ways[_i], ways[_i]);
    pair.a->windows->may_emulate = true;
    make_window(_i, BOTH);
    assert_error(ucxpool_remote_window_import(pair.to_b, blob, 63, &none),
                 INVALID_PARAM);
    blob[0] ^= 1;
    import_fails(UCXPOOL_ERR_INVALID_PARAM, "are not a window");
    blob[0] ^= 1;
    forge(offsetof(window_blob_t, version), 8);
    import_fails(UCXPOOL_ERR_PROTOCOL, "protocol version");
    assert_ok(ucxpool_window_create(pair.a, memory, SIZE, NULL, &own));
    assert_ok(ucxpool_window_export(own, BOTH, blob));
    import_fails(UCXPOOL_ERR_INVALID_PARAM, "to another pool");
    /* Valid except for the key, the number, or the access. */
    for (size_t i = 0; i < 3; i++) {
        static const size_t bytes[] = {32, 24, 6};

        assert_ok(ucxpool_window_export(window, UCXPOOL_WINDOW_READ, blob));
        forge(bytes[i], 2);
        import_and_wait();
        assert_error(asked().status, REFUSED);
        assert_has(asked().reason, "has no such window");
        ucxpool_remote_window_release(remote);
    }
    ucxpool_window_destroy(own);
    ucxpool_window_destroy(window);
    pair_cleanup(&pair);
    free_memory();
}

TEST(invalid_windows_are_rejected)
{
    ucxpool_window_t *none = NULL;
    uint8_t           byte;

    pair_init(&pair, ways[_i], ways[_i]);
    assert_error(ucxpool_window_create(pair.b, &byte, 0, NULL, &none),
                 INVALID_PARAM);
    assert_error(ucxpool_window_create(pair.b, NULL, 1, NULL, &none),
                 INVALID_PARAM);
    assert_error(ucxpool_window_create(pair.b, &byte, SIZE_MAX, NULL, &none),
                 INVALID_PARAM);
    ck_assert_ptr_null(none);
    make_window(_i, BOTH);
    assert_error(ucxpool_window_export(window, 0, blob), INVALID_PARAM);
    assert_error(ucxpool_window_export(window, 4, blob), INVALID_PARAM);
    pair_cleanup(&pair); /* including the window */
    free_memory();
}

TEST(an_unavailable_required_way_is_reported)
{
    pair_init(&pair, "WIRE=ucx WINDOW_WAY=direct", "WIRE=ucx");
    make_window(0, BOTH);
    import_and_wait();
    assert_error(asked().status, UNSUPPORTED);
    assert_has(asked().reason, "UCXPOOL_WIRE=ucx");
    end();
}

TEST(required_paths_allow_windows_by_messages)
{
    pair_init(&pair, "REQUIRE=map WINDOW_WAY=messages", "REQUIRE=map");
    make_window(0, BOTH);
    import_and_wait();
    assert_ok(asked().status);
    ck_assert_int_eq(asked().way, UCXPOOL_WAY_MESSAGES);
    end();
}

/* --- ends ----------------------------------------------------------------- */

TEST_EACH(a_revoked_window_is_not_accessed, NUM_WAYS)
{
    enum { NUM = 20, LENGTH = 1 << 20 };
    static uint8_t     bytes[NUM][LENGTH];
    ucxpool_request_t *requests[NUM];
    ucxpool_status_t   status;
    int                num_canceled = 0;

    begin(_i, BOTH);
    for (size_t i = 0; i < NUM; i++) {
        requests[i] = pair_access(remote, i % 2 != 0, 0, bytes[i], LENGTH);
    }
    pair_progress(&pair);
    pair_until(&pair, ucxpool_window_revoke(window, 0) == UCXPOOL_OK);
    memset(memory, 0x5a, SIZE);
    for (size_t i = 0; i < NUM; i++) {
        status = pair_finish(&pair, requests[i]);
        ck_assert(status == UCXPOOL_ERR_CANCELED || status == UCXPOOL_OK);
        num_canceled += (status == UCXPOOL_ERR_CANCELED);
    }
    ck_assert_int_ge(num_canceled, 1);
    ck_assert(pair_is_all(memory, SIZE, 0x5a));
    assert_error(asked().status, CANCELED);
    assert_error(ucxpool_window_export(window, BOTH, blob), CANCELED);
    ucxpool_remote_window_release(remote);
    import_and_wait();
    assert_error(asked().status, REFUSED);
}

/* Clean up after the window has been destroyed. */
static void end_destroyed(void)
{
    ucxpool_remote_window_release(remote);
    if (origin == COMM) {
        ucxpool_comm_free(pair.b, memory);
    }
    pair_check_blocks(&pair);
    pair_cleanup(&pair);
    free_memory();
}

/* The importer's pool is driven by this thread, so it makes no progress during
 * destroy. On `map` it need not. */
TEST_EACH(destroy_does_not_wait_for_an_importer_that_does_not_copy, NUM_WAYS)
{
    static uint8_t     bytes[4 << 20];
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    open_window(_i, BOTH);
    pair_fill(bytes, sizeof(bytes));
    request = pair_access(remote, true, 0, bytes, sizeof(bytes));
    pair_progress(&pair);
    pair.b->config.close_timeout_ns =
        pair_is_mapped(&pair) ? UCXPOOL_FOREVER : 100000000;
    ucxpool_window_destroy(window);
    memset(memory, 0x5a, SIZE);
    status = pair_finish(&pair, request);
    ck_assert_msg((status == UCXPOOL_ERR_CANCELED) || !pair_is_mapped(&pair),
                  "%s", ucxpool_status_string(status));
    ck_assert_int_ne(status, UCXPOOL_OK);
    ck_assert(pair_is_all(memory, SIZE, 0x5a));
    end_destroyed();
}

static void report_copying(uint32_t is_copying)
{
    __atomic_store_n(&pair.to_b->ring.mine->copying, is_copying,
                     __ATOMIC_SEQ_CST);
}

/* It stopped in the middle of a copy. */
TEST_EACH(destroy_abandons_an_importer_that_copies_for_too_long, NUM_WAYS)
{
    open_window(_i, BOTH);
    pair.b->config.close_timeout_ns = 10000000;
    if (pair_is_mapped(&pair)) {
        report_copying(1);
        ck_assert_int_eq(ucxpool_window_revoke(window, 1000000),
                         UCXPOOL_INPROGRESS);
        ucxpool_window_destroy(window);
        ck_assert(!base_list_is_empty(&pair.to_a->windows->grants));
        report_copying(0);
        pair_until(&pair, base_list_is_empty(&pair.to_a->windows->grants));
        ck_assert(base_list_is_empty(&pair.b->windows->all));
        assert_error(asked().status, CANCELED);
    } else {
        ucxpool_window_destroy(window);
    }
    end_destroyed();
}

TEST_EACH(pool_destroy_abandons_an_importer_that_copies_for_too_long, NUM_WAYS)
{
    open_window(_i, BOTH);
    if (pair_is_mapped(&pair)) {
        pair.b->config.close_timeout_ns = 10000000;
        report_copying(1);
    }
    ucxpool_destroy(pair.b);
    if (pair_is_mapped(&pair)) {
        report_copying(0);
    }
    ucxpool_remote_window_release(remote);
    ucxpool_destroy(pair.a);
    free_memory();
}

/* The revocation is visible before the message about it arrives. */
TEST_EACH(nothing_is_copied_after_the_owner_has_revoked, NUM_WAYS)
{
    static uint8_t     bytes[100];
    ucxpool_request_t *request;

    begin(_i, BOTH);
    if (asked().way >= UCXPOOL_WAY_PROCESS && pair_is_mapped(&pair)) {
        core_ring_withdraw(&pair.to_a->ring);
        request = pair_access(remote, false, 0, bytes, sizeof(bytes));
        for (int i = 0; i < 100; i++) {
            pair_progress(&pair);
        }
        ck_assert_int_eq(ucxpool_request_test(request), UCXPOOL_INPROGRESS);
        ucxpool_request_cancel(request);
        assert_error(pair_finish(&pair, request), CANCELED);
    }
}

TEST_EACH(a_canceled_operation_leaves_nothing_behind, NUM_WAYS)
{
    size_t             length = LONG / 2;
    uint8_t           *bytes  = test_alloc(length);
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    begin(_i, BOTH);
    pair_fill(bytes, length);
    for (int rounds = 0; rounds < 40; rounds++) {
        request = pair_access(remote, rounds % 2 != 0, 0, bytes, length);
        for (int i = 0; i < rounds / 2; i++) {
            pair_progress(&pair);
        }
        ucxpool_request_cancel(request);
        status = pair_finish(&pair, request);
        ck_assert(status == UCXPOOL_ERR_CANCELED || status == UCXPOOL_OK);
        ck_assert(rounds > 1 || status == UCXPOOL_ERR_CANCELED);
    }
    move_bytes(false, 0, bytes, length);
    ck_assert_mem_eq(bytes, memory, length);
    test_end();
}

TEST_EACH(operations_end_with_their_channel, NUM_WAYS)
{
    enum { LENGTH = 4 << 20 };
    uint8_t           *bytes  = test_alloc(LENGTH);
    ucxpool_place_t    place  = {0, LENGTH};
    ucxpool_places_t   places = ucxpool_places(&place, 1);
    ucxpool_data_t     data   = ucxpool_data_buffer(bytes, LENGTH);
    ucxpool_request_t *requests[8];
    int                num_ended = 0;

    open_window(_i, BOTH);
    pair_fill(bytes, LENGTH);
    for (int i = 0; i < 8; i++) {
        assert_ok(post(i % 2 != 0, &places, &data, NULL, &requests[i]));
    }
    pair_progress(&pair);
    ucxpool_channel_abort(pair.to_a);
    for (int i = 0; i < 8; i++) {
        num_ended += pair_finish(&pair, requests[i]) != UCXPOOL_OK;
    }
    ck_assert_int_ge(num_ended, 4);
    pair_until(&pair, asked().status < UCXPOOL_OK);
    ck_assert_int_lt(post(false, &places, &data, NULL, &requests[0]),
                     UCXPOOL_OK);
    pair_until(&pair, pair_window_attr(window).num_peers == 0);
    assert_ok(ucxpool_window_revoke(window, 0));
    ucxpool_remote_window_release(remote);
    ucxpool_window_destroy(window);
    pair_cleanup(&pair);
    free_memory();
}

/* Their requests have been released, so each can be reused at once. */
TEST_EACH(queued_operations_end_with_their_channel, NUM_WAYS)
{
    static uint8_t   bytes[1000];
    ucxpool_place_t  place  = {0, sizeof(bytes)};
    ucxpool_places_t places = ucxpool_places(&place, 1);
    ucxpool_data_t   data   = ucxpool_data_buffer(bytes, sizeof(bytes));

    open_window(_i, BOTH);
    for (int i = 0; i < 100; i++) {
        assert_ok(post(i % 3 != 0, &places, &data, NULL, NULL));
    }
    ucxpool_channel_abort(pair.to_b);
    assert_error(asked().status, CANCELED);
    pair_until(&pair, pair_window_attr(window).num_peers == 0);
    ucxpool_window_destroy(window);
    end_destroyed();
}

TEST_EACH(pools_are_destroyed_with_pending_operations, NUM_WAYS)
{
    enum { LENGTH = 4 << 20 };
    uint8_t         *bytes  = test_alloc(LENGTH);
    ucxpool_place_t  place  = {0, LENGTH};
    ucxpool_places_t places = ucxpool_places(&place, 1);
    ucxpool_data_t   data   = ucxpool_data_buffer(bytes, LENGTH);

    open_window(_i, BOTH);
    pair_fill(bytes, LENGTH);
    for (int i = 0; i < 4; i++) {
        assert_ok(post(i % 2 != 0, &places, &data, NULL, NULL));
    }
    pair_progress(&pair);
    pair_cleanup(&pair);
    free_memory();
}

TEST(unmapped_window_memory_is_an_error)
{
    uint8_t            bytes[100];
    ucxpool_request_t *request;

    begin(PROCESS_WAY, BOTH);
    ck_assert_int_eq(asked().way, pair_has_pidfd() ? UCXPOOL_WAY_PROCESS
                                                   : UCXPOOL_WAY_MESSAGES);
    if (asked().way == UCXPOOL_WAY_PROCESS) {
        remote->address = 16; /* never mapped */
        request         = pair_access(remote, false, 0, bytes, 100);
        assert_error(pair_finish(&pair, request), IO);
    }
}
