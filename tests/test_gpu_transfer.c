/*
 * Transfers between pools on a GPU, over both wires: device memory split in any
 * way, host memory, and both in one message.
 */
#include "cuda_fixture.h"
#include "gpu.h"
#include "pair.h"
#include "segments.h"
#include "slow.h"
#include "test.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TAG      UINT64_C(42)
#define ALL_BITS UINT64_MAX

/* Pools of one process cannot open each other's IPC handles, so the map wire
 * needs virtual memory here. Valgrind supports none (gpu_connect()), and the
 * last one would equal the first. */
static const char *const kinds[] = {
    "CUDA_BACKING=vmm WIRE=ucx",
    "CUDA_BACKING=alloc WIRE=ucx",
    "CUDA_BACKING=host WIRE=ucx",
    "CUDA_BACKING=vmm WIRE=map",
    "CUDA_BACKING=vmm WIRE=map MAP_WAY=host",
};
#define NUM_KINDS (RUNNING_ON_VALGRIND ? 3 : 5)

static pair_t pair;

static void start(void)
{
    gpu_start("");
}

static void exchange(const ucxpool_segment_t *source, size_t num_sources,
                     const ucxpool_segment_t *target, size_t num_targets)
{
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    assert_ok(recv_segments(pair.b, pair.to_a, target, num_targets, TAG,
                            ALL_BITS, NULL, &recv));
    assert_ok(send_segments(pair.to_b, source, num_sources, TAG, NULL, &send));
    pair_finish_both(&pair, send, recv);
}

static void end_pair(void)
{
    pair_check_blocks(&pair);
    pair_cleanup(&pair);
}

static void connect_pair(const char *settings)
{
    gpu_connect(&pair, settings, settings);
    test_at_end(end_pair);
}

/* Host and GPU memory, source and target, all of the same size. */
typedef struct twins {
    size_t   size;
    uint8_t *bytes, *result;  /* host: sent bytes, received bytes */
    uint8_t *source, *target; /* device */
} twins_t;

static void twins_init(twins_t *twins, size_t size)
{
    twins->size   = size;
    twins->bytes  = malloc(size + 1);
    twins->result = malloc(size + 1);
    twins->source = gpu_alloc(size + 1);
    twins->target = gpu_alloc(size + 1);
    pair_fill(twins->bytes, size);
    pair_poison(twins->result, size + 1);
    cuda_write(gpu->context, twins->source, twins->bytes, size);
    cuda_write(gpu->context, twins->target, twins->result, size + 1);
}

static void twins_read(twins_t *twins)
{
    cuda_read(gpu->context, twins->result, twins->target, twins->size + 1);
}

static void twins_cleanup(twins_t *twins)
{
    gpu_free(twins->source);
    gpu_free(twins->target);
    free(twins->bytes);
    free(twins->result);
}

TEST_SETTINGS(.setup = start, .teardown = gpu_stop, .timeout = 120,
              .only_if = cuda_is_present);

TEST_EACH(one_buffer_of_any_size_arrives, NUM_KINDS)
{
    static const size_t sizes[] = {0,       1,       63,     16384,
                                   16385,   65535,   65536,  2097152,
                                   2097153, 5000000, 9000000};
    twins_t             twins;

    connect_pair(kinds[_i]);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        twins_init(&twins, sizes[i]);
        exchange(&(ucxpool_segment_t){twins.source, sizes[i]}, 1,
                 &(ucxpool_segment_t){twins.target, sizes[i]}, 1);
        twins_read(&twins);
        ck_assert_mem_eq(twins.bytes, twins.result, sizes[i]);
        ck_assert_uint_eq(twins.result[sizes[i]], 0xfe);
        twins_cleanup(&twins);
    }
}

TEST_EACH(any_split_can_be_received_as_any_other, NUM_KINDS)
{
    static ucxpool_segment_t from[2000], to[2000];
    twins_t                  twins;
    size_t                   num_from, num_to;

    srand(7);
    connect_pair(kinds[_i]);
    for (unsigned round = 0; round < 8; round++) {
        twins_init(&twins, 1 + (size_t)rand() % 5000000);
        num_from = cut_segments(twins.source, twins.size, 9000, 0, from, 2000);
        num_to   = cut_segments(twins.target, twins.size, 9000, 0, to, 2000);
        exchange(from, num_from, to, num_to);
        twins_read(&twins);
        ck_assert_mem_eq(twins.bytes, twins.result, twins.size);
        twins_cleanup(&twins);
    }
}

static const ucxpool_request_params_t host_params = {
    .field_mask    = UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS,
    .segments_kind = UCXPOOL_SEGMENTS_HOST,
};

