/* Loading the CUDA driver, and its errors. */
#include <config.h>

#include "cuda_fixture.h"
#include "mem/cuda_driver.h"

#include <ucxpool/ucxpool.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const mem_cuda_driver_t *driver;

static void setup(void)
{
    driver = NULL;
    cuda_start("");
}

static void check_refused(const char *words)
{
    ck_assert_int_eq(mem_cuda_driver_get(&driver), UCXPOOL_ERR_UNSUPPORTED);
    ck_assert_msg(strstr(ucxpool_error_detail(), words) != NULL, "%s",
                  ucxpool_error_detail());
    ck_assert_ptr_null(driver);
}

START_TEST(the_driver_is_loaded_once)
{
    const mem_cuda_driver_t *again = NULL;

    ck_assert_int_eq(mem_cuda_driver_get(&driver), UCXPOOL_OK);
    ck_assert_int_ge(driver->version, 11040);
    ck_assert_int_eq(mem_cuda_driver_get(&again), UCXPOOL_OK);
    ck_assert_ptr_eq(again, driver);
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.count("cuInit"), 1);
    }
}
END_TEST

#define CHECK_IS_THERE(_name, _symbol, _is_needed, _params) \
    ck_assert(!(_is_needed) || (driver->_name != NULL));

START_TEST(all_required_functions_are_found)
{
    ck_assert_int_eq(mem_cuda_driver_get(&driver), UCXPOOL_OK);
    MEM_CUDA_CALLS(CHECK_IS_THERE)
    ck_assert(driver->has_vmm);
    ck_assert(driver->has_mem_ops);
}
END_TEST

START_TEST(missing_driver_is_unsupported_with_advice)
{
    setenv(MEM_CUDA_DRIVER_VARIABLE, "/nonexistent/libcuda.so.1", 1);
    check_refused("no CUDA driver: /nonexistent/libcuda.so.1");
    check_refused("install NVIDIA's driver");
}
END_TEST

START_TEST(library_that_is_not_the_driver_is_rejected)
{
    setenv(MEM_CUDA_DRIVER_VARIABLE, "libm.so.6", 1);
    check_refused("libm.so.6 is not a CUDA driver");
}
END_TEST

START_TEST(old_driver_is_rejected)
{
    stand_in.configure("version=11030");
    check_refused("supports CUDA 11.3, but 11.4 is required");
}
END_TEST

START_TEST(driver_without_a_required_function_is_rejected)
{
    stand_in.configure("without=cuMemAlloc");
    check_refused("has no cuMemAlloc: install a newer driver");
}
END_TEST

START_TEST(driver_without_virtual_memory_is_accepted)
{
    stand_in.configure("without=cuMemSetAccess");
    ck_assert_int_eq(mem_cuda_driver_get(&driver), UCXPOOL_OK);
    ck_assert(!driver->has_vmm);
    ck_assert_ptr_null(driver->cuMemSetAccess);
}
END_TEST

START_TEST(driver_without_memory_operations_is_accepted)
{
    stand_in.configure("without=cuStreamWriteValue32");
    ck_assert_int_eq(mem_cuda_driver_get(&driver), UCXPOOL_OK);
    ck_assert(!driver->has_mem_ops);
}
END_TEST

START_TEST(driver_without_proc_address_uses_dlsym)
{
    int count = 0;

    setenv(MEM_CUDA_DRIVER_VARIABLE, CUDA_OLD_STAND_IN_PATH, 1);
    ck_assert_int_eq(mem_cuda_driver_get(&driver), UCXPOOL_OK);
    ck_assert(!driver->has_vmm);
    ck_assert_int_eq(driver->cuDeviceGetCount(&count), CUDA_SUCCESS);
    ck_assert_int_eq(count, 1);
}
END_TEST

START_TEST(failed_start_can_be_retried)
{
    stand_in.fail_call("cuInit", 1, CUDA_ERROR_SYSTEM_NOT_READY);
    check_refused("start the machine's NVIDIA services");
    ck_assert_int_eq(mem_cuda_driver_get(&driver), UCXPOOL_OK);
}
END_TEST

START_TEST(a_machine_without_devices_is_unsupported)
{
    stand_in.configure("devices=0");
    check_refused("CUDA_ERROR_NO_DEVICE");
}
END_TEST

