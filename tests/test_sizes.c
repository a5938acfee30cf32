/* The budget of a GPU's BAR1, and the sizes derived from the budget. */
#include "api/api.h"
#include "base/math.h"
#include "block/budget.h"
#include "test.h"

#include <ucxpool/ucxpool.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static base_config_t config;

static void setup(void)
{
    assert_ok(api_config_values(NULL, &config));
}

TEST_SETTINGS(.setup = setup);

/* size and used describe BAR1. */
static uint64_t compute(uint64_t size, uint64_t used)
{
    const mem_nvml_facts_t gpu = {
        .bar1_size = size, .bar1_used = used, .bar1_free = size - used};

    return block_budget_compute(&gpu);
}

TEST(three_quarters_of_a_small_bar1_are_the_limit)
{
    ck_assert_uint_eq(compute(256 * MIB, 4 * MIB), 192 * MIB);
    ck_assert_uint_eq(compute(GIB, 0), 768 * MIB);
}

TEST(memory_used_by_others_is_subtracted)
{
    ck_assert_uint_eq(compute(256 * MIB, 108 * MIB), 92 * MIB);
    ck_assert_uint_eq(compute(256 * MIB, 250 * MIB), 0);
    ck_assert_uint_eq(compute(256 * MIB, 256 * MIB), 0);
    ck_assert_uint_eq(compute(4 * GIB, 4 * GIB), 0);
}

TEST(a_reserve_of_a_large_bar1_is_left)
{
    ck_assert_uint_eq(compute(256 * GIB, 0), 256 * GIB - 512 * MIB);
    ck_assert_uint_eq(compute(4 * GIB, 0), 4 * GIB - 512 * MIB);
    ck_assert_uint_eq(compute(2 * GIB, 0), 2 * GIB - 256 * MIB);
}

TEST(an_unknown_bar1_has_no_limit)
{
    ck_assert_uint_eq(compute(0, 0), BLOCK_BUDGET_NONE);
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
