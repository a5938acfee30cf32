/* Settings of UCX that the pool changes. UCX's components are simulated. */
#include "base/clock.h"
#include "ucx/context.h"
#include "test.h"

#include <uct/api/uct.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The components, indexed by their number from 1. */
static const char *const names[] = {"", "tcp", "cuda_cpy", "cuda_ipc"};

#define NUM_COMPONENTS 3u

static char         modified[1024]; /* "NAME=value " for each change */
static unsigned     num_devices;
static unsigned     minor = 22; /* version 1.minor */
static const char  *setting;    /* its value; NULL: no such setting */
static ucs_status_t list_status, query_status, read_status;
static int num_live; /* lists and settings that have not been released */

/* UCX's own libraries call these functions too. */
#pragma GCC visibility push(default)
ucs_status_t __wrap_ucp_config_modify(ucp_config_t *config, const char *name,
                                      const char *value);
void         __wrap_ucp_get_version(unsigned *major, unsigned *minor,
                                    unsigned *release);
ucs_status_t __wrap_uct_query_components(uct_component_h **list, unsigned *num);
void         __wrap_uct_release_component_list(uct_component_h *list);
ucs_status_t __wrap_uct_component_query(uct_component_h       component,
                                        uct_component_attr_t *attr);
ucs_status_t __wrap_uct_md_config_read(uct_component_h component,
                                       const char *prefix, const char *file,
                                       uct_md_config_t **config_p);
void         __wrap_uct_config_release(void *config);
ucs_status_t __wrap_uct_config_get(void *config, const char *name, char *value,
                                   size_t max);
void         __wrap_ucp_context_print_info(ucp_context_h context, FILE *stream);
#pragma GCC visibility pop

/* Settings of a context, as UCX prints them. */
static const char *printed = "";

void __wrap_ucp_context_print_info(ucp_context_h context, FILE *stream)
{
    fputs(printed, stream);
}

ucs_status_t __wrap_ucp_config_modify(ucp_config_t *config, const char *name,
                                      const char *value)
{
    size_t length = strlen(modified);

    snprintf(modified + length, sizeof(modified) - length, "%s=%s ", name,
             value);
    return UCS_OK;
}

void __wrap_ucp_get_version(unsigned *major, unsigned *minor_p,
                            unsigned *release)
{
    *major   = 1;
    *minor_p = minor;
    *release = 0;
}

ucs_status_t __wrap_uct_query_components(uct_component_h **list, unsigned *num)
{
    if (list_status != UCS_OK) {
        return list_status;
    }
    *list = calloc(NUM_COMPONENTS, sizeof(**list));
    *num  = NUM_COMPONENTS;
    for (uintptr_t i = 0; i < NUM_COMPONENTS; i++) {
        (*list)[i] = (uct_component_h)(i + 1);
    }
    num_live++;
    return UCS_OK;
}

void __wrap_uct_release_component_list(uct_component_h *list)
{
    free(list);
    num_live--;
}

ucs_status_t __wrap_uct_component_query(uct_component_h       component,
                                        uct_component_attr_t *attr)
{
    snprintf(attr->name, sizeof(attr->name), "%s", names[(uintptr_t)component]);
    attr->md_resource_count = num_devices;
    return query_status;
}

ucs_status_t __wrap_uct_md_config_read(uct_component_h component,
                                       const char *prefix, const char *file,
                                       uct_md_config_t **config_p)
{
    if (read_status != UCS_OK) {
        return read_status;
    }
    *config_p = malloc(1);
    num_live++;
    return UCS_OK;
}

void __wrap_uct_config_release(void *config)
{
    free(config);
    num_live--;
}

ucs_status_t __wrap_uct_config_get(void *config, const char *name, char *value,
                                   size_t max)
{
    ck_assert_str_eq(name, "REG_WHOLE_ALLOC");
    if (setting == NULL) {
        return UCS_ERR_INVALID_PARAM;
    }
    snprintf(value, max, "%s", setting);
    return UCS_OK;
}

static void setup(void)
{
    static const char *const variables[] = {"UCX_TLS", "UCX_TCP_TX_SEG_SIZE",
                                            "UCX_TCP_RX_SEG_SIZE",
                                            "UCX_RNDV_FRAG_ALLOC_COUNT"};

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        unsetenv(variables[i]);
    }
    num_devices = 1;
    setting     = "auto";
}

static void tune(bool for_gpu)
{
    ucp_config_t *config;

    modified[0] = '\0';
    ck_assert_int_eq(ucp_config_read(NULL, NULL, &config), UCS_OK);
    ucx_tune(config, for_gpu);
    ucp_config_release(config);
}

static void check_whole(bool is_set)
{
    tune(true);
    ck_assert_msg(
        (strstr(modified, "CUDA_COPY_REG_WHOLE_ALLOC=off ") != NULL) == is_set,
        "%s", modified);
    ck_assert_int_eq(num_live, 0);
}

TEST_SETTINGS(.setup = setup);

TEST(a_gpu_pool_bounds_ucxs_registrations_and_memory)
{
    check_whole(true);
    assert_has(modified, "RNDV_FRAG_ALLOC_COUNT=host:128,cuda:8 ");
}

TEST(a_host_pool_does_not_change_them)
{
    tune(false);
    ck_assert_ptr_null(strstr(modified, "CUDA"));
    ck_assert_ptr_null(strstr(modified, "FRAG_ALLOC"));
}

