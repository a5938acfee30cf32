/* Histograms of latencies: each operation counts once, in the histogram of its
 * wire and way. */
#include "pair.h"
#include "test.h"

#include "core/pool.h"

#include <stdio.h>
#include <string.h>

#define TAG      UINT64_C(5)
#define ALL_BITS UINT64_MAX

static const char *const wires[] = {"WIRE=map", "WIRE=ucx"};
static const char *const names[] = {"map", "ucx"};
#define NUM_WIRES 2

static uint8_t source[200000];
static uint8_t target[200000];

static pair_t pair;

static ucxpool_histogram_t get(ucxpool_t *pool, const char *name)
{
    ucxpool_histogram_t histogram;
    uint64_t            sum = 0;

    assert_ok(ucxpool_histogram_get(pool, name, &histogram, sizeof(histogram)));
    for (int i = 0; i < UCXPOOL_HISTOGRAM_BUCKETS; i++) {
        sum += histogram.buckets[i];
    }
    ck_assert_uint_eq(histogram.count, sum);
    return histogram;
}

/* The operations of this kind were over this wire, in this way, and all have a
 * latency. */
static void check(ucxpool_t *pool, const char *operation, const char *wire,
                  const char *way, uint64_t num)
{
    ucxpool_histogram_attr_t attr;
    ucxpool_histogram_t      histogram;

    for (size_t i = 0; i < ucxpool_histogram_count(); i++) {
        assert_ok(ucxpool_histogram_query(i, &attr, sizeof(attr)));
        if (strcmp(attr.operation, operation) != 0) {
            continue;
        }
        histogram = get(pool, attr.name);
        if ((strcmp(attr.wire, wire) == 0) && (strcmp(attr.way, way) == 0)) {
            ck_assert_uint_eq(histogram.count, num);
            ck_assert_uint_eq(histogram.buckets[0], 0);
            ck_assert_uint_gt(histogram.sum, 0);
        } else {
            ck_assert_msg(histogram.count == 0, "%s", attr.name);
        }
    }
}

/* The way of a long message over `ucx` is up to UCX's transport. */
static uint64_t num_received(ucxpool_t *pool)
{
    ucxpool_histogram_attr_t attr;
    uint64_t                 num = 0;

    for (size_t i = 0; i < ucxpool_histogram_count(); i++) {
        assert_ok(ucxpool_histogram_query(i, &attr, sizeof(attr)));
        if (strcmp(attr.operation, "recv") == 0) {
            num += get(pool, attr.name).count;
        }
    }
    return num;
}

static void pass(const void *from, size_t length)
{
    ucxpool_request_t *recv;

    recv = pair_recv(pair.b, pair.to_a, target, length, TAG);
    assert_ok(ucxpool_send_buffer(pair.to_b, from, length, TAG, NULL, NULL));
    assert_ok(pair_finish(&pair, recv));
}

TEST_SETTINGS(.timeout = 60);

TEST_EACH(each_short_message_counts_once, NUM_WIRES)
{
    pair_begin(&pair, wires[_i], wires[_i]);
    for (int i = 0; i < 1000; i++) {
        pass(source, 8);
    }
    check(pair.a, "send", names[_i], "eager", 1000);
    check(pair.b, "recv", names[_i], "eager", 1000);
    ck_assert_uint_eq(get(pair.b, "send_map_eager").count, 0);
}

#define NUM_OPS     64
#define NUM_BATCHES 20

/* After the first samples, sends of a batch share entries of the ring. */
TEST_EACH(each_send_of_a_batch_counts_once, NUM_WIRES)
{
    ucxpool_request_t *recvs[NUM_OPS];
    ucxpool_op_t       ops[NUM_OPS];
    core_counters_t    counts;
    size_t             num;

    pair_begin(&pair, wires[_i], wires[_i]);
    for (int i = 0; i < NUM_OPS; i++) {
        ops[i] = (ucxpool_op_t){.kind    = UCXPOOL_OP_SEND,
                                .channel = pair.to_b,
                                .data    = ucxpool_source_buffer(source, 8),
                                .tag     = TAG};
    }
    for (int batch = 0; batch < NUM_BATCHES; batch++) {
        for (int i = 0; i < NUM_OPS; i++) {
            recvs[i] = pair_recv(pair.b, NULL, target, 8, TAG);
        }
        assert_ok(ucxpool_post(pair.a, ops, sizeof(ops[0]), NUM_OPS, &num));
        for (int i = 0; i < NUM_OPS; i++) {
            assert_ok(pair_finish(&pair, recvs[i]));
        }
    }
    check(pair.a, "send", names[_i], "eager", NUM_BATCHES * NUM_OPS);
    check(pair.b, "recv", names[_i], "eager", NUM_BATCHES * NUM_OPS);
    counts = pair_stats(pair.a).counts;
    ck_assert_uint_eq(counts.messages_sent, NUM_BATCHES * NUM_OPS);
    ck_assert_uint_eq(counts.sent[CORE_MODE_EAGER].fragments,
                      NUM_BATCHES * NUM_OPS);
}

