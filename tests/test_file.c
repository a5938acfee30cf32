/* Messages made of file ranges and memory, on both wires. */
#include "files.h"
#include "pair.h"
#include "segments.h"
#include "test.h"
#include "replace.h"

#include "core/channel.h"
#include "core/proto.h"
#include "core/ring.h"
#include "core/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Each test runs once on each wire. The pools have 16 blocks of 64 KiB. */
static const char *const wires[] = {
    "WIRE=map", "WIRE=ucx", "WIRE=map CHECKSUM=crc32c FRAG_SIZE=16k",
    "WIRE=ucx CHECKSUM=crc32c FRAG_SIZE=16k INPLACE_MIN=inf"};
#define NUM_WIRES ((int)(sizeof(wires) / sizeof(wires[0])))

#define TAG        UINT64_C(0x1234)
#define ALL_BITS   UINT64_MAX
#define MAX_RANGES ((size_t)10000)
#define FILE_SIZE  ((size_t)3 << 20)
#define MEMORY     ((size_t)1 << 20)
#define BLOCK      ((size_t)64 << 10)
#define LONG       ((size_t)400000) /* many fragments */

static pair_t          pair;
static file_t          file;
static uint8_t         memory[MEMORY];
static ucxpool_range_t ranges[MAX_RANGES];

static void stop(void)
{
    pair_check_blocks(&pair);
    pair_cleanup(&pair);
    file_cleanup(&file);
}

static void start(int wire)
{
    srand(7);
    reads_reset();
    file_init(&file, FILE_SIZE);
    pair_fill(memory, sizeof(memory));
    pair_init(&pair, wires[wire], wires[wire]);
    test_at_end(stop);
}

static ucxpool_range_t of_file(size_t offset, size_t length)
{
    return ucxpool_range_file(file.fd, (int64_t)offset, length, NULL);
}

static ucxpool_request_t *post_send(size_t num)
{
    ucxpool_request_t *send;

    assert_ok(send_ranges(pair.to_b, ranges, num, TAG, NULL, &send));
    return send;
}

static ucxpool_request_t *post_recv(void *target, size_t length)
{
    return pair_recv(pair.b, pair.to_a, target, length, TAG);
}

/* The ranges arrive as one message. */
static void exchange(size_t num)
{
    size_t             length;
    uint8_t           *message = file_message(&file, ranges, num, &length);
    uint8_t           *target  = test_alloc(length + 1);
    ucxpool_request_t *recv;

    pair_poison(target, length + 1);
    recv = post_recv(target, length);
    assert_ok(pair_finish(&pair, post_send(num)));
    assert_ok(pair_finish(&pair, recv));
    ck_assert_mem_eq(target, message, length);
    ck_assert_uint_eq(target[length], 0xfe);
    free(message);
}

TEST_SETTINGS(.timeout = 60);

TEST_EACH(files_and_memory_mix, NUM_WIRES)
{
    start(_i);
    for (size_t length = 1; length < 900000; length = length * 3 + 1) {
        exchange(file_cut(&file, memory, sizeof(memory), length, ranges,
                          MAX_RANGES));
        exchange(file_cut(&file, NULL, 0, length, ranges, MAX_RANGES));
    }
}

TEST_EACH(ten_thousand_short_ranges_are_one_message, NUM_WIRES)
{
    start(_i);
    /* In random order, with random lengths. */
    for (size_t i = 0; i < MAX_RANGES; i++) {
        ranges[i] =
            of_file((size_t)rand() % (FILE_SIZE - 100), (size_t)rand() % 100);
    }
    exchange(MAX_RANGES);
    /* All of one length, and each directly after the previous one. */
    for (size_t i = 0; i < MAX_RANGES; i++) {
        ranges[i] = of_file(i * 7919 % (FILE_SIZE - 100), 64);
    }
    exchange(MAX_RANGES);
}

