/* Registration of regions with UCX, and UCX's statuses. */
#include "base/config.h"
#include "ucx/context.h"
#include "ucx/reg.h"
#include "test.h"
#include "replace.h"

#include <ucm/api/ucm.h>
#include <ucp/api/ucp.h>

#include <dlfcn.h>
#include <string.h>

#define NUM_REGIONS 3u
#define REGION_SIZE ((size_t)256 << 10)

typedef enum spoil {
    SPOIL_NOTHING,
    SPOIL_MAP,    /* ucp_mem_map fails */
    SPOIL_QUERY,  /* ucp_mem_query fails */
    SPOIL_START,  /* the handle starts after the region's start */
    SPOIL_LENGTH, /* the handle is shorter than the region */
    SPOIL_PLACE,  /* the handle lies before the region */
    SPOIL_PACK,   /* ucp_rkey_pack fails */
    SPOIL_EMPTY,  /* the key is empty */
    SPOIL_LAST
} spoil_t;

static spoil_t       spoil;
static unsigned      spoil_nth; /* from 1 */
static unsigned      num_calls;
static int           num_mapped;
static int           num_keys;
static ucp_context_h context;
static mem_regions_t regions;

static bool is_spoilt(spoil_t what)
{
    return (spoil == what) && (++num_calls == spoil_nth);
}

REPLACE(ucs_status_t, ucp_mem_map, ucp_context_h ctx,
        const ucp_mem_map_params_t *params, ucp_mem_h *memh)
{
    ucs_status_t status;

    ck_assert_uint_eq(params->memory_type, UCS_MEMORY_TYPE_HOST);
    if (is_spoilt(SPOIL_MAP)) {
        return UCS_ERR_NO_MEMORY;
    }
    status = __real_ucp_mem_map(ctx, params, memh);
    num_mapped += status == UCS_OK;
    return status;
}

REPLACE(ucs_status_t, ucp_mem_unmap, ucp_context_h ctx, ucp_mem_h memh)
{
    num_mapped--;
    return __real_ucp_mem_unmap(ctx, memh);
}

REPLACE(ucs_status_t, ucp_mem_query, const ucp_mem_h memh, ucp_mem_attr_t *attr)
{
    ucs_status_t status = __real_ucp_mem_query(memh, attr);

    if (is_spoilt(SPOIL_QUERY)) {
        return UCS_ERR_UNSUPPORTED;
    }
    if (is_spoilt(SPOIL_START)) {
        attr->address = (char *)attr->address + 1;
    }
    if (is_spoilt(SPOIL_LENGTH)) {
        attr->length--;
    }
    if (is_spoilt(SPOIL_PLACE)) {
        attr->address = (char *)attr->address - attr->length;
    }
    return status;
}

REPLACE(ucs_status_t, ucp_rkey_pack, ucp_context_h ctx, ucp_mem_h memh,
        void **buffer, size_t *size)
{
    ucs_status_t status;

    if (is_spoilt(SPOIL_PACK)) {
        return UCS_ERR_UNSUPPORTED;
    }
    status = __real_ucp_rkey_pack(ctx, memh, buffer, size);
    num_keys += status == UCS_OK;
    if (is_spoilt(SPOIL_EMPTY)) {
        *size = 0;
    }
    return status;
}

REPLACE(void, ucp_rkey_buffer_release, void *buffer)
{
    num_keys--;
    __real_ucp_rkey_buffer_release(buffer);
}

static void setup(void)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features   = UCP_FEATURE_AM | UCP_FEATURE_RMA,
    };
    ucp_config_t *config;

    ck_assert_int_eq(ucp_config_read(NULL, NULL, &config), UCS_OK);
    ck_assert_int_eq(ucp_init(&params, config, &context), UCS_OK);
    ucp_config_release(config);
    assert_ok(mem_regions_init(&regions, &mem_kind_host, -1, NUM_REGIONS,
                               REGION_SIZE, BASE_SWITCH_TRY));
}

