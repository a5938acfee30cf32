/* Statistics: correct counts, and three output formats that other programs can
 * parse. */
#include "pair.h"
#include "test.h"

#include "core/pool.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAG      UINT64_C(5)
#define ALL_BITS UINT64_MAX

static const char *const wires[] = {"WIRE=map", "WIRE=ucx"};
#define NUM_WIRES 2

static pair_t  pair;
static uint8_t source[200000];
static uint8_t target[200000];

static void pass_over(ucxpool_channel_t *channel, const void *from,
                      size_t length)
{
    ucxpool_request_t *recv = pair_recv(pair.b, NULL, target, length, TAG);

    pair_finish_both(&pair, pair_send(channel, from, length, TAG), recv);
}

static void pass(const void *from, size_t length)
{
    pass_over(pair.to_b, from, length);
}

/* Only this mode has moved data. */
static void check_traffic(const core_traffic_t *traffic, core_mode_t mode,
                          uint64_t bytes, uint64_t fragments)
{
    for (int i = 0; i < CORE_MODE_LAST; i++) {
        bool is_it = i == (int)mode;

        ck_assert_uint_eq(traffic[i].bytes, is_it ? bytes : 0);
        ck_assert_uint_eq(traffic[i].fragments, is_it ? fragments : 0);
    }
}

TEST_SETTINGS(.timeout = 60);

TEST_EACH(short_messages_count_as_eager, NUM_WIRES)
{
    core_stats_t a;
    core_stats_t b;

    pair_begin(&pair, wires[_i], wires[_i]);
    for (int i = 0; i < 3; i++) {
        pass(source, 100);
    }
    a = pair_stats(pair.a);
    b = pair_stats(pair.b);
    check_traffic(a.counts.sent, CORE_MODE_EAGER, 300, 3);
    check_traffic(b.counts.received, CORE_MODE_EAGER, 300, 3);
    check_traffic(a.counts.received, CORE_MODE_EAGER, 0, 0);
    check_traffic(b.counts.sent, CORE_MODE_EAGER, 0, 0);
    ck_assert_uint_eq(a.counts.messages_sent, 3);
    ck_assert_uint_eq(a.counts.messages_received, 0);
    ck_assert_uint_eq(b.counts.messages_received, 3);
    ck_assert_uint_eq(a.counts.messages_failed + b.counts.messages_failed, 0);
    ck_assert_uint_eq(a.channels_open, 1);
    ck_assert_uint_eq(a.counts.copies_avoided_bytes, 0);
}

TEST_EACH(long_messages_count_as_packed, NUM_WIRES)
{
    const core_mode_t modes[] = {CORE_MODE_MAP_PACKED, CORE_MODE_UCX_PACKED};
    core_stats_t      a;

    pair_begin(&pair, wires[_i], wires[_i]);
    pass(source, 200000);
    a = pair_stats(pair.a);
    check_traffic(a.counts.sent, modes[_i], 200000, 4); /* blocks of 64k */
    ck_assert_uint_eq(a.counts.copies_avoided_bytes, 0);
}

TEST_EACH(registered_memory_counts_as_in_place, NUM_WIRES)
{
    const core_mode_t modes[] = {CORE_MODE_MAP_INPLACE, CORE_MODE_UCX_INPLACE};
    core_stats_t      a;
    core_stats_t      b;
    void             *from;

    pair_begin(&pair, wires[_i], wires[_i]);
    assert_ok(ucxpool_comm_alloc(pair.a, 60000, &from));
    memset(from, 1, 60000);
    pass(from, 60000);
    a = pair_stats(pair.a);
    b = pair_stats(pair.b);
    check_traffic(a.counts.sent, modes[_i], 60000, 1);
    ck_assert_uint_eq(b.counts.received[modes[_i]].bytes, 60000);
    ck_assert_uint_eq(a.counts.copies_avoided_bytes, 60000);
    ucxpool_comm_free(pair.a, from);
}