TEST_EACH(ranges_that_follow_each_other_are_read_together, NUM_WIRES)
{
    start(_i);
    for (size_t i = 0; i < MAX_RANGES; i++) {
        ranges[i] = of_file(i * 50, 50);
    }
    exchange(MAX_RANGES);
    ck_assert_uint_le(reads_count(), MAX_RANGES / 100);
    ck_assert_uint_eq(reads_size(), MAX_RANGES * 50);
    reads_reset();
    /* Without padding between them, one read fills a whole fragment. */
    for (size_t i = 0; i < MAX_RANGES; i++) {
        ranges[i] = of_file(i * 64, 64);
    }
    exchange(MAX_RANGES);
    ck_assert_uint_le(reads_count(), MAX_RANGES * 64 / 16384 + 1);
}

TEST_EACH(a_range_may_be_longer_than_all_blocks, NUM_WIRES)
{
    start(_i);
    ranges[0] = of_file(3, FILE_SIZE - 3);
    exchange(1);
    ranges[1] = of_file(0, FILE_SIZE);
    ranges[2] = ucxpool_range_memory(memory, sizeof(memory));
    exchange(3);
}

TEST_EACH(empty_ranges_are_empty_segments, NUM_WIRES)
{
    ucxpool_message_t     *message = NULL;
    ucxpool_message_attr_t attr;
    ucxpool_request_t     *recv, *send;
    size_t                 lengths[4];

    start(_i);
    exchange(0);
    ranges[0] = ucxpool_range_file(-5, -5, 0, NULL);
    exchange(1);
    ranges[1] = ucxpool_range_memory(NULL, 0);
    ranges[2] = of_file(FILE_SIZE, 0);
    exchange(3);
    ranges[1] = of_file(10, 77);
    exchange(3);
    send    = post_send(3);
    message = pair_probe(&pair, TAG);
    ucxpool_message_query(message, &attr, sizeof(attr));
    ck_assert_uint_eq(attr.num_segments, 3);
    ck_assert_uint_eq(ucxpool_message_lengths(message, 0, 4, lengths), 3);
    ck_assert_uint_eq(lengths[0], 0);
    ck_assert_uint_eq(lengths[1], 77);
    assert_ok(message_recv_segments(message, &(ucxpool_segment_t){memory, 77},
                                    1, NULL, &recv));
    pair_finish_both(&pair, send, recv);
    ck_assert_mem_eq(memory, file.bytes + 10, 77);
}

TEST_EACH(a_short_message_is_read_when_it_is_posted, NUM_WIRES)
{
    uint8_t            target[3000];
    ucxpool_request_t *send;

    start(_i);
    ranges[0] = of_file(1, 1000);
    ranges[1] = ucxpool_range_memory(memory, 1000);
    ranges[2] = of_file(1234, 1000);
    send      = post_send(3);
    assert_ok(ucxpool_request_test(send));
    ck_assert_int_eq(ftruncate(file.fd, 0), 0);
    assert_ok(pair_finish(&pair, send));
    assert_ok(pair_finish(&pair, post_recv(target, 3000)));
    ck_assert_mem_eq(target, file.bytes + 1, 1000);
    ck_assert_mem_eq(target + 1000, memory, 1000);
    ck_assert_mem_eq(target + 2000, file.bytes + 1234, 1000);
}

TEST_EACH(memory_among_the_ranges_is_sent_in_place, NUM_WIRES)
{
    uint8_t     *comm;
    core_stats_t stats;

    start(_i);
    assert_ok(ucxpool_comm_alloc(pair.a, 2 * BLOCK, (void **)&comm));
    pair_fill(comm, 2 * BLOCK);
    ranges[0] = of_file(5, 70001);
    ranges[1] = ucxpool_range_memory(comm, 2 * BLOCK);
    ranges[2] = of_file(9, 70001);
    exchange(3);
    core_stats_get(pair.a, &stats);
    if (strstr(wires[_i], "INPLACE_MIN=inf") == NULL) {
        ck_assert_uint_eq(stats.counts.copies_avoided_bytes, 2 * BLOCK);
    }
    ucxpool_comm_free(pair.a, comm);
}