static void teardown(void)
{
    mem_regions_cleanup(&regions);
    ucp_cleanup(context);
    ck_assert_int_eq(num_mapped, 0);
    ck_assert_int_eq(num_keys, 0);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .timeout = 60);

TEST(every_region_is_registered_once)
{
    assert_ok(ucx_reg_regions(&regions, context));
    ck_assert_uint_eq(regions.num_maps, NUM_REGIONS);
    ck_assert_int_eq(num_mapped, (int)NUM_REGIONS);
    for (unsigned i = 0; i < NUM_REGIONS; i++) {
        ck_assert_ptr_nonnull(regions.regions[i].memh);
    }
    ucx_dereg_regions(&regions, context);
    for (unsigned i = 0; i < NUM_REGIONS; i++) {
        ck_assert_ptr_null(regions.regions[i].memh);
    }
}

TEST(deregistering_twice_does_nothing)
{
    assert_ok(ucx_reg_regions(&regions, context));
    ucx_dereg_regions(&regions, context);
    ucx_dereg_regions(&regions, context);
    ck_assert_int_eq(num_mapped, 0);
}

TEST(one_context_registers_two_sets)
{
    mem_regions_t others;

    assert_ok(mem_regions_init(&others, &mem_kind_host, -1, 1, REGION_SIZE,
                               BASE_SWITCH_TRY));
    assert_ok(ucx_reg_regions(&regions, context));
    assert_ok(ucx_reg_regions(&others, context));
    ck_assert_uint_eq(regions.num_registered, NUM_REGIONS);
    ck_assert_uint_eq(others.num_registered, 1);
    ucx_dereg_regions(&others, context);
    ucx_dereg_regions(&regions, context);
    mem_regions_cleanup(&others);
}

static void ignore_event(ucm_event_type_t type, ucm_event_t *event, void *arg)
{
}

/* UCX does this by itself on transports with a registration cache: it replaces
 * functions of the C library. */
TEST(regions_are_stitched_with_ucxs_memory_hooks_installed)
{
    const mem_piece_t pieces[] = {{2, 0, REGION_SIZE / 2},
                                  {0, REGION_SIZE / 2, REGION_SIZE / 2}};
    ucs_status_t (*set_handler)(int, int, ucm_event_callback_t, void *);
    void *address;

    *(void **)&set_handler = dlsym(RTLD_DEFAULT, "ucm_set_event_handler");
    ck_assert(set_handler != NULL);
    ck_assert_int_eq(set_handler(UCM_EVENT_VM_MAPPED | UCM_EVENT_VM_UNMAPPED, 0,
                                 ignore_event, NULL),
                     UCS_OK);
    assert_ok(ucx_reg_regions(&regions, context));
    assert_ok(regions.kind->stitch(&regions, pieces, 2, &address));
    strcpy(regions.regions[2].address, "two");
    strcpy((char *)regions.regions[0].address + REGION_SIZE / 2, "zero");
    ck_assert_str_eq(address, "two");
    ck_assert_str_eq((char *)address + REGION_SIZE / 2, "zero");
    regions.kind->unstitch(&regions, address, REGION_SIZE);
    ucx_dereg_regions(&regions, context);
}