TEST_EACH(nothing_is_registered_after_the_start, NUM_WIRES)
{
    core_stats_t stats;
    void        *from;

    pair_begin(&pair, wires[_i], wires[_i]);
    assert_ok(ucxpool_comm_alloc(pair.a, 200000, &from));
    for (int i = 0; i < 10; i++) {
        pass(from, 200000);
        pass(source, 200000);
    }
    stats = pair_stats(pair.b);
    ck_assert_uint_eq(stats.registrations_after_start, 0);
    stats = pair_stats(pair.a);
    ck_assert_uint_eq(stats.registrations_after_start, 0);
    ck_assert_uint_eq(stats.registrations, stats.num_regions);
    ck_assert_uint_eq(stats.num_regions, 4);
    ck_assert_uint_eq(stats.registered_bytes, 1024 * 1024);
    ck_assert_uint_eq(stats.block_size, 65536);
    ucxpool_comm_free(pair.a, from);
}

TEST_EACH(messages_allocate_nothing_in_steady_state, NUM_WIRES)
{
    static const size_t lengths[] = {0, 100, 5000, 16384, 60000, 200000};
    core_stats_t        before[2];
    core_stats_t        after[2];

    pair_begin(&pair, wires[_i], wires[_i]);
    for (int round = 0; round < 50; round++) {
        if (round == 10) {
            before[0] = pair_stats(pair.a);
            before[1] = pair_stats(pair.b);
        }
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
            pass(source, lengths[i]);
        }
    }
    core_stats_get(pair.a, &after[0]);
    core_stats_get(pair.b, &after[1]);
    ck_assert_uint_eq(after[0].allocations, before[0].allocations);
    ck_assert_uint_eq(after[1].allocations, before[1].allocations);
}

TEST_EACH(failures_and_rejections_are_counted, NUM_WIRES)
{
    ucxpool_message_t *message;
    ucxpool_request_t *send;
    ucxpool_request_t *recv;
    core_stats_t       a;
    core_stats_t       b;

    pair_begin(&pair, wires[_i], wires[_i]);
    send    = pair_send(pair.to_b, source, 100000, TAG);
    message = pair_probe(&pair, TAG);
    ucxpool_message_refuse(message, "not today");
    ck_assert_int_eq(pair_finish(&pair, send), UCXPOOL_ERR_REFUSED);
    recv = pair_recv(pair.b, NULL, target, 1, TAG);
    ucxpool_request_cancel(recv);
    ck_assert_int_eq(pair_finish(&pair, recv), UCXPOOL_ERR_CANCELED);
    a = pair_stats(pair.a);
    b = pair_stats(pair.b);
    ck_assert_uint_eq(a.counts.messages_failed, 1);
    ck_assert_uint_eq(b.counts.messages_refused, 1);
    ck_assert_uint_eq(b.counts.messages_failed, 1);
    ucxpool_channel_fail(pair.to_b);
    pair_until(&pair, pair_stats(pair.a).channels_failed == 1);
    ck_assert_uint_eq(pair_stats(pair.a).channels_open, 0);
}

/* --- by channel --------------------------------------------------------- */

static uint64_t of_channel(const ucxpool_channel_t *channel, const char *name)
{
    uint64_t value;

    assert_ok(ucxpool_channel_stats_get(channel, name, &value));
    return value;
}

TEST_EACH(each_channel_counts_its_own_messages, NUM_WIRES)
{
    static const char *const packed[] = {"map_packed", "ucx_packed"};
    ucxpool_channel_t       *second;
    char                     name[64];

    pair_begin(&pair, wires[_i], wires[_i]);
    second = pair_meet(pair.a, pair.b);
    pair_meet(pair.b, pair.a);
    pair_until(&pair, pair_is_open(second));
    for (int i = 0; i < 3; i++) {
        pass(source, 100);
    }
    pass_over(second, source, 200000);
    ck_assert_uint_eq(of_channel(pair.to_b, "messages_sent"), 3);
    ck_assert_uint_eq(of_channel(pair.to_b, "sent_eager_bytes"), 300);
    ck_assert_uint_eq(of_channel(pair.to_a, "messages_received"), 3);
    ck_assert_uint_eq(of_channel(pair.to_a, "received_eager_fragments"), 3);
    ck_assert_uint_eq(of_channel(second, "messages_sent"), 1);
    ck_assert_uint_eq(of_channel(second, "sent_eager_bytes"), 0);
    snprintf(name, sizeof(name), "sent_%s_bytes", packed[_i]);
    ck_assert_uint_eq(of_channel(second, name), 200000);
    ck_assert_uint_eq(of_channel(pair.to_b, name), 0);
    ck_assert_uint_eq(pair_stats(pair.a).counts.messages_sent, 4);
}