TEST_EACH(long_messages_count_by_their_way, NUM_WIRES)
{
    void *from;
    char  name[64];

    pair_begin(&pair, wires[_i], wires[_i]);
    snprintf(name, sizeof(name), "send_%s_packed", names[_i]);
    for (int i = 0; i < 3; i++) {
        pass(source, sizeof(source));
    }
    pair_until(&pair, get(pair.a, name).count == 3);
    check(pair.a, "send", names[_i], "packed", 3);
    ck_assert_uint_eq(num_received(pair.b), 3);
    assert_ok(ucxpool_comm_alloc(pair.a, 60000, &from));
    memset(from, 1, 60000);
    pass(from, 60000);
    snprintf(name, sizeof(name), "send_%s_inplace", names[_i]);
    pair_until(&pair, get(pair.a, name).count == 1);
    ck_assert_uint_eq(get(pair.a, name).count, 1);
    ucxpool_comm_free(pair.a, from);
}

TEST_EACH(failed_operations_are_not_counted, NUM_WIRES)
{
    ucxpool_histogram_attr_t attr;
    ucxpool_request_t       *recv;

    pair_begin(&pair, wires[_i], wires[_i]);
    recv = pair_recv(pair.b, NULL, target, 1, TAG);
    ucxpool_request_cancel(recv);
    assert_error(pair_finish(&pair, recv), CANCELED);
    for (size_t i = 0; i < ucxpool_histogram_count(); i++) {
        assert_ok(ucxpool_histogram_query(i, &attr, sizeof(attr)));
        ck_assert_uint_eq(get(pair.b, attr.name).count, 0);
    }
}

/* --- windows ------------------------------------------------------------ */

static const struct {
    const char   *settings;
    const char   *wire;
    const char   *way;
    ucxpool_way_t id;
} ways[] = {
    {"WIRE=map", "map", "process", UCXPOOL_WAY_PROCESS},
    {"WIRE=map WINDOW_WAY=messages", "map", "messages", UCXPOOL_WAY_MESSAGES},
    {"WIRE=ucx WINDOW_WAY=messages", "ucx", "messages", UCXPOOL_WAY_MESSAGES},
};
#define NUM_WAYS 3

static void move(ucxpool_remote_window_t *remote, bool is_write, size_t length)
{
    assert_ok(
        pair_finish(&pair, pair_access(remote, is_write, 10, target, length)));
}

static void check_channel(const ucxpool_channel_t *channel, const char *verb,
                          const char *way, const char *what, uint64_t expected)
{
    char     name[64];
    uint64_t value;

    snprintf(name, sizeof(name), "%s_%s_%s", verb, way, what);
    assert_ok(ucxpool_channel_stats_get(channel, name, &value));
    ck_assert_uint_eq(value, expected);
}

TEST_EACH(reads_and_writes_count_by_way, NUM_WAYS)
{
    static uint8_t               memory[100000];
    ucxpool_window_t            *window;
    ucxpool_remote_window_t     *remote;
    ucxpool_remote_window_attr_t attr;

    pair_begin(&pair, ways[_i].settings, ways[_i].settings);
    assert_ok(
        ucxpool_window_create(pair.b, memory, sizeof(memory), NULL, &window));
    remote = pair_import(pair.to_b, window, PAIR_READ_AND_WRITE);
    for (int i = 0; i < 3; i++) {
        move(remote, false, 1000);
    }
    move(remote, true, 80000);
    attr = pair_remote_attr(remote);
    if (attr.way == ways[_i].id) {
        check(pair.a, "read", ways[_i].wire, ways[_i].way, 3);
        check(pair.a, "write", ways[_i].wire, ways[_i].way, 1);
        check_channel(pair.to_b, "read", ways[_i].way, "bytes", 3000);
        check_channel(pair.to_b, "read", ways[_i].way, "operations", 3);
        check_channel(pair.to_b, "written", ways[_i].way, "bytes", 80000);
        check_channel(pair.to_b, "written", ways[_i].way, "operations", 1);
    } else {
        ck_assert_msg(ways[_i].id == UCXPOOL_WAY_PROCESS, "%s",
                      attr.way_reason);
    }
    /* Messages of windows are not the caller's. */
    check(pair.a, "send", "", "", 0);
    check(pair.b, "send", "", "", 0);
    check(pair.b, "recv", "", "", 0);
    ucxpool_remote_window_release(remote);
    pair_destroy_window(window);
}

