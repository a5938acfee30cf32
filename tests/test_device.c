/* The public queries about GPUs. */
#include <config.h>

#include "base/error.h"
#include "caught.h"
#include "copy/memtypes.h"
#include "cuda_fixture.h"
#include "test.h"
#include "replace.h"
#include "mem/nvml.h"

#include <ucp/api/ucp.h>
#include <ucxpool/private.h>
#include <ucxpool/ucxpool.h>

#include <stdlib.h>
#include <string.h>

#define ALL_FIELDS \
    (UCXPOOL_DEVICE_ATTR_FIELD_MEMORY_FREE | UCXPOOL_DEVICE_ATTR_FIELD_BAR1 | \
     UCXPOOL_DEVICE_ATTR_FIELD_BACKING)

#define ALL_ABILITIES \
    (UCXPOOL_DEVICE_IPC | UCXPOOL_DEVICE_VMM | UCXPOOL_DEVICE_POSIX_HANDLES | \
     UCXPOOL_DEVICE_FABRIC_HANDLES | UCXPOOL_DEVICE_GPUDIRECT | \
     UCXPOOL_DEVICE_GPUDIRECT_VMM | UCXPOOL_DEVICE_DMABUF | \
     UCXPOOL_DEVICE_MEM_OPS)

static ucxpool_device_attr_t attr;
static unsigned              num_inits; /* calls of ucp_init() */

REPLACE(ucs_status_t, ucp_init_version, unsigned major, unsigned minor,
        const ucp_params_t *params, const ucp_config_t *config,
        ucp_context_h *context_p)
{
    num_inits++;
    return __real_ucp_init_version(major, minor, params, config, context_p);
}

static void start(const char *configuration)
{
    cuda_start(configuration);
    setenv(MEM_NVML_LIBRARY_VARIABLE, NVML_STAND_IN_PATH, 1);
    memset(&attr, 'x', sizeof(attr));
    attr.field_mask = 0;
    num_inits       = 0;
}

static ucxpool_status_t query(int device, uint64_t fields)
{
    attr.field_mask = fields;
    return ucxpool_device_query(device, NULL, &attr, sizeof(attr));
}

TEST_SETTINGS(.timeout = 60, .only_if = cuda_is_present);

STAND_IN_TEST(gpus_are_counted)
{
    start("devices=3");
    ck_assert_int_eq(ucxpool_device_count(), 3);
}

STAND_IN_TEST(without_a_driver_the_count_is_0_and_nothing_is_logged)
{
    start("");
    setenv(MEM_CUDA_DRIVER_VARIABLE, "/nonexistent/libcuda.so.1", 1);
    caught_begin();
    ck_assert_int_eq(ucxpool_device_count(), 0);
    ck_assert_str_eq(caught_text(), "");
    caught_end();
    assert_has(ucxpool_error_detail(), "no CUDA driver");
    ck_assert_int_eq(base_error_log_at(BASE_LOG_INFO), BASE_LOG_INFO);
    assert_error(query(0, 0), UNSUPPORTED);
}

STAND_IN_TEST(machine_without_gpus_counts_0)
{
    start("devices=0");
    ck_assert_int_eq(ucxpool_device_count(), 0);
    assert_has(ucxpool_error_detail(), "CUDA_ERROR_NO_DEVICE");
}

STAND_IN_TEST(failed_device_count_is_0)
{
    start("");
    stand_in.fail_call("cuDeviceGetCount", 1, CUDA_ERROR_UNKNOWN);
    ck_assert_int_eq(ucxpool_device_count(), 0);
    assert_has(ucxpool_error_detail(), "cuDeviceGetCount");
    ck_assert_int_eq(ucxpool_device_count(), 1);
}

STAND_IN_TEST(query_describes_a_gpu)
{
    start("devices=2,memory=512m,fabric=y,version=12040");
    assert_ok(query(1, 0));
    ck_assert_str_eq(attr.name, "Stand-in GPU");
    ck_assert_str_eq(attr.bus_id, "0000:02:00.0");
    ck_assert_str_eq(attr.uuid, "GPU-7374616e-642d-696e-2047-505500000002");
    ck_assert_uint_eq(attr.memory_size, UINT64_C(512) << 20);
    ck_assert_int_eq(attr.cuda_version, 12040);
    ck_assert_int_eq(attr.compute_major, 9);
    ck_assert_int_eq(attr.compute_minor, 0);
    ck_assert_int_eq(attr.num_processors, 4);
    ck_assert_uint_eq(attr.abilities, ALL_ABILITIES);
}

STAND_IN_TEST(unsupported_features_are_not_listed)
{
    start("vmm=n,gdr=n,memops=n,version=11040");
    assert_ok(query(0, 0));
    ck_assert_uint_eq(attr.abilities, UCXPOOL_DEVICE_IPC);
}

