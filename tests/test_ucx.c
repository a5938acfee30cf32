/* The loaded UCX is the configured one, and it is tuned. */
#include <config.h>

#include "core/pool.h"
#include "ucx/context.h"
#include "test.h"

#include <ucp/api/ucp.h>
#include <ucxpool/ucxpool.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST(the_loaded_ucx_is_not_older_than_its_headers)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    ck_assert_uint_eq(major, UCP_API_MAJOR);
    ck_assert_uint_ge(minor, UCP_API_MINOR);
}

TEST(the_loaded_ucx_is_in_the_configured_folder)
{
    const char *version = ucp_get_version_string();
    Dl_info     info;
    char       *path;

    ck_assert_int_ne(dladdr(version, &info), 0);
    path = realpath(info.dli_fname, NULL);
    ck_assert_ptr_nonnull(path);
    printf("UCX %s in %s\n", version, path);
    fflush(stdout);
    ck_assert_msg(strncmp(path, UCX_DIR, strlen(UCX_DIR)) == 0,
                  "%s is not under %s", path, UCX_DIR);
    free(path);
}

/* A killed process would leave UCX's shared memory in /dev/shm. */
TEST(a_pool_creates_no_ucx_shared_memory)
{
    ucxpool_t *pool;
    char       line[512];
    FILE      *maps;

    unsetenv("UCX_TLS");
    assert_ok(ucxpool_create(NULL, &pool));
    maps = fopen("/proc/self/maps", "r");
    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        ck_assert_msg((strstr(line, "ucx_shm") == NULL) &&
                          (strstr(line, "SYSV") == NULL),
                      "%s", line);
    }
    fclose(maps);
    ucxpool_destroy(pool);
}

static size_t max_am_header(void)
{
    ucp_worker_attr_t attr = {.field_mask =
                                  UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER};
    ucxpool_t        *pool;

    assert_ok(ucxpool_create(NULL, &pool));
    ck_assert_int_eq(ucp_worker_query(pool->ucx.worker, &attr), UCS_OK);
    ucxpool_destroy(pool);
    return attr.max_am_header;
}

/* From this version on, UCX selects protocols by estimated performance. */
static bool is_ucx_116(void)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    return (major > 1) || (minor >= 16);
}

/* With TCP alone, the largest header of an active message shows the segment
 * size. */
TEST_WITH(tcp_has_segments_of_64_kib, .end = 1, .only_if = is_ucx_116)
{
    setenv("UCX_TLS", "tcp", 1);
    unsetenv("UCX_TCP_TX_SEG_SIZE");
    unsetenv("UCX_TCP_RX_SEG_SIZE");
    ck_assert_uint_gt(max_am_header(), 60 * 1024);
    ck_assert_uint_le(max_am_header(), 64 * 1024);
}

TEST_WITH(tcp_has_the_segment_size_of_the_environment, .end = 1,
          .only_if = is_ucx_116)
{
    setenv("UCX_TLS", "tcp", 1);
    setenv("UCX_TCP_TX_SEG_SIZE", "16k", 1);
    ck_assert_uint_gt(max_am_header(), 12 * 1024);
    ck_assert_uint_le(max_am_header(), 16 * 1024);
}

/* Prints the settings that UCX would get. */
static void print_settings(void)
{
    ucp_config_t *config;

    if (ucp_config_read(NULL, NULL, &config) == UCS_OK) {
        ucx_tune(config, false);
        ucp_config_print(config, stdout, NULL, UCS_CONFIG_PRINT_CONFIG);
        ucp_config_release(config);
    }
}

/* Does a child process in this directory print this setting? UCX reads its
 * configuration file when it is loaded. */
static bool tells(const char *folder, const char *wanted)
{
    char  program[512] = "";
    char  command[1024];
    char  line[512];
    bool  found = false;
    FILE *output;

    ck_assert_int_gt(readlink("/proc/self/exe", program, sizeof(program) - 1),
                     0);
    snprintf(command, sizeof(command), "cd '%s' && exec '%s' settings", folder,
             program);
    output = popen(command, "r");
    ck_assert_ptr_nonnull(output);
    while (fgets(line, sizeof(line), output) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        found |= strcmp(line, wanted) == 0;
    }
    ck_assert_int_eq(pclose(output), 0);
    return found;
}

TEST(a_ucx_configuration_file_decides_on_transports)
{
    char  folder[] = "/tmp/test_ucx_XXXXXX";
    char  path[64];
    FILE *file;

    unsetenv("UCX_TLS");
    unsetenv("UCX_TCP_TX_SEG_SIZE");
    unsetenv("UCX_TCP_RX_SEG_SIZE");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert(tells(folder, "UCX_TLS=^posix,sysv"));
    snprintf(path, sizeof(path), "%s/ucx.conf", folder);
    file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    fputs("UCX_TLS=self,posix\n", file);
    fclose(file);
    ck_assert(tells(folder, "UCX_TLS=self,posix"));
    ck_assert(!tells(folder, "TCP_TX_SEG_SIZE=64k"));
    unlink(path);
    rmdir(folder);
}

static const struct {
    const char *transports;
    bool        is_tuned;
} lists[] = {
    {"all", true},   {"tcp,self", true}, {"^posix", true},
    {"self", false}, {"^tcp", false},
};
#define NUM_LISTS ((int)(sizeof(lists) / sizeof(lists[0])))

TEST_WITH(tcp_is_tuned_if_ucx_may_use_it, .end = NUM_LISTS,
          .only_if = is_ucx_116)
{
    setenv("UCX_TLS", lists[_i].transports, 1);
    unsetenv("UCX_TCP_TX_SEG_SIZE");
    unsetenv("UCX_TCP_RX_SEG_SIZE");
    ck_assert(tells("/", "TCP_TX_SEG_SIZE=64k") == lists[_i].is_tuned);
}

int main(int argc, char **argv)
{
    if ((argc == 2) && (strcmp(argv[1], "settings") == 0)) {
        print_settings();
        return EXIT_SUCCESS;
    }
    return test_run_all();
}
