/* Structs that the library fills for programs compiled with other versions of
 * the headers, whose structs have fewer fields or more. */
#include "cuda_fixture.h"
#include "pair.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#define ALL_BITS UINT64_MAX
#define OTHER    16 /* bytes by which the struct of another version differs */

static pair_t                   pair;
static ucxpool_window_t        *window;
static ucxpool_remote_window_t *remote;
static ucxpool_message_t       *message;
static ucxpool_request_t       *request;
static char                     memory[4096];

static void query_pool(void *attr, size_t size)
{
    ucxpool_query(pair.a, attr, size);
}

static void query_stat(void *attr, size_t size)
{
    assert_ok(ucxpool_stats_query(0, attr, size));
}

static void query_histogram(void *attr, size_t size)
{
    assert_ok(ucxpool_histogram_query(0, attr, size));
}

static void get_histogram(void *histogram, size_t size)
{
    assert_ok(ucxpool_histogram_get(pair.a, "send_map_eager", histogram, size));
}

static void query_channel(void *attr, size_t size)
{
    ucxpool_channel_query(pair.to_b, attr, size);
}

static void query_message(void *attr, size_t size)
{
    ucxpool_message_query(message, attr, size);
}

static void query_request(void *attr, size_t size)
{
    ucxpool_request_query(request, attr, size);
}

static void query_window(void *attr, size_t size)
{
    ucxpool_window_query(window, attr, size);
}

static void query_remote(void *attr, size_t size)
{
    ucxpool_remote_window_query(remote, attr, size);
}

static void query_device(void *attr, size_t size)
{
    ((ucxpool_device_attr_t *)attr)->field_mask = 0;
    assert_ok(ucxpool_device_query(0, NULL, attr, size));
}

static void query_config(void *attr, size_t size)
{
    ucxpool_config_t *config;

    assert_ok(ucxpool_config_read(&config));
    assert_ok(ucxpool_config_query(config, "WIRE", attr, size));
    ucxpool_config_release(config);
}

static const struct {
    size_t size;
    void (*query)(void *attr, size_t size);
} structs[] = {
    {sizeof(ucxpool_attr_t), query_pool},
    {sizeof(ucxpool_stat_attr_t), query_stat},
    {sizeof(ucxpool_histogram_attr_t), query_histogram},
    {sizeof(ucxpool_histogram_t), get_histogram},
    {sizeof(ucxpool_channel_attr_t), query_channel},
    {sizeof(ucxpool_message_attr_t), query_message},
    {sizeof(ucxpool_request_attr_t), query_request},
    {sizeof(ucxpool_window_attr_t), query_window},
    {sizeof(ucxpool_remote_window_attr_t), query_remote},
    {sizeof(ucxpool_device_attr_t), query_device},
    {sizeof(ucxpool_config_attr_t), query_config},
};
#define NUM_STRUCTS (sizeof(structs) / sizeof(structs[0]))

static void make_objects(void)
{
    char blob[UCXPOOL_WINDOW_BLOB_SIZE];

    cuda_start("devices=1");
    pair_init(&pair, "", "");
    assert_ok(
        ucxpool_window_create(pair.b, memory, sizeof(memory), NULL, &window));
    assert_ok(ucxpool_window_export(window, UCXPOOL_WINDOW_READ, blob));
    assert_ok(
        ucxpool_remote_window_import(pair.to_b, blob, sizeof(blob), &remote));
    request = pair_send(pair.to_b, memory, sizeof(memory), 1);
    do {
        pair_progress(&pair);
        assert_ok(ucxpool_probe(pair.b, NULL, 1, ALL_BITS, &message));
    } while (message == NULL);
}

static void release_objects(void)
{
    ucxpool_message_refuse(message, NULL);
    pair_finish(&pair, request);
    ucxpool_remote_window_release(remote);
    pair_destroy_window(window);
    pair_cleanup(&pair);
}

/* The buffer ends with the struct, so that AddressSanitizer and valgrind detect
 * each write beyond it. */
static unsigned char *query(int which, size_t size)
{
    unsigned char *attr = malloc(size);

    ck_assert_ptr_nonnull(attr);
    memset(attr, 0xa5, size);
    structs[which].query(attr, size);
    return attr;
}

TEST_SETTINGS(.setup = make_objects, .teardown = release_objects,
              .only_if = cuda_is_present);

TEST_EACH(queries_fill_the_fields_that_an_older_program_knows, NUM_STRUCTS)
{
    size_t         size  = structs[_i].size;
    unsigned char *whole = query(_i, size);
    unsigned char *older = query(_i, size - OTHER);

    ck_assert_mem_eq(older, whole, size - OTHER);
    free(older);
    free(whole);
}

TEST_EACH(queries_clear_the_fields_that_only_a_newer_program_knows, NUM_STRUCTS)
{
    static const unsigned char zeros[OTHER];
    size_t                     size  = structs[_i].size;
    unsigned char             *whole = query(_i, size);
    unsigned char             *newer = query(_i, size + OTHER);

    ck_assert_mem_eq(newer, whole, size);
    ck_assert_mem_eq(newer + size, zeros, OTHER);
    free(newer);
    free(whole);
}

TEST(reserved_fields_are_set_to_0)
{
    ucxpool_block_t        block;
    ucxpool_heap_segment_t segment;
    void                  *address;
    size_t                 num;

    memset(&block, 0xa5, sizeof(block));
    assert_ok(ucxpool_block_get(pair.a, &block));
    ck_assert_uint_eq(block.reserved[0] | block.reserved[1], 0);
    ucxpool_block_put(pair.a, &block);

    memset(&segment, 0xa5, sizeof(segment));
    assert_ok(ucxpool_heap_alloc(pair.a, 1, NULL, &address));
    assert_ok(ucxpool_heap_segments(pair.a, address, 1, &segment, 1, &num));
    ck_assert_uint_eq(segment.reserved[0] | segment.reserved[1], 0);
    assert_ok(ucxpool_heap_free(pair.a, address, NULL));
}