/* Nor does the pool query the driver if the memory kind is declared. */
TEST_EACH(declared_host_memory_is_not_queried, NUM_KINDS)
{
    static ucxpool_segment_t from[2000];
    static ucxpool_segment_t to[2000];
    size_t                   size   = 5000000;
    uint8_t                 *source = test_alloc(size);
    uint8_t                 *target = test_alloc(size);
    size_t                   num_from, num_to;
    ucxpool_request_t       *requests[2];

    srand(7);
    connect_pair(kinds[_i]);
    pair_fill(source, size);
    pair_poison(target, size);
    num_from = cut_segments(source, size, 9000, 0, from, 2000);
    num_to   = cut_segments(target, size, 9000, 0, to, 2000);
    if (!cuda_is_real()) {
        stand_in.fail_call(NULL, 0, 0); /* counts from here on */
    }
    assert_ok(recv_segments(pair.b, pair.to_a, to, num_to, TAG, ALL_BITS,
                            &host_params, &requests[0]));
    assert_ok(send_segments(pair.to_b, from, num_from, TAG, &host_params,
                            &requests[1]));
    pair_finish_both(&pair, requests[0], requests[1]);
    ck_assert_mem_eq(target, source, size);
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.count("cuPointerGetAttributes"), 0);
    }
    test_end();
}

/* The declared kind of the pieces decides whether the library inspects them. */
static const ucxpool_request_params_t params_of_pieces[] = {
    {.field_mask = 0},
    {.field_mask    = UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS,
     .segments_kind = UCXPOOL_SEGMENTS_CUDA},
    {.field_mask    = UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS,
     .segments_kind = UCXPOOL_SEGMENTS_EVEN}};

#define EVEN     2
#define NUM_TOLD 3

/* Place pieces in memory in another order, some adjacent, some not. */
static void lay_pieces(uint8_t *memory, size_t num, size_t length,
                       void **pieces)
{
    for (size_t i = 0; i < num; i++) {
        pieces[i] = memory + ((i % 4 == 3)   ? i - 1
                              : (i % 4 == 2) ? i + 1
                                             : i) *
                                 length;
    }
}

static void start_pieces(void *const *from, size_t num_from, size_t from_length,
                         void *const *to, size_t num_to, size_t to_length,
                         int kind, ucxpool_request_t *requests[2])
{
    assert_ok(recv_pieces(pair.b, pair.to_a, to, num_to, to_length, TAG,
                          ALL_BITS, &params_of_pieces[kind], &requests[0]));
    assert_ok(send_pieces(pair.to_b, from, num_from, from_length, TAG,
                          &params_of_pieces[kind], &requests[1]));
}

#define MAX_PIECES 40000
static void  *pageable[2][MAX_PIECES];
static void **pinned; /* of the same size */
static void **from_pieces, **to_pieces;

/* The memory of the arrays: a GPU reads pinned arrays directly. */
static void arrays_init(bool is_pinned)
{
    pinned      = gpu_pinned(sizeof(pageable));
    from_pieces = is_pinned ? pinned : pageable[0];
    to_pieces   = is_pinned ? pinned + MAX_PIECES : pageable[1];
}

static void arrays_cleanup(void)
{
    gpu_pinned_free(pinned);
}

/* The same memory as segments. These arrays are pinned or not, too. */
static ucxpool_segment_t *from_segments, *to_segments;

static void segments_init(bool is_pinned)
{
    size_t size = MAX_PIECES * sizeof(ucxpool_segment_t);

    arrays_init(false);
    from_segments = is_pinned ? gpu_pinned(size) : malloc(size);
    to_segments   = is_pinned ? gpu_pinned(size) : malloc(size);
}

static void segments_cleanup(bool is_pinned)
{
    if (is_pinned) {
        gpu_pinned_free(from_segments);
        gpu_pinned_free(to_segments);
    } else {
        free(from_segments);
        free(to_segments);
    }
    arrays_cleanup();
}

static const ucxpool_segment_t *as_segments(ucxpool_segment_t *segments,
                                            void *const *pieces, size_t num,
                                            size_t length)
{
    for (size_t i = 0; i < num; i++) {
        segments[i] = (ucxpool_segment_t){pieces[i], length};
    }
    return segments;
}

static void post_segments(size_t num_from, size_t num_to, int kind,
                          ucxpool_request_t *requests[2])
{
    assert_ok(recv_segments(pair.b, pair.to_a, to_segments, num_to, TAG,
                            ALL_BITS, &params_of_pieces[kind], &requests[0]));
    assert_ok(send_segments(pair.to_b, from_segments, num_from, TAG,
                            &params_of_pieces[kind], &requests[1]));
}

