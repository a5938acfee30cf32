/*
 * Every public function returns an error when it is given NULL for a handle or
 * an output. tests/check_exports.sh requires that every exported name occurs
 * here.
 *
 * These functions take no pointer: ucxpool_status_string(),
 * ucxpool_version(), ucxpool_version_string(), ucxpool_device_count(),
 * ucxpool_log_set_level(), ucxpool_torch_refuse_graph(). For
 * ucxpool_log_set_handler(), NULL has a meaning of its own.
 */
#include "base/error.h"
#include "pair.h"
#include "test.h"

#include <ucxpool/framework.h>
#include <ucxpool/private.h>

#include <string.h>

#define TAG      UINT64_C(3)
#define ALL_BITS UINT64_MAX

/* The last error names the function and NULL. */
static void check_said(const char *call)
{
    const char *begin = strstr(call, "ucxpool_");
    char        name[64];

    snprintf(name, sizeof(name), "%.*s()", (int)strcspn(begin, "("), begin);
    assert_detail(name);
    assert_detail("NULL");
}

static void check_refused(ucxpool_status_t status, const char *call)
{
    ck_assert_msg(status == UCXPOOL_ERR_INVALID_PARAM, "%s returned %s", call,
                  ucxpool_status_string(status));
    check_said(call);
}

/* Replaces the last error, so that an old one is not mistaken for the next
 * call's. */
static void forget(void)
{
    (void)base_error(UCXPOOL_ERR_IO, "nothing was said");
}