TEST_WITH(registration_can_be_retried_after_a_failure, .first = SPOIL_MAP,
          .end = SPOIL_LAST)
{
    static const ucxpool_status_t expected[SPOIL_LAST] = {
        [SPOIL_MAP]    = UCXPOOL_ERR_NO_MEMORY,
        [SPOIL_QUERY]  = UCXPOOL_ERR_UNSUPPORTED,
        [SPOIL_START]  = UCXPOOL_ERR_IO,
        [SPOIL_LENGTH] = UCXPOOL_ERR_IO,
        [SPOIL_PLACE]  = UCXPOOL_ERR_IO,
        [SPOIL_PACK]   = UCXPOOL_ERR_UNSUPPORTED,
        [SPOIL_EMPTY]  = UCXPOOL_ERR_IO,
    };

    for (spoil_nth = 1; spoil_nth <= NUM_REGIONS; spoil_nth++) {
        spoil     = (spoil_t)_i;
        num_calls = 0;
        ck_assert_int_eq(ucx_reg_regions(&regions, context), expected[_i]);
        ck_assert_str_ne(ucxpool_error_detail(), "");
        ck_assert_int_eq(num_mapped, 0);
        for (unsigned i = 0; i < NUM_REGIONS; i++) {
            ck_assert_ptr_null(regions.regions[i].memh);
        }
    }
    spoil = SPOIL_NOTHING;
    assert_ok(ucx_reg_regions(&regions, context));
    ucx_dereg_regions(&regions, context);
}

TEST(a_refusal_reports_ucxs_error_and_the_setting_to_change)
{
    spoil     = SPOIL_MAP;
    spoil_nth = 2;
    num_calls = 0;
    assert_error(ucx_reg_regions(&regions, context), NO_MEMORY);
    spoil = SPOIL_NOTHING;
    assert_detail("region 1 of 3");
    assert_detail(ucs_status_string(UCS_ERR_NO_MEMORY));
    assert_detail("UCXPOOL_COMM_SIZE");
}

TEST_SETTINGS(.timeout = 60);

TEST(only_success_maps_to_success)
{
    assert_ok(ucx_status(UCS_OK));
    ck_assert_int_eq(ucx_status(UCS_INPROGRESS), UCXPOOL_INPROGRESS);
    for (int i = UCS_ERR_LAST; i < 0; i++) {
        ck_assert_int_lt(ucx_status((ucs_status_t)i), 0);
    }
}

TEST(errors_caused_by_the_peer_map_to_peer_lost)
{
    static const ucs_status_t statuses[] = {
        UCS_ERR_UNREACHABLE,          UCS_ERR_NOT_CONNECTED,
        UCS_ERR_CONNECTION_RESET,     UCS_ERR_SOME_CONNECTS_FAILED,
        UCS_ERR_ENDPOINT_TIMEOUT,     UCS_ERR_FIRST_LINK_FAILURE,
        UCS_ERR_LAST_LINK_FAILURE,    UCS_ERR_FIRST_ENDPOINT_FAILURE,
        UCS_ERR_LAST_ENDPOINT_FAILURE};

    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
        assert_error(ucx_status(statuses[i]), PEER_LOST);
    }
}

TEST(statuses_with_a_counterpart_map_to_it)
{
    static const struct {
        ucs_status_t     theirs;
        ucxpool_status_t ours;
    } pairs[] = {
        {UCS_ERR_INVALID_PARAM, UCXPOOL_ERR_INVALID_PARAM},
        {UCS_ERR_NO_MEMORY, UCXPOOL_ERR_NO_MEMORY},
        {UCS_ERR_UNSUPPORTED, UCXPOOL_ERR_UNSUPPORTED},
        {UCS_ERR_CANCELED, UCXPOOL_ERR_CANCELED},
        {UCS_ERR_TIMED_OUT, UCXPOOL_ERR_TIMED_OUT},
        {UCS_ERR_REJECTED, UCXPOOL_ERR_REFUSED},
        {UCS_ERR_MESSAGE_TRUNCATED, UCXPOOL_ERR_TRUNCATED},
        {UCS_ERR_NO_MESSAGE, UCXPOOL_ERR_NO_MESSAGE},
        {UCS_ERR_BUSY, UCXPOOL_ERR_BUSY},
        {UCS_ERR_EXCEEDS_LIMIT, UCXPOOL_ERR_LIMIT},
        {UCS_ERR_IO_ERROR, UCXPOOL_ERR_IO},
    };

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        ck_assert_int_eq(ucx_status(pairs[i].theirs), pairs[i].ours);
    }
}