STAND_IN_TEST(expensive_fields_are_filled_only_on_request)
{
    start("");
    assert_ok(query(0, 0));
    ck_assert_uint_eq(stand_in.count("cuDevicePrimaryCtxRetain"), 0);
    ck_assert_uint_eq(num_inits, 0);
    ck_assert_uint_eq(attr.memory_free, 0);
    ck_assert_uint_eq(attr.bar1_size, 0);
    ck_assert_str_eq(attr.bar1_reason, "");
    ck_assert_str_eq(attr.driver_version, "");
    ck_assert_int_eq(attr.backing, UCXPOOL_CUDA_BACKING_NONE);
    ck_assert_str_eq(attr.backing_reason, "");
}

STAND_IN_TEST(free_memory_query_leaks_nothing)
{
    start("memory=512m");
    assert_ok(query(0, UCXPOOL_DEVICE_ATTR_FIELD_MEMORY_FREE));
    ck_assert_uint_eq(attr.memory_free, UINT64_C(512) << 20);
    ck_assert_uint_eq(stand_in.live(), 0);
}

STAND_IN_TEST(query_reports_bar1)
{
    start("");
    setenv("NVML_STAND_IN", "bar1=268435456,used=1048576,driver=580.9", 1);
    assert_ok(query(0, UCXPOOL_DEVICE_ATTR_FIELD_BAR1));
    ck_assert_uint_eq(attr.bar1_size, UINT64_C(256) << 20);
    ck_assert_uint_eq(attr.bar1_used, UINT64_C(1) << 20);
    ck_assert_uint_eq(attr.bar1_free, UINT64_C(255) << 20);
    ck_assert_str_eq(attr.bar1_reason, "");
    ck_assert_str_eq(attr.driver_version, "580.9");
}

STAND_IN_TEST(missing_bar1_has_a_reason_and_is_no_error)
{
    start("");
    setenv("NVML_STAND_IN", "bar1=0,used=0", 1);
    assert_ok(query(0, UCXPOOL_DEVICE_ATTR_FIELD_BAR1));
    ck_assert_uint_eq(attr.bar1_size, 0);
    ck_assert_str_eq(attr.bar1_reason, "this GPU has no BAR1");
}

static void check_backing(const char *setting, ucxpool_cuda_backing_t backing,
                          const char *words)
{
    ucxpool_config_t *config;

    assert_ok(ucxpool_config_read(&config));
    assert_ok(ucxpool_config_modify(config, "CUDA_BACKING", setting));
    attr.field_mask = UCXPOOL_DEVICE_ATTR_FIELD_BACKING;
    assert_ok(ucxpool_device_query(0, config, &attr, sizeof(attr)));
    ck_assert_int_eq(attr.backing, backing);
    assert_has(attr.backing_reason, words);
    ucxpool_config_release(config);
}

STAND_IN_TEST(backing_follows_the_settings)
{
    start("");
    check_backing("alloc", UCXPOOL_CUDA_BACKING_ALLOC, "set by CUDA_BACKING");
    check_backing("vmm", UCXPOOL_CUDA_BACKING_VMM, "set by CUDA_BACKING");
    check_backing("host", UCXPOOL_CUDA_BACKING_HOST, "set by CUDA_BACKING");
}

STAND_IN_TEST(without_settings_the_environment_is_used)
{
    start("");
    setenv("UCXPOOL_CUDA_BACKING", "host", 1);
    assert_ok(query(0, UCXPOOL_DEVICE_ATTR_FIELD_BACKING));
    ck_assert_int_eq(attr.backing, UCXPOOL_CUDA_BACKING_HOST);
    setenv("UCXPOOL_CUDA_BACKING", "nonsense", 1);
    assert_error(query(0, 0), INVALID_PARAM);
}

STAND_IN_TEST(impossible_backing_is_none_with_a_reason)
{
    start("vmm=n");
    check_backing("vmm", UCXPOOL_CUDA_BACKING_NONE,
                  "this GPU does not support virtual memory");
    check_backing("auto", UCXPOOL_CUDA_BACKING_ALLOC,
                  "this GPU does not support virtual memory");
}

STAND_IN_TEST(failing_ucx_init_is_the_reason)
{
    start("");
    setenv("UCX_TLS", "no_such_transport", 1);
    setenv("UCX_LOG_LEVEL", "fatal", 1);
    check_backing("auto", UCXPOOL_CUDA_BACKING_NONE, "UCX_TLS");
}

STAND_IN_TEST(nonexistent_gpu_is_an_error)
{
    start("devices=2");
    assert_error(query(2, 0), INVALID_PARAM);
    assert_has(ucxpool_error_detail(), "this process has 2");
    assert_error(query(-1, 0), INVALID_PARAM);
    assert_error(ucxpool_device_query(0, NULL, NULL, 0), INVALID_PARAM);
}