#define refused(_call) \
    do { \
        forget(); \
        check_refused(_call, #_call); \
    } while (0)
#define ignored(_call) \
    do { \
        forget(); \
        _call; \
        check_said(#_call); \
    } while (0)

static ucxpool_segment_t segment;
static void             *address = &segment;
static ucxpool_data_t    data    = {.count = 1};
static size_t            size;
static int               number;

static pair_t     pair;
static ucxpool_t *pool;

static void setup(void)
{
    pool = pair_pool(NULL);
}

static void teardown(void)
{
    ucxpool_destroy(pool);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown);

TEST(windows)
{
    uint8_t                      blob[UCXPOOL_WINDOW_BLOB_SIZE] = {0};
    ucxpool_window_attr_t        window;
    ucxpool_remote_window_attr_t remote;
    ucxpool_window_t            *own    = NULL;
    ucxpool_remote_window_t     *of     = NULL;
    ucxpool_places_t             places = ucxpool_places(NULL, 0);
    ucxpool_op_t                 op     = {.kind = UCXPOOL_OP_READ};

    pair_begin(&pair, "", "");
    refused(ucxpool_window_create(NULL, address, 1, NULL, &own));
    refused(ucxpool_window_create(pair.a, NULL, 1, NULL, &own));
    refused(ucxpool_window_create(pair.a, address, 1, NULL, NULL));
    refused(ucxpool_window_export(NULL, 1, blob));
    refused(ucxpool_window_revoke(NULL, 0));
    refused(ucxpool_remote_window_import(NULL, blob, sizeof(blob), &of));
    refused(ucxpool_remote_window_import(pair.to_b, NULL, sizeof(blob), &of));
    refused(ucxpool_remote_window_import(pair.to_b, blob, sizeof(blob), NULL));
    ignored(ucxpool_window_query(NULL, &window, sizeof(window)));
    ck_assert_ptr_null(window.address);
    ignored(ucxpool_remote_window_query(NULL, &remote, sizeof(remote)));
    ck_assert_int_eq(remote.status, UCXPOOL_ERR_INVALID_PARAM);
    refused(ucxpool_remote_window_read(NULL, &places, &data, NULL, NULL));
    refused(ucxpool_remote_window_write(NULL, &places, &data, NULL, NULL));
    ucxpool_window_destroy(NULL);
    ucxpool_remote_window_release(NULL);
    assert_ok(ucxpool_window_create(pair.a, address, 1, NULL, &own));
    refused(ucxpool_window_export(own, 1, NULL));
    ignored(ucxpool_window_query(own, NULL, 0));
    assert_ok(ucxpool_window_export(own, 1, blob));
    assert_ok(ucxpool_remote_window_import(pair.to_a, blob, sizeof(blob), &of));
    refused(ucxpool_remote_window_read(of, NULL, &data, NULL, NULL));
    refused(ucxpool_remote_window_read(of, &places, NULL, NULL, NULL));
    refused(ucxpool_remote_window_write(of, NULL, &data, NULL, NULL));
    refused(ucxpool_remote_window_write(of, &places, NULL, NULL, NULL));
    refused(ucxpool_post(NULL, &op, sizeof(op), 1, &size));
    refused(ucxpool_post(pair.a, NULL, sizeof(op), 1, &size));
    refused(ucxpool_post(pair.a, &op, sizeof(op), 1, NULL));
    ignored(ucxpool_remote_window_query(of, NULL, 0));
    ucxpool_remote_window_release(of);
}

TEST(settings)
{
    ucxpool_config_attr_t attr;
    ucxpool_config_t     *config;

    ck_assert_ptr_null(ucxpool_config_key(SIZE_MAX));
    refused(ucxpool_config_read(NULL));
    refused(ucxpool_config_modify(NULL, "AM_ID", "7"));
    ignored(ucxpool_config_print(NULL, stdout, UCXPOOL_CONFIG_PRINT_VALUES));
    assert_ok(ucxpool_config_read(&config));
    refused(ucxpool_config_modify(config, NULL, "7"));
    refused(ucxpool_config_modify(config, "AM_ID", NULL));
    refused(ucxpool_config_query(NULL, "AM_ID", &attr, sizeof(attr)));
    refused(ucxpool_config_query(config, NULL, &attr, sizeof(attr)));
    refused(ucxpool_config_query(config, "AM_ID", NULL, sizeof(attr)));
    refused(ucxpool_config_set_secret(NULL, "0123456789abcdef", 16));
    ignored(ucxpool_config_print(config, NULL, UCXPOOL_CONFIG_PRINT_VALUES));
    ignored(ck_assert_ptr_null(ucxpool_config_string(NULL, 0)));
    ucxpool_string_free(NULL);
    ucxpool_config_release(config);
    ucxpool_config_release(NULL);
}

TEST(pools)
{
    ucxpool_completion_t completion;
    ucxpool_event_t      event;

    refused(ucxpool_create(NULL, NULL));
    ignored(ck_assert_uint_eq(ucxpool_progress(NULL), 0));
    refused(ucxpool_wait(NULL, 0));
    refused(ucxpool_arm(NULL));
    refused(ucxpool_event_fd(NULL, &number));
    refused(ucxpool_event_fd(pool, NULL));
    refused(ucxpool_completion_get(NULL, &completion, 1, &size));
    refused(ucxpool_completion_get(pool, NULL, 1, &size));
    refused(ucxpool_completion_get(pool, &completion, 1, NULL));
    refused(ucxpool_event_get(NULL, &event, 1, &size));
    refused(ucxpool_event_get(pool, NULL, 1, &size));
    refused(ucxpool_event_get(pool, &event, 1, NULL));
    refused(ucxpool_check(NULL));
    ucxpool_destroy(NULL);
}

TEST(blocks_and_buffers)
{
    ucxpool_block_t block = {.index = 0};

    refused(ucxpool_block_get(NULL, &block));
    refused(ucxpool_block_get(pool, NULL));
    refused(ucxpool_block_get_n(NULL, 1, &block));
    refused(ucxpool_block_get_n(pool, 1, NULL));
    ignored(ucxpool_block_put(NULL, &block));
    ucxpool_block_put(pool, NULL);
    refused(ucxpool_comm_alloc(NULL, 1, &address));
    refused(ucxpool_comm_alloc(pool, 1, NULL));
    ignored(ucxpool_comm_free(NULL, address));
    ucxpool_comm_free(pool, NULL);
    ck_assert(pair_is_whole(pool));
}

TEST(channels)
{
    ucxpool_channel_params_t params = {
        .field_mask     = UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS,
        .address        = address,
        .address_length = 1,
    };
    ucxpool_channel_t     *channel = NULL;
    ucxpool_channel_attr_t attr;

    refused(ucxpool_address_get(NULL, &address, &size));
    refused(ucxpool_address_get(pool, NULL, &size));
    refused(ucxpool_address_get(pool, &address, NULL));
    ucxpool_address_release(NULL);
    refused(ucxpool_channel_create(NULL, &params, &channel));
    refused(ucxpool_channel_create(pool, &params, NULL));
    assert_error(ucxpool_channel_create(pool, NULL, &channel), INVALID_PARAM);
    refused(ucxpool_channel_connect(NULL, "127.0.0.1:1", NULL, &channel));
    refused(ucxpool_channel_connect(pool, NULL, NULL, &channel));
    refused(ucxpool_channel_connect(pool, "127.0.0.1:1", NULL, NULL));
    assert_error_detail(ucxpool_channel_wait(NULL, 0), INVALID_PARAM,
                        "is NULL");
    ignored(ucxpool_channel_query(NULL, &attr, sizeof(attr)));
    ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_FAILED);
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_INVALID_PARAM);
    ck_assert_str_eq(attr.reason, "the channel is NULL");
    ck_assert_str_eq(attr.local_address, "");
    ck_assert_str_eq(attr.remote_address, "");
    ignored(ucxpool_channel_query(NULL, NULL, 0));
    ignored(ucxpool_channel_set_name(NULL, "name"));
    ignored(ucxpool_channel_set_user_ptr(NULL, address));
    ignored(ucxpool_channel_fail(NULL));
    ucxpool_channel_abort(NULL);
    refused(ucxpool_channel_flush(NULL, NULL, NULL));
    ucxpool_channel_close(NULL);
    channel = pair_meet(pool, pool);
    ignored(ucxpool_channel_set_name(channel, NULL));
}