TEST_EACH(counts_of_a_closed_channel_stay_in_the_totals, NUM_WIRES)
{
    core_stats_t       before;
    core_stats_t       after;
    ucxpool_request_t *recv;

    pair_begin(&pair, wires[_i], wires[_i]);
    pass(source, 100);
    recv = pair_recv(pair.a, pair.to_b, target, 1, TAG);
    ucxpool_channel_fail(pair.to_b);
    ck_assert_int_eq(pair_finish(&pair, recv), UCXPOOL_ERR_PEER_LOST);
    ck_assert_uint_eq(of_channel(pair.to_b, "messages_sent"), 1);
    ck_assert_uint_eq(of_channel(pair.to_b, "messages_failed"), 1);
    before = pair_stats(pair.a);
    ucxpool_channel_close(pair.to_b);
    pair.to_b = NULL;
    pair_until(&pair, pair.a->channels.count == 0);
    after = pair_stats(pair.a);
    ck_assert_mem_eq(&before.counts, &after.counts, sizeof(before.counts));
    ck_assert_uint_eq(after.counts.sent[CORE_MODE_EAGER].bytes, 100);
    ck_assert_uint_eq(after.counts.messages_failed, 1);
}

/* Pool a may send eight messages to b. */
static void begin_with_credits(int wire, uint64_t announce_ns)
{
    static const char *const of_b[] = {"WIRE=map CREDITS=8",
                                       "WIRE=ucx CREDITS=8"};

    pair_begin(&pair, wires[wire], of_b[wire]);
    pair.a->announce_ns = announce_ns;
}

/* Sends that find no credit wait behind the first of them. */
TEST_EACH(a_wait_for_a_credit_is_counted_once, NUM_WIRES)
{
    ucxpool_request_t *sends[10];

    begin_with_credits(_i, UCXPOOL_FOREVER);
    for (int i = 0; i < 10; i++) {
        sends[i] = pair_send(pair.to_b, source, 1, TAG);
    }
    ck_assert(!pair_ended(sends[8]));
    ck_assert_uint_eq(of_channel(pair.to_b, "credit_waits"), 1);
    ck_assert_uint_eq(of_channel(pair.to_b, "credit_wait_ns"), 0);
    for (int i = 0; i < 10; i++) {
        assert_ok(ucxpool_recv_buffer(pair.b, NULL, target, 1, TAG, ALL_BITS,
                                      NULL, NULL));
    }
    for (int i = 0; i < 10; i++) {
        assert_ok(pair_finish(&pair, sends[i]));
    }
    ck_assert_uint_eq(of_channel(pair.to_b, "credit_waits"), 1);
    ck_assert_uint_gt(of_channel(pair.to_b, "credit_wait_ns"), 0);
}

TEST_EACH(the_wait_for_a_credit_ends_without_a_waiting_send, NUM_WIRES)
{
    ucxpool_request_t *sends[9];

    begin_with_credits(_i, 10000000);
    for (int i = 0; i < 9; i++) {
        sends[i] = pair_send(pair.to_b, source, 1, TAG);
    }
    ucxpool_request_cancel(sends[8]);
    ck_assert_int_eq(pair_finish(&pair, sends[8]), UCXPOOL_ERR_CANCELED);
    pair_until(&pair, of_channel(pair.to_b, "credit_wait_ns") != 0);
    for (int i = 0; i < 8; i++) {
        ucxpool_request_release(sends[i]);
        assert_ok(ucxpool_recv_buffer(pair.b, NULL, target, 1, TAG, ALL_BITS,
                                      NULL, NULL));
    }
}

