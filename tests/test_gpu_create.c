/* Creation of pools on a GPU: it succeeds or leaves nothing, and uses the right
 * kind of memory. */
#include "calls.h"
#include "gpu.h"
#include "rounds.h"
#include "test.h"

#include "core/stats.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static const char small[] = "BLOCK_SIZE=2m REGION_SIZE=2m COMM_SIZE=8m "
                            "HUGE_PAGES=n LOG_LEVEL=none CLOSE_TIMEOUT=50ms";

static const char *const backings[] = {"alloc", "vmm", "host"};
#define NUM_BACKINGS 3

static ucxpool_t *pool;

/* LeakSanitizer calls this at exit. The stand-in keeps memory that could not be
 * freed, as the driver does with a GPU that has failed. */
static bool has_gpu_failed;

__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
    return has_gpu_failed;
}

/* Parameters, without a device if it is -1. */
static ucxpool_status_t create_on(int device, const char *settings)
{
    char             text[400];
    ucxpool_params_t params = {
        .field_mask  = UCXPOOL_PARAM_FIELD_MEMORY_KIND,
        .memory_kind = UCXPOOL_MEMORY_CUDA,
    };
    ucxpool_status_t status;

    if (device >= 0) {
        params.field_mask |= UCXPOOL_PARAM_FIELD_DEVICE;
        params.device = device;
    }
    snprintf(text, sizeof(text), "%s %s", small, settings);
    pool   = NULL;
    status = pair_try_pool(&params, text, &pool);
    if (status != UCXPOOL_OK) {
        ck_assert_ptr_null(pool);
        ck_assert_str_ne(ucxpool_error_detail(), "");
    }
    return status;
}

static void create(const char *settings)
{
    assert_ok(create_on(0, settings));
}

static void require_nothing_left(void)
{
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.live(), 0);
    }
}

static void destroy(void)
{
    ucxpool_destroy(pool);
    require_nothing_left();
}

static const char *backing_setting(int i)
{
    static char text[40];

    snprintf(text, sizeof(text), "CUDA_BACKING=%s", backings[i]);
    return text;
}

TEST_SETTINGS(.timeout = 300, .only_if = cuda_is_present);

TEST_EACH(pool_of_each_backing_is_created_and_destroyed, NUM_BACKINGS)
{
    cuda_start("");
    for (int i = 0; i < 3; i++) {
        create(backing_setting(_i));
        ck_assert_uint_eq(pair_stats(pool).block_size, 2 * MIB);
        assert_ok(ucxpool_check(pool));
        pair_send_from(pool);
        destroy();
    }
}

TEST_EACH(small_pool_has_blocks_that_a_gpu_can_map, NUM_BACKINGS)
{
    char settings[120];

    cuda_start("");
    snprintf(settings, sizeof(settings),
             "%s COMM_SIZE=8m BLOCK_SIZE=auto REGION_SIZE=auto",
             backing_setting(_i));
    create(settings);
    ck_assert_uint_eq(pair_stats(pool).block_size, 2 * MIB);
    destroy();
}

TEST(nonexistent_gpu_is_an_error)
{
    char words[40];
    int  num;

    cuda_start("devices=2");
    num = cuda_num_devices();
    snprintf(words, sizeof(words), "GPU %d does not exist", num);
    assert_error(create_on(num, ""), INVALID_PARAM);
    assert_detail(words);
    require_nothing_left();
    create("");
    destroy();
}

TEST(negative_gpu_number_is_an_error)
{
    ucxpool_params_t params = {
        .field_mask =
            UCXPOOL_PARAM_FIELD_MEMORY_KIND | UCXPOOL_PARAM_FIELD_DEVICE,
        .memory_kind = UCXPOOL_MEMORY_CUDA,
        .device      = -1,
    };

    cuda_start("");
    assert_error(ucxpool_create(&params, &pool), INVALID_PARAM);
    require_nothing_left();
}

STAND_IN_TEST(gpu_pool_without_a_driver_is_an_error)
{
    setenv(MEM_CUDA_DRIVER_VARIABLE, "/nonexistent/libcuda.so.1", 1);
    assert_error(create_on(_i, ""), UNSUPPORTED);
    assert_detail("/nonexistent/libcuda.so.1");
    /* Once the driver exists, GPU pools work. */
    cuda_start("");
    create("");
    destroy();
}

