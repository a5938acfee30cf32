/* Presets, the budget derived from a preset, and the sizes derived from the
 * budget. */
#include <config.h>

#include "api/config.h"
#include "base/math.h"
#include "block/budget.h"
#include "test.h"

#include <ucxpool/ucxpool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static char           path[64];
static block_preset_t preset;
static base_config_t  config;
static mem_bar_t      bar;
static block_budget_t budget;

static void setup(void)
{
    strcpy(path, "/tmp/test_preset.XXXXXX");
    close(mkstemp(path));
    assert_ok(api_config_values(NULL, &config));
    memset(&bar, 0, sizeof(bar));
}

static void teardown(void)
{
    unlink(path);
}

static void write_bytes(const char *bytes, size_t size)
{
    FILE *file = fopen(path, "w");

    ck_assert_ptr_nonnull(file);
    fwrite(bytes, 1, size, file);
    fclose(file);
}

static void write_file(const char *text)
{
    write_bytes(text, strlen(text));
}

static uint64_t limit_of(const char *name, uint64_t bar1_size)
{
    ck_assert_msg(block_preset_find(path, name, bar1_size, &preset) ==
                      UCXPOOL_OK,
                  "%s", ucxpool_error_detail());
    return preset.is_found ? preset.limit : 0;
}

TEST_SETTINGS(.setup = setup, .teardown = teardown);

TEST(gpus_with_small_windows_are_in_the_table)
{
    ck_assert_uint_eq(limit_of("Tesla T4", 256 * MIB), 200 * MIB);
    ck_assert_ptr_nonnull(strstr(preset.from, "'Tesla T4*' [256m]"));
    ck_assert_uint_eq(limit_of("Tesla T4", 0), 200 * MIB);
    ck_assert_uint_eq(limit_of("Tesla P4", 256 * MIB), 200 * MIB);
    ck_assert_uint_eq(limit_of("NVIDIA RTX A4000", 256 * MIB), 208 * MIB);
    ck_assert_uint_eq(limit_of("A new one", 256 * MIB), 200 * MIB);
}

TEST(large_windows_have_no_preset)
{
    ck_assert_uint_eq(limit_of("NVIDIA H200", 256 * GIB), 0);
    ck_assert_uint_eq(limit_of("NVIDIA A2", 16 * GIB), 0);
    /* On systems that have resized it. */
    ck_assert_uint_eq(limit_of("NVIDIA RTX A4000", 16 * GIB), 0);
    ck_assert_uint_eq(limit_of("A new one", 0), 0);
    ck_assert_uint_eq(limit_of("Tesla P40", 0), 0);
}

TEST(a_file_adds_and_overrides)
{
    write_file("# ours\n\n"
               "  Tesla T4 = 100m  \n"
               "My [odd] card [64m]=32m\r\n"
               "Big*=1g\n"
               "big one [32g] = none\n"
               "*Three* = 3m");
    ck_assert_uint_eq(limit_of("Tesla T4", 256 * MIB), 100 * MIB);
    ck_assert_ptr_nonnull(strstr(preset.from, path));
    ck_assert_ptr_nonnull(strstr(preset.from, "line 3, 'Tesla T4'"));
    ck_assert_uint_eq(limit_of("My [odd] card", 64 * MIB), 32 * MIB);
    ck_assert_uint_eq(limit_of("My [odd] card", 65 * MIB), 0);
    ck_assert_uint_eq(limit_of("BIG ONE", 32 * GIB), BLOCK_PRESET_NONE);
    ck_assert_uint_eq(limit_of("Big one", 16 * GIB), GIB);
    ck_assert_uint_eq(limit_of("Card Three B", 0), 3 * MIB);
    ck_assert_uint_eq(limit_of("Tesla P4", 256 * MIB), 200 * MIB);
}

TEST(a_star_matches_any_letters)
{
    write_file("a*b*c = 1m\n");
    ck_assert_uint_eq(limit_of("abc", 0), MIB);
    ck_assert_uint_eq(limit_of("a b b c c", 0), MIB);
    ck_assert_uint_eq(limit_of("axbxc", 0), MIB);
    ck_assert_uint_eq(limit_of("ab", 0), 0);
    ck_assert_uint_eq(limit_of("abcd", 0), 0);
    ck_assert_uint_eq(limit_of("", 0), 0);
}