TEST_EACH(the_wait_for_a_credit_ends_when_descriptors_are_sent, NUM_WIRES)
{
    ucxpool_request_t *recvs[10];
    uint64_t           waited;

    begin_with_credits(_i, 1);
    for (int i = 0; i < 10; i++) {
        assert_ok(ucxpool_send_buffer(pair.to_b, source, 1, TAG, NULL, NULL));
    }
    pair_until(&pair, of_channel(pair.to_b, "credit_wait_ns") != 0);
    waited = of_channel(pair.to_b, "credit_wait_ns");
    for (int i = 0; i < 10; i++) {
        recvs[i] = pair_recv(pair.b, NULL, target, 1, TAG);
    }
    for (int i = 0; i < 10; i++) {
        assert_ok(pair_finish(&pair, recvs[i]));
    }
    ck_assert_uint_eq(of_channel(pair.to_b, "credit_waits"), 1);
    ck_assert_uint_eq(of_channel(pair.to_b, "credit_wait_ns"), waited);
}

TEST_EACH(waits_for_blocks_are_counted_by_channel, NUM_WIRES)
{
    static const char *const tiny[] = {
        "WIRE=map COMM_SIZE=192k REGION_SIZE=64k SEND_SHARE=33 RECV_SHARE=33",
        "WIRE=ucx COMM_SIZE=192k REGION_SIZE=64k SEND_SHARE=33 RECV_SHARE=33"};
    core_stats_t       stats;
    ucxpool_request_t *sends[2];
    ucxpool_request_t *recvs[2];

    pair_begin(&pair, tiny[_i], wires[_i]);
    for (int i = 0; i < 2; i++) {
        recvs[i] = pair_recv(pair.b, NULL, target, sizeof(target), TAG);
        sends[i] = pair_send(pair.to_b, source, sizeof(source), TAG);
    }
    for (int i = 0; i < 2; i++) {
        pair_finish_both(&pair, sends[i], recvs[i]);
    }
    ck_assert_uint_gt(of_channel(pair.to_b, "block_waits"), 0);
    ck_assert_uint_gt(of_channel(pair.to_b, "block_wait_ns"), 0);
    stats = pair_stats(pair.a);
    ck_assert_uint_eq(stats.counts.block_waits,
                      of_channel(pair.to_b, "block_waits"));
    ck_assert_uint_eq(stats.counts.block_wait_ns,
                      of_channel(pair.to_b, "block_wait_ns"));
}

/* The statistics of a channel have the names of the pool's, and their sum. */
TEST(each_statistic_of_a_channel_is_found_by_its_name)
{
    uint64_t            values[200];
    uint64_t            value;
    size_t              num;
    ucxpool_stat_attr_t attr;

    pair_begin(&pair, "WIRE=map", "WIRE=map");
    pass(source, 100);
    assert_ok(ucxpool_channel_stats_read(pair.to_b, values, 200, &num));
    ck_assert_uint_eq(num, ucxpool_channel_stats_count());
    ck_assert_uint_eq(num * sizeof(uint64_t),
                      sizeof(core_counters_t) -
                          2 * sizeof(core_traffic_t)); /* no way NONE */
    for (size_t i = 0; i < num; i++) {
        assert_ok(ucxpool_channel_stats_query(i, &attr, sizeof(attr)));
        ck_assert_int_eq(attr.kind, UCXPOOL_STAT_COUNTER);
        ck_assert_uint_eq(of_channel(pair.to_b, attr.name), values[i]);
        assert_ok(ucxpool_stats_get(pair.a, attr.name, &value));
        ck_assert_uint_eq(value, values[i]);
    }
    ck_assert_int_eq(ucxpool_channel_stats_query(num, &attr, sizeof(attr)),
                     UCXPOOL_ERR_INVALID_PARAM);
    ck_assert_int_eq(
        ucxpool_channel_stats_get(pair.to_b, "channels_open", values),
        UCXPOOL_ERR_INVALID_PARAM);
    assert_ok(ucxpool_channel_stats_read(pair.to_b, values, 3, &num));
    ck_assert_uint_eq(num, 3);
}

/* --- formats ------------------------------------------------------------ */

/* Names that break a printer without escaping. */
static const char *const names[] = {
    "plain", "with \"quotes\" and \\", "line\nbreak\ttab\x01",
    "0123456789012345678901234567\xc3\xa9\xc3\xa9", /* truncated within a
                                                       character */
    "not \xff utf-8 \xc3"};
#define NUM_NAMES 5

