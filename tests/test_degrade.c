/* A pool that cannot get the requested memory uses less, and logs that. */
#include <config.h>

#include "base/math.h"
#include "caught.h"
#include "cuda_fixture.h"
#include "mem/nvml.h"
#include "pair.h"
#include "test.h"
#include "reg_stand_in/reg.h"

#include "core/stats.h"

#include <ucxpool/ucxpool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static ucxpool_t   *pool;
static core_stats_t stats;

/* "KEY=value KEY=value" */
static ucxpool_status_t create_on(int device, const char *settings)
{
    ucxpool_params_t params = {
        .memory_kind = UCXPOOL_MEMORY_CUDA,
        .device      = device,
    };
    ucxpool_status_t status;

    if (device >= 0) {
        params.field_mask |=
            UCXPOOL_PARAM_FIELD_MEMORY_KIND | UCXPOOL_PARAM_FIELD_DEVICE;
    }
    pool   = NULL;
    status = pair_try_pool(&params, settings, &pool);
    if (status == UCXPOOL_OK) {
        core_stats_get(pool, &stats);
        assert_ok(ucxpool_check(pool));
    } else {
        ck_assert_ptr_null(pool);
        ck_assert_uint_eq(reg_counts().live, 0);
    }
    return status;
}

static void create(int device, const char *settings)
{
    uint64_t num_maps = reg_counts().num_maps;

    assert_ok(create_on(device, settings));
    ck_assert_uint_eq(stats.registered_bytes, reg_counts().live);
    ck_assert_uint_eq(stats.registrations, reg_counts().num_maps - num_maps);
    ck_assert_uint_eq(stats.registrations_after_start, 0);
}

static void destroy(void)
{
    ucxpool_destroy(pool);
    ck_assert_uint_eq(reg_counts().live, 0);
}

/* The test creates another pool. */
static void require_passes(void)
{
    reg_configure("cuda=y");
    pair_send_from(pool);
}

static uint64_t num_blocks(void)
{
    return stats.blocks[BLOCK_SHARE_SEND].total +
           stats.blocks[BLOCK_SHARE_RECV].total +
           stats.blocks[BLOCK_SHARE_USER].total;
}

static void require_whole(void)
{
    ck_assert_int_eq(stats.degraded_to, UCXPOOL_DEGRADED_NONE);
    ck_assert_uint_eq(stats.degradations, 0);
    ck_assert_str_eq(stats.degraded_why, "");
    ck_assert_uint_eq(num_blocks(), stats.blocks_asked);
}

static void require_less(ucxpool_degraded_t to)
{
    ck_assert_int_eq(stats.degraded_to, to);
    ck_assert_uint_gt(stats.degradations, 0);
    ck_assert_str_ne(stats.degraded_why, "");
    ck_assert_uint_ge(stats.blocks[BLOCK_SHARE_SEND].total, 1);
    ck_assert_uint_ge(stats.blocks[BLOCK_SHARE_RECV].total, 1);
}

static void setup(void)
{
    reg_configure("");
    setenv(MEM_NVML_LIBRARY_VARIABLE, "/nonexistent/libnvidia-ml.so.1", 1);
}

/* --- host memory ------------------------------------------------------- */

TEST_SETTINGS(.setup = setup, .timeout = 200, .only_if = cuda_is_present);

TEST(unlimited_pool_gets_all_it_requests)
{
    create(-1, "COMM_SIZE=32m REGION_SIZE=8m BLOCK_SIZE=1m");
    require_whole();
    ck_assert_uint_eq(stats.registrations, 4);
    ck_assert_uint_eq(stats.bytes_asked, 32 * MIB);
    ck_assert_uint_eq(stats.blocks_asked, 32);
    ck_assert_uint_gt(stats.registration_ns, 0);
    destroy();
}

TEST(create_keeps_registered_regions)
{
    reg_configure("bytes=20m");
    create(-1, "COMM_SIZE=32m REGION_SIZE=8m BLOCK_SIZE=1m");
    require_less(UCXPOOL_DEGRADED_FEWER);
    ck_assert_uint_eq(stats.degradations, 1);
    ck_assert_uint_eq(stats.registered_bytes, 16 * MIB);
    ck_assert_uint_eq(num_blocks(), 16);
    ck_assert_uint_eq(stats.blocks_asked, 32);
    ck_assert_uint_eq(stats.bytes_asked, 32 * MIB);
    assert_has(stats.degraded_why, "registering region 2");
    require_passes();
    destroy();
}