TEST(listeners)
{
    ucxpool_channel_t  *channel;
    ucxpool_listener_t *listener;

    refused(ucxpool_listener_create(NULL, "127.0.0.1:0", &listener));
    refused(ucxpool_listener_create(pool, NULL, &listener));
    refused(ucxpool_listener_create(pool, "127.0.0.1:0", NULL));
    refused(ucxpool_listener_accept(NULL, NULL, &channel));
    ignored(ck_assert_uint_eq(ucxpool_listener_port(NULL), 0));
    ucxpool_listener_destroy(NULL);
    assert_ok(ucxpool_listener_create(pool, "127.0.0.1:0", &listener));
    refused(ucxpool_listener_accept(listener, NULL, NULL));
    ucxpool_listener_destroy(listener);
}

TEST(sends_and_receives)
{
    ucxpool_request_t *request;

    refused(ucxpool_send_buffer(NULL, address, 1, TAG, NULL, &request));
    refused(ucxpool_send(NULL, &data, TAG, NULL, &request));
    refused(ucxpool_recv_buffer(NULL, NULL, address, 1, TAG, ALL_BITS, NULL,
                                &request));
    refused(ucxpool_recv(NULL, NULL, &data, TAG, ALL_BITS, NULL, &request));
}

static void check_data(ucxpool_data_t made, ucxpool_data_kind_t kind,
                       int is_source, size_t length)
{
    ck_assert_int_eq(made.kind, kind);
    ck_assert_int_eq(made.is_source, is_source);
    ck_assert_ptr_null(made.at.buffer);
    ck_assert_uint_eq(made.count, 1);
    ck_assert_uint_eq(made.length, length);
}

