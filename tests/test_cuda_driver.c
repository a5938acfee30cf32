/* Loading the CUDA driver, and its errors. */
#include <config.h>

#include "cuda_fixture.h"
#include "test.h"
#include "mem/cuda_driver.h"

#include <ucxpool/ucxpool.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const mem_cuda_driver_t *driver;

static void setup(void)
{
    driver = NULL;
    cuda_start("");
}

static void check_refused(const char *words)
{
    assert_error_detail(mem_cuda_driver_get(&driver), UNSUPPORTED, words);
    ck_assert_ptr_null(driver);
}

TEST_SETTINGS(.setup = setup, .only_if = cuda_is_present);

TEST(the_driver_is_loaded_once)
{
    const mem_cuda_driver_t *again = NULL;

    assert_ok(mem_cuda_driver_get(&driver));
    ck_assert_int_ge(driver->version, 11040);
    assert_ok(mem_cuda_driver_get(&again));
    ck_assert_ptr_eq(again, driver);
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.count("cuInit"), 1);
    }
}

#define CHECK_IS_THERE(_name, _symbol, _is_needed, _params) \
    ck_assert(!(_is_needed) || (driver->_name != NULL));

TEST(all_required_functions_are_found)
{
    assert_ok(mem_cuda_driver_get(&driver));
    MEM_CUDA_CALLS(CHECK_IS_THERE)
    ck_assert(driver->has_vmm);
    ck_assert(driver->has_mem_ops);
}

TEST(missing_driver_is_unsupported_with_advice)
{
    setenv(MEM_CUDA_DRIVER_VARIABLE, "/nonexistent/libcuda.so.1", 1);
    check_refused("no CUDA driver: /nonexistent/libcuda.so.1");
    check_refused("install NVIDIA's driver");
}

TEST(library_that_is_not_the_driver_is_rejected)
{
    setenv(MEM_CUDA_DRIVER_VARIABLE, "libm.so.6", 1);
    check_refused("libm.so.6 is not a CUDA driver");
}

STAND_IN_TEST(old_driver_is_rejected)
{
    stand_in.configure("version=11030");
    check_refused("supports CUDA 11.3, but 11.4 is required");
}

STAND_IN_TEST(driver_without_a_required_function_is_rejected)
{
    stand_in.configure("without=cuMemAlloc");
    check_refused("has no cuMemAlloc: install a newer driver");
}

STAND_IN_TEST(driver_without_virtual_memory_is_accepted)
{
    stand_in.configure("without=cuMemSetAccess");
    assert_ok(mem_cuda_driver_get(&driver));
    ck_assert(!driver->has_vmm);
    ck_assert_ptr_null(driver->cuMemSetAccess);
}

STAND_IN_TEST(driver_without_memory_operations_is_accepted)
{
    stand_in.configure("without=cuStreamWriteValue32");
    assert_ok(mem_cuda_driver_get(&driver));
    ck_assert(!driver->has_mem_ops);
}

STAND_IN_TEST(driver_without_dmabuf_export_is_accepted)
{
    stand_in.configure("without=cuMemGetHandleForAddressRange");
    assert_ok(mem_cuda_driver_get(&driver));
    ck_assert_ptr_null(driver->cuMemGetHandleForAddressRange);
}

STAND_IN_TEST(driver_without_proc_address_uses_dlsym)
{
    int count = 0;

    setenv(MEM_CUDA_DRIVER_VARIABLE, CUDA_OLD_STAND_IN_PATH, 1);
    assert_ok(mem_cuda_driver_get(&driver));
    ck_assert(!driver->has_vmm);
    ck_assert_int_eq(driver->cuDeviceGetCount(&count), CUDA_SUCCESS);
    ck_assert_int_eq(count, 1);
}

STAND_IN_TEST(failed_start_can_be_retried)
{
    stand_in.fail_call("cuInit", 1, CUDA_ERROR_SYSTEM_NOT_READY);
    check_refused("start the machine's NVIDIA services");
    assert_ok(mem_cuda_driver_get(&driver));
}

STAND_IN_TEST(a_machine_without_devices_is_unsupported)
{
    stand_in.configure("devices=0");
    check_refused("CUDA_ERROR_NO_DEVICE");
}

/* The status that the function returned in a child. */
static ucxpool_status_t get_in_child(void)
{
    const mem_cuda_driver_t *theirs;
    pid_t                    child = fork();

    if (child == 0) {
        _exit(-mem_cuda_driver_get(&theirs));
    }
    return (ucxpool_status_t)-test_exit_of(child);
}

TEST(child_forked_before_first_use_may_use_cuda)
{
    assert_ok(get_in_child());
    assert_ok(mem_cuda_driver_get(&driver));
}

TEST(child_forked_after_first_use_gets_an_error)
{
    assert_ok(mem_cuda_driver_get(&driver));
    assert_error(get_in_child(), UNSUPPORTED);
}

TEST(error_has_the_call_the_name_and_the_text)
{
    assert_ok(mem_cuda_driver_get(&driver));
    assert_error(mem_cuda_error(driver, CUDA_ERROR_OUT_OF_MEMORY,
                                "cuMemAlloc of %d bytes", 5),
                 NO_MEMORY);
    ck_assert_str_eq(ucxpool_error_detail(),
                     "cuMemAlloc of 5 bytes: CUDA_ERROR_OUT_OF_MEMORY (2, out "
                     "of memory)");
    assert_error_detail(mem_cuda_error(driver, (CUresult)54321, "cuX"), IO,
                        "54321");
}

TEST(cuda_results_map_to_statuses)
{
    static const struct {
        CUresult         result;
        ucxpool_status_t status;
    } cases[] = {
        {CUDA_ERROR_INVALID_DEVICE, UCXPOOL_ERR_INVALID_PARAM},
        {CUDA_ERROR_NOT_PERMITTED, UCXPOOL_ERR_PERMISSION},
        {CUDA_ERROR_NOT_SUPPORTED, UCXPOOL_ERR_UNSUPPORTED},
        {CUDA_ERROR_UNKNOWN, UCXPOOL_ERR_IO},
    };

    assert_ok(mem_cuda_driver_get(&driver));
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ck_assert_int_eq(mem_cuda_error(driver, cases[i].result, "cuX"),
                         cases[i].status);
    }
}
