/* Our declarations of the CUDA driver API, compared with cuda.h. */
#include <config.h>

#include "cuda_api_list.h"

#include <check.h>
#include <stdlib.h>

START_TEST(values_sizes_and_offsets_match_cuda_h)
{
    size_t i;

    for (i = 0; cuda_api_theirs[i].name != NULL; i++) {
        ck_assert_str_eq(cuda_api_ours[i].name, cuda_api_theirs[i].name);
        ck_assert_msg(cuda_api_ours[i].value == cuda_api_theirs[i].value,
                      "%s is %llu, not %llu", cuda_api_theirs[i].name,
                      cuda_api_theirs[i].value, cuda_api_ours[i].value);
    }
    ck_assert_ptr_null(cuda_api_ours[i].name);
}
END_TEST

/* The compiler has already compared the types. */
START_TEST(every_function_has_the_version_of_cuda_h)
{
    for (size_t i = 0; cuda_api_symbols[i].ours != NULL; i++) {
        ck_assert_str_eq(cuda_api_symbols[i].ours, cuda_api_symbols[i].theirs);
    }
}
END_TEST

int main(void)
{
    Suite   *suite  = suite_create("cuda_api");
    TCase   *tcase  = tcase_create("cuda_api");
    SRunner *runner = srunner_create(suite);
    int      num_failed;

    tcase_add_test(tcase, values_sizes_and_offsets_match_cuda_h);
    tcase_add_test(tcase, every_function_has_the_version_of_cuda_h);
    suite_add_tcase(suite, tcase);

    srunner_run_all(runner, CK_ENV);
    num_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return num_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