STAND_IN_TEST(failed_query_leaks_nothing_and_retry_works)
{
    unsigned num_failed = 0;

    start("");
    for (unsigned n = 1;; n++) {
        stand_in.fail_call(NULL, n, CUDA_ERROR_UNKNOWN);
        (void)query(0, UCXPOOL_DEVICE_ATTR_FIELD_MEMORY_FREE);
        if (!stand_in.has_failed()) {
            break;
        }
        num_failed++;
        stand_in.fail_call(NULL, 0, 0);
        ck_assert_uint_eq(stand_in.live(), 0);
        assert_ok(query(0, ALL_FIELDS));
    }
    ck_assert_uint_ge(num_failed, 10);
}

STAND_IN_TEST(list_is_readable_by_gpus)
{
    const mem_cuda_driver_t *driver;
    copy_pointer_t           pointer;
    void                    *lists[2];

    start("devices=2");
    assert_ok(mem_cuda_driver_get(&driver));
    for (int i = 0; i < 2; i++) {
        assert_ok(ucxpool_device_list_alloc(1 - i, 100000, &lists[i]));
        ck_assert_uint_eq((uintptr_t)lists[i] % 64, 0);
        memset(lists[i], i, 100000);
        assert_ok(copy_pointer_query(driver, (uintptr_t)lists[i], &pointer));
        ck_assert_int_eq(pointer.place, COPY_MEMTYPE_PINNED);
        ck_assert_uint_ge(pointer.start + pointer.size,
                          (uintptr_t)lists[i] + 100000);
    }
    ucxpool_device_list_free(lists[0]);
    ck_assert_uint_gt(stand_in.live(), 0);
    ucxpool_device_list_free(lists[1]);
    ucxpool_device_list_free(NULL);
    ck_assert_uint_eq(stand_in.live(), 0);
}

STAND_IN_TEST(failed_list_creation_is_reported_and_leaks_nothing)
{
    void    *list       = &list;
    unsigned num_failed = 0;

    start("devices=2");
    assert_error(ucxpool_device_list_alloc(2, 64, &list), INVALID_PARAM);
    assert_has(ucxpool_error_detail(), "this process has 2");
    ck_assert_ptr_null(list);
    assert_error(ucxpool_device_list_alloc(0, 0, &list), INVALID_PARAM);
    assert_error(ucxpool_device_list_alloc(0, 64, NULL), INVALID_PARAM);
    assert_error(ucxpool_device_list_alloc(0, SIZE_MAX, &list), NO_MEMORY);
    for (bool has_failed = true; has_failed; num_failed++) {
        stand_in.fail_call(NULL, num_failed + 1, CUDA_ERROR_OUT_OF_MEMORY);
        if (ucxpool_device_list_alloc(0, 64, &list) != UCXPOOL_OK) {
            ck_assert_ptr_null(list);
        }
        has_failed = stand_in.has_failed();
        stand_in.fail_call(NULL, 0, 0);
        ucxpool_device_list_free(list);
        ck_assert_uint_eq(stand_in.live(), 0);
    }
    ck_assert_uint_ge(num_failed, 5);
    ck_assert_uint_eq(stand_in.live(), 0);
}

STAND_IN_TEST(threads_context_is_preserved)
{
    const mem_cuda_driver_t *driver;
    CUcontext                context, current;

    start("devices=2");
    assert_ok(mem_cuda_driver_get(&driver));
    ck_assert_int_eq(driver->cuDevicePrimaryCtxRetain(&context, 1), 0);
    ck_assert_int_eq(driver->cuCtxPushCurrent(context), 0);
    assert_ok(query(0, ALL_FIELDS));
    ck_assert_int_eq(driver->cuCtxGetCurrent(&current), 0);
    ck_assert_ptr_eq(current, context);
    ck_assert_int_eq(driver->cuCtxPopCurrent(&current), 0);
    ck_assert_int_eq(driver->cuDevicePrimaryCtxRelease(1), 0);
}

/* With the real driver, every field must be filled, whatever its value. */
TEST(every_gpu_of_this_machine_can_be_queried)
{
    int num;

    cuda_start("");
    num = ucxpool_device_count();
    ck_assert_int_ge(num, 1);
    for (int i = 0; i < num; i++) {
        assert_ok(query(i, ALL_FIELDS));
        ck_assert_str_ne(attr.name, "");
        ck_assert_uint_gt(attr.memory_size, 0);
        ck_assert_uint_le(attr.memory_free, attr.memory_size);
        ck_assert_int_ge(attr.compute_major, 1);
        ck_assert_int_ne(attr.backing, UCXPOOL_CUDA_BACKING_NONE);
        ck_assert((attr.bar1_size != 0) || (attr.bar1_reason[0] != '\0'));
    }
}
