/* Status codes and their names. */
#include "test.h"

#include <ucxpool/ucxpool.h>

TEST(every_status_has_a_unique_name)
{
    for (int i = UCXPOOL_ERR_LIMIT; i <= UCXPOOL_INPROGRESS; i++) {
        const char *name = ucxpool_status_string((ucxpool_status_t)i);

        ck_assert_str_ne(name, "unknown status");
        for (int j = UCXPOOL_ERR_LIMIT; j < i; j++) {
            ck_assert_str_ne(name, ucxpool_status_string((ucxpool_status_t)j));
        }
    }
}

TEST(an_invalid_status_is_called_unknown)
{
    ck_assert_str_eq(ucxpool_status_string((ucxpool_status_t)2),
                     "unknown status");
    ck_assert_str_eq(
        ucxpool_status_string((ucxpool_status_t)(UCXPOOL_ERR_LIMIT - 1)),
        "unknown status");
}