static char *print(const char *name, ucxpool_stats_format_t format)
{
    ucxpool_params_t params = {
        .field_mask = UCXPOOL_PARAM_FIELD_NAME,
        .name       = name,
    };
    ucxpool_t *pool;
    char      *text;
    size_t     size;
    FILE      *stream = open_memstream(&text, &size);

    assert_ok(pair_try_pool(&params, "COMM_SIZE=16m BLOCK_SIZE=4m", &pool));
    ucxpool_stats_print(pool, stream, format);
    fclose(stream);
    ucxpool_destroy(pool);
    return text;
}

TEST_EACH(json_output_is_valid_json, NUM_NAMES)
{
    char *text = print(names[_i], UCXPOOL_STATS_JSON);
    FILE *python;

    python = popen("python3 -c 'import json,sys; "
                   "d = json.loads(sys.stdin.buffer.read().decode(\"utf-8\")); "
                   "assert d[\"pool\"] and d[\"blocks_send\"] == 1 "
                   "and d[\"degraded_to\"] == \"none\" "
                   "and d[\"degraded_why\"] == \"\"'",
                   "w");
    ck_assert_ptr_nonnull(python);
    fputs(text, python);
    ck_assert_int_eq(pclose(python), 0);
    free(text);
}

/* Parses `name{label="value",...} number`. Returns its end, or NULL. */
static const char *parse_sample(const char *line)
{
    const char *at = line;

    while (isalnum((unsigned char)*at) || (*at == '_')) {
        at++;
    }
    if ((at == line) || (*at++ != '{')) {
        return NULL;
    }
    while (*at != '}') {
        const char *label = at;

        while (islower((unsigned char)*at)) {
            at++;
        }
        if ((at == label) || (*at++ != '=') || (*at++ != '"')) {
            return NULL;
        }
        for (; *at != '"'; at++) {
            at += (*at == '\\');
            if ((unsigned char)*at < ' ') {
                return NULL;
            }
        }
        at++;
        at += (*at == ',');
    }
    if ((*++at != ' ') || !isdigit((unsigned char)at[1])) {
        return NULL;
    }
    return at + 1 + strspn(at + 1, "0123456789.");
}

/* A sample belongs to the family announced last. Counters end in _total. */
static void check_sample(const char *line, const char *family, bool is_counter)
{
    const char *end    = parse_sample(line);
    size_t      length = strlen(family);

    ck_assert_msg((end != NULL) && (*end == '\0'), "%s", line);
    ck_assert_msg(strncmp(line, family, length) == 0, "%s", line);
    ck_assert_msg(is_counter ? strncmp(line + length, "_total{", 7) == 0
                             : line[length] == '{',
                  "%s", line);
}

TEST_EACH(openmetrics_output_is_valid_openmetrics, NUM_NAMES)
{
    char *text       = print(names[_i], UCXPOOL_STATS_OPENMETRICS);
    char *rest       = text;
    char  family[64] = "";
    char  kind[16]   = "";
    bool  has_ended  = false;
    char *line;

    while (*(line = strsep(&rest, "\n")) != '\0') {
        ck_assert(!has_ended);
        if (strcmp(line, "# EOF") == 0) {
            has_ended = true;
        } else if (strncmp(line, "# TYPE ", 7) == 0) {
            ck_assert_int_eq(sscanf(line, "# TYPE %63s %15s", family, kind), 2);
            ck_assert(!strcmp(kind, "counter") || !strcmp(kind, "gauge"));
        } else if (strncmp(line, "# HELP ", 7) == 0) {
            ck_assert_int_eq(strncmp(line + 7, family, strlen(family)), 0);
        } else {
            check_sample(line, family, strcmp(kind, "counter") == 0);
        }
    }
    ck_assert(has_ended);
    ck_assert_ptr_null(rest);
    free(text);
}