TEST(region_shrinks_to_the_limit)
{
    reg_configure("bytes=5m");
    create(-1, "COMM_SIZE=32m");
    require_less(UCXPOOL_DEGRADED_FEWER);
    ck_assert_uint_le(stats.registered_bytes, 5 * MIB);
    ck_assert_uint_ge(stats.registered_bytes, 4 * MIB);
    require_passes();
    destroy();
}

/* At any limit: within it, and close to it. */
TEST(pool_uses_most_of_the_limit)
{
    char text[40];

    for (size_t limit = 1 * MIB; limit <= 70 * MIB; limit += 3 * MIB / 2) {
        snprintf(text, sizeof(text), "bytes=%zu", limit);
        reg_configure(text);
        create(-1, "COMM_SIZE=64m");
        ck_assert_uint_le(reg_counts().peak, limit);
        ck_assert_uint_ge(stats.registered_bytes,
                          base_min(limit, 64 * MIB) / 5 * 4);
        destroy();
    }
}

TEST(minimum_is_one_block_per_share)
{
    /* Three shares, three blocks. */
    reg_configure("bytes=3m");
    create(-1, "COMM_SIZE=8m BLOCK_SIZE=1m REGION_SIZE=1m");
    require_less(UCXPOOL_DEGRADED_FEWER);
    ck_assert_uint_eq(num_blocks(), 3);
    ck_assert_uint_eq(stats.blocks[BLOCK_SHARE_USER].total, 1);
    destroy();
    reg_configure("bytes=2m");
    assert_error(create_on(-1, "COMM_SIZE=8m BLOCK_SIZE=1m REGION_SIZE=1m"),
                 IO);
    assert_detail("registering region 2 of 8");
    /* Two shares, two blocks. */
    create(-1, "COMM_SIZE=8m BLOCK_SIZE=1m REGION_SIZE=1m SEND_SHARE=50 "
               "RECV_SHARE=50");
    ck_assert_uint_eq(num_blocks(), 2);
    destroy();
    reg_configure("bytes=1m");
    assert_error(create_on(-1, "COMM_SIZE=8m BLOCK_SIZE=1m REGION_SIZE=1m "
                               "SEND_SHARE=50 RECV_SHARE=50"),
                 IO);
}

TEST(explicit_sizes_are_kept)
{
    reg_configure("bytes=20m");
    create(-1, "COMM_SIZE=32m BLOCK_SIZE=4m");
    ck_assert_uint_eq(stats.block_size, 4 * MIB);
    destroy();
    /* A fragment must fit in a block. */
    create(-1, "COMM_SIZE=32m FRAG_SIZE=2m");
    ck_assert_uint_ge(stats.block_size, 2 * MIB);
    destroy();
    reg_configure("bytes=5m");
    assert_error(create_on(-1, "COMM_SIZE=32m FRAG_SIZE=2m"), IO);
}

TEST(strict_is_all_or_nothing)
{
    reg_configure("bytes=31m");
    assert_error(create_on(-1, "COMM_SIZE=32m COMM_STRICT=y"), IO);
    assert_detail("ulimit -l");
    ck_assert_uint_eq(reg_counts().num_maps, 1);
    reg_configure("bytes=32m");
    create(-1, "COMM_SIZE=32m COMM_STRICT=y");
    require_whole();
    destroy();
}

TEST(permanent_registration_failure_is_an_error)
{
    for (unsigned first = 1; first <= 3; first++) {
        char text[40];

        snprintf(text, sizeof(text), "first=%u", first);
        reg_configure(text);
        assert_error(
            create_on(-1, "COMM_SIZE=32m REGION_SIZE=8m BLOCK_SIZE=1m"), IO);
        reg_configure("");
        create(-1, "COMM_SIZE=32m REGION_SIZE=8m BLOCK_SIZE=1m");
        require_whole();
        destroy();
    }
}

TEST(pool_survives_any_single_failed_registration)
{
    for (unsigned n = 1; n <= 4; n++) {
        char text[40];

        snprintf(text, sizeof(text), "first=%u,once=y", n);
        reg_configure(text);
        create(-1, "COMM_SIZE=32m REGION_SIZE=8m BLOCK_SIZE=1m");
        require_less(UCXPOOL_DEGRADED_FEWER);
        ck_assert_uint_eq(reg_counts().num_refused, 1);
        destroy();
    }
}