TEST(both_kinds_have_the_other_settings)
{
    char host[sizeof(modified)];

    tune(false);
    snprintf(host, sizeof(host), "%s", modified);
    tune(true);
    ck_assert_str_ne(host, "");
    ck_assert_int_eq(strncmp(modified, host, strlen(host)), 0);
}

TEST(a_setting_that_ucx_does_not_have_is_not_set)
{
    setting = NULL;
    check_whole(false);
}

TEST(a_ucx_without_a_gpu_gets_no_cuda_settings)
{
    num_devices = 0;
    check_whole(false);
}

TEST(settings_that_ucx_does_not_report_are_not_set)
{
    list_status = UCS_ERR_NO_MEMORY;
    check_whole(false);
    list_status  = UCS_OK;
    query_status = UCS_ERR_IO_ERROR;
    check_whole(false);
    query_status = UCS_OK;
    read_status  = UCS_ERR_NO_MEMORY;
    check_whole(false);
    read_status = UCS_OK;
    check_whole(true);
}

TEST(settings_of_the_user_are_kept)
{
    setting = "on";
    setenv("UCX_RNDV_FRAG_ALLOC_COUNT", "cuda:64", 1);
    check_whole(false);
    ck_assert_ptr_null(strstr(modified, "FRAG_ALLOC"));
}

TEST(transports_without_cuda_get_no_cuda_settings)
{
    static const struct {
        const char *transports;
        bool        is_set;
    } cases[] = {
        {"tcp,self", false},         {"rc,cuda", true},
        {"tcp,cuda_copy", true},     {"all", true},
        {"^cuda_ipc", true},         {"^tcp,cuda", false},
        {"\\tcp,\\cuda_copy", true}, {"tcp,cuda_ipc", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        setenv("UCX_TLS", cases[i].transports, 1);
        check_whole(cases[i].is_set);
    }
}

/* --- lost peers ----------------------------------------------------------- */

static void tune_peer(uint64_t time_ns, bool has_rdma)
{
    static const char *const variables[] = {
        "UCX_KEEPALIVE_INTERVAL", "UCX_RC_TIMEOUT", "UCX_UD_VERBS_TIMEOUT"};
    ucp_config_t *config;

    modified[0] = '\0';
    printed = "#      resource 0  :  md 0  dev 0  flags -- rc_verbs/rxe0:1\n"
              "#      resource 1  :  md 0  dev 0  flags -- ud_verbs/rxe0:1\n"
              "#      resource 2  :  md 1  dev 1  flags -- tcp/lo\n";
    ck_assert_int_eq(ucp_config_read(NULL, NULL, &config), UCS_OK);
    ucx_peer_timeout_tune(config, time_ns, has_rdma);
    ucp_config_release(config);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        unsetenv(variables[i]);
    }
}

#define TEN_SECONDS UINT64_C(10000000000)

TEST(each_transport_gets_its_settings)
{
    tune_peer(TEN_SECONDS, true);
    ck_assert_str_eq(modified,
                     "KEEPALIVE_INTERVAL=2500000us "
                     "RC_VERBS_TIMEOUT=268435us RC_VERBS_RETRY_COUNT=3 "
                     "UD_VERBS_TIMEOUT=3750000us ");
    tune_peer(UINT64_C(86400000000000), true);
    ck_assert_str_eq(modified,
                     "KEEPALIVE_INTERVAL=21600000000us "
                     "RC_VERBS_TIMEOUT=2199023255us RC_VERBS_RETRY_COUNT=3 "
                     "UD_VERBS_TIMEOUT=32400000000us ");
}

/* It does not query the transports in this case. */
TEST(without_a_card_only_the_probe_is_set)
{
    tune_peer(TEN_SECONDS, false);
    ck_assert_str_eq(modified, "KEEPALIVE_INTERVAL=2500000us ");
}

/* Otherwise it would warn about settings that it does not know. */
TEST(an_old_ucx_gets_the_settings_of_transport_families)
{
    minor = 16;
    tune_peer(TEN_SECONDS, true);
    ck_assert_str_eq(modified,
                     "KEEPALIVE_INTERVAL=2500000us RC_TIMEOUT=268435us "
                     "RC_RETRY_COUNT=3 UD_TIMEOUT=3750000us ");
    setenv("UCX_RC_MLX5_TIMEOUT", "100ms", 1);
    tune_peer(TEN_SECONDS, true);
    ck_assert_str_eq(modified, "KEEPALIVE_INTERVAL=2500000us "
                               "RC_RETRY_COUNT=3 UD_TIMEOUT=3750000us ");
}

TEST(forever_sets_nothing)
{
    tune_peer(BASE_CLOCK_FOREVER, true);
    ck_assert_str_eq(modified, "");
}

TEST(settings_in_the_environment_are_kept)
{
    setenv("UCX_KEEPALIVE_INTERVAL", "20s", 1); /* UCX's default */
    setenv("UCX_RC_TIMEOUT", "100ms", 1);
    setenv("UCX_UD_VERBS_TIMEOUT", "2s", 1);
    tune_peer(TEN_SECONDS, true);
    ck_assert_str_eq(modified, "RC_VERBS_RETRY_COUNT=3 ");
}

TEST(a_ucx_that_fails_to_start_gets_no_card_settings)
{
    setenv("UCX_TLS", "nonsense", 1);
    tune_peer(TEN_SECONDS, true);
    ck_assert_str_eq(modified, "KEEPALIVE_INTERVAL=2500000us ");
}
