/* Verification, region by region, that each memory domain registered the
 * memory. The test simulates the domains, since this machine may have no
 * network card. */
#include "ucx/reg.c"

#include "domains_stand_in.h"
#include "pair.h"
#include "test.h"
#include "replace.h"

#include "base/config.h"

#include "core/stats.h"

#include <ucxpool/private.h>
#include <ucxpool/ucxpool.h>

#include <ucp/api/ucp.h>

#include <stdlib.h>
#include <string.h>

#define NUM_REGIONS 4u
#define REGION_SIZE ((size_t)256 << 10)

enum { SELF, TCP, NIC_A, NIC_B, IPC, NUM_DOMAINS };

/* As on a machine with two network cards that reach a GPU. Both cards
 * belong to one component. */
static const domains_played_t usual[NUM_DOMAINS] = {
    [SELF]  = {"self", "self", false, true, false, true, 0, 0},
    [TCP]   = {"tcp", "tcp", true, false, false, false, 0, 0},
    [NIC_A] = {"mlx5_0", "ib", true, true, true, true, 9, 0},
    [NIC_B] = {"mlx5_1", "ib", true, true, true, true, 9, 0},
    [IPC]   = {"cuda_ipc", "cuda_ipc", false, false, true, true, 70, 0},
};

static domains_played_t domains[NUM_DOMAINS];
static ucp_context_h    context;
static mem_regions_t    regions;

/* The next malloc() of this size fails. */
static size_t failing_size;

REPLACE(void *, malloc, size_t size)
{
    if ((failing_size != 0) && (size == failing_size)) {
        failing_size = 0;
        return NULL;
    }
    return __real_malloc(size);
}

static bool has_memory = true; /* else realloc() fails */

REPLACE(void *, realloc, void *memory, size_t size)
{
    return has_memory ? __real_realloc(memory, size) : NULL;
}

static void setup(void)
{
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features   = UCP_FEATURE_AM | UCP_FEATURE_RMA,
    };

    ck_assert_int_eq(ucp_init(&params, NULL, &context), UCS_OK);
    assert_ok(mem_regions_init(&regions, &mem_kind_host, -1, NUM_REGIONS,
                               REGION_SIZE, BASE_SWITCH_NO));
    memcpy(domains, usual, sizeof(domains));
    domains_play(domains, NUM_DOMAINS);
}

static void teardown(void)
{
    ck_assert_int_eq(domains_num_live(), 0);
    mem_regions_cleanup(&regions);
    domains_play(NULL, 0);
    ucp_cleanup(context);
}

static void check_none(void)
{
    for (unsigned i = 0; i < NUM_REGIONS; i++) {
        ck_assert_ptr_null(regions.regions[i].memh);
        ck_assert_uint_eq(regions.regions[i].domains, 0);
    }
    ck_assert_ptr_null(regions.domains);
    ck_assert_int_eq(domains_num_live(), 0);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .timeout = 60);

TEST_EACH(answers_of_ucp_and_uct_are_combined, 2)
{
    ucx_domains_t found;

    read_domains(context, _i == 1, &found);
    ck_assert_uint_eq(found.num, NUM_DOMAINS);
    for (unsigned i = 0; i < NUM_DOMAINS; i++) {
        ck_assert_str_eq(found.domains[i].name, domains[i].name);
        ck_assert_str_eq(found.domains[i].component, domains[i].component);
        ck_assert(found.domains[i].is_known);
        ck_assert_int_eq(found.domains[i].is_network, domains[i].is_network);
        ck_assert_int_eq(found.domains[i].needs_keys, domains[i].needs_keys);
        ck_assert_int_eq(found.domains[i].registers,
                         (_i == 1) ? domains[i].registers_gpu
                                   : domains[i].registers_host);
    }
    ck_assert_uint_eq(found.needed, 1u << NIC_A | 1u << NIC_B);
}

TEST(missing_answers_of_ucx_are_tolerated)
{
    ucx_domains_t found;

    for (int fault = 0; fault < DOMAINS_FAULT_LAST; fault++) {
        domains_fail((domains_fault_t)fault);
        read_domains(context, false, &found);
        if ((fault == DOMAINS_FAULT_PRINT) || (fault == DOMAINS_FAULT_HOLE)) {
            ck_assert_uint_eq(found.num, 0);
        } else {
            ck_assert_uint_eq(found.num, NUM_DOMAINS);
        }
        if ((fault != DOMAINS_FAULT_NONE) && (fault != DOMAINS_FAULT_KEY)) {
            ck_assert_uint_eq(found.needed, 0);
        }
        ck_assert_int_eq(domains_num_live(), 0);
    }
}

TEST(domains_are_unknown_if_memory_runs_out_while_ucx_prints)
{
    ucx_domains_t found;

    has_memory = false;
    read_domains(context, false, &found);
    has_memory = true;
    ck_assert_uint_eq(found.num, 0);
    assert_detail("no memory for a string");
}