/* ucxpool_wait() must not sleep while a file has to be read. */
TEST_EACH(pool_sends_a_file_to_itself_during_wait, NUM_WIRES)
{
    uint8_t           *target = test_alloc(FILE_SIZE);
    ucxpool_request_t *send, *recv;

    srand(7);
    reads_reset();
    file_init(&file, FILE_SIZE);
    pair.a    = pair_pool(wires[_i]);
    pair.b    = pair.a;
    pair.to_a = pair_meet(pair.a, pair.a);
    pair.to_b = pair_meet(pair.a, pair.a);
    pair_until(&pair, pair_is_open(pair.to_a) && pair_is_open(pair.to_b));
    ranges[0] = of_file(0, FILE_SIZE);
    recv      = post_recv(target, FILE_SIZE);
    send      = post_send(1);
    assert_ok(ucxpool_request_wait(send, UCXPOOL_FOREVER));
    pair_finish_both(&pair, send, recv);
    ck_assert_mem_eq(target, file.bytes, FILE_SIZE);
    assert_ok(ucxpool_check(pair.a));
    ucxpool_destroy(pair.a);
    file_cleanup(&file);
}

/* --- fairness ------------------------------------------------------------ */

/* Many messages of one range each; each round of progress must read little. */
static void check_rounds(size_t num, size_t length)
{
    ucxpool_request_t *sends[8], *recvs[8];
    uint8_t           *target = test_alloc(num * length);
    uint64_t           until  = pair_deadline();
    size_t             before;

    reads_reset();
    ranges[0] = of_file(0, length);
    for (size_t i = 0; i < num; i++) {
        recvs[i] = post_recv(target + i * length, length);
        sends[i] = post_send(1);
    }
    while (reads_size() < num * length) {
        before = reads_size();
        ucxpool_progress(pair.a);
        ck_assert_uint_le(reads_size() - before, BLOCK);
        ucxpool_progress(pair.b);
        ck_assert(!pair_is_late(until));
    }
    for (size_t i = 0; i < num; i++) {
        pair_finish_both(&pair, sends[i], recvs[i]);
        ck_assert_mem_eq(target + i * length, file.bytes, length);
    }
}

TEST_EACH(one_round_of_progress_reads_at_most_one_block, NUM_WIRES)
{
    start(_i);
    check_rounds(6, LONG);
    check_rounds(8, BLOCK - 16);
}

/* With 16 fragments in a block, each of the two sends fits all its
 * fragments. */
TEST_EACH(sends_from_files_take_turns, NUM_WIRES)
{
    char               settings[128];
    file_t             other;
    ucxpool_request_t *sends[2], *recvs[2];
    uint8_t           *target      = test_alloc(2 * BLOCK);
    unsigned           num_repeats = 0;

    snprintf(settings, sizeof(settings), "%s FRAG_SIZE=4k DEPTH=64", wires[_i]);
    srand(7);
    reads_reset();
    file_init(&file, BLOCK);
    file_init(&other, BLOCK);
    pair_init(&pair, settings, settings);
    ranges[0] = of_file(0, BLOCK);
    ranges[1] = ucxpool_range_file(other.fd, 0, BLOCK, NULL);
    for (size_t i = 0; i < 2; i++) {
        recvs[i] = post_recv(target + i * BLOCK, BLOCK);
        assert_ok(send_ranges(pair.to_b, &ranges[i], 1, TAG, NULL, &sends[i]));
    }
    for (size_t i = 0; i < 2; i++) {
        pair_finish_both(&pair, sends[i], recvs[i]);
    }
    ck_assert_mem_eq(target, file.bytes, BLOCK);
    ck_assert_mem_eq(target + BLOCK, other.bytes, BLOCK);
    ck_assert_uint_eq(reads_count(), 32);
    for (unsigned i = 1; i < 32; i++) {
        num_repeats += (reads_fd(i) == reads_fd(i - 1)) ? 1 : 0;
    }
    /* One may begin some rounds before the other, and the other then ends
     * later. */
    ck_assert_uint_le(num_repeats, 12);
    file_cleanup(&other);
    stop();
}

