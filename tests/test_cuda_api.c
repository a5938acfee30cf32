/* Our declarations of the CUDA driver API, compared with cuda.h. */
#include "cuda_api_list.h"
#include "test.h"

TEST(values_sizes_and_offsets_match_cuda_h)
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

/* The compiler has already compared the types. */
TEST(every_function_has_the_version_of_cuda_h)
{
    for (size_t i = 0; cuda_api_symbols[i].ours != NULL; i++) {
        ck_assert_str_eq(cuda_api_symbols[i].ours, cuda_api_symbols[i].theirs);
    }
}