/* --- names -------------------------------------------------------------- */

TEST(names_of_histograms_are_unique_and_complete)
{
    ucxpool_histogram_attr_t attr, other;
    ucxpool_histogram_t      histogram;
    char                     name[64];
    size_t                   num = ucxpool_histogram_count();

    pair_begin(&pair, "WIRE=map", "WIRE=map");
    ck_assert_uint_eq(num, 2 * 7 + 2 * 6);
    for (size_t i = 0; i < num; i++) {
        assert_ok(ucxpool_histogram_query(i, &attr, sizeof(attr)));
        snprintf(name, sizeof(name), "%s_%s_%s", attr.operation, attr.wire,
                 attr.way);
        ck_assert_str_eq(attr.name, name);
        ck_assert_uint_eq(get(pair.a, attr.name).count, 0);
        for (size_t j = 0; j < i; j++) {
            assert_ok(ucxpool_histogram_query(j, &other, sizeof(other)));
            ck_assert_str_ne(attr.name, other.name);
        }
    }
    assert_error(ucxpool_histogram_query(num, &attr, sizeof(attr)),
                 INVALID_PARAM);
    assert_error_detail(ucxpool_histogram_get(pair.a, "send_map", &histogram,
                                              sizeof(histogram)),
                        INVALID_PARAM, "\"send_map\"");
}

/* --- samples ------------------------------------------------------------ */

static const core_series_t series = {CORE_OPERATION_SEND, UCXPOOL_WIRE_MAP,
                                     CORE_MODE_EAGER};
static core_latency_t      latency;
static ucxpool_histogram_t histogram;

static void end_many(uint64_t started, uint32_t num)
{
    core_latency_end(&latency, &latency.wires[0], series.operation, series.path,
                     started, num);
    core_latency_get(&latency, &series, &histogram);
}

static void end(uint64_t started)
{
    end_many(started, 1);
}

static void forget(void)
{
    memset(&latency, 0, sizeof(latency));
    memset(&histogram, 0, sizeof(histogram));
}

/* Returns the start of an operation that ends now, after a latency of bucket
 * `bucket`. The bucket is wide enough for any delay of the test. */
static uint64_t started_before(unsigned bucket)
{
    return base_clock_now() - (UINT64_C(1) << (bucket - 1));
}

TEST_SETTINGS(.setup = forget, .timeout = 60);

TEST(operations_that_are_not_timed_count_like_the_last_sample)
{
    end(0);
    end(0);
    ck_assert_uint_eq(histogram.buckets[0], 2);
    ck_assert_uint_eq(histogram.sum, 0);
    end(started_before(36) | CORE_LATENCY_SAMPLE);
    ck_assert_uint_eq(histogram.buckets[0], 0);
    ck_assert_uint_eq(histogram.buckets[36], 3);
    end(0);
    ck_assert_uint_eq(histogram.buckets[36], 4);
    ck_assert_uint_ge(histogram.sum, 4 * (UINT64_C(1) << 35));
    /* An operation that is timed for its size is no sample. */
    end(started_before(37) & ~CORE_LATENCY_SAMPLE);
    end(0);
    ck_assert_uint_eq(histogram.buckets[36], 5);
    ck_assert_uint_eq(histogram.buckets[37], 1);
    end(started_before(38) | CORE_LATENCY_SAMPLE);
    end(0);
    ck_assert_uint_eq(histogram.buckets[36], 5);
    ck_assert_uint_eq(histogram.buckets[38], 2);
    ck_assert_uint_eq(histogram.count, 8);
}

TEST(operations_of_a_batch_count_like_its_sample)
{
    end_many(0, 10);
    ck_assert_uint_eq(histogram.buckets[0], 10);
    end_many(started_before(36) | CORE_LATENCY_SAMPLE, 5);
    ck_assert_uint_eq(histogram.buckets[36], 15);
    ck_assert_uint_eq(histogram.count, 15);
}