/* A ring that accepts nothing, though the peer reads it; NULL: none. */
static core_ring_t *full_ring;

REPLACE(bool, core_ring_reserve, core_ring_t *ring, size_t fixed_size,
        size_t data_size, void **fixed_p, void **data_p)
{
    return (ring != full_ring) &&
           __real_core_ring_reserve(ring, fixed_size, data_size, fixed_p,
                                    data_p);
}

TEST(send_with_a_full_ring_delays_no_other_send)
{
    uint8_t           *target = test_alloc(2 * LONG);
    ucxpool_channel_t *to_a, *to_b;
    ucxpool_request_t *sends[2], *recvs[2];

    start(0);
    to_b = pair_meet(pair.a, pair.b);
    to_a = pair_meet(pair.b, pair.a);
    pair_until(&pair, pair_is_open(to_a) && pair_is_open(to_b));
    ranges[0] = of_file(0, LONG);
    recvs[0]  = post_recv(target, LONG);
    sends[0]  = post_send(1);
    pair_until(&pair, reads_count() >= 1);
    full_ring = &pair.to_b->ring;
    recvs[1]  = pair_recv(pair.b, to_a, target + LONG, LONG, TAG);
    assert_ok(send_ranges(to_b, ranges, 1, TAG, NULL, &sends[1]));
    pair_finish_both(&pair, sends[1], recvs[1]);
    full_ring = NULL;
    pair_finish_both(&pair, sends[0], recvs[0]);
    ck_assert_mem_eq(target, file.bytes, LONG);
    ck_assert_mem_eq(target + LONG, file.bytes, LONG);
    test_end();
}

/* --- failing reads ------------------------------------------------------- */

TEST_EACH(short_and_interrupted_reads_are_continued, NUM_WIRES)
{
    start(_i);
    reads_disturb(1000);
    ranges[0] = of_file(77, 200000);
    exchange(1);
    ck_assert_uint_gt(reads_count(), 400);
    /* In the middle of ranges that are read with one call. */
    for (size_t i = 0; i < 3000; i++) {
        ranges[i] = of_file(i * 50, 50);
    }
    reads_disturb(37);
    exchange(3000);
    reads_disturb(50);
    exchange(3000);
}

/* The receive was canceled, and reports the error of the send. */
static void check_detail_names(ucxpool_request_t *recv, const char *detail)
{
    static const char      begin[] = "the sender ended the message: ";
    const size_t           length  = sizeof(begin) - 1;
    ucxpool_request_attr_t attr;

    pair_until(&pair, pair_ended(recv));
    ucxpool_request_query(recv, &attr, sizeof(attr));
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_CANCELED);
    ck_assert_msg(
        (strncmp(attr.detail, begin, length) == 0) &&
            (strncmp(attr.detail + length, detail, PROTO_TEXT_MAX) == 0),
        "\"%s\" does not tell \"%s\"", attr.detail, detail);
    ucxpool_request_release(recv);
}

/* The send fails with the file's error, the receive is canceled with the same
 * detail, and both pools are as before. */
static void check_fails(size_t num, size_t length, const char *const *words)
{
    uint8_t               *target = test_alloc(length);
    ucxpool_request_t     *send, *recv;
    ucxpool_request_attr_t attr;

    recv = post_recv(target, length);
    send = post_send(num);
    pair_until(&pair, pair_ended(send));
    ucxpool_request_query(send, &attr, sizeof(attr));
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_IO);
    for (; *words != NULL; words++) {
        assert_has(attr.detail, *words);
    }
    check_detail_names(recv, attr.detail);
    ucxpool_request_release(send);
    pair_check_blocks(&pair);
    reads_reset();
    pair_exchange(&pair, 100000);
}

