#include <config.h>

#include "ucx/tune_peer.h"

#include "base/error.h"
#include "ucx/status.h"
#include "ucx/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uct/api/uct.h>

unsigned ucx_tune_peer_kernel(const char *name, unsigned fallback)
{
    char     path[96];
    unsigned value = fallback;
    FILE    *file;

    snprintf(path, sizeof(path), "/proc/sys/net/ipv4/%s", name);
    file = fopen(path, "re");
    if (file != NULL) {
        if (fscanf(file, "%u", &value) != 1) {
            value = fallback;
        }
        fclose(file);
    }
    return value;
}

/* UCX's tables of settings nest, differently for each transport. */
static bool get_value(const uct_iface_config_t         *config,
                      const ucx_peer_timeout_setting_t *setting,
                      uint64_t                         *value_p)
{
    static const char *const tables[] = {"RC_RC_", "DC_RC_", "UD_", ""};
    char                     name[64];
    char                     text[64];

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        snprintf(name, sizeof(name), "%s%s", tables[i], setting->name);
        if (uct_config_get((void *)(uintptr_t)config, name, text,
                           sizeof(text)) == UCS_OK) {
            return ucx_peer_timeout_parse(text, setting->is_time, value_p);
        }
    }
    return false;
}

static bool read_transport(uct_md_h                            md,
                           const ucx_peer_timeout_transport_t *transport,
                           ucx_peer_timeout_t                 *now_p)
{
    ucx_peer_timeout_setting_t settings[UCX_PEER_TIMEOUT_MAX_SETTINGS];
    unsigned num = ucx_peer_timeout_settings(transport->kind, settings);
    uct_iface_config_t *config;
    bool                is_known = true;

    if (uct_md_iface_config_read(md, transport->name, NULL, NULL, &config) !=
        UCS_OK) {
        return false;
    }
    if (transport->kind == UCX_PEER_TIMEOUT_TCP) {
        /* "auto", or a UCX before 1.22, which does not have it. */
        now_p->timeout_ns = UCX_PEER_TIMEOUT_NEVER;
        (void)get_value(config, &settings[0], &now_p->timeout_ns);
        num = 0;
    }
    for (unsigned i = 0; (i < num) && is_known; i++) {
        is_known = get_value(config, &settings[i],
                             ucx_peer_timeout_value(now_p, &settings[i]));
    }
    uct_config_release(config);
    return is_known;
}

/* Fill in what the transports of one memory domain have. */
static void read_domain(uct_component_h component, const char *name,
                        bool is_tcp, ucx_tune_peer_facts_t *facts, unsigned num)
{
    uct_md_config_t *config;
    uct_md_h         md;
    ucs_status_t     status;

    if (uct_md_config_read(component, NULL, NULL, &config) != UCS_OK) {
        return;
    }
    status = uct_md_open(component, name, config, &md);
    uct_config_release(config);
    if (status != UCS_OK) {
        return;
    }
    for (unsigned i = 0; i < num; i++) {
        if ((facts[i].transport->kind == UCX_PEER_TIMEOUT_TCP) == is_tcp) {
            facts[i].is_known =
                read_transport(md, facts[i].transport, &facts[i].now);
        }
    }
    uct_md_close(md);
}

static void read_component(uct_component_h        component,
                           ucx_tune_peer_facts_t *facts, unsigned num)
{
    uct_component_attr_t attr = {
        .field_mask = UCT_COMPONENT_ATTR_FIELD_NAME |
                      UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};

    bool is_tcp;

    /* Of all others no transport is known here. */
    if ((uct_component_query(component, &attr) != UCS_OK) ||
        (attr.md_resource_count == 0) ||
        ((strcmp(attr.name, "tcp") != 0) && (strcmp(attr.name, "ib") != 0))) {
        return;
    }
    is_tcp = strcmp(attr.name, "tcp") == 0;
    attr.md_resources =
        calloc(attr.md_resource_count, sizeof(*attr.md_resources));
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    if ((attr.md_resources != NULL) &&
        (uct_component_query(component, &attr) == UCS_OK)) {
        /* All cards have the same settings. */
        read_domain(component, attr.md_resources[0].md_name, is_tcp, facts,
                    num);
    }
    free(attr.md_resources);
}