STAND_IN_TEST_EACH(without_virtual_memory_blocks_use_alloc, 3)
{
    static const char *const without[] = {"vmm=n", "without=cuMemMap",
                                          "version=11040,vmm=n"};

    cuda_start(without[_i]);
    create("");
    ck_assert_uint_gt(stand_in.count("cuMemAlloc"), 0);
    ck_assert_uint_eq(stand_in.count("cuMemCreate"), 0);
    destroy();
    assert_error(create_on(0, "CUDA_BACKING=vmm"), UNSUPPORTED);
    assert_detail("CUDA_BACKING");
    require_nothing_left();
}

STAND_IN_TEST(old_driver_supports_pools)
{
    setenv(MEM_CUDA_DRIVER_VARIABLE, CUDA_OLD_STAND_IN_PATH, 1);
    create("");
    ucxpool_destroy(pool);
    assert_error(create_on(0, "CUDA_BACKING=vmm"), UNSUPPORTED);
}

STAND_IN_TEST_EACH(out_of_memory_reports_sizes, NUM_BACKINGS)
{
    static const char *const asked[] = {"104857600", "104857600", NULL};

    cuda_start("memory=64m");
    if (asked[_i] == NULL) {
        return; /* pinned memory is the host's */
    }
    stand_in.fail_call(NULL, 0, CUDA_SUCCESS);
    for (int i = 0; i < 2; i++) {
        char settings[100];

        snprintf(settings, sizeof(settings), "COMM_SIZE=100m COMM_STRICT=y %s",
                 backing_setting(_i));
        assert_error(create_on(0, settings), NO_MEMORY);
        assert_detail(asked[_i]);
        assert_detail("free");
        assert_detail("UCXPOOL_COMM_SIZE");
        require_nothing_left();
    }
    create(backing_setting(_i));
    destroy();
}

TEST(checksums_are_for_host_memory)
{
    cuda_start("");
    assert_error(create_on(0, "CHECKSUM=crc32c"), UNSUPPORTED);
    assert_detail("CHECKSUM");
    require_nothing_left();
    create("CHECKSUM=none");
    destroy();
}

static CUcontext current(const mem_cuda_driver_t *driver)
{
    CUcontext context = NULL;

    ck_assert_int_eq(driver->cuCtxGetCurrent(&context), CUDA_SUCCESS);
    return context;
}

/* The driver table or UCX has made its process-wide allocations by then. */
static void warm_up(int i)
{
    create(backing_setting(i));
    destroy();
}

/* A query for an unsupported attribute returns an error. */
STAND_IN_TEST_EACH(failed_call_leaks_nothing, 3 * NUM_BACKINGS)
{
    static const CUresult results[] = {
        CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_UNKNOWN};
    int                      backing = _i % NUM_BACKINGS;
    CUresult                 result  = results[_i / NUM_BACKINGS];
    unsigned                 stride  = slow_is() ? 7 : rounds_are_few() ? 3 : 1;
    unsigned                 n   = 1 + (unsigned)(_i / NUM_BACKINGS) % stride;
    unsigned                 num = 0;
    unsigned                 num_fds;
    ucxpool_status_t         status;
    bool                     has_failed;
    const mem_cuda_driver_t *driver;

    cuda_start("");
    warm_up(backing);
    assert_ok(mem_cuda_driver_get(&driver));
    num_fds = fds_count();
    do {
        stand_in.fail_call(NULL, n, (int)result);
        status     = create_on(0, backing_setting(backing));
        has_failed = stand_in.has_failed() != 0;
        stand_in.fail_call(NULL, 0, CUDA_SUCCESS);
        if (status == UCXPOOL_OK) {
            assert_ok(ucxpool_check(pool));
            ucxpool_destroy(pool);
        } else {
            ck_assert_msg(has_failed, "call %u: %s", n, ucxpool_error_detail());
        }
        ck_assert_msg(stand_in.live() == 0, "call %u: %u things are left", n,
                      stand_in.live());
        ck_assert_uint_eq(fds_count(), num_fds);
        ck_assert_ptr_null(current(driver));
        if (++num % 20 == 0) {
            warm_up(backing);
        }
        n += stride;
    } while (has_failed);
    assert_ok(status);
    ck_assert_uint_gt(n, 10);
    warm_up(backing);
}