/* Set `line` to the line that a format must have for a statistic. */
static void expect_line(char *line, size_t size, ucxpool_stats_format_t format,
                        const ucxpool_stat_attr_t *attr, uint64_t value)
{
    const char *space  = (*attr->unit == '\0') ? "" : " ";
    const char *suffix = (attr->kind == UCXPOOL_STAT_COUNTER) ? "_total" : "";

    if (format == UCXPOOL_STATS_TEXT) {
        snprintf(line, size, "\n  %-30s %" PRIu64 "%s%s\n", attr->name, value,
                 space, attr->unit);
    } else if (format == UCXPOOL_STATS_JSON) {
        snprintf(line, size, ",\"%s\":%" PRIu64 ",", attr->name, value);
    } else if (strcmp(attr->unit, "ns") == 0) {
        snprintf(line, size,
                 "\nucxpool_%.*s_seconds%s{pool=\"ucxpool\"} %" PRIu64
                 ".%09" PRIu64 "\n",
                 (int)strlen(attr->name) - 3, attr->name, suffix,
                 value / 1000000000, value % 1000000000);
    } else {
        snprintf(line, size, "\nucxpool_%s%s{pool=\"ucxpool\"} %" PRIu64 "\n",
                 attr->name, suffix, value);
    }
}

TEST_EACH(each_format_has_each_statistic_under_its_name, 3)
{
    ucxpool_stats_format_t format = (ucxpool_stats_format_t)_i;
    ucxpool_stat_attr_t    attr;
    uint64_t               value;
    char                   line[200];
    char                  *string;
    void                  *memory;

    pair_begin(&pair, "WIRE=map", "WIRE=map");
    pass(source, sizeof(source));
    assert_ok(ucxpool_heap_alloc(pair.a, 5000, NULL, &memory));
    string = ucxpool_stats_string(pair.a, format);
    for (size_t i = 0; i < ucxpool_stats_count(); i++) {
        assert_ok(ucxpool_stats_query(i, &attr, sizeof(attr)));
        assert_ok(ucxpool_stats_get(pair.a, attr.name, &value));
        expect_line(line, sizeof(line), format, &attr, value);
        assert_has(string, line);
    }
    ucxpool_string_free(string);
    assert_ok(ucxpool_heap_free(pair.a, memory, NULL));
}

/* The last format is unknown. */
TEST_EACH(print_writes_the_text_of_the_string, UCXPOOL_STATS_OPENMETRICS + 2)
{
    ucxpool_stats_format_t format = (ucxpool_stats_format_t)_i;
    ucxpool_t             *pool   = pair_pool(NULL);
    char                  *string = ucxpool_stats_string(pool, format);
    char                  *written;
    size_t                 size;
    FILE                  *stream = open_memstream(&written, &size);

    ck_assert_ptr_nonnull(string);
    ck_assert_ptr_nonnull(stream);
    ucxpool_stats_print(pool, stream, format);
    fclose(stream);
    ck_assert_str_eq(string, written);
    free(written);
    ucxpool_string_free(string);
    ucxpool_destroy(pool);
}

TEST(unknown_format_is_printed_as_text)
{
    ucxpool_t *pool = pair_pool(NULL);
    char      *text = ucxpool_stats_string(pool, UCXPOOL_STATS_TEXT);
    char      *unknown =
        ucxpool_stats_string(pool, (ucxpool_stats_format_t)(INT_MAX));

    ck_assert_str_eq(unknown, text);
    ucxpool_string_free(unknown);
    ucxpool_string_free(text);
    ucxpool_destroy(pool);
}

static uint64_t value_of(ucxpool_t *pool, const char *name)
{
    uint64_t value = UINT64_MAX;

    assert_ok(ucxpool_stats_get(pool, name, &value));
    return value;
}

