/*
 * The heap of a pool: it shares one budget with the blocks, and its memory is
 * sent like any other; on the host and on a GPU.
 */
#include "gpu.h"
#include "test.h"

#include "core/stats.h"

#include <ucxpool/private.h>

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define TAG UINT64_C(3)

#define NUM_MEMORIES 2 /* 0: the host's; 1: a GPU's */

static ucxpool_t *pool;

static void destroy(void)
{
    assert_ok(ucxpool_check(pool));
    ucxpool_destroy(pool);
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.live(), 0);
    }
}

static void create(int memory, const char *settings)
{
    cuda_start("");
    pool = (memory == 0) ? pair_pool(settings) : pair_pool_on(0, settings);
    test_at_end(destroy);
}

static void *get(size_t size)
{
    void *address = NULL;

    assert_ok(ucxpool_heap_alloc(pool, size, NULL, &address));
    return address;
}

static void put(void *address)
{
    assert_ok(ucxpool_heap_free(pool, address, NULL));
}

TEST_SETTINGS(.timeout = 60, .only_if = cuda_is_present);

TEST_EACH(pool_with_only_a_heap_has_no_blocks, NUM_MEMORIES)
{
    heap_stats_t    heap;
    core_stats_t    stats;
    ucxpool_block_t block;
    void           *address;

    create(_i, "COMM_SIZE=0 MEMORY_LIMIT=16m");
    put(get(16 * MIB));
    core_heap_stats_get(pool, &heap);
    ck_assert_uint_eq(heap.limit, 16 * MIB);
    core_stats_get(pool, &stats);
    ck_assert_uint_eq(stats.num_regions, 0);
    ck_assert_uint_eq(stats.registered_bytes, 0);
    ck_assert_uint_eq(stats.registrations, 0);
    for (int i = 0; i < BLOCK_SHARE_LAST; i++) {
        ck_assert_uint_eq(stats.blocks[i].total, 0);
    }
    ck_assert_uint_eq(ucxpool_domains_query(pool, NULL, 0), 0);
    assert_error(ucxpool_block_get(pool, &block), NO_BLOCKS);
    assert_error(ucxpool_block_get_n(pool, 2, &block), NO_BLOCKS);
    assert_error(ucxpool_comm_alloc(pool, 1, &address), NO_BLOCKS);
    ucxpool_progress(pool);
}

/* In a pool without blocks, the error says what to change. */
static void assert_no_channels(ucxpool_status_t status)
{
    ck_assert_int_eq(status, UCXPOOL_ERR_UNSUPPORTED);
    assert_detail("set UCXPOOL_COMM_SIZE");
}

TEST_EACH(pool_with_only_a_heap_has_no_channels, NUM_MEMORIES)
{
    ucxpool_channel_params_t params = {.field_mask =
                                           UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS};
    ucxpool_channel_t       *channel;
    ucxpool_listener_t      *listener;
    void                    *address;

    create(_i, "COMM_SIZE=0 LOG_LEVEL=none");
    assert_ok(ucxpool_address_get(pool, &address, &params.address_length));
    params.address = address;
    assert_no_channels(ucxpool_channel_create(pool, &params, &channel));
    ucxpool_address_release(address);
    assert_no_channels(
        ucxpool_channel_connect(pool, "127.0.0.1:1", NULL, &channel));
    assert_no_channels(ucxpool_listener_create(pool, "127.0.0.1:0", &listener));
}

TEST_EACH(a_pool_without_a_heap_has_an_empty_one, NUM_MEMORIES)
{
    heap_stats_t stats;
    size_t       size = 1;

    create(_i, "");
    core_heap_stats_get(pool, &stats);
    ck_assert_uint_eq(stats.reserved, 0);
    assert_ok(ucxpool_heap_trim(pool, 0, &size));
    ck_assert_uint_eq(size, 0);
    assert_ok(ucxpool_heap_free(pool, NULL, NULL));
    assert_error(ucxpool_heap_free(pool, &size, NULL), INVALID_PARAM);
    assert_error(ucxpool_heap_usable_size(pool, &size, &size), INVALID_PARAM);
    assert_ok(ucxpool_heap_stream_end(pool, NULL));
}