TEST(descriptions)
{
    ucxpool_places_t places = ucxpool_places(NULL, 2);
    ucxpool_places_t even   = ucxpool_places_even(NULL, 2, 3);
    ucxpool_range_t  memory = ucxpool_range_memory(NULL, 3);
    ucxpool_range_t  file   = ucxpool_range_file(4, 5, 6, NULL);

    check_data(ucxpool_source_buffer(NULL, 7), UCXPOOL_DATA_BUFFER, 1, 7);
    check_data(ucxpool_source_segments(NULL, 1), UCXPOOL_DATA_SEGMENTS, 1, 0);
    check_data(ucxpool_source_pieces(NULL, 1, 7), UCXPOOL_DATA_PIECES, 1, 7);
    check_data(ucxpool_source_ranges(NULL, 1), UCXPOOL_DATA_RANGES, 1, 0);
    check_data(ucxpool_data_buffer(NULL, 7), UCXPOOL_DATA_BUFFER, 0, 7);
    check_data(ucxpool_data_segments(NULL, 1), UCXPOOL_DATA_SEGMENTS, 0, 0);
    check_data(ucxpool_data_pieces(NULL, 1, 7), UCXPOOL_DATA_PIECES, 0, 7);
    ck_assert_uint_eq(places.count, 2);
    ck_assert_uint_eq(places.length, 0);
    ck_assert_uint_eq(even.count, 2);
    ck_assert_uint_eq(even.length, 3);
    ck_assert_int_eq(memory.kind, UCXPOOL_RANGE_MEMORY);
    ck_assert_int_eq(memory.fd, -1);
    ck_assert_uint_eq(memory.length, 3);
    ck_assert_uint_eq(memory.reserved[0] | memory.reserved[1], 0);
    ck_assert_uint_eq(file.reserved[0] | file.reserved[1], 0);
    ck_assert_int_eq(file.kind, UCXPOOL_RANGE_FILE);
    ck_assert_int_eq(file.fd, 4);
    ck_assert_int_eq(file.at.offset, 5);
    ck_assert_uint_eq(file.length, 6);
}

TEST(requests)
{
    ucxpool_request_attr_t attr;

    refused(ucxpool_request_test(NULL));
    assert_error_detail(ucxpool_request_wait(NULL, 0), INVALID_PARAM,
                        "is NULL");
    ignored(ucxpool_request_query(NULL, &attr, sizeof(attr)));
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_INVALID_PARAM);
    ck_assert_str_eq(attr.detail, "the request is NULL");
    ignored(ucxpool_request_query(NULL, NULL, 0));
    ignored(ucxpool_request_cancel(NULL));
    ucxpool_request_release(NULL);
}

TEST(messages)
{
    ucxpool_message_attr_t attr;
    ucxpool_message_t     *message;
    ucxpool_request_t     *request;

    refused(ucxpool_probe(NULL, NULL, TAG, ALL_BITS, &message));
    refused(ucxpool_probe(pool, NULL, TAG, ALL_BITS, NULL));
    memset(&attr, 0xff, sizeof(attr));
    ignored(ucxpool_message_query(NULL, &attr, sizeof(attr)));
    ck_assert_uint_eq(attr.length, 0);
    ck_assert_ptr_null(attr.channel);
    ignored(ucxpool_message_query(NULL, NULL, 0));
    ignored(ck_assert_uint_eq(ucxpool_message_lengths(NULL, 0, 1, &size), 0));
    refused(ucxpool_message_recv(NULL, &data, NULL, &request));
    ignored(ucxpool_message_refuse(NULL, "no"));
}