TEST(missing_host_memory_is_an_error)
{
    ck_assert_int_ne(create_on(-1, "COMM_SIZE=1000t"), UCXPOOL_OK);
    ck_assert_uint_eq(reg_counts().num_maps, 0);
}

static size_t count_words(const char *text, const char *words)
{
    size_t num = 0;

    while ((text = strstr(text, words)) != NULL) {
        text += strlen(words);
        num++;
    }
    return num;
}

TEST(each_reduction_is_logged_once_with_figures)
{
    const char *text;

    reg_configure("bytes=5m");
    caught_begin();
    create(-1, "COMM_SIZE=32m");
    destroy();
    text = caught_text();
    caught_end();
    ck_assert_msg(count_words(text, "WARN") == 1, "%s", text);
    assert_has(text, "instead of 32m (32 of 1m)");
}

TEST(statistics_show_the_reduction)
{
    static const struct {
        ucxpool_stats_format_t format;
        const char            *words[3];
    } formats[] = {
        {UCXPOOL_STATS_TEXT,
         {"degraded_to                    fewer",
          "degraded_why                   registering",
          "blocks_asked                   32"}},
        {UCXPOOL_STATS_JSON,
         {"\"degraded_to\":\"fewer\"", "\"degraded_why\":\"registering region",
          "\"blocks_asked\":32"}},
        {UCXPOOL_STATS_OPENMETRICS,
         {"to=\"fewer\"} 1", "to=\"none\"} 0", "ucxpool_blocks_asked{pool="}},
    };

    reg_configure("bytes=20m");
    create(-1, "COMM_SIZE=32m REGION_SIZE=8m BLOCK_SIZE=1m");
    for (int i = 0; i < 3; i++) {
        char *text = ucxpool_stats_string(pool, formats[i].format);

        for (int j = 0; j < 3; j++) {
            assert_has(text, formats[i].words[j]);
        }
        ucxpool_string_free(text);
    }
    destroy();
}

/* --- a GPU ------------------------------------------------------------- */

static void start(const char *cuda, const char *nvml, const char *reg)
{
    cuda_start(cuda);
    reg_configure(reg);
    if (nvml != NULL) {
        setenv(MEM_NVML_LIBRARY_VARIABLE, NVML_STAND_IN_PATH, 1);
        setenv("NVML_STAND_IN", nvml, 1);
    }
}

static const char t4[]     = "name=Tesla T4,memory=15g";
static const char t4_bar[] = "bar1=268435456,used=4194304";

STAND_IN_TEST(auto_size_stays_within_the_budget)
{
    start(t4, t4_bar, "cuda=y,of=cuda,bytes=210m");
    create(0, "");
    require_whole();
    ck_assert_uint_eq(stats.budget_bytes, 192 * MIB);
    ck_assert_uint_eq(stats.registered_bytes, 192 * MIB);
    ck_assert_uint_eq(reg_counts().num_refused, 0);
    destroy();
}

STAND_IN_TEST_EACH(size_above_the_budget_is_reduced, 3)
{
    static const char *const backings[] = {"alloc", "vmm", "auto"};
    char                     settings[80];

    start(t4, t4_bar, "cuda=y,of=cuda,bytes=210m");
    snprintf(settings, sizeof(settings), "COMM_SIZE=500m CUDA_BACKING=%s",
             backings[_i]);
    create(0, settings);
    require_less(UCXPOOL_DEGRADED_FEWER);
    ck_assert_uint_le(reg_counts().peak, 210 * MIB);
    ck_assert_uint_ge(stats.registered_bytes, 180 * MIB);
    destroy();
    ck_assert_uint_eq(stand_in.live(), 0);
}

STAND_IN_TEST(two_pools_on_one_gpu_share_bar1)
{
    ucxpool_t *first;

    start(t4, t4_bar, "cuda=y,of=cuda,bytes=210m");
    create(0, "COMM_SIZE=190m");
    first = pool;
    assert_ok(create_on(0, "COMM_SIZE=190m"));
    require_less(UCXPOOL_DEGRADED_FEWER);
    ck_assert_uint_lt(stats.registered_bytes, 40 * MIB);
    ck_assert_uint_le(reg_counts().peak, 210 * MIB);
    ucxpool_destroy(pool);
    ucxpool_destroy(first);
    ck_assert_uint_eq(reg_counts().live, 0);
    ck_assert_uint_eq(stand_in.live(), 0);
}