STAND_IN_TEST_EACH(failed_table_allocation_leaks_nothing, NUM_BACKINGS)
{
    ucxpool_status_t status;
    bool             has_failed;
    unsigned         n = 1; /* the first is for this test's own settings */

    cuda_start("");
    warm_up(_i);
    do {
        calls_fail(CALLS_CALLOC, ++n, ENOMEM);
        status     = create_on(0, backing_setting(_i));
        has_failed = calls_has_failed();
        calls_reset();
        if (status == UCXPOOL_OK) {
            ucxpool_destroy(pool);
        } else {
            ck_assert_int_eq(status, UCXPOOL_ERR_NO_MEMORY);
        }
        require_nothing_left();
    } while (has_failed);
    assert_ok(status);
    ck_assert_uint_gt(n, 5);
}

/* The same at the end of a pool's life. Destroy returns no status. */
STAND_IN_TEST_EACH(failed_release_does_not_crash, 5 * NUM_BACKINGS)
{
    /* Memory that the driver failed to release stays allocated, so each case
     * has its own process. */
    cuda_start("");
    create(backing_setting(_i % NUM_BACKINGS));
    stand_in.fail_call(NULL, 1 + 2 * (unsigned)(_i / NUM_BACKINGS),
                       CUDA_ERROR_UNKNOWN);
    ucxpool_destroy(pool);
    ck_assert(stand_in.has_failed());
    has_gpu_failed = true;
}

/* The context that the caller made current stays current. */
static void require_current(const mem_cuda_driver_t *driver, CUcontext expected,
                            const char *settings)
{
    pair_t             pair;
    ucxpool_request_t *send, *recv;
    uint8_t           *memory;
    void              *comm;

    ck_assert_ptr_eq(current(driver), expected);
    create(settings);
    ck_assert_ptr_eq(current(driver), expected);
    assert_ok(ucxpool_comm_alloc(pool, 100, &comm));
    ck_assert_ptr_eq(current(driver), expected);
    ucxpool_comm_free(pool, comm);
    pair_send_from(pool);
    ck_assert_ptr_eq(current(driver), expected);
    ucxpool_destroy(pool);
    ck_assert_ptr_eq(current(driver), expected);
    ck_assert_int_lt(create_on(99, ""), 0);
    ck_assert_int_lt(create_on(0, "COMM_SIZE=1t COMM_STRICT=y"), 0);
    ck_assert_ptr_eq(current(driver), expected);
    gpu_connect(&pair, settings, settings);
    memory = gpu_alloc(4 * MIB);
    assert_ok(
        ucxpool_recv_buffer(pair.b, NULL, memory, 2 * MIB, 1, 1, NULL, &recv));
    ck_assert_ptr_eq(current(driver), expected);
    send = pair_send(pair.to_b, memory + 2 * MIB, 2 * MIB, 1);
    ck_assert_ptr_eq(current(driver), expected);
    pair_finish_both(&pair, send, recv);
    ck_assert_ptr_eq(current(driver), expected);
    gpu_free(memory);
    gpu_disconnect(&pair);
    ck_assert_ptr_eq(current(driver), expected);
}

TEST_EACH(callers_context_is_preserved, NUM_BACKINGS)
{
    const char              *settings = backing_setting(_i);
    const mem_cuda_driver_t *driver;
    mem_cuda_device_t       *last;
    CUcontext                context;

    gpu_start("devices=2");
    driver = gpu->driver;
    require_current(driver, NULL, settings);
    assert_ok(mem_cuda_device_open(cuda_num_devices() - 1, &last));
    ck_assert_int_eq(driver->cuCtxPushCurrent(last->context), CUDA_SUCCESS);
    require_current(driver, last->context, settings);
    ck_assert_int_eq(driver->cuCtxPopCurrent(&context), CUDA_SUCCESS);
    mem_cuda_device_close(last);
    gpu_stop();
}

/* The GPU of a pool's comm memory. */
static int device_of_pool(void)
{
    mem_cuda_device_t  *device;
    CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    int                 ordinal  = -1;
    void               *values[] = {&ordinal};
    void               *comm;

    assert_ok(mem_cuda_device_open(0, &device));
    assert_ok(ucxpool_comm_alloc(pool, 100, &comm));
    ck_assert_int_eq(device->driver->cuPointerGetAttributes(
                         1, wanted, values, (CUdeviceptr)(uintptr_t)comm),
                     CUDA_SUCCESS);
    ucxpool_comm_free(pool, comm);
    mem_cuda_device_close(device);
    return ordinal;
}