TEST(statistics)
{
    ucxpool_attr_t      attr;
    ucxpool_stat_attr_t stat;
    uint64_t            value;

    ignored(ucxpool_query(NULL, &attr, sizeof(attr)));
    ck_assert_str_eq(attr.name, "");
    ignored(ucxpool_query(pool, NULL, 0));
    refused(ucxpool_stats_query(0, NULL, sizeof(stat)));
    assert_error(
        ucxpool_stats_query(ucxpool_stats_count(), &stat, sizeof(stat)),
        INVALID_PARAM);
    refused(ucxpool_stats_read(NULL, &value, 1, &size));
    refused(ucxpool_stats_read(pool, NULL, 1, &size));
    refused(ucxpool_stats_read(pool, &value, 1, NULL));
    refused(ucxpool_stats_get(NULL, "block_size_bytes", &value));
    refused(ucxpool_stats_get(pool, NULL, &value));
    refused(ucxpool_stats_get(pool, "block_size_bytes", NULL));
    ignored(ucxpool_stats_print(NULL, stdout, UCXPOOL_STATS_TEXT));
    ignored(ucxpool_stats_print(pool, NULL, UCXPOOL_STATS_TEXT));
    ignored(ucxpool_heap_print(NULL, stdout, UCXPOOL_STATS_TEXT));
    ignored(ucxpool_heap_print(pool, NULL, UCXPOOL_STATS_TEXT));
    ignored(ck_assert_ptr_null(ucxpool_stats_string(NULL, UCXPOOL_STATS_TEXT)));
    ignored(ck_assert_ptr_null(ucxpool_heap_string(NULL, UCXPOOL_STATS_TEXT)));
}

TEST(statistics_of_channels)
{
    ucxpool_stat_attr_t stat;
    uint64_t            value;

    pair_begin(&pair, NULL, NULL);
    refused(ucxpool_channel_stats_query(0, NULL, sizeof(stat)));
    assert_error(ucxpool_channel_stats_query(ucxpool_channel_stats_count(),
                                             &stat, sizeof(stat)),
                 INVALID_PARAM);
    refused(ucxpool_channel_stats_read(NULL, &value, 1, &size));
    refused(ucxpool_channel_stats_read(pair.to_b, NULL, 1, &size));
    refused(ucxpool_channel_stats_read(pair.to_b, &value, 1, NULL));
    refused(ucxpool_channel_stats_get(NULL, "messages_sent", &value));
    refused(ucxpool_channel_stats_get(pair.to_b, NULL, &value));
    refused(ucxpool_channel_stats_get(pair.to_b, "messages_sent", NULL));
}

TEST(histograms)
{
    ucxpool_histogram_attr_t attr;
    ucxpool_histogram_t      histogram;
    const size_t             length = sizeof(histogram);

    refused(ucxpool_histogram_query(0, NULL, sizeof(attr)));
    assert_error(
        ucxpool_histogram_query(ucxpool_histogram_count(), &attr, sizeof(attr)),
        INVALID_PARAM);
    refused(ucxpool_histogram_get(NULL, "send_map_eager", &histogram, length));
    refused(ucxpool_histogram_get(pool, NULL, &histogram, length));
    refused(ucxpool_histogram_get(pool, "send_map_eager", NULL, length));
}

TEST(heaps)
{
    ucxpool_heap_segment_t piece;

    refused(ucxpool_heap_alloc(NULL, 1, NULL, &address));
    refused(ucxpool_heap_alloc(pool, 1, NULL, NULL));
    refused(ucxpool_heap_free(NULL, address, NULL));
    assert_ok(ucxpool_heap_free(pool, NULL, NULL));
    refused(ucxpool_heap_usable_size(NULL, address, &size));
    refused(ucxpool_heap_usable_size(pool, address, NULL));
    refused(ucxpool_heap_stream_end(NULL, NULL));
    refused(ucxpool_heap_segments(NULL, address, 1, &piece, 1, &size));
    refused(ucxpool_heap_segments(pool, address, 1, &piece, 1, NULL));
    refused(ucxpool_heap_segments(pool, address, 1, NULL, 1, &size));
    refused(ucxpool_heap_reserve(NULL, 1));
    refused(ucxpool_heap_trim(NULL, 0, &size));
    refused(ucxpool_heap_set_failure_handler(NULL, NULL, NULL));
}