TEST(operation_that_is_not_posted_passes_its_sample_on)
{
    uint64_t started = core_latency_begin(&latency, series.operation, 8);

    ck_assert(started & CORE_LATENCY_SAMPLE);
    ck_assert_uint_eq(core_latency_begin(&latency, series.operation, 8), 0);
    core_latency_cancel(&latency, series.operation, 0);
    ck_assert_uint_eq(core_latency_begin(&latency, series.operation, 8), 0);
    core_latency_cancel(&latency, series.operation, started);
    ck_assert_uint_ne(core_latency_begin(&latency, series.operation, 8), 0);
}

TEST(latencies_beyond_the_last_bucket_count_in_it)
{
    end(1 | CORE_LATENCY_SAMPLE); /* since the start of the machine */
    end(UINT64_MAX);              /* after now */
    ck_assert_uint_eq(histogram.count, 2);
    ck_assert_uint_eq(histogram.buckets[1], 1);
}

TEST(about_one_in_128_short_operations_is_sampled)
{
    unsigned num_samples = 0;
    unsigned in_a_row    = 0;

    for (unsigned i = 0; i < 128000; i++) {
        uint64_t started = core_latency_begin(&latency, CORE_OPERATION_SEND, 8);

        num_samples += started & CORE_LATENCY_SAMPLE;
        ck_assert((started == 0) || (started & CORE_LATENCY_SAMPLE));
        in_a_row += (i < CORE_LATENCY_FIRST) && (started != 0);
        end(started);
    }
    ck_assert_uint_eq(in_a_row, CORE_LATENCY_FIRST);
    ck_assert_uint_ge(num_samples, 900);
    ck_assert_uint_le(num_samples, 1150);
    ck_assert_uint_eq(histogram.count, 128000);
}

/* A loop of two kinds of operations takes samples of both. */
TEST(operations_that_alternate_are_all_sampled)
{
    const core_series_t packed = {CORE_OPERATION_SEND, UCXPOOL_WIRE_MAP,
                                  CORE_MODE_MAP_PACKED};
    uint64_t            num[2] = {0};

    for (unsigned i = 0; i < 128000; i++) {
        const core_series_t *kind = (i % 2 == 0) ? &series : &packed;
        uint64_t started = core_latency_begin(&latency, CORE_OPERATION_SEND, 8);

        num[i % 2] += started != 0;
        core_latency_end(&latency, &latency.wires[0], kind->operation,
                         kind->path, started, 1);
    }
    ck_assert_uint_ge(num[0], 400);
    ck_assert_uint_ge(num[1], 400);
    core_latency_get(&latency, &packed, &histogram);
    ck_assert_uint_eq(histogram.count, 64000);
}

/* Samples of long operations would count short ones as long. */
TEST(latencies_of_short_operations_do_not_depend_on_long_ones)
{
    for (unsigned i = 0; i < 10000; i++) {
        uint64_t started =
            core_latency_begin(&latency, series.operation, CORE_LATENCY_LONG);

        ck_assert_uint_ne(started, 0);
        ck_assert_uint_eq(started & CORE_LATENCY_SAMPLE, 0);
        end(started_before(36) & ~CORE_LATENCY_SAMPLE);
        end(core_latency_begin(&latency, series.operation, 8));
    }
    ck_assert_uint_eq(histogram.count, 20000);
    ck_assert_uint_eq(histogram.buckets[0], 0);
    ck_assert_uint_eq(histogram.buckets[36], 10000);
}

TEST(a_new_histogram_gets_a_sample_soon)
{
    const core_series_t packed = {CORE_OPERATION_SEND, UCXPOOL_WIRE_MAP,
                                  CORE_MODE_MAP_PACKED};

    for (unsigned i = 0; i < 1000; i++) {
        end(core_latency_begin(&latency, series.operation, 8));
    }
    latency.skips[series.operation] = true;
    for (unsigned i = 0; i < 2; i++) {
        core_latency_end(&latency, &latency.wires[0], packed.operation,
                         packed.path,
                         core_latency_begin(&latency, packed.operation, 8), 1);
    }
    core_latency_get(&latency, &packed, &histogram);
    ck_assert_uint_eq(histogram.count, 2);
    ck_assert_uint_eq(histogram.buckets[0], 0);
}

TEST(each_long_operation_is_timed)
{
    for (unsigned i = 0; i < 1000; i++) {
        ck_assert_uint_ne(core_latency_begin(&latency, CORE_OPERATION_READ,
                                             CORE_LATENCY_LONG),
                          0);
    }
}