TEST(without_a_number_the_current_contexts_gpu_is_used)
{
    const mem_cuda_driver_t *driver;
    mem_cuda_device_t       *last;
    CUcontext                context;
    int                      ordinal;

    gpu_start("devices=3");
    driver  = gpu->driver;
    ordinal = cuda_num_devices() - 1;
    assert_ok(create_on(-1, ""));
    ck_assert_int_eq(device_of_pool(), 0);
    ucxpool_destroy(pool);
    assert_ok(mem_cuda_device_open(ordinal, &last));
    ck_assert_int_eq(driver->cuCtxPushCurrent(last->context), CUDA_SUCCESS);
    assert_ok(create_on(-1, ""));
    ck_assert_int_eq(device_of_pool(), ordinal);
    ucxpool_destroy(pool);
    ck_assert_int_eq(driver->cuCtxPopCurrent(&context), CUDA_SUCCESS);
    mem_cuda_device_close(last);
    gpu_stop();
}

/* Free every second one of the caller's blocks, so that no two are adjacent. */
static unsigned scatter_free_blocks(ucxpool_block_t *blocks, unsigned max)
{
    unsigned num = 0, kept = 0;

    while ((num < max) &&
           (ucxpool_block_get(pool, &blocks[num]) == UCXPOOL_OK)) {
        num++;
    }
    for (unsigned i = 0; i < num; i++) {
        if (blocks[i].index % 2 == 0) {
            ucxpool_block_put(pool, &blocks[i]);
        } else {
            blocks[kept++] = blocks[i];
        }
    }
    return kept;
}

static void put_blocks(const ucxpool_block_t *blocks, unsigned num)
{
    for (unsigned i = 0; i < num; i++) {
        ucxpool_block_put(pool, &blocks[i]);
    }
}

static const char many[] = "COMM_SIZE=32m SEND_SHARE=10 RECV_SHARE=10";

TEST_EACH(vmm_stitches_scattered_blocks_into_one_buffer, 2)
{
    static ucxpool_block_t blocks[64];
    char                   settings[100];
    uint8_t               *bytes = test_alloc(6 * MIB);
    uint8_t               *found = test_alloc(6 * MIB);
    unsigned               num;
    void                  *memory;

    gpu_start("");
    snprintf(settings, sizeof(settings), "%s CUDA_BACKING=%s", many,
             (_i == 0) ? "vmm" : "host");
    create(settings);
    for (int i = 0; i < 3; i++) {
        num = scatter_free_blocks(blocks, 64);
        assert_ok(ucxpool_comm_alloc(pool, 6 * MIB, &memory));
        pair_fill(bytes, 6 * MIB);
        gpu_write(memory, bytes, 6 * MIB);
        gpu_read(found, memory, 6 * MIB);
        ck_assert(memcmp(bytes, found, 6 * MIB) == 0);
        ucxpool_comm_free(pool, memory);
        put_blocks(blocks, num);
        assert_ok(ucxpool_check(pool));
    }
    ucxpool_destroy(pool);
    gpu_stop();
}

TEST(scattered_alloc_blocks_cannot_form_a_buffer)
{
    static ucxpool_block_t blocks[64];
    char                   settings[100];
    unsigned               num;
    void                  *memory = NULL;

    gpu_start("");
    snprintf(settings, sizeof(settings), "%s CUDA_BACKING=alloc", many);
    create(settings);
    num = scatter_free_blocks(blocks, 64);
    assert_error(ucxpool_comm_alloc(pool, 6 * MIB, &memory), NO_BLOCKS);
    assert_detail("CUDA_BACKING=vmm");
    ck_assert_ptr_null(memory);
    assert_ok(ucxpool_check(pool));
    put_blocks(blocks, num);
    assert_ok(ucxpool_comm_alloc(pool, 6 * MIB, &memory));
    ucxpool_comm_free(pool, memory);
    ucxpool_destroy(pool);
    gpu_stop();
}

STAND_IN_TEST_EACH(destroyed_context_is_an_error_and_not_a_crash, NUM_BACKINGS)
{
    pair_t             pair;
    uint8_t           *memory;
    ucxpool_request_t *request = NULL;
    ucxpool_status_t   status;

    gpu_start("");
    gpu_connect(&pair, backing_setting(_i), backing_setting(_i));
    memory = gpu_alloc(4 * MIB);
    stand_in.reset_context(0);
    has_gpu_failed = true;
    status = ucxpool_send_buffer(pair.to_b, memory, 4 * MIB, 1, NULL, &request);
    ck_assert_int_ne(status, UCXPOOL_OK);
    ck_assert_str_ne(ucxpool_error_detail(), "");
    for (int i = 0; i < 100; i++) {
        pair_progress(&pair);
    }
    pair_cleanup(&pair);
    mem_cuda_device_close(gpu);
}