/* NULL is a valid stream here; for a pool it selects the device's own. */
TEST(frameworks)
{
    refused(ucxpool_framework_pool(UCXPOOL_FRAMEWORK_HOST, NULL));
    assert_ok(ucxpool_framework_set_pool(UCXPOOL_FRAMEWORK_HOST, NULL));
    address = ucxpool_torch_alloc(1, UCXPOOL_FRAMEWORK_HOST, NULL);
    ck_assert_ptr_nonnull(address);
    ucxpool_torch_record_stream(NULL, NULL);
    ucxpool_torch_free(NULL, 1, UCXPOOL_FRAMEWORK_HOST, NULL);
    ucxpool_torch_free(address, 1, UCXPOOL_FRAMEWORK_HOST, NULL);
    address = ucxpool_torch_alloc_or_throw(1, UCXPOOL_FRAMEWORK_HOST, NULL);
    ck_assert_ptr_nonnull(address);
    ucxpool_torch_free(address, 1, UCXPOOL_FRAMEWORK_HOST, NULL);
    ucxpool_torch_empty_cache();
    address = ucxpool_cupy_malloc(NULL, 1, UCXPOOL_FRAMEWORK_HOST);
    ck_assert_ptr_nonnull(address);
    ucxpool_cupy_free(NULL, NULL, UCXPOOL_FRAMEWORK_HOST);
    ucxpool_cupy_free(NULL, address, UCXPOOL_FRAMEWORK_HOST);
}

TEST(rmm)
{
    address = ucxpool_rmm_alloc(1, NULL, pool);
    ck_assert_ptr_nonnull(address);
    ucxpool_rmm_free(address, 1, NULL, pool);
    ucxpool_rmm_free(NULL, 1, NULL, pool);
    ucxpool_rmm_free(NULL, 1, NULL, NULL);
}

TEST(queries_of_ucx_and_gpus)
{
    ucxpool_domain_t domain;

    ignored(ck_assert_uint_eq(ucxpool_domains_query(NULL, &domain, 1), 0));
    ignored(ck_assert_uint_eq(ucxpool_domains_query(pool, NULL, 1), 0));
    ck_assert_int_eq(ucxpool_device_query(0, NULL, NULL, 0),
                     UCXPOOL_ERR_INVALID_PARAM);
    ck_assert_int_eq(ucxpool_device_list_alloc(0, 64, NULL),
                     UCXPOOL_ERR_INVALID_PARAM);
    ucxpool_device_list_free(NULL);
}

TEST(errors_and_streams)
{
    const ucxpool_error_level_t level = UCXPOOL_ERROR_LEVEL_DEBUG;
    void                       *stream;

    ck_assert_int_eq(ucxpool_error_set_level(level), UCXPOOL_ERROR_LEVEL_INFO);
    ck_assert_int_eq(ucxpool_error_set_level(UCXPOOL_ERROR_LEVEL_INFO), level);
    assert_error(ucxpool_error_set(UCXPOOL_ERR_BUSY, "%d is busy", 5), BUSY);
    ck_assert_str_eq(ucxpool_error_detail(), "5 is busy");
    refused(ucxpool_device_join_streams(0, NULL, NULL, 1, &stream));
    refused(ucxpool_device_join_streams(0, NULL, NULL, 0, NULL));
    assert_error(ucxpool_device_join_streams(-1, NULL, NULL, 0, &stream),
                 INVALID_PARAM);
    ucxpool_device_synchronize(-1);
    ck_assert(!ucxpool_is_foreign(NULL));
}

TEST(verbs)
{
    ucxpool_verbs_piece_t piece;
    ucxpool_verbs_t      *registered;

    refused(ucxpool_verbs_register(NULL, address, 0, &registered));
    assert_error(ucxpool_verbs_register(pool, NULL, 0, &registered),
                 INVALID_PARAM);
    assert_error(ucxpool_verbs_register(pool, address, 0, NULL), INVALID_PARAM);
    refused(ucxpool_verbs_keys(NULL, address, 1, &piece));
    assert_ok(ucxpool_verbs_deregister(NULL));
}