TEST(more_domains_than_mask_bits_are_rejected)
{
    domains_played_t many[UCX_MAX_DOMAINS + 1];
    ucx_domains_t    found;

    for (unsigned i = 0; i < UCX_MAX_DOMAINS + 1; i++) {
        many[i] = usual[NIC_A];
    }
    domains_play(many, UCX_MAX_DOMAINS);
    read_domains(context, false, &found);
    ck_assert_uint_eq(found.num, UCX_MAX_DOMAINS);
    ck_assert_uint_eq(found.needed, UINT64_MAX);
    domains_play(many, UCX_MAX_DOMAINS + 1);
    read_domains(context, false, &found);
    ck_assert_uint_eq(found.num, 0);
}

TEST(domains_of_the_installed_ucx_are_found)
{
    ucx_domains_t found;
    bool          has_tcp = false;

    domains_play(NULL, 0);
    read_domains(context, false, &found);
    ck_assert_uint_gt(found.num, 0);
    for (unsigned i = 0; i < found.num; i++) {
        ck_assert(found.domains[i].is_known);
        if (strcmp(found.domains[i].name, "tcp") == 0) {
            has_tcp = true;
            ck_assert_str_eq(found.domains[i].component, "tcp");
            ck_assert(found.domains[i].is_network);
        }
    }
    ck_assert(has_tcp);
    assert_ok(ucx_reg_regions(&regions, context));
    ck_assert_uint_eq(regions.domains->num, found.num);
    ucx_dereg_regions(&regions, context);
}

TEST(name_list_is_truncated_to_the_buffer)
{
    domains_played_t many[UCX_MAX_DOMAINS];
    ucx_domains_t    found;
    char             text[UCX_DOMAINS_TEXT];

    read_domains(context, false, &found);
    ucx_domains_format(&found, 0, text);
    ck_assert_str_eq(text, "none");
    ucx_domains_format(&found, 1u << NIC_A, text);
    ck_assert_str_eq(text, "mlx5_0");
    ucx_domains_format(&found, 1u << NIC_B | 1u << SELF, text);
    ck_assert_str_eq(text, "self, mlx5_1");
    for (unsigned i = 0; i < UCX_MAX_DOMAINS; i++) {
        many[i] = usual[NIC_A];
    }
    domains_play(many, UCX_MAX_DOMAINS);
    read_domains(context, false, &found);
    ucx_domains_format(&found, UINT64_MAX, text);
    ck_assert_uint_lt(strlen(text), sizeof(text));
    ck_assert_str_eq(text + strlen(text) - 11, "mlx5_0, ...");
}

TEST(each_region_lists_the_domains_that_registered_it)
{
    uint64_t num_needed, num_regions;

    assert_ok(ucx_reg_regions(&regions, context));
    for (unsigned i = 0; i < NUM_REGIONS; i++) {
        ck_assert_uint_eq(regions.regions[i].domains,
                          1u << SELF | 1u << NIC_A | 1u << NIC_B | 1u << IPC);
    }
    ucx_reg_verified(&regions, &num_needed, &num_regions);
    ck_assert_uint_eq(num_needed, 2);
    ck_assert_uint_eq(num_regions, NUM_REGIONS);
    ucx_dereg_regions(&regions, context);
    check_none();
}

/* The domains for which UCX returned UCS_OK. */
TEST(silent_registration_failure_of_a_card_is_found)
{
    char words[64];

    for (unsigned nth = 1; nth <= NUM_REGIONS; nth++) {
        domains[NIC_B].refuses_from = nth;
        domains_play(domains, NUM_DOMAINS);
        assert_error(ucx_reg_regions(&regions, context), IO);
        snprintf(words, sizeof(words), "region %u of %u (%zu bytes", nth - 1,
                 NUM_REGIONS, REGION_SIZE);
        assert_detail(words);
        assert_detail("memory domain mlx5_1,");
        snprintf(words, sizeof(words), " %zu bytes were registered",
                 (nth - 1) * REGION_SIZE);
        assert_detail(words);
        assert_detail("UCXPOOL_COMM_SIZE");
        assert_detail("ulimit -l");
        check_none();
    }
    domains[NIC_B].refuses_from = 0;
    domains_play(domains, NUM_DOMAINS);
    assert_ok(ucx_reg_regions(&regions, context));
    ucx_dereg_regions(&regions, context);
}

TEST(local_domain_may_fail_to_register)
{
    domains[SELF].refuses_from = 1;
    domains_play(domains, NUM_DOMAINS);
    assert_ok(ucx_reg_regions(&regions, context));
    ucx_dereg_regions(&regions, context);
}

TEST(keys_of_unknown_format_are_accepted)
{
    uint64_t num_needed, num_regions;

    domains[NIC_A].refuses_from = 1;
    domains_play(domains, NUM_DOMAINS);
    domains_fail(DOMAINS_FAULT_KEY);
    assert_ok(ucx_reg_regions(&regions, context));
    ck_assert_uint_eq(regions.domains->num, 0);
    ucx_reg_verified(&regions, &num_needed, &num_regions);
    ck_assert_uint_eq(num_needed, 0);
    ck_assert_uint_eq(num_regions, 0);
    ucx_dereg_regions(&regions, context);
    check_none();
}