static void truncate_file(void)
{
    ck_assert_int_eq(ftruncate(file.fd, LONG / 2), 0);
}

TEST_EACH(truncated_file_fails_its_send, NUM_WIRES)
{
    const char *words[] = {"/tmp/" FILE_NAME, "no data at offset 200000", NULL};

    start(_i);
    ranges[0] = of_file(0, LONG);
    reads_before(3, truncate_file);
    check_fails(1, LONG, words);
}

TEST_EACH(any_failed_read_fails_its_send, NUM_WIRES)
{
    const char *words[] = {"cannot read the file", "Input/output error",
                           " at offset ", NULL};
    size_t      length, num;
    unsigned    num_reads;

    start(_i);
    num = file_cut(&file, memory, sizeof(memory), LONG, ranges, MAX_RANGES);
    free(file_message(&file, ranges, num, &length));
    exchange(num);
    num_reads = reads_count();
    ck_assert_uint_gt(num_reads, 40);
    for (unsigned n = 1; n <= num_reads; n += 1 + n / 10) {
        reads_fail(n, EIO);
        check_fails(num, length, words);
    }
    reads_fail(num_reads + 1, EIO);
    exchange(num);
}

/* The receiver finds a fragment that it must not read before it gets the
 * reason. */
TEST_EACH(slow_receiver_gets_the_reason, NUM_WIRES)
{
    uint8_t               *target = test_alloc(LONG);
    ucxpool_request_t     *send, *recv;
    ucxpool_request_attr_t attr;
    uint64_t               until = pair_deadline();

    start(_i);
    ranges[0] = of_file(0, LONG);
    reads_fail(3, EIO);
    recv = post_recv(target, LONG);
    send = post_send(1);
    pair_until(&pair, reads_count() >= 1);
    while (!pair_ended(send)) {
        ucxpool_progress(pair.a);
        ck_assert(!pair_is_late(until));
    }
    ck_assert_uint_eq(reads_count(), 3);
    ucxpool_request_query(send, &attr, sizeof(attr));
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_IO);
    check_detail_names(recv, attr.detail);
    ucxpool_request_release(send);
    test_end();
}

static void close_early(void)
{
    close(ranges[0].fd);
}

TEST_EACH(descriptor_closed_too_early_fails_its_send, NUM_WIRES)
{
    const char *words[] = {"descriptor ", "Bad file descriptor", NULL};

    start(_i);
    ranges[0] =
        ucxpool_range_file(fcntl(file.fd, F_DUPFD_CLOEXEC, 0), 0, LONG, NULL);
    reads_before(1, close_early);
    check_fails(1, LONG, words);
}

/* Both before and after the receive is posted. */
TEST_EACH(unreadable_short_message_is_not_announced, NUM_WIRES)
{
    ucxpool_request_t *send, *recv;
    uint8_t            target[10];

    start(_i);
    recv      = post_recv(target, 10);
    ranges[0] = of_file(FILE_SIZE - 5, 10);
    send      = post_send(1);
    assert_has(pair_request_attr(send).detail, "is too short");
    assert_error(pair_end_of(send), IO);
    ucxpool_request_release(send);
    pair_exchange(&pair, 100);
    ck_assert(!pair_ended(recv));
    ranges[0] = of_file(FILE_SIZE - 10, 10);
    assert_ok(pair_finish(&pair, post_send(1)));
    assert_ok(pair_finish(&pair, recv));
    ck_assert_mem_eq(target, file.bytes + FILE_SIZE - 10, 10);
}