static void start_segments(void *const *from, size_t num_from,
                           size_t from_length, void *const *to, size_t num_to,
                           size_t to_length, int kind,
                           ucxpool_request_t *requests[2])
{
    as_segments(from_segments, from, num_from, from_length);
    as_segments(to_segments, to, num_to, to_length);
    post_segments(num_from, num_to, kind, requests);
}

typedef void start_t(void *const *from, size_t num_from, size_t from_length,
                     void *const *to, size_t num_to, size_t to_length, int kind,
                     ucxpool_request_t *requests[2]);

/* The pieces of both sides contain the same bytes, each in its own order. */
static void exchange_by(start_t *start_both, size_t num_from,
                        size_t from_length, size_t num_to, size_t to_length,
                        int kind)
{
    size_t             size = num_from * from_length;
    ucxpool_request_t *requests[2];
    twins_t            twins;

    twins_init(&twins, size);
    lay_pieces(twins.source, num_from, from_length, from_pieces);
    lay_pieces(twins.target, num_to, to_length, to_pieces);
    start_both(from_pieces, num_from, from_length, to_pieces, num_to, to_length,
               kind, requests);
    pair_finish_both(&pair, requests[0], requests[1]);
    twins_read(&twins);
    for (size_t i = 0; i < size; i++) {
        const uint8_t *source = from_pieces[i / from_length];
        const uint8_t *target = to_pieces[i / to_length];
        size_t         a = (size_t)(source - twins.source) + i % from_length;
        size_t         b = (size_t)(target - twins.target) + i % to_length;

        if (twins.bytes[a] != twins.result[b]) {
            ck_abort_msg("byte %zu of %zu differs", i, size);
        }
    }
    ck_assert_uint_eq(twins.result[size], 0xfe);
    twins_cleanup(&twins);
}

static void exchange_pieces(size_t num_from, size_t from_length, size_t num_to,
                            size_t to_length, int kind)
{
    exchange_by(start_pieces, num_from, from_length, num_to, to_length, kind);
}

TEST_EACH(pieces_can_be_received_as_pieces, 2 * NUM_KINDS)
{
    connect_pair(kinds[_i % NUM_KINDS]);
    arrays_init(_i >= NUM_KINDS);
    for (int kind = 0; kind < 2; kind++) {
        exchange_pieces(36000, 64, 36000, 64, kind);
        exchange_pieces(36000, 100, 36000, 100, kind);
        exchange_pieces(8, 100, 8, 100, kind);
        exchange_pieces(1000, 400, 4000, 100, kind);
        exchange_pieces(4000, 100, 1000, 400, kind);
        exchange_pieces(12, 100000, 12, 100000, kind);
        exchange_pieces(1, 400000, 40000, 10, kind);
    }
    arrays_cleanup();
}

TEST_EACH(segments_of_one_length_can_be_received_as_others, 2 * NUM_KINDS)
{
    connect_pair(kinds[_i % NUM_KINDS]);
    segments_init(_i >= NUM_KINDS);
    for (int kind = 0; kind < NUM_TOLD; kind++) {
        exchange_by(start_segments, 36000, 64, 36000, 64, kind);
        exchange_by(start_segments, 36000, 100, 36000, 100, kind);
        exchange_by(start_segments, 5000, 400, 20000, 100, kind);
        exchange_by(start_segments, 20000, 100, 5000, 400, kind);
        exchange_by(start_segments, 4096, 7, 4, 7168, kind);
        exchange_by(start_segments, 1, 400000, 40000, 10, kind);
    }
    segments_cleanup(_i >= NUM_KINDS);
}

#define NUM_CLAIMED 8000u

/* A fragment has too few of the longer ones to use the caller's array, so the
 * library builds its own list. */
static const size_t claimed[] = {64, 272};
#define NUM_LENGTHS (sizeof(claimed) / sizeof(claimed[0]))

static void check_refused(ucxpool_request_t *request, const char *what,
                          size_t one)
{
    ucxpool_request_attr_t attr;
    char                   name[32];

    snprintf(name, sizeof(name), "%s %zu ", what, one);
    pair_until(&pair, pair_ended(request));
    ucxpool_request_query(request, &attr, sizeof(attr));
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_INVALID_PARAM);
    assert_has(attr.detail, name);
    ucxpool_request_release(request);
}