/* The status that the function returned in a child. */
static ucxpool_status_t get_in_child(void)
{
    const mem_cuda_driver_t *theirs;
    int                      status = 0;
    pid_t                    child  = fork();

    if (child == 0) {
        _exit(-mem_cuda_driver_get(&theirs));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return (ucxpool_status_t)-WEXITSTATUS(status);
}

START_TEST(child_forked_before_first_use_may_use_cuda)
{
    ck_assert_int_eq(get_in_child(), UCXPOOL_OK);
    ck_assert_int_eq(mem_cuda_driver_get(&driver), UCXPOOL_OK);
}
END_TEST

START_TEST(child_forked_after_first_use_gets_an_error)
{
    ck_assert_int_eq(mem_cuda_driver_get(&driver), UCXPOOL_OK);
    ck_assert_int_eq(get_in_child(), UCXPOOL_ERR_UNSUPPORTED);
}
END_TEST

START_TEST(error_has_the_call_the_name_and_the_text)
{
    ck_assert_int_eq(mem_cuda_driver_get(&driver), UCXPOOL_OK);
    ck_assert_int_eq(mem_cuda_error(driver, CUDA_ERROR_OUT_OF_MEMORY,
                                    "cuMemAlloc of %d bytes", 5),
                     UCXPOOL_ERR_NO_MEMORY);
    ck_assert_str_eq(ucxpool_error_detail(),
                     "cuMemAlloc of 5 bytes: CUDA_ERROR_OUT_OF_MEMORY (2, out "
                     "of memory)");
    ck_assert_int_eq(mem_cuda_error(driver, (CUresult)54321, "cuX"),
                     UCXPOOL_ERR_IO);
    ck_assert_ptr_nonnull(strstr(ucxpool_error_detail(), "54321"));
}
END_TEST

START_TEST(cuda_results_map_to_statuses)
{
    ck_assert_int_eq(mem_cuda_status(CUDA_SUCCESS), UCXPOOL_OK);
    ck_assert_int_eq(mem_cuda_status(CUDA_ERROR_INVALID_DEVICE),
                     UCXPOOL_ERR_INVALID_PARAM);
    ck_assert_int_eq(mem_cuda_status(CUDA_ERROR_NOT_PERMITTED),
                     UCXPOOL_ERR_PERMISSION);
    ck_assert_int_eq(mem_cuda_status(CUDA_ERROR_NOT_SUPPORTED),
                     UCXPOOL_ERR_UNSUPPORTED);
    ck_assert_int_eq(mem_cuda_status(CUDA_ERROR_UNKNOWN), UCXPOOL_ERR_IO);
}
END_TEST

static Suite *driver_suite(void)
{
    Suite *suite = suite_create("cuda_driver");
    TCase *tcase = tcase_create("cuda_driver");

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_test(tcase, the_driver_is_loaded_once);
    tcase_add_test(tcase, all_required_functions_are_found);
    tcase_add_test(tcase, missing_driver_is_unsupported_with_advice);
    tcase_add_test(tcase, library_that_is_not_the_driver_is_rejected);
    tcase_add_test(tcase, child_forked_before_first_use_may_use_cuda);
    tcase_add_test(tcase, child_forked_after_first_use_gets_an_error);
    tcase_add_test(tcase, error_has_the_call_the_name_and_the_text);
    tcase_add_test(tcase, cuda_results_map_to_statuses);
    if (!cuda_is_real()) {
        tcase_add_test(tcase, old_driver_is_rejected);
        tcase_add_test(tcase, driver_without_a_required_function_is_rejected);
        tcase_add_test(tcase, driver_without_virtual_memory_is_accepted);
        tcase_add_test(tcase, driver_without_memory_operations_is_accepted);
        tcase_add_test(tcase, driver_without_proc_address_uses_dlsym);
        tcase_add_test(tcase, failed_start_can_be_retried);
        tcase_add_test(tcase, a_machine_without_devices_is_unsupported);
    }
    suite_add_tcase(suite, tcase);
    return suite;
}

int main(void)
{
    SRunner *runner;
    int      num_failed;

    if (!cuda_is_there()) {
        return 77;
    }
    runner = srunner_create(driver_suite());
    srunner_run_all(runner, CK_ENV);
    num_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return num_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
