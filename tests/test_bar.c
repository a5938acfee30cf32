/* Sources of the size of BAR1. */
#include <config.h>

#include "mem/nvml.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUS_ID "0000:AF:00.0"
#define MIB    (UINT64_C(1) << 20)

static const char *const folders[] = {"", "/bus", "/bus/pci",
                                      "/bus/pci/devices",
                                      "/bus/pci/devices/0000:af:00.0"};

static mem_bar_t bar;
static char      root[64];
static char      resource[160];

/* A file with the format of the kernel's. */
static void write_resource(const char *text)
{
    FILE *file = fopen(resource, "w");

    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
}

static void setup(void)
{
    char path[100];

    strcpy(root, "/tmp/test_bar.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    for (size_t i = 1; i < sizeof(folders) / sizeof(folders[0]); i++) {
        snprintf(path, sizeof(path), "%s%s", root, folders[i]);
        ck_assert_int_eq(mkdir(path, 0700), 0);
    }
    snprintf(resource, sizeof(resource), "%s/resource", path);
    write_resource(
        "0x00000000f6000000 0x00000000f6ffffff 0x0000000000040200\n"
        "0x0000387fe0000000 0x0000387fefffffff 0x000000000014220c\n"
        "0x0000000000000000 0x0000000000000000 0x0000000000000000\n");
    setenv(MEM_BAR_SYSFS_VARIABLE, root, 1);
    setenv(MEM_NVML_LIBRARY_VARIABLE, "/nonexistent/libnvidia-ml.so.1", 1);
    unsetenv("NVML_STAND_IN");
    memset(&bar, 'x', sizeof(bar));
}

static void teardown(void)
{
    char path[100];

    unlink(resource);
    for (size_t i = sizeof(folders) / sizeof(folders[0]); i > 0; i--) {
        snprintf(path, sizeof(path), "%s%s", root, folders[i - 1]);
        rmdir(path);
    }
}

static void check_words(const char *words)
{
    ck_assert_msg(strstr(bar.reason, words) != NULL, "%s", bar.reason);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown);

TEST(nvml_reports_total_and_free)
{
    setenv(MEM_NVML_LIBRARY_VARIABLE, NVML_STAND_IN_PATH, 1);
    setenv("NVML_STAND_IN", "bar1=1073741824,used=1048576,links=4", 1);
    mem_bar_query(BUS_ID, &bar);
    ck_assert_int_eq(bar.source, MEM_BAR_NVML);
    ck_assert_uint_eq(bar.size, 1024 * MIB);
    ck_assert_uint_eq(bar.used, MIB);
    ck_assert_uint_eq(bar.free, 1023 * MIB);
    ck_assert_int_eq(bar.num_nvlinks, 4);
    ck_assert_str_eq(bar.reason, "");
}

TEST(without_nvml_the_kernel_gives_the_size)
{
    mem_bar_query(BUS_ID, &bar);
    ck_assert_int_eq(bar.source, MEM_BAR_SYSFS);
    ck_assert_uint_eq(bar.size, 256 * MIB);
    ck_assert_uint_eq(bar.used, 0);
    ck_assert_uint_eq(bar.free, 256 * MIB);
    ck_assert_int_eq(bar.num_nvlinks, -1);
    check_words("/nonexistent/libnvidia-ml.so.1");
}

TEST(failing_nvml_falls_back_to_the_kernel)
{
    setenv(MEM_NVML_LIBRARY_VARIABLE, NVML_STAND_IN_PATH, 1);
    setenv("NVML_STAND_IN", "fail=nvmlInit_v2:9", 1);
    mem_bar_query(BUS_ID, &bar);
    ck_assert_int_eq(bar.source, MEM_BAR_SYSFS);
    ck_assert_uint_eq(bar.size, 256 * MIB);
}

/* On a GPU that shares the processor's memory, the kernel's resource file
 * describes something else. */
TEST_EACH(gpu_without_bar1_is_reported, 2)
{
    static const char *const ways[] = {"fail=nvmlDeviceGetBAR1MemoryInfo:3",
                                       "bar1=0,used=0"};

    setenv(MEM_NVML_LIBRARY_VARIABLE, NVML_STAND_IN_PATH, 1);
    setenv("NVML_STAND_IN", ways[_i], 1);
    mem_bar_query(BUS_ID, &bar);
    ck_assert_int_eq(bar.source, MEM_BAR_NONE);
    ck_assert_uint_eq(bar.size, 0);
    ck_assert_str_ne(bar.reason, "");
}

TEST(invalid_resource_file_is_unknown)
{
    static const char *const texts[] = {
        "",
        "0x1 0x2 0x3\n",
        "0x1 0x2 0x3\nnonsense\n",
        "0x1 0x2 0x3\n0x0 0x0 0x0\n",
        "0x1 0x2 0x3\n0x5000 0x4fff 0x3\n",
        "0x1 0x2 0x3\n0x0 0xffffffffffffffff 0x3\n",
        "0x1 0x2 0x3\n0x5000 0x5fff\n",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        write_resource(texts[i]);
        mem_bar_query(BUS_ID, &bar);
        ck_assert_int_eq(bar.source, MEM_BAR_UNKNOWN);
        ck_assert_uint_eq(bar.size, 0);
        check_words("has no such resource");
    }
    unlink(resource);
    mem_bar_query(BUS_ID, &bar);
    ck_assert_int_eq(bar.source, MEM_BAR_UNKNOWN);
    check_words("does not know the device");
}

TEST(invalid_bus_id_is_unknown)
{
    static const char *const names[] = {"../../../../etc", "0000:af:00.0/x",
                                        "0000 af"};
    char                     long_name[5000];

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        mem_bar_query(names[i], &bar);
        ck_assert_int_eq(bar.source, MEM_BAR_UNKNOWN);
    }
    memset(long_name, '0', sizeof(long_name));
    long_name[sizeof(long_name) - 1] = '\0';
    mem_bar_query(long_name, &bar);
    ck_assert_int_eq(bar.source, MEM_BAR_UNKNOWN);
}