static const struct {
    const char *text;
    const char *words;
} bad_lines[] = {
    {"Tesla T4 200m\n", "line 1: '=' is missing"},
    {"# one\nTesla T4 = 20q\n", "line 2: the value must be a size"},
    {"Tesla T4 = \n", "line 1: the value must"},
    {"Tesla T4 = auto\n", "line 1: the value must"},
    {"Tesla T4 = inf\n", "line 1: the value must"},
    {"Tesla T4 = 0\n", "line 1: the value must"},
    {"Tesla T4 = -1\n", "line 1: the value must"},
    {"Tesla T4 = 99999999999999999999\n", "line 1: the value must"},
    {" = 200m\n", "line 1: the device name is"},
    {"[256m] = 200m\n", "line 1: the device name is"},
    {"\n\nT4 [] = 200m\n", "line 3: [ ] must contain a size"},
    {"T4 [many] = 200m\n", "line 1: [ ] must contain a size"},
    {"T4 [256m = 200m\n", "line 1: the window's size must end"},
    {"T4 [256m] x = 200m\n", "line 1: the window's size must end"},
    /* Even if the line is for another device. */
    {"Tesla T4 = 1m\nNever = x\n", "line 2: the value must"},
};

TEST_EACH(a_bad_line_is_reported_with_file_and_line_number,
          (int)(sizeof(bad_lines) / sizeof(bad_lines[0])))
{
    write_file(bad_lines[_i].text);
    ck_assert_int_eq(block_preset_find(path, "Tesla T4", 0, &preset),
                     UCXPOOL_ERR_INVALID_PARAM);
    ck_assert_msg(strstr(ucxpool_error_detail(), bad_lines[_i].words) != NULL,
                  "%s", ucxpool_error_detail());
    ck_assert_ptr_nonnull(strstr(ucxpool_error_detail(), path));
}

TEST(a_binary_file_is_reported)
{
    char bytes[1000];

    memset(bytes, 'x', sizeof(bytes));
    write_bytes(bytes, sizeof(bytes));
    ck_assert_int_eq(block_preset_find(path, "x", 0, &preset),
                     UCXPOOL_ERR_INVALID_PARAM);
    ck_assert_ptr_nonnull(
        strstr(ucxpool_error_detail(), "line 1: the line is too"));
    write_bytes("a = 1m\nb\0= 2m\nc = 3m\n", 22);
    ck_assert_int_eq(block_preset_find(path, "x", 0, &preset),
                     UCXPOOL_ERR_INVALID_PARAM);
    ck_assert_ptr_nonnull(
        strstr(ucxpool_error_detail(), "line 2: the line is too"));
}

TEST(an_unreadable_file_is_reported)
{
    ck_assert_int_eq(block_preset_find("/nonexistent/file", "x", 0, &preset),
                     UCXPOOL_ERR_INVALID_PARAM);
    ck_assert_ptr_nonnull(strstr(ucxpool_error_detail(),
                                 "UCXPOOL_BUDGET_FILE=/nonexistent/file"));
    ck_assert_int_eq(block_preset_find("/", "x", 0, &preset),
                     UCXPOOL_ERR_INVALID_PARAM);
    ck_assert_ptr_nonnull(strstr(ucxpool_error_detail(), "Is a directory"));
}

/* size and used describe the window; 0: its size is unknown. */
static uint64_t compute(const char *name, uint64_t size, uint64_t used)
{
    bar.source = size == 0 ? MEM_BAR_UNKNOWN : MEM_BAR_NVML;
    bar.size   = size;
    bar.used   = used;
    bar.free   = size - used;
    assert_ok(block_budget_compute(&config, name, &bar, &budget));
    return budget.limit;
}

TEST(the_preset_is_the_limit_of_an_idle_gpu)
{
    ck_assert_uint_eq(compute("Tesla T4", 256 * MIB, 4 * MIB), 200 * MIB);
    ck_assert_uint_eq(budget.others, 0);
    ck_assert_uint_eq(budget.reserve, 0);
    ck_assert_uint_eq(compute("Tesla T4", 0, 0), 200 * MIB);
}

TEST(memory_used_by_others_is_subtracted)
{
    ck_assert_uint_eq(compute("Tesla T4", 256 * MIB, 108 * MIB), 100 * MIB);
    ck_assert_uint_eq(compute("Tesla T4", 256 * MIB, 250 * MIB), 0);
    ck_assert_uint_eq(compute("Tesla T4", 256 * MIB, 256 * MIB), 0);
    ck_assert_uint_eq(compute("H200", 4 * GIB, 4 * GIB), 0);
}

TEST(a_reserve_of_a_large_window_is_left)
{
    ck_assert_uint_eq(compute("H200", 256 * GIB, 0), 256 * GIB - 512 * MIB);
    ck_assert_uint_eq(compute("L4", 4 * GIB, 0), 4 * GIB - 512 * MIB);
    ck_assert_uint_eq(compute("Other", 2 * GIB, 0), 2 * GIB - 256 * MIB);
    ck_assert(budget.is_reserve_auto);
}

TEST(a_part_of_a_small_window_without_a_preset_is_used)
{
    ck_assert_uint_eq(compute("Old", 128 * MIB, 0), 96 * MIB);
    ck_assert_uint_eq(compute("Old", GIB, 0), 768 * MIB);
}

