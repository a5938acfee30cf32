/* A library built without verbs: registration fails with advice, and everything
 * else works. */
#include "pair.h"
#include "test.h"

#include "core/stats.h"

#include <ucxpool/verbs.h>

#include <string.h>

TEST(registration_fails_with_advice)
{
    ucxpool_t       *pool  = pair_pool("LOG_LEVEL=none");
    ucxpool_verbs_t *verbs = NULL;
    core_stats_t     stats;
    int              domain; /* never accessed */

    assert_error_detail(
        ucxpool_verbs_register(pool, (struct ibv_pd *)&domain, 1, &verbs),
        UNSUPPORTED, "libibverbs-dev");
    ck_assert_ptr_null(verbs);
    assert_ok(ucxpool_verbs_deregister(verbs));
    core_stats_get(pool, &stats);
    ck_assert_uint_eq(stats.verbs_domains + stats.verbs_registrations, 0);
    ucxpool_destroy(pool);
}
