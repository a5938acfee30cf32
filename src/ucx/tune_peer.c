#include <config.h>

#include "ucx/tune_peer.h"

#include "ucx/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEEPALIVE "KEEPALIVE_INTERVAL"

static bool is_in_environment(const char *prefix, const char *name)
{
    char variable[64];

    snprintf(variable, sizeof(variable), "UCX_%s%s", prefix, name);
    return getenv(variable) != NULL;
}

/* Before 1.17, what a program sets has to be named without the transport, and
 * holds for all of its family. */
static bool has_prefixes(void)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    return (major > 1) || (minor >= 17);
}

static bool is_one_set(const ucx_peer_timeout_transport_t *transport,
                       const ucx_peer_timeout_setting_t   *setting)
{
    return is_in_environment(transport->prefix, setting->name) ||
           ((transport->family[0] != '\0') &&
            is_in_environment(transport->family, setting->name));
}

bool ucx_tune_peer_is_set(const ucx_peer_timeout_transport_t *transport,
                          const ucx_peer_timeout_setting_t   *setting)
{
    bool is_set = is_one_set(transport, setting);

    for (unsigned i = 0;
         (i < UCX_PEER_TIMEOUT_NUM_TRANSPORTS) && !has_prefixes(); i++) {
        is_set = is_set ||
                 ((ucx_peer_timeout_transports[i].kind == transport->kind) &&
                  is_one_set(&ucx_peer_timeout_transports[i], setting));
    }
    return is_set;
}

uint64_t ucx_tune_peer_keepalive(const ucp_config_t *config)
{
    char    *text  = ucx_tune_read(config, "UCX_" KEEPALIVE);
    uint64_t value = UCX_PEER_TIMEOUT_NEVER;

    if ((text != NULL) && !ucx_peer_timeout_parse(text, true, &value)) {
        value = UCX_PEER_TIMEOUT_NEVER;
    }
    free(text);
    return value;
}

/* --- which transports there are ------------------------------------------- */

char *ucx_tune_peer_print(const ucp_config_t *config, ucs_status_t *status_p)
{
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features   = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP,
    };
    ucp_context_h context;
    char         *text = NULL;
    size_t        size;
    FILE         *stream;

    *status_p = ucp_init(&params, config, &context);
    if (*status_p != UCS_OK) {
        return NULL;
    }
    stream = open_memstream(&text, &size);
    if (stream != NULL) {
        ucp_context_print_info(context, stream);
        if (fclose(stream) != 0) {
            free(text);
            text = NULL;
        }
    }
    if (text == NULL) {
        *status_p = UCS_ERR_NO_MEMORY;
    }
    ucp_cleanup(context);
    return text;
}

/* In a line "#  resource 1  :  md 1  dev 1  flags -- tcp/lo". */
bool ucx_tune_peer_has(const char *printed, const char *name)
{
    char mark[32];

    snprintf(mark, sizeof(mark), " %s/", name);
    return strstr(printed, mark) != NULL;
}

/* --- what the pool sets --------------------------------------------------- */

static void modify(ucp_config_t *config, const char *prefix, const char *name,
                   uint64_t value, bool is_time)
{
    char key[64];
    char text[UCX_PEER_TIMEOUT_VALUE_SIZE];

    snprintf(key, sizeof(key), "%s%s", prefix, name);
    ucx_peer_timeout_format(value, is_time, text);
    (void)ucp_config_modify(config, key, text);
}

static void tune_transport(ucp_config_t                       *config,
                           const ucx_peer_timeout_transport_t *transport,
                           uint64_t                            time_ns)
{
    ucx_peer_timeout_t notice =
        ucx_peer_timeout_choose(transport->kind, time_ns);
    ucx_peer_timeout_setting_t settings[UCX_PEER_TIMEOUT_MAX_SETTINGS];
    unsigned num = ucx_peer_timeout_settings(transport->kind, settings);

    for (unsigned i = 0; i < num; i++) {
        if (!ucx_tune_peer_is_set(transport, &settings[i])) {
            modify(config,
                   has_prefixes() ? transport->prefix : transport->family,
                   settings[i].name,
                   *ucx_peer_timeout_value(&notice, &settings[i]),
                   settings[i].is_time);
        }
    }
}

void ucx_tune_peer(ucp_config_t *config, uint64_t time_ns, bool has_rdma)
{
    char        *printed = NULL;
    ucs_status_t status;

    if (time_ns == UCX_PEER_TIMEOUT_NEVER) {
        return;
    }
    if (has_rdma) {
        printed = ucx_tune_peer_print(config, &status);
    }
    if (ucx_tune_peer_keepalive(config) == UCX_TUNE_PEER_KEEPALIVE_NS) {
        modify(config, "", KEEPALIVE, time_ns / 4, true);
    }
    for (unsigned i = 0; i < UCX_PEER_TIMEOUT_NUM_TRANSPORTS; i++) {
        const ucx_peer_timeout_transport_t *transport =
            &ucx_peer_timeout_transports[i];

        if ((printed != NULL) && (transport->kind != UCX_PEER_TIMEOUT_TCP) &&
            ucx_tune_peer_has(printed, transport->name)) {
            tune_transport(config, transport, time_ns);
        }
    }
    free(printed);
}
