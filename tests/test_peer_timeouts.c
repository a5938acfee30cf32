/* The settings that a pool gives to UCX to detect a lost peer. */
#include "pair.h"
#include "test.h"
#include "replace.h"

#include "ucx/context.h"

#include <stdlib.h>

static void setup(void)
{
    unsetenv("UCX_KEEPALIVE_INTERVAL");
}

TEST_SETTINGS(.setup = setup, .timeout = 60);

/* Settings with which the pool's context was created. */
static char *keepalive;

REPLACE(ucs_status_t, ucp_init_version, unsigned major, unsigned minor,
        const ucp_params_t *params, const ucp_config_t *config,
        ucp_context_h *context_p)
{
    if (config != NULL) {
        free(keepalive);
        keepalive = ucx_tune_read(config, "UCX_KEEPALIVE_INTERVAL");
    }
    return __real_ucp_init_version(major, minor, params, config, context_p);
}

TEST(a_context_of_the_pool_has_the_settings)
{
    ucxpool_destroy(pair_pool("PEER_TIMEOUT=24s"));
    ck_assert_str_eq(keepalive, "6000000.00us");
    ucxpool_destroy(pair_pool("PEER_TIMEOUT=inf"));
    ck_assert_str_eq(keepalive, "20000000.00us");
    free(keepalive);
    keepalive = NULL;
}