STAND_IN_TEST_EACH(nic_without_gpu_memory_gets_pinned_blocks, 3)
{
    static const char *const refusals[] = {"cuda=y,of=cuda,first=1",
                                           "cuda=y,of=cuda,bytes=1m",
                                           "cuda=y,of=cuda,first=1,lying=y"};

    start(t4, t4_bar, refusals[_i]);
    assert_ok(create_on(0, "COMM_SIZE=64m"));
    require_less(UCXPOOL_DEGRADED_PINNED);
    ck_assert_uint_eq(stats.bytes_asked, 64 * MIB);
    ck_assert_uint_eq(stats.registered_bytes, 64 * MIB);
    require_passes();
    destroy();
    ck_assert_uint_eq(stand_in.live(), 0);
}

STAND_IN_TEST(pinned_memory_is_reduced_too)
{
    start(t4, t4_bar, "cuda=y,first=1");
    assert_error(create_on(0, "COMM_SIZE=64m"), IO);
    assert_detail("then: registering");
    ck_assert_uint_eq(stand_in.live(), 0);
    reg_configure("cuda=y");
    create(0, "COMM_SIZE=64m");
    require_whole();
    destroy();
}

STAND_IN_TEST(explicit_backing_is_kept)
{
    start(t4, t4_bar, "cuda=y,of=cuda,first=1");
    assert_error(create_on(0, "COMM_SIZE=64m CUDA_BACKING=alloc"), IO);
    assert_error(create_on(0, "COMM_SIZE=64m COMM_STRICT=y"), IO);
    assert_detail("UCXPOOL_CUDA_BACKING=host");
    ck_assert_uint_eq(stand_in.live(), 0);
    assert_ok(create_on(0, "COMM_SIZE=64m CUDA_BACKING=host"));
    require_whole();
    destroy();
}

STAND_IN_TEST(full_bar1_is_not_tried)
{
    start(t4, "bar1=268435456,used=262144000", "cuda=y,of=cuda,bytes=6m");
    assert_ok(create_on(0, ""));
    ck_assert_int_eq(stats.degraded_to, UCXPOOL_DEGRADED_PINNED);
    assert_has(stats.degraded_why, "BAR1 has room for 0");
    ck_assert_uint_eq(reg_counts().num_maps, 0);
    ucxpool_destroy(pool);
    assert_error(create_on(0, "COMM_STRICT=y"), NO_MEMORY);
    assert_detail("UCXPOOL_COMM_SIZE");
    /* An explicit size is always tried. */
    create(0, "COMM_SIZE=6m");
    require_whole();
    destroy();
}

STAND_IN_TEST_EACH(full_gpu_gives_the_memory_it_has, 2)
{
    static const char *const backings[] = {"alloc", "vmm"};
    char                     settings[80];

    start("memory=64m", NULL, "cuda=y,of=cuda");
    snprintf(settings, sizeof(settings), "COMM_SIZE=100m CUDA_BACKING=%s",
             backings[_i]);
    create(0, settings);
    require_less(UCXPOOL_DEGRADED_FEWER);
    ck_assert_uint_ge(stats.registered_bytes, 48 * MIB);
    assert_has(stats.degraded_why, "100663296");
    destroy();
    start("memory=2m", NULL, "cuda=y");
    assert_ok(create_on(0, "COMM_SIZE=32m"));
    ck_assert_int_eq(stats.degraded_to, UCXPOOL_DEGRADED_PINNED);
    destroy();
    ck_assert_uint_eq(stand_in.live(), 0);
}

/* UCX does not register the GPU's blocks, but the additional pinned ones. */
STAND_IN_TEST(additional_pinned_blocks_are_reduced)
{
    start("memory=1g", NULL, "bytes=20m");
    create(0, "COMM_SIZE=32m");
    ck_assert_uint_le(stats.registered_bytes, 20 * MIB);
    ck_assert_uint_ge(stats.registered_bytes, 16 * MIB);
    require_passes();
    destroy();
    reg_configure("bytes=4m");
    assert_error(create_on(0, "COMM_SIZE=32m"), IO);
    ck_assert_uint_eq(stand_in.live(), 0);
}

STAND_IN_TEST(no_limit_without_nvml)
{
    start("memory=80g", NULL, "cuda=y");
    create(0, "");
    require_whole();
    ck_assert_uint_eq(stats.budget_bytes, 0);
    ck_assert_uint_eq(stats.registered_bytes, 480 * MIB);
    destroy();
}