TEST(failed_list_allocation_is_reported_and_retry_works)
{
    failing_size = sizeof(ucx_domains_t);
    assert_error(ucx_reg_regions(&regions, context), NO_MEMORY);
    check_none();
    assert_ok(ucx_reg_regions(&regions, context));
    ucx_dereg_regions(&regions, context);
}

/* --- GPU memory ---------------------------------------------------------- */

/* Verify regions as if they were a GPU's, with handles of host memory. Returns
 * the first status that is not OK. */
static ucxpool_status_t verify_as_gpu(void)
{
    ucxpool_status_t status = UCXPOOL_OK;

    domains_play(NULL, 0);
    assert_ok(ucx_reg_regions(&regions, context));
    free(regions.domains);
    domains_play(domains, NUM_DOMAINS);
    regions.kind = &mem_kind_cuda_vmm;
    assert_ok(verify_init(&regions, context));
    for (unsigned i = 0; (i < NUM_REGIONS) && (status == UCXPOOL_OK); i++) {
        status = verify(&regions, i, context);
    }
    regions.kind = &mem_kind_host;
    return status;
}

TEST(card_far_from_the_gpu_may_fail)
{
    domains[NIC_A].refuses_from = 1;
    assert_ok(verify_as_gpu());
    ck_assert_uint_eq(regions.domains->needed, 1u << NIC_B);
    ucx_dereg_regions(&regions, context);
}

TEST(card_that_registered_one_region_must_register_all)
{
    domains[NIC_A].refuses_from = 3;
    assert_error_detail(verify_as_gpu(), IO, "region 2 of 4");
    assert_detail("memory domain mlx5_0,");
    assert_detail("UCXPOOL_CUDA_BACKING=host");
    ucx_dereg_regions(&regions, context);
}

TEST(no_card_at_all_is_an_error)
{
    domains[NIC_A].refuses_from = 1;
    domains[NIC_B].refuses_from = 1;
    assert_error_detail(verify_as_gpu(), IO, "memory domain mlx5_0, mlx5_1,");
    ucx_dereg_regions(&regions, context);
}

/* A card that registers GPU memory only by dma-buf does not list it as a
 * supported type. */
TEST(card_registering_undeclared_memory_must_register_all)
{
    domains[NIC_A].registers_gpu = false;
    domains[NIC_B].registers_gpu = false;
    assert_ok(verify_as_gpu());
    ck_assert_uint_eq(regions.domains->needed, 1u << NIC_A | 1u << NIC_B);
    ucx_dereg_regions(&regions, context);
    domains[NIC_A].refuses_from = 2;
    assert_error_detail(verify_as_gpu(), IO, "region 1 of 4");
    ucx_dereg_regions(&regions, context);
}

/* --- a complete pool ----------------------------------------------------- */

static const char settings[] = "COMM_SIZE=2m BLOCK_SIZE=64k REGION_SIZE=512k";

TEST(pool_reports_the_domains_it_is_registered_with)
{
    ucxpool_domain_t found[NUM_DOMAINS + 1];
    core_stats_t     stats;
    ucxpool_t       *pool;

    memset(found, 0xab, sizeof(found));
    domains[IPC].refuses_from = 3;
    domains_play(domains, NUM_DOMAINS);
    assert_ok(pair_try_pool(NULL, settings, &pool));
    ck_assert_uint_eq(ucxpool_domains_query(pool, NULL, 0), NUM_DOMAINS);
    ck_assert_uint_eq(ucxpool_domains_query(pool, found, NUM_DOMAINS + 1),
                      NUM_DOMAINS);
    ck_assert_str_eq(found[NIC_A].name, "mlx5_0");
    ck_assert_str_eq(found[NIC_A].component, "ib");
    ck_assert_uint_eq(found[NIC_A].flags,
                      UCXPOOL_DOMAIN_KNOWN | UCXPOOL_DOMAIN_NETWORK |
                          UCXPOOL_DOMAIN_REGISTERS | UCXPOOL_DOMAIN_NEEDS_KEYS |
                          UCXPOOL_DOMAIN_NEEDED);
    ck_assert_uint_eq(found[NIC_A].num_regions, 4);
    ck_assert_uint_eq(found[TCP].flags,
                      UCXPOOL_DOMAIN_KNOWN | UCXPOOL_DOMAIN_NETWORK);
    ck_assert_uint_eq(found[TCP].num_regions, 0);
    ck_assert_uint_eq(found[IPC].num_regions, 2);
    ck_assert_uint_eq((unsigned char)found[NUM_DOMAINS].name[0], 0xab);
    core_stats_get(pool, &stats);
    ck_assert_uint_eq(stats.domains_needed, 2);
    ck_assert_uint_eq(stats.regions_verified, 4);
    ucxpool_destroy(pool);
}

TEST(pool_create_detects_a_silent_failure)
{
    ucxpool_t *pool;

    domains[NIC_A].refuses_from = 1;
    domains_play(domains, NUM_DOMAINS);
    assert_error_detail(pair_try_pool(NULL, settings, &pool), IO, "mlx5_0");
}