TEST_EACH(error_has_the_end_of_a_long_name, NUM_WIRES)
{
    const char            *end = "/data/shuffle_3_141_0.data";
    char                   name[200];
    ucxpool_request_t     *send;
    ucxpool_request_attr_t attr;

    start(_i);
    memset(name, 'x', sizeof(name));
    snprintf(name + 100, 100, "%s", end);
    name[99]  = '\n';
    ranges[0] = ucxpool_range_file(file.fd, FILE_SIZE, 10, name);
    send      = post_send(1);
    ucxpool_request_query(send, &attr, sizeof(attr));
    ck_assert_ptr_eq(strstr(attr.detail, "...xxx"), attr.detail);
    assert_has(attr.detail, "xx?/data/shuffle_3_141_0.data");
    assert_has(attr.detail, "were expected");
    ucxpool_request_release(send);
}

/* --- requests that end early --------------------------------------------- */

static bool is_reading(void)
{
    return reads_count() >= 2;
}

TEST_EACH(send_can_be_canceled_while_it_reads, NUM_WIRES)
{
    uint8_t           *target = test_alloc(LONG);
    ucxpool_request_t *canceled, *recv, *next;

    start(_i);
    ranges[0] = of_file(0, LONG);
    recv      = post_recv(target, LONG);
    canceled  = post_send(1);
    next      = post_send(1);
    pair_until(&pair, is_reading());
    ucxpool_request_cancel(canceled);
    assert_error(pair_finish(&pair, canceled), CANCELED);
    assert_error(pair_finish(&pair, recv), CANCELED);
    recv = post_recv(target, LONG);
    pair_finish_both(&pair, next, recv);
    ck_assert_mem_eq(target, file.bytes, LONG);
    test_end();
}

TEST_EACH(send_without_a_receive_expires_without_reads, NUM_WIRES)
{
    ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT,
        .timeout_ns = 20000000,
    };
    ucxpool_request_t *send;

    start(_i);
    ranges[0] = of_file(0, LONG);
    assert_ok(send_ranges(pair.to_b, ranges, 1, TAG, &params, &send));
    assert_error(pair_finish(&pair, send), TIMED_OUT);
    ck_assert_uint_eq(reads_count(), 0);
}

TEST_EACH(ending_a_channel_ends_only_its_own_sends, NUM_WIRES)
{
    uint8_t           *target = test_alloc(LONG);
    ucxpool_channel_t *to_a   = NULL;
    ucxpool_channel_t *to_b   = NULL;
    ucxpool_request_t *send, *recv, *ended;

    start(_i);
    to_b = pair_meet(pair.a, pair.b);
    to_a = pair_meet(pair.b, pair.a);
    pair_until(&pair, pair_is_open(to_a) && pair_is_open(to_b));
    ranges[0] = of_file(0, LONG);
    recv      = post_recv(target, LONG);
    ended     = post_send(1);
    pair_until(&pair, is_reading());
    assert_ok(send_ranges(to_b, ranges, 1, TAG, NULL, &send));
    ucxpool_channel_abort(pair.to_a);
    ck_assert_int_ne(pair_finish(&pair, ended), UCXPOOL_OK);
    ck_assert_int_ne(pair_finish(&pair, recv), UCXPOOL_OK);
    recv = pair_recv(pair.b, to_a, target, LONG, TAG);
    pair_finish_both(&pair, send, recv);
    ck_assert_mem_eq(target, file.bytes, LONG);
    test_end();
}

/* --- rejected parameters ------------------------------------------------- */

static void check_refused(ucxpool_range_t range, ucxpool_status_t status,
                          const char *words)
{
    ucxpool_request_t *send = NULL;

    ranges[0] = of_file(0, 10);
    ranges[1] = range;
    ck_assert_int_eq(send_ranges(pair.to_b, ranges, 2, TAG, NULL, &send),
                     status);
    assert_detail(words);
    assert_detail("range 1");
    ck_assert_ptr_null(send);
}

static void check_descriptor(int fd, ucxpool_status_t status, const char *words)
{
    ck_assert_int_ge(fd, 0);
    check_refused(ucxpool_range_file(fd, 0, 10, NULL), status, words);
    close(fd);
}

