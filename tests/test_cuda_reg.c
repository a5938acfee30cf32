/* Registration of GPU memory with UCX. The test simulates a UCX with CUDA
 * support. */
#include "base/config.h"
#include "cuda_fixture.h"
#include "test.h"
#include "replace.h"
#include "ucx/reg.h"

#include <ucp/api/ucp.h>
#include <ucxpool/ucxpool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUM_REGIONS 3u
#define REGION_SIZE ((size_t)2 << 20)

typedef struct handle {
    void  *address;
    size_t length;
} handle_t;

static const mem_kind_t *const kinds[] = {
    &mem_kind_cuda_alloc, &mem_kind_cuda_vmm, &mem_kind_cuda_host};

static ucs_memory_type_t expected_type;
static bool              ucx_has_cuda;
static unsigned          fail_nth; /* failing call of ucp_mem_map; 0: none */
static unsigned          num_maps;
static int               num_live;
static mem_regions_t     regions;

REPLACE(ucs_status_t, ucp_context_query, ucp_context_h context,
        ucp_context_attr_t *attr)
{
    attr->memory_types = UINT64_C(1) << UCS_MEMORY_TYPE_HOST;
    if (ucx_has_cuda) {
        attr->memory_types |= UINT64_C(1) << UCS_MEMORY_TYPE_CUDA;
    }
    return UCS_OK;
}

/* Region verification is simulated in tests/test_domains.c instead. */
REPLACE(void, ucp_context_print_info, ucp_context_h context, FILE *stream)
{
}

REPLACE(ucs_status_t, ucp_mem_map, ucp_context_h context,
        const ucp_mem_map_params_t *params, ucp_mem_h *memh)
{
    handle_t *handle;

    ck_assert(params->field_mask & UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE);
    ck_assert_int_eq(params->memory_type, expected_type);
    if (++num_maps == fail_nth) {
        return UCS_ERR_IO_ERROR;
    }
    handle          = malloc(sizeof(*handle));
    handle->address = params->address;
    handle->length  = params->length;
    *memh           = (ucp_mem_h)handle;
    num_live++;
    return UCS_OK;
}

REPLACE(ucs_status_t, ucp_mem_unmap, ucp_context_h context, ucp_mem_h memh)
{
    num_live--;
    free(memh);
    return UCS_OK;
}

REPLACE(ucs_status_t, ucp_mem_query, const ucp_mem_h memh, ucp_mem_attr_t *attr)
{
    const handle_t *handle = (const handle_t *)memh;

    attr->address = handle->address;
    attr->length  = handle->length;
    return UCS_OK;
}

REPLACE(ucs_status_t, ucp_rkey_pack, ucp_context_h context, ucp_mem_h memh,
        void **buffer, size_t *size)
{
    *buffer = malloc(1);
    *size   = 1;
    return UCS_OK;
}

REPLACE(void, ucp_rkey_buffer_release, void *buffer)
{
    free(buffer);
}

static void setup(void)
{
    cuda_start("");
    ucx_has_cuda = true;
    assert_ok(mem_regions_init(&regions, &mem_kind_cuda_vmm, 0, NUM_REGIONS,
                               REGION_SIZE, BASE_SWITCH_NO));
    expected_type = UCS_MEMORY_TYPE_CUDA;
}

static void teardown(void)
{
    mem_regions_cleanup(&regions);
    ck_assert_int_eq(num_live, 0);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .only_if = cuda_is_present);

TEST_EACH(each_memory_kind_is_registered_as_its_type,
          (int)(sizeof(kinds) / sizeof(kinds[0])))
{
    mem_regions_cleanup(&regions);
    assert_ok(mem_regions_init(&regions, kinds[_i], 0, NUM_REGIONS, REGION_SIZE,
                               BASE_SWITCH_NO));
    expected_type = kinds[_i] == &mem_kind_cuda_host ? UCS_MEMORY_TYPE_HOST
                                                     : UCS_MEMORY_TYPE_CUDA;
    assert_ok(ucx_reg_regions(&regions, NULL));
    ck_assert_int_eq(num_live, (int)regions.num_regions);
    for (unsigned i = 0; i < regions.num_regions; i++) {
        const handle_t *handle = (handle_t *)regions.regions[i].memh;

        ck_assert_ptr_eq(handle->address, regions.regions[i].address);
        ck_assert_uint_eq(handle->length, regions.regions[i].size);
    }
    ucx_dereg_regions(&regions, NULL);
}

TEST(ucx_without_cuda_gets_no_gpu_address)
{
    ucx_has_cuda = false;
    assert_error_detail(ucx_reg_regions(&regions, NULL), UNSUPPORTED,
                        "no CUDA support");
    assert_detail("UCXPOOL_CUDA_BACKING=host");
    ck_assert_uint_eq(num_maps, 0);
}

TEST(ucx_without_cuda_registers_pinned_host_memory)
{
    mem_regions_cleanup(&regions);
    assert_ok(mem_regions_init(&regions, &mem_kind_cuda_host, 0, NUM_REGIONS,
                               REGION_SIZE, BASE_SWITCH_NO));
    ucx_has_cuda  = false;
    expected_type = UCS_MEMORY_TYPE_HOST;
    assert_ok(ucx_reg_regions(&regions, NULL));
    ucx_dereg_regions(&regions, NULL);
}

TEST(failed_registration_leaks_nothing_and_retry_works)
{
    for (fail_nth = 1; fail_nth <= NUM_REGIONS; fail_nth++) {
        num_maps = 0;
        assert_error_detail(ucx_reg_regions(&regions, NULL), IO,
                            "lower UCXPOOL_COMM_SIZE, or set "
                            "UCXPOOL_CUDA_BACKING=host");
        ck_assert_int_eq(num_live, 0);
    }
    fail_nth = 0;
    assert_ok(ucx_reg_regions(&regions, NULL));
    ucx_dereg_regions(&regions, NULL);
}