/* The names are unique, and each finds its statistic. */
TEST(each_statistic_is_found_by_its_name)
{
    uint64_t            values[200];
    size_t              num;
    ucxpool_stat_attr_t attr, other;

    pair_begin(&pair, "WIRE=map", "WIRE=map");
    pass(source, 100);
    ck_assert_uint_le(ucxpool_stats_count(), 200);
    assert_ok(ucxpool_stats_read(pair.a, values, 200, &num));
    ck_assert_uint_eq(num, ucxpool_stats_count());
    for (size_t i = 0; i < num; i++) {
        assert_ok(ucxpool_stats_query(i, &attr, sizeof(attr)));
        ck_assert_uint_eq(value_of(pair.a, attr.name), values[i]);
        ck_assert_uint_eq(
            strspn(attr.name, "abcdefghijklmnopqrstuvwxyz0123456789_"),
            strlen(attr.name));
        ck_assert_msg(attr.help[strlen(attr.help) - 1] == '.', "%s", attr.help);
        ck_assert_msg((strcmp(attr.unit, "") == 0) ||
                          (strcmp(attr.unit, "ns") == 0) ||
                          (strcmp(attr.unit, "bytes") == 0),
                      "%s", attr.unit);
        for (size_t j = 0; j < i; j++) {
            assert_ok(ucxpool_stats_query(j, &other, sizeof(other)));
            ck_assert_str_ne(attr.name, other.name);
        }
    }
    ck_assert_int_eq(ucxpool_stats_get(pair.a, "no_such", values),
                     UCXPOOL_ERR_INVALID_PARAM);
    assert_has(ucxpool_error_detail(), "\"no_such\"");
    assert_ok(ucxpool_stats_read(pair.a, values, 3, &num));
    ck_assert_uint_eq(num, 3);
}

static bool ends_with(const char *name, const char *end)
{
    size_t length = strlen(name), end_length = strlen(end);

    return (length >= end_length) &&
           (strcmp(name + length - end_length, end) == 0);
}

/* OpenMetrics reserves these suffixes, and the library adds _total itself. */
TEST(names_end_with_their_unit_and_not_with_a_reserved_suffix)
{
    static const char *const reserved[] = {"_total", "_created", "_count",
                                           "_sum",   "_bucket",  "_info"};
    ucxpool_stat_attr_t      attr;

    for (size_t i = 0; i < ucxpool_stats_count(); i++) {
        assert_ok(ucxpool_stats_query(i, &attr, sizeof(attr)));
        for (size_t j = 0; j < sizeof(reserved) / sizeof(*reserved); j++) {
            ck_assert_msg(!ends_with(attr.name, reserved[j]), "%s", attr.name);
        }
        ck_assert_msg(ends_with(attr.name, "_bytes") ==
                              (strcmp(attr.unit, "bytes") == 0) &&
                          ends_with(attr.name, "_ns") ==
                              (strcmp(attr.unit, "ns") == 0),
                      "%s", attr.name);
    }
}

TEST(values_are_read_from_the_pool)
{
    core_stats_t   stats;
    ucxpool_attr_t attr;
    void          *memory;

    pair_begin(&pair, "WIRE=map", "WIRE=map");
    pass(source, sizeof(source));
    assert_ok(ucxpool_heap_alloc(pair.a, 5000, NULL, &memory));
    stats = pair_stats(pair.a);
    ck_assert_uint_eq(value_of(pair.a, "messages_sent"), 1);
    ck_assert_uint_eq(value_of(pair.a, "sent_map_packed_bytes"),
                      sizeof(source));
    ck_assert_uint_eq(value_of(pair.b, "received_map_packed_bytes"),
                      sizeof(source));
    ck_assert_uint_eq(value_of(pair.a, "blocks_recv"),
                      stats.blocks[BLOCK_SHARE_RECV].total);
    ck_assert_uint_eq(value_of(pair.a, "registration_ns"),
                      stats.registration_ns);
    ck_assert_uint_eq(value_of(pair.a, "heap_asked_bytes"), 5000);
    ck_assert_uint_eq(value_of(pair.a, "heap_reserved_bytes"),
                      value_of(pair.a, "heap_live_bytes") +
                          value_of(pair.a, "heap_free_bytes"));
    ck_assert_uint_eq(value_of(pair.b, "heap_asked_bytes"), 0);
    ucxpool_query(pair.a, &attr, sizeof(attr));
    ck_assert_uint_eq(attr.block_size, stats.block_size);
    ck_assert_uint_eq(attr.num_regions, stats.num_regions);
    ck_assert_int_eq(attr.memory_kind, UCXPOOL_MEMORY_HOST);
    ck_assert_int_eq(attr.device, -1);
    ck_assert_int_eq(attr.degraded_to, UCXPOOL_DEGRADED_NONE);
    ck_assert_str_eq(attr.degraded_why, "");
    assert_ok(ucxpool_heap_free(pair.a, memory, NULL));
}