TEST(files_without_offsets_are_rejected)
{
    int             fds[2];
    ucxpool_range_t other = {.kind = (ucxpool_range_kind_t)7};

    start(0);
    ck_assert_int_eq(pipe(fds), 0);
    check_descriptor(fds[0], UCXPOOL_ERR_UNSUPPORTED, "is a pipe");
    close(fds[1]);
    check_descriptor(socket(AF_UNIX, SOCK_STREAM, 0), UCXPOOL_ERR_UNSUPPORTED,
                     "is a socket");
    check_descriptor(open("/tmp", O_RDONLY), UCXPOOL_ERR_UNSUPPORTED,
                     "is a directory");
    check_descriptor(open("/dev/zero", O_RDONLY), UCXPOOL_ERR_UNSUPPORTED,
                     "is a character device");
    check_descriptor(eventfd(0, 0), UCXPOOL_ERR_UNSUPPORTED,
                     "of an unsupported type");
    check_refused(other, UCXPOOL_ERR_UNSUPPORTED, "unknown kind 7");
}

TEST(invalid_ranges_are_rejected)
{
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 100);

    start(0);
    close(fd);
    check_refused(ucxpool_range_file(fd, 0, 10, NULL),
                  UCXPOOL_ERR_INVALID_PARAM, "Bad file descriptor");
    check_refused(ucxpool_range_file(-1, 0, 10, NULL),
                  UCXPOOL_ERR_INVALID_PARAM, "invalid descriptor -1");
    check_refused(ucxpool_range_file(file.fd, -1, 10, NULL),
                  UCXPOOL_ERR_INVALID_PARAM, "at offset -1");
    check_refused(ucxpool_range_file(file.fd, INT64_MAX, 1, NULL),
                  UCXPOOL_ERR_INVALID_PARAM, "check its offset");
    check_refused(ucxpool_range_file(file.fd, 1, SIZE_MAX, NULL),
                  UCXPOOL_ERR_INVALID_PARAM, "check its offset");
    check_refused(ucxpool_range_file(file.fd, 0, INT64_MAX, NULL),
                  UCXPOOL_ERR_INVALID_PARAM, "makes the message longer");
    check_refused(ucxpool_range_memory(NULL, 1), UCXPOOL_ERR_INVALID_PARAM,
                  "no address");
}

TEST(reserved_fields_of_ranges_must_be_0)
{
    start(0);
    for (int i = 0; i < 2; i++) {
        ucxpool_range_t range = ucxpool_range_memory(NULL, 0);

        range.reserved[i] = 1;
        check_refused(range, UCXPOOL_ERR_UNSUPPORTED,
                      "reserved field that is not 0");
    }
}

TEST(missing_or_too_long_list_is_rejected)
{
    start(0);
    assert_error_detail(send_ranges(pair.to_b, NULL, 1, TAG, NULL, NULL),
                        INVALID_PARAM, "ranges is NULL, but its count is 1");
    pair_cleanup(&pair);
    pair_init(&pair, "MAX_SEGMENTS=2", "");
    for (size_t i = 0; i < 3; i++) {
        ranges[i] = of_file(0, i + 1);
    }
    assert_error(send_ranges(pair.to_b, ranges, 3, TAG, NULL, NULL), LIMIT);
    exchange(2);
}

TEST(receive_into_ranges_is_rejected)
{
    ucxpool_data_t     data = ucxpool_source_ranges(ranges, 1);
    ucxpool_message_t *message;

    start(0);
    for (data.is_source = 0; data.is_source < 2; data.is_source++) {
        ranges[0] = of_file(0, 10);
        assert_error(
            ucxpool_recv(pair.b, NULL, &data, TAG, ALL_BITS, NULL, NULL),
            INVALID_PARAM);
        assert_ok(pair_finish(&pair, post_send(1)));
        message = pair_probe(&pair, TAG);
        assert_error_detail(ucxpool_message_recv(message, &data, NULL, NULL),
                            INVALID_PARAM, "cannot receive into");
        ucxpool_message_refuse(message, NULL);
    }
}