/* Checked by the kernel, or for the last few ones by the CPU. */
static void claim_falsely(size_t length, bool is_sender, size_t one,
                          bool is_null)
{
    ucxpool_segment_t *segments = is_sender ? from_segments : to_segments;
    ucxpool_request_t *requests[2];
    twins_t            twins;

    twins_init(&twins, NUM_CLAIMED * length);
    lay_pieces(twins.source, NUM_CLAIMED, length, from_pieces);
    lay_pieces(twins.target, NUM_CLAIMED, length, to_pieces);
    as_segments(from_segments, from_pieces, NUM_CLAIMED, length);
    as_segments(to_segments, to_pieces, NUM_CLAIMED, length);
    if (is_null) {
        segments[one].address = NULL;
    } else {
        segments[one].length = length - 4;
    }
    post_segments(NUM_CLAIMED, NUM_CLAIMED, EVEN, requests);
    check_refused(requests[is_sender], is_null ? "piece" : "segment", one);
    ck_assert_int_ne(pair_finish(&pair, requests[!is_sender]), UCXPOOL_OK);
    twins_cleanup(&twins);
}

TEST_EACH(segments_that_break_the_declaration_end_the_request, NUM_KINDS)
{
    connect_pair(kinds[_i]);
    segments_init(true);
    for (unsigned i = 0; i < 4 * NUM_LENGTHS; i++) {
        size_t length = claimed[i / 4];

        claim_falsely(length, i % 2 == 0, 1, i / 2 % 2 == 0);
        claim_falsely(length, i % 2 == 0, 5000, i / 2 % 2 == 0);
        claim_falsely(length, i % 2 == 0, NUM_CLAIMED - 1, i / 2 % 2 == 0);
    }
    exchange_by(start_segments, NUM_CLAIMED, claimed[0], NUM_CLAIMED,
                claimed[0], EVEN);
    segments_cleanup(true);
    pair_check_blocks(&pair);
}

/* No bytes need no address, whatever the caller declared. */
TEST_EACH(an_empty_message_arrives, NUM_KINDS)
{
    const ucxpool_data_t data = ucxpool_data_buffer(NULL, 0);
    ucxpool_request_t   *send;
    ucxpool_request_t   *recv;

    connect_pair(kinds[_i]);
    for (int kind = 0; kind < NUM_TOLD; kind++) {
        assert_ok(ucxpool_recv(pair.b, pair.to_a, &data, TAG, ALL_BITS,
                               &params_of_pieces[kind], &recv));
        assert_ok(ucxpool_send(pair.to_b, &data, TAG, &params_of_pieces[kind],
                               &send));
        pair_finish_both(&pair, send, recv);
    }
}

#define NUM_NEARLY  8000u
#define NEARLY_SIZE ((size_t)64)

/* One of many differs from the others. */
static void change_one(ucxpool_segment_t *segments, size_t *num, size_t one,
                       int how, void *elsewhere)
{
    switch (how) {
    case 0: /* shorter; the rest becomes the next one */
        memmove(&segments[one + 2], &segments[one + 1],
                (*num - one - 1) * sizeof(*segments));
        segments[one].length -= 11;
        segments[one + 1] = (ucxpool_segment_t){
            (char *)segments[one].address + segments[one].length, 11};
        (*num)++;
        break;
    case 1: /* empty */
        memmove(&segments[one + 1], &segments[one],
                (*num - one) * sizeof(*segments));
        segments[one] = (ucxpool_segment_t){NULL, 0};
        (*num)++;
        break;
    default: /* in other memory */
        segments[one].address = elsewhere;
        break;
    }
}

/* In another allocation: of the GPU, or of the host, pinned or not. */
static void *make_elsewhere(int how)
{
    return (how == 2)   ? gpu_alloc(NEARLY_SIZE)
           : (how == 3) ? gpu_pinned(NEARLY_SIZE)
                        : malloc(NEARLY_SIZE);
}

static void free_elsewhere(void *elsewhere, int how)
{
    if (how == 2) {
        gpu_free(elsewhere);
    } else if (how == 3) {
        gpu_pinned_free(elsewhere);
    } else {
        free(elsewhere);
    }
}

static void copy_elsewhere(void *elsewhere, uint8_t *bytes, int how,
                           bool is_write)
{
    if (how == 2) {
        if (is_write) {
            cuda_write(gpu->context, elsewhere, bytes, NEARLY_SIZE);
        } else {
            cuda_read(gpu->context, bytes, elsewhere, NEARLY_SIZE);
        }
    } else if (is_write) {
        memcpy(elsewhere, bytes, NEARLY_SIZE);
    } else {
        memcpy(bytes, elsewhere, NEARLY_SIZE);
    }
}

