#include <config.h>

#include "ucx/domains.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

/* UCX writes as much as its own version has, which may be more than the one
 * that this was built with. */
typedef union attributes {
    uct_md_attr_t known;
    char          room[4096];
} attributes_t;

/* --- the names, in print ------------------------------------------------- */

/* Lines "#     component 1  :  tcp", and then "#            md 1  :  component
 * 1  tcp ". A list with a hole is none. */
static unsigned parse_names(char *text, ucx_domain_t *domains)
{
    char     components[UCX_MAX_DOMAINS][sizeof(domains[0].component)];
    char     word[sizeof(domains[0].name)];
    unsigned num_components = 0;
    unsigned num            = 0;
    unsigned index, component;
    char    *rest;

    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line       = strtok_r(NULL, "\n", &rest)) {
        if (sscanf(line, "# md %u : component %u %63s", &index, &component,
                   word) == 3) {
            if ((index != num) || (num == UCX_MAX_DOMAINS) ||
                (component >= num_components)) {
                return 0;
            }
            strcpy(domains[num].name, word);
            strcpy(domains[num].component, components[component]);
            num++;
        } else if (sscanf(line, "# component %u : %31s", &index, word) == 2) {
            if ((index != num_components) ||
                (num_components == UCX_MAX_DOMAINS)) {
                return 0;
            }
            strcpy(components[num_components++], word);
        }
    }
    return num;
}

static unsigned read_names(ucp_context_h context, ucx_domain_t *domains)
{
    char    *text = NULL;
    size_t   size;
    unsigned num    = 0;
    FILE    *stream = open_memstream(&text, &size);

    if (stream == NULL) {
        return 0;
    }
    ucp_context_print_info(context, stream);
    if (fclose(stream) == 0) {
        num = parse_names(text, domains);
    }
    free(text);
    return num;
}

/* --- what each needs ------------------------------------------------------ */

static bool has_network(uct_md_h md)
{
    uct_tl_resource_desc_t *resources;
    unsigned                num;
    bool                    found = false;

    if (uct_md_query_tl_resources(md, &resources, &num) != UCS_OK) {
        return false;
    }
    for (unsigned i = 0; (i < num) && !found; i++) {
        found = resources[i].dev_type == UCT_DEVICE_TYPE_NET;
    }
    uct_release_tl_resource_list(resources);
    return found;
}

static void ask(uct_md_h md, bool for_gpu, ucx_domain_t *domain)
{
    const uint64_t type =
        UCS_BIT(for_gpu ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST);
    attributes_t attributes;
    uint64_t     flags;

    memset(&attributes, 0, sizeof(attributes));
    if (uct_md_query(md, &attributes.known) != UCS_OK) {
        return;
    }
    flags             = attributes.known.cap.flags;
    domain->registers = ((flags & UCT_MD_FLAG_REG) != 0) &&
                        ((attributes.known.cap.reg_mem_types & type) != 0);
    domain->needs_keys =
        (flags & (UCT_MD_FLAG_NEED_MEMH | UCT_MD_FLAG_NEED_RKEY)) != 0;
    domain->is_network = has_network(md);
    domain->is_known   = true;
}

static void open_and_ask(uct_component_h component, bool for_gpu,
                         ucx_domain_t *domain)
{
    uct_md_config_t *config;
    uct_md_h         md;
    ucs_status_t     status;

    if (uct_md_config_read(component, NULL, NULL, &config) != UCS_OK) {
        return;
    }
    status = uct_md_open(component, domain->name, config, &md);
    uct_config_release(config);
    if (status == UCS_OK) {
        ask(md, for_gpu, domain);
        uct_md_close(md);
    }
}

static void ask_component(uct_component_h component, bool for_gpu,
                          ucx_domains_t *domains)
{
    uct_component_attr_t attr = {.field_mask = UCT_COMPONENT_ATTR_FIELD_NAME};

    if (uct_component_query(component, &attr) != UCS_OK) {
        return;
    }
    for (unsigned i = 0; i < domains->num; i++) {
        ucx_domain_t *domain = &domains->domains[i];

        if (strcmp(domain->component, attr.name) == 0) {
            open_and_ask(component, for_gpu, domain);
        }
    }
}

static void ask_all(bool for_gpu, ucx_domains_t *domains)
{
    uct_component_h *components;
    unsigned         num;

    if (uct_query_components(&components, &num) != UCS_OK) {
        return;
    }
    for (unsigned i = 0; i < num; i++) {
        ask_component(components[i], for_gpu, domains);
    }
    uct_release_component_list(components);
}

void ucx_domains_read(ucp_context_h context, bool for_gpu,
                      ucx_domains_t *domains_p)
{
    memset(domains_p, 0, sizeof(*domains_p));
    domains_p->num = read_names(context, domains_p->domains);
    ask_all(for_gpu, domains_p);
    for (unsigned i = 0; i < domains_p->num; i++) {
        const ucx_domain_t *domain = &domains_p->domains[i];

        if (domain->is_network && domain->registers && domain->needs_keys) {
            domains_p->needed |= UINT64_C(1) << i;
        }
    }
}

void ucx_domains_format(const ucx_domains_t *domains, uint64_t set,
                        char text[UCX_DOMAINS_TEXT])
{
    size_t length = 0;

    snprintf(text, UCX_DOMAINS_TEXT, "none");
    for (unsigned i = 0; i < domains->num; i++) {
        const char *name = domains->domains[i].name;

        if ((set & (UINT64_C(1) << i)) == 0) {
            continue;
        }
        if (length + strlen(name) + sizeof(", , ...") > UCX_DOMAINS_TEXT) {
            snprintf(text + length, UCX_DOMAINS_TEXT - length, ", ...");
            return;
        }
        length += (size_t)snprintf(text + length, UCX_DOMAINS_TEXT - length,
                                   "%s%s", (length == 0) ? "" : ", ", name);
    }
}