static void read_all(ucx_tune_peer_facts_t *facts, unsigned num)
{
    uct_component_h *components;
    unsigned         num_components;

    if (uct_query_components(&components, &num_components) != UCS_OK) {
        return;
    }
    for (unsigned i = 0; i < num_components; i++) {
        read_component(components[i], facts, num);
    }
    uct_release_component_list(components);
}

static void add_text(char *text, size_t size, const char *prefix,
                     const char *name, uint64_t value, bool is_time)
{
    size_t length = strlen(text);
    char   number[UCX_PEER_TIMEOUT_VALUE_SIZE];

    ucx_peer_timeout_format(value, is_time, number);
    snprintf(text + length, size - length, "%sUCX_%s%s=%s",
             (length == 0) ? "" : " ", prefix, name, number);
}

static void conclude(ucx_tune_peer_facts_t *facts, uint64_t time_ns)
{
    const ucx_peer_timeout_transport_t *transport = facts->transport;
    ucx_peer_timeout_setting_t          settings[UCX_PEER_TIMEOUT_MAX_SETTINGS];
    unsigned num = ucx_peer_timeout_settings(transport->kind, settings);

    if (time_ns == UCX_PEER_TIMEOUT_NEVER) {
        facts->own = facts->now;
        return;
    }
    facts->own = ucx_peer_timeout_choose(transport->kind, time_ns);
    if (facts->now.keepalive_ns != UCX_TUNE_PEER_KEEPALIVE_NS) {
        facts->own.keepalive_ns = facts->now.keepalive_ns;
    } else {
        add_text(facts->settings, sizeof(facts->settings), "",
                 "KEEPALIVE_INTERVAL", facts->own.keepalive_ns, true);
    }
    for (unsigned i = 0; i < num; i++) {
        uint64_t *value = ucx_peer_timeout_value(&facts->own, &settings[i]);

        if ((transport->kind == UCX_PEER_TIMEOUT_TCP) ||
            ucx_tune_peer_is_set(transport, &settings[i])) {
            *value = *ucx_peer_timeout_value(&facts->now, &settings[i]);
        } else {
            add_text(facts->settings, sizeof(facts->settings),
                     transport->prefix, settings[i].name, *value,
                     settings[i].is_time);
        }
    }
}

ucxpool_status_t ucx_tune_peer_query(
    uint64_t              time_ns,
    ucx_tune_peer_facts_t facts[UCX_PEER_TIMEOUT_NUM_TRANSPORTS],
    unsigned             *num_p)
{
    ucp_config_t *config;
    uint64_t      keepalive_ns;
    char         *printed;
    ucs_status_t  status;
    unsigned      num = 0;

    status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) {
        return base_error(ucx_status(status),
                          "UCX could not read its settings: %s",
                          ucs_status_string(status));
    }
    ucx_tune(config, false);
    keepalive_ns = ucx_tune_peer_keepalive(config);
    printed      = ucx_tune_peer_print(config, &status);
    ucp_config_release(config);
    if (printed == NULL) {
        return base_error(ucx_status(status),
                          "UCX could not be started: %s (look at UCX_TLS and "
                          "UCX_NET_DEVICES)",
                          ucs_status_string(status));
    }
    memset(facts, 0, UCX_PEER_TIMEOUT_NUM_TRANSPORTS * sizeof(*facts));
    for (unsigned i = 0; i < UCX_PEER_TIMEOUT_NUM_TRANSPORTS; i++) {
        if (ucx_tune_peer_has(printed, ucx_peer_timeout_transports[i].name)) {
            facts[num].transport        = &ucx_peer_timeout_transports[i];
            facts[num].now.keepalive_ns = keepalive_ns;
            num++;
        }
    }
    free(printed);
    read_all(facts, num);
    for (unsigned i = 0; i < num; i++) {
        conclude(&facts[i], time_ns);
    }
    *num_p = num;
    return UCXPOOL_OK;
}