TEST(the_reserve_is_subtracted)
{
    config.comm_reserve = 60 * MIB;
    ck_assert_uint_eq(compute("Tesla T4", 256 * MIB, 0), 140 * MIB);
    ck_assert_uint_eq(compute("H200", 256 * GIB, 0), 256 * GIB - 60 * MIB);
    config.comm_reserve = GIB;
    ck_assert_uint_eq(compute("Tesla T4", 256 * MIB, 0), 0);
    config.comm_reserve = 0;
    ck_assert_uint_eq(compute("H200", 256 * GIB, 0), 256 * GIB);
}

TEST(an_unknown_window_has_no_limit)
{
    ck_assert_uint_eq(compute("Other", 0, 0), BLOCK_BUDGET_NONE);
    config.comm_reserve = GIB;
    ck_assert_uint_eq(compute("Other", 0, 0), BLOCK_BUDGET_NONE);
    bar.source = MEM_BAR_NONE;
    assert_ok(block_budget_compute(&config, "GB10", &bar, &budget));
    ck_assert_uint_eq(budget.limit, BLOCK_BUDGET_NONE);
}

TEST(a_preset_cannot_exceed_the_window)
{
    strcpy(config.budget_file, path);
    write_file("* = 4g\n");
    ck_assert_uint_eq(compute("Any", 256 * MIB, 0), 256 * MIB - 32 * MIB);
    write_file("Any = none\n");
    ck_assert_uint_eq(compute("Any", 256 * MIB, 0), 256 * MIB - 32 * MIB);
    write_file("nonsense\n");
    ck_assert_int_eq(block_budget_compute(&config, "Any", &bar, &budget),
                     UCXPOOL_ERR_INVALID_PARAM);
}

static unsigned settle(const mem_kind_t *kind, uint64_t limit)
{
    const block_sizes_params_t params = {.kind        = kind,
                                         .for_gpu     = true,
                                         .memory_size = 1024 * GIB,
                                         .limit       = limit};
    unsigned                   num    = 0;

    assert_ok(block_sizes_settle(&params, &config, &num));
    return num;
}

TEST_EACH(a_pool_stays_within_its_limit_and_uses_it, 2)
{
    const base_config_t     asked   = config;
    const mem_kind_t *const kinds[] = {&mem_kind_cuda_alloc,
                                       &mem_kind_cuda_vmm};

    for (uint64_t limit = 6 * MIB; limit < 500 * MIB; limit += MIB) {
        uint64_t size;

        config = asked;
        size   = settle(kinds[_i], limit) * config.region_size;
        ck_assert_uint_le(size, limit);
        ck_assert_uint_ge(size + base_max(limit / 32, 2 * MIB), limit);
        ck_assert_uint_ge(size / config.block_size, 3);
    }
}

TEST(blocks_take_at_most_a_quarter_of_the_limit)
{
    const base_config_t asked = config;

    for (size_t limit = 32 * MIB; limit <= 4 * GIB; limit *= 2) {
        config              = asked;
        config.memory_limit = limit;
        settle(&mem_kind_cuda_vmm, BLOCK_BUDGET_NONE);
        ck_assert_uint_le(config.comm_size, limit / 4);
        ck_assert_uint_ge(config.comm_size,
                          base_min(limit / 8, (size_t)448 * MIB));
    }
}

TEST(t4s_200_mib_are_all_used)
{
    ck_assert_uint_eq(settle(&mem_kind_cuda_alloc, 200 * MIB), 1);
    ck_assert_uint_eq(config.region_size, 200 * MIB);
    ck_assert_uint_eq(config.block_size, 8 * MIB);
}

TEST(without_a_limit_nothing_changes)
{
    ck_assert_uint_eq(settle(&mem_kind_cuda_vmm, BLOCK_BUDGET_NONE), 15);
    ck_assert_uint_eq(config.block_size, 32 * MIB);
}

TEST(any_given_size_makes_a_valid_pool)
{
    const base_config_t asked = config;

    for (size_t size = 8192; size < 300 * MIB; size += size / 7 + 4096) {
        unsigned                   num_regions;
        const block_sizes_params_t params = {.kind        = &mem_kind_host,
                                             .memory_size = GIB,
                                             .limit       = BLOCK_BUDGET_NONE};

        config           = asked;
        config.comm_size = size;
        ck_assert_msg(block_sizes_settle(&params, &config, &num_regions) ==
                          UCXPOOL_OK,
                      "%zu: %s", size, ucxpool_error_detail());
        ck_assert_uint_le(num_regions * config.region_size, size);
    }
}

TEST(a_chosen_fragment_size_fits_in_a_block)
{
    config.frag_size = 8 * MIB;
    config.comm_size = 40 * MIB;
    (void)settle(&mem_kind_host, BLOCK_BUDGET_NONE);
    ck_assert_uint_eq(config.block_size, 8 * MIB);
}
