/* Properties of a GPU that NVIDIA's management library reports. */
#include <config.h>

#include "mem/nvml.h"
#include "test.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define BUS_ID "0000:01:00.0"
#define MIB    (UINT64_C(1) << 20)

static mem_nvml_facts_t facts;
static int (*num_live)(void);

static void setup(void)
{
    void *library = dlopen(NVML_STAND_IN_PATH, RTLD_NOW | RTLD_LOCAL);
    void *function;

    ck_assert_msg(library != NULL, "%s", dlerror());
    function = dlsym(library, "nvml_stand_in_live");
    ck_assert_ptr_nonnull(function);
    memcpy(&num_live, &function, sizeof(num_live));
    setenv(MEM_NVML_LIBRARY_VARIABLE, NVML_STAND_IN_PATH, 1);
    unsetenv("NVML_STAND_IN");
    memset(&facts, 'x', sizeof(facts));
}

static void teardown(void)
{
    ck_assert_int_eq(num_live(), 0);
}

static void check_unknown(const char *words)
{
    mem_nvml_query(BUS_ID, &facts);
    ck_assert_uint_eq(facts.bar1_size, 0);
    ck_assert_uint_eq(facts.bar1_used, 0);
    ck_assert_uint_eq(facts.bar1_free, 0);
    assert_has(facts.reason, words);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown);

TEST(reports_the_window_and_the_driver_version)
{
    setenv("NVML_STAND_IN", "bar1=268435456,used=67108864,driver=1.2.3", 1);
    mem_nvml_query(BUS_ID, &facts);
    ck_assert_uint_eq(facts.bar1_size, 256 * MIB);
    ck_assert_uint_eq(facts.bar1_used, 64 * MIB);
    ck_assert_uint_eq(facts.bar1_free, 192 * MIB);
    ck_assert_str_eq(facts.driver_version, "1.2.3");
    ck_assert_str_eq(facts.reason, "");
}

TEST(a_missing_library_is_no_error)
{
    setenv(MEM_NVML_LIBRARY_VARIABLE, "/nonexistent/libnvidia-ml.so.1", 1);
    check_unknown("/nonexistent/libnvidia-ml.so.1");
    ck_assert_str_eq(facts.driver_version, "");
}

TEST(a_library_without_the_symbols_is_no_error)
{
    setenv(MEM_NVML_LIBRARY_VARIABLE, "libm.so.6", 1);
    check_unknown("libm.so.6 has no nvmlInit_v2");
}

TEST(a_library_that_does_not_start_is_no_error)
{
    setenv("NVML_STAND_IN", "fail=nvmlInit_v2:9", 1);
    check_unknown("nvmlInit: Driver Not Loaded (9)");
    ck_assert_str_eq(facts.driver_version, "");
}

TEST(a_gpu_without_a_window_is_no_error)
{
    setenv("NVML_STAND_IN", "fail=nvmlDeviceGetBAR1MemoryInfo:3", 1);
    check_unknown("nvmlDeviceGetBAR1MemoryInfo: Not Supported (3)");
    ck_assert_str_eq(facts.driver_version, "580.1");
    setenv("NVML_STAND_IN", "bar1=0,used=0", 1);
    check_unknown("this GPU has no BAR1");
}

TEST(a_missing_gpu_is_no_error)
{
    mem_nvml_query("0001:01:00.0", &facts);
    ck_assert_uint_eq(facts.bar1_size, 0);
    assert_has(facts.reason, "Not Found (6)");
    setenv("NVML_STAND_IN", "fail=nvmlDeviceGetHandleByPciBusId_v2:999", 1);
    check_unknown("unknown error (999)");
}

TEST(an_unknown_version_is_empty)
{
    setenv("NVML_STAND_IN", "fail=nvmlSystemGetDriverVersion:7", 1);
    mem_nvml_query(BUS_ID, &facts);
    ck_assert_str_eq(facts.driver_version, "");
    ck_assert_uint_eq(facts.bar1_size, 256 * MIB);
}
