/* The UCX that is loaded is the one that was configured. */
#include <config.h>

#include <ucp/api/ucp.h>
#include <ucxpool/ucxpool.h>

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(the_loaded_ucx_is_not_older_than_its_headers)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    ck_assert_uint_eq(major, UCP_API_MAJOR);
    ck_assert_uint_ge(minor, UCP_API_MINOR);
}
END_TEST

START_TEST(the_loaded_ucx_lies_where_configure_was_told)
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
END_TEST

/* UCX's shared memory would be left in /dev/shm by a process that is killed. */
START_TEST(a_pool_makes_no_shared_memory_of_ucx)
{
    ucxpool_t *pool;
    char       line[512];
    FILE      *maps;

    unsetenv("UCX_TLS");
    ck_assert_int_eq(ucxpool_create(NULL, &pool), UCXPOOL_OK);
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
END_TEST

int main(void)
{
    Suite   *suite = suite_create("ucx");
    TCase   *tcase = tcase_create("ucx");
    SRunner *runner;
    int      num_failed;

    tcase_add_test(tcase, the_loaded_ucx_is_not_older_than_its_headers);
    tcase_add_test(tcase, the_loaded_ucx_lies_where_configure_was_told);
    tcase_add_test(tcase, a_pool_makes_no_shared_memory_of_ucx);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return num_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