static void exchange_nearly_even(bool is_sender, size_t one, int how)
{
    size_t  num[2]    = {NUM_NEARLY, NUM_NEARLY};
    size_t  at        = one * NEARLY_SIZE;
    void   *elsewhere = make_elsewhere(how);
    twins_t twins;

    twins_init(&twins, NUM_NEARLY * NEARLY_SIZE);
    for (size_t i = 0; i < NUM_NEARLY; i++) {
        from_segments[i] =
            (ucxpool_segment_t){twins.source + i * NEARLY_SIZE, NEARLY_SIZE};
        to_segments[i] =
            (ucxpool_segment_t){twins.target + i * NEARLY_SIZE, NEARLY_SIZE};
    }
    copy_elsewhere(elsewhere, twins.bytes + at, how, true);
    change_one(is_sender ? from_segments : to_segments, &num[!is_sender], one,
               how, elsewhere);
    exchange(from_segments, num[0], to_segments, num[1]);
    twins_read(&twins);
    if (!is_sender && (how >= 2)) {
        copy_elsewhere(elsewhere, twins.result + at, how, false);
    }
    ck_assert_mem_eq(twins.bytes, twins.result, twins.size);
    twins_cleanup(&twins);
    free_elsewhere(elsewhere, how);
}

TEST_EACH(one_different_segment_arrives, 2 * NUM_KINDS)
{
    connect_pair(kinds[_i % NUM_KINDS]);
    segments_init(_i >= NUM_KINDS);
    for (int how = 0; how < 5; how++) {
        exchange_nearly_even(true, 0, how);
        exchange_nearly_even(true, NUM_NEARLY - 1, how);
        exchange_nearly_even(false, 3, how);
        exchange_nearly_even(false, NUM_NEARLY - 2, how);
    }
    segments_cleanup(_i >= NUM_KINDS);
}

/* One of the pieces is NULL, at the sender or at the receiver. */
static void check_null_ends(void **pieces, size_t piece, size_t num,
                            size_t from_length, size_t to_length)
{
    bool               is_send = pieces == from_pieces;
    ucxpool_status_t   ends[2];
    ucxpool_request_t *requests[2];
    twins_t            twins;

    twins_init(&twins, num * to_length);
    lay_pieces(twins.source, num * to_length / from_length, from_length,
               from_pieces);
    lay_pieces(twins.target, num, to_length, to_pieces);
    pieces[piece] = NULL;
    start_pieces(from_pieces, num * to_length / from_length, from_length,
                 to_pieces, num, to_length, 1, requests);
    ends[0] = pair_finish(&pair, requests[0]);
    ends[1] = pair_finish(&pair, requests[1]);
    ck_assert_int_eq(ends[is_send], UCXPOOL_ERR_INVALID_PARAM);
    ck_assert_int_eq(ends[!is_send],
                     is_send ? UCXPOOL_ERR_CANCELED : UCXPOOL_ERR_REFUSED);
    twins_cleanup(&twins);
}

TEST_EACH(uninspected_null_piece_ends_its_request, 2 * NUM_KINDS)
{
    connect_pair(kinds[_i % NUM_KINDS]);
    arrays_init(_i >= NUM_KINDS);
    check_null_ends(from_pieces, 0, 36000, 64, 64);
    check_null_ends(from_pieces, 35999, 36000, 64, 64);
    check_null_ends(from_pieces, 1, 4, 64, 64);
    check_null_ends(from_pieces, 3, 4, 40000, 40000);
    check_null_ends(to_pieces, 17000, 36000, 64, 64);
    check_null_ends(to_pieces, 17000, 36000, 128, 64);
    check_null_ends(to_pieces, 2, 4, 160, 320);
    check_null_ends(to_pieces, 3, 4, 1000, 400000);
    exchange_pieces(1000, 400, 4000, 100, 1);
    exchange_pieces(36000, 64, 36000, 64, 1);
    arrays_cleanup();
}

TEST_EACH(inspected_null_piece_is_rejected_at_once, NUM_KINDS)
{
    ucxpool_request_t *request;

    connect_pair(kinds[_i]);
    arrays_init(false);
    from_pieces[0] = &pair;
    from_pieces[1] = NULL;
    assert_error_detail(
        send_pieces(pair.to_b, from_pieces, 2, 16, TAG, NULL, &request),
        INVALID_PARAM, "piece 1 ");
    assert_error(recv_pieces(pair.b, NULL, from_pieces, 2, 16, TAG, ALL_BITS,
                             NULL, &request),
                 INVALID_PARAM);
    arrays_cleanup();
}