TEST_EACH(blocks_and_heap_share_one_limit, NUM_MEMORIES)
{
    heap_stats_t stats;
    void        *address;

    create(_i, "COMM_SIZE=16m BLOCK_SIZE=2m REGION_SIZE=2m MEMORY_LIMIT=64m");
    (void)get(48 * MIB);
    core_heap_stats_get(pool, &stats);
    ck_assert_uint_eq(stats.limit, 48 * MIB);
    assert_error(ucxpool_heap_alloc(pool, 300000, NULL, &address), NO_MEMORY);
}

TEST(host_blocks_use_no_gpu_memory)
{
    heap_stats_t stats;

    create(1, "CUDA_BACKING=host COMM_SIZE=16m BLOCK_SIZE=2m REGION_SIZE=2m "
              "MEMORY_LIMIT=64m");
    (void)get(64 * MIB);
    core_heap_stats_get(pool, &stats);
    ck_assert_uint_eq(stats.limit, 64 * MIB);
}

TEST_EACH(a_limit_that_the_blocks_fill_leaves_no_heap, NUM_MEMORIES)
{
    void *address;

    create(_i, "COMM_SIZE=16m BLOCK_SIZE=2m REGION_SIZE=2m MEMORY_LIMIT=17m");
    assert_error_detail(ucxpool_heap_alloc(pool, 1, NULL, &address), NO_MEMORY,
                        "the memory limit, 17m, leaves no memory");
}

/* Valgrind has less address space than a heap for all host memory needs. */
TEST_WITH(settings_beyond_the_memory_are_reduced, .first = 1,
          .end = NUM_MEMORIES)
{
    heap_stats_t stats;

    create(_i, "COMM_SIZE=16m MEMORY_LIMIT=4096t HEAP_STITCH=4096t");
    (void)get(MIB);
    core_heap_stats_get(pool, &stats);
    ck_assert_uint_gt(stats.limit, 64 * MIB);
    ck_assert_uint_lt(stats.limit, UINT64_C(1) << 50);
}

TEST(stitched_heap_buffer_can_be_sent)
{
    static uint8_t     message[20 * MIB], arrived[20 * MIB];
    ucxpool_request_t *send, *recv;
    pair_t             pair;
    void              *pieces[12];
    char              *from, *to;

    gpu_start("");
    gpu_connect(&pair, "MEMORY_LIMIT=64m COMM_SIZE=16m", "COMM_SIZE=16m");
    pool = pair.a;
    for (int i = 0; i < 12; i++) {
        pieces[i] = get(4 * MIB);
    }
    for (int i = 0; i < 12; i += 2) {
        put(pieces[i]);
    }
    from = get(sizeof(message));
    to   = gpu_alloc(sizeof(message));
    pair_fill(message, sizeof(message));
    gpu_write(from, message, sizeof(message));
    recv = pair_recv(pair.b, pair.to_a, to, sizeof(message), TAG);
    send = pair_send(pair.to_b, from, sizeof(message), TAG);
    gpu_finish_both(&pair, send, recv);
    gpu_read(arrived, to, sizeof(arrived));
    ck_assert_int_eq(memcmp(arrived, message, sizeof(message)), 0);
    gpu_free(to);
    gpu_disconnect(&pair);
    gpu_stop();
}

static size_t print(ucxpool_stats_format_t format, char *text, size_t size)
{
    FILE *stream = fmemopen(text, size, "w");

    ck_assert_ptr_nonnull(stream);
    ucxpool_heap_print(pool, stream, format);
    fclose(stream);
    return strlen(text);
}

TEST_EACH(counters_are_printed_in_three_formats, NUM_MEMORIES)
{
    char text[16384];

    create(_i, "MEMORY_LIMIT=64m COMM_SIZE=16m");
    (void)get(3 * MIB);
    print(UCXPOOL_STATS_TEXT, text, sizeof(text));
    assert_has(text, "\n  heap_live_bytes                3145728 bytes\n");
    assert_has(text, " 3145728 live\n");
    assert_has(text, " live\n");
    assert_has(text, " hole\n");
    print(UCXPOOL_STATS_JSON, text, sizeof(text));
    assert_has(text, ",\"heap_live_bytes\":3145728,");
    assert_has(text, "{\"size\":4194304,\"live\":1,\"live_bytes\":3145728,");
    print(UCXPOOL_STATS_OPENMETRICS, text, sizeof(text));
    assert_has(text, "\nucxpool_heap_live_bytes{pool=\"");
    assert_has(text, "\nucxpool_heap_allocations_total{");
    ck_assert_str_eq(text + strlen(text) - 6, "# EOF\n");
}

