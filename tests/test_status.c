/* Status codes and their names. */
#include <ucxpool/ucxpool.h>

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(every_status_has_a_unique_name)
{
    for (int i = UCXPOOL_ERR_LIMIT; i <= UCXPOOL_INPROGRESS; i++) {
        const char *name = ucxpool_status_string((ucxpool_status_t)i);

        ck_assert_str_ne(name, "unknown status");
        for (int j = UCXPOOL_ERR_LIMIT; j < i; j++) {
            ck_assert_str_ne(name, ucxpool_status_string((ucxpool_status_t)j));
        }
    }
}
END_TEST

START_TEST(an_invalid_status_is_called_unknown)
{
    ck_assert_str_eq(ucxpool_status_string((ucxpool_status_t)2),
                     "unknown status");
    ck_assert_str_eq(
        ucxpool_status_string((ucxpool_status_t)(UCXPOOL_ERR_LIMIT - 1)),
        "unknown status");
}
END_TEST

int main(void)
{
    Suite   *suite = suite_create("status");
    TCase   *tcase = tcase_create("status");
    SRunner *runner;
    int      num_failed;

    tcase_add_test(tcase, every_status_has_a_unique_name);
    tcase_add_test(tcase, an_invalid_status_is_called_unknown);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return num_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
