/* How soon a lost peer is detected: the times reported, and the settings given
 * to UCX. */
#include "pair.h"
#include "test.h"

#include "ucx/tune.h"

#include <ucxpool/private.h>

#include <stdlib.h>
#include <string.h>

#define MS  UINT64_C(1000000)
#define SEC UINT64_C(1000000000)

/* The machine may also have network cards. */
#define MAX_TIMEOUTS 16u

static ucxpool_peer_timeout_t timeouts[MAX_TIMEOUTS];

static ucxpool_status_t query(const char *peer_timeout, size_t *num_p)
{
    ucxpool_config_t *config;
    ucxpool_status_t  status;

    assert_ok(ucxpool_config_read(&config));
    assert_ok(ucxpool_config_modify(config, "PEER_TIMEOUT", peer_timeout));
    status = ucxpool_peer_timeouts_query(config, timeouts, MAX_TIMEOUTS, num_p);
    ucxpool_config_release(config);
    return status;
}

static const ucxpool_peer_timeout_t *find_tcp(const char *peer_timeout)
{
    size_t num;

    assert_ok(query(peer_timeout, &num));
    for (size_t i = 0; i < num; i++) {
        if (strcmp(timeouts[i].transport, "tcp") == 0) {
            return &timeouts[i];
        }
    }
    ck_abort_msg("no tcp");
    return NULL;
}

static void setup(void)
{
    static const char *const variables[] = {"UCX_TLS", "UCX_TCP_USER_TIMEOUT",
                                            "UCX_KEEPALIVE_INTERVAL",
                                            "UCXPOOL_PEER_TIMEOUT"};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        unsetenv(variables[i]);
    }
}

TEST_SETTINGS(.setup = setup, .timeout = 60);

TEST(the_report_covers_tcp_in_both_contexts)
{
    const ucxpool_peer_timeout_t *tcp = find_tcp("10s");

    ck_assert_uint_eq(tcp->busy_ns, 7500 * MS);
    ck_assert_uint_eq(tcp->idle_ns, 2500 * MS + tcp->busy_ns);
    ck_assert_uint_eq(tcp->borrowed_idle_ns, 20 * SEC + tcp->busy_ns);
    ck_assert_uint_eq(tcp->borrowed_busy_ns, tcp->busy_ns);
    ck_assert_str_eq(tcp->settings, "UCX_KEEPALIVE_INTERVAL=2500ms");
}

TEST(inf_keeps_the_timeouts_of_ucx_and_the_kernel)
{
    const ucxpool_peer_timeout_t *tcp = find_tcp("inf");

    ck_assert_uint_gt(tcp->busy_ns, 60 * SEC);
    ck_assert_uint_eq(tcp->idle_ns, tcp->borrowed_idle_ns);
    ck_assert_uint_eq(tcp->busy_ns, tcp->borrowed_busy_ns);
    ck_assert_str_eq(tcp->settings, "");
}

TEST(ucx_environment_variables_take_precedence)
{
    const ucxpool_peer_timeout_t *tcp;
    unsigned                      major, minor, release;

    ucp_get_version(&major, &minor, &release);
    setenv("UCX_KEEPALIVE_INTERVAL", "7s", 1);
    setenv("UCX_TCP_USER_TIMEOUT", "3s", 1);
    tcp = find_tcp("10s");
    if (minor >= 22) {
        ck_assert_uint_eq(tcp->busy_ns, 3 * SEC);
    } else {
        ck_assert_uint_ne(tcp->busy_ns, 3 * SEC);
    }
    ck_assert_uint_eq(tcp->idle_ns, 7 * SEC + tcp->busy_ns);
    ck_assert_uint_eq(tcp->borrowed_idle_ns, tcp->idle_ns);
    ck_assert_str_eq(tcp->settings, "");
}

TEST(null_settings_are_read_from_the_environment)
{
    size_t num;

    setenv("UCXPOOL_PEER_TIMEOUT", "1s", 1);
    assert_ok(ucxpool_peer_timeouts_query(NULL, NULL, 0, &num));
    ck_assert_uint_ge(num, 1);
    setenv("UCXPOOL_PEER_TIMEOUT", "soon", 1);
    ck_assert_int_eq(ucxpool_peer_timeouts_query(NULL, NULL, 0, &num),
                     UCXPOOL_ERR_INVALID_PARAM);
}

TEST(a_ucx_that_does_not_start_is_an_error)
{
    size_t num;

    setenv("UCX_TLS", "nonsense", 1);
    ck_assert_int_lt(query("10s", &num), 0);
    ck_assert_ptr_nonnull(strstr(ucxpool_error_detail(), "UCX_TLS"));
}

/* Settings with which the pool's context was created. */
static char *keepalive;

ucs_status_t __real_ucp_init_version(unsigned major, unsigned minor,
                                     const ucp_params_t *params,
                                     const ucp_config_t *config,
                                     ucp_context_h      *context_p);
ucs_status_t __wrap_ucp_init_version(unsigned major, unsigned minor,
                                     const ucp_params_t *params,
                                     const ucp_config_t *config,
                                     ucp_context_h      *context_p);

ucs_status_t __wrap_ucp_init_version(unsigned major, unsigned minor,
                                     const ucp_params_t *params,
                                     const ucp_config_t *config,
                                     ucp_context_h      *context_p)
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