/* Make a locale with a decimal comma and use it. localedef warns about all
 * other categories, and its exit status is then not 0. */
static void use_decimal_comma(void)
{
    char folder[] = "/tmp/test_heap_pool_XXXXXX";
    char command[500];

    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(command, sizeof(command),
             "cd %s && "
             "printf 'LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\n"
             "grouping -1\nEND LC_NUMERIC\n' >numeric && "
             "printf 'CHARMAP\n<comma> /x2c\nEND CHARMAP\n' >charmap && "
             "localedef -c -i ./numeric -f ./charmap ./comma >/dev/null 2>&1",
             folder);
    (void)!system(command);
    setenv("LOCPATH", folder, 1);
    ck_assert_ptr_nonnull(setlocale(LC_NUMERIC, "comma"));
    unsetenv("LOCPATH"); /* glibc's newlocale() leaks a copy of it */
    ck_assert_str_eq(localeconv()->decimal_point, ",");
    snprintf(command, sizeof(command), "rm -r %s", folder);
    ck_assert_int_eq(system(command), 0);
}

TEST(numbers_have_a_point_in_any_locale)
{
    char text[16384];

    use_decimal_comma();
    create(0, "MEMORY_LIMIT=64m COMM_SIZE=16m");
    (void)get(3 * MIB);
    print(UCXPOOL_STATS_TEXT, text, sizeof(text));
    assert_has(text, "  heap_fragmentation             0.");
    print(UCXPOOL_STATS_JSON, text, sizeof(text));
    assert_has(text, ",\"heap_fragmentation\":0.");
    print(UCXPOOL_STATS_OPENMETRICS, text, sizeof(text));
    assert_has(text, "\"} 0.");
}

TEST(ucx_reads_numbers_in_any_locale)
{
    use_decimal_comma();
    setenv("UCX_KEEPALIVE_INTERVAL", "20.5s", 1);
    create(0, "MEMORY_LIMIT=64m COMM_SIZE=16m");
}

/* The last format is unknown. */
TEST_EACH(print_writes_the_text_of_the_string, UCXPOOL_STATS_OPENMETRICS + 2)
{
    ucxpool_stats_format_t format = (ucxpool_stats_format_t)_i;
    char                   text[16384];
    char                  *string;

    create(0, "MEMORY_LIMIT=64m COMM_SIZE=16m");
    (void)get(3 * MIB);
    string = ucxpool_heap_string(pool, format);
    ck_assert_ptr_nonnull(string);
    print(format, text, sizeof(text));
    ck_assert_str_eq(string, text);
    ck_assert_int_eq(string[0] == '{', format == UCXPOOL_STATS_JSON);
    ck_assert_int_eq(string[0] == '#', format == UCXPOOL_STATS_OPENMETRICS);
    ucxpool_string_free(string);
}

TEST_EACH(a_log_has_every_call, NUM_MEMORIES)
{
    char  path[] = "/tmp/test_heap_pool.XXXXXX";
    char  settings[120], line[200];
    int   fd = mkstemp(path);
    FILE *log;

    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(settings, sizeof(settings), "HEAP_LOG=%s COMM_SIZE=16m", path);
    create(_i, settings);
    put(get(1000));
    test_end();
    log = fopen(path, "r");
    ck_assert_ptr_nonnull(log);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), log));
    ck_assert_str_eq(line, "Thread,Time,Action,Pointer,Size,Stream\n");
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), log));
    assert_has(line, ",allocate,0x");
    assert_has(line, ",1000,");
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), log));
    assert_has(line, ",free,0x");
    ck_assert_ptr_null(fgets(line, sizeof(line), log));
    fclose(log);
    unlink(path);
}

TEST_EACH(failed_log_creation_is_an_error, NUM_MEMORIES)
{
    void *address;

    create(_i, "HEAP_LOG=/nowhere/log COMM_SIZE=16m");
    assert_error_detail(ucxpool_heap_alloc(pool, 1, NULL, &address),
                        INVALID_PARAM, "/nowhere/log");
}

TEST(gpu_without_virtual_memory_has_no_heap)
{
    void *address;

    cuda_start("vmm=n");
    if (cuda_is_real()) {
        return;
    }
    pool = pair_pool_on(0, "COMM_SIZE=16m");
    assert_error(ucxpool_heap_alloc(pool, 1, NULL, &address), UNSUPPORTED);
    destroy();
}
