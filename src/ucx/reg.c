#include "ucx/reg.h"

#include "base/error.h"
#include "base/text.h"
#include "ucx/context.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uct/api/uct.h>

/* --- memory domains ------------------------------------------------------- */

/* UCX writes the attributes of the version that runs. They may be larger than
 * those of the version with which this library was built. */
typedef union attributes {
    uct_md_attr_t known;
    char          room[4096];
} attributes_t;

/* --- names in UCX's printed text ------------------------------------------ */

/* Parse lines such as "#     component 1  :  tcp", followed by lines such as
 * "#            md 1  :  component 1  tcp ". Discards a list whose numbers are
 * not consecutive. */
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
    base_string_t string;
    unsigned      num = 0;
    char         *text;

    if (base_string_open(&string) != NULL) {
        ucp_context_print_info(context, string.stream);
    }
    text = base_string_close_or_warn(&string);
    if (text != NULL) {
        num = parse_names(text, domains);
    }
    free(text);
    return num;
}

/* --- requirements of each domain ------------------------------------------ */

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

/*
 * Query the domains of a context. Never fails: domains that UCX does not
 * describe count as unknown and not needed.
 *
 * for_gpu  Query for GPU memory, otherwise for host memory.
 */
static void read_domains(ucp_context_h context, bool for_gpu,
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

/* --- verifying that a region is registered -------------------------------- */

/* Return an error that names the region, UCX's error, and what to change. */
static ucxpool_status_t reg_error(ucs_status_t         status,
                                  const mem_regions_t *regions, unsigned index,
                                  const char *what, const char *advice)
{
    return base_error(ucx_status(status),
                      "%s region %u of %u (%zu bytes each) with UCX: %s; %s",
                      what, index, regions->num_regions, regions->region_size,
                      ucs_status_string(status), advice);
}

/* Returns advice on what to change if a region could not be registered. */
static const char *reg_advice(const mem_regions_t *regions)
{
    return mem_regions_are_on_gpu(regions)
               ? "lower UCXPOOL_COMM_SIZE, or set UCXPOOL_CUDA_BACKING=host"
               : "lower UCXPOOL_COMM_SIZE, or raise the limit of locked memory "
                 "(ulimit -l)";
}

/*
 * Query which domains are needed. Call this before the first region is
 * registered. Fills regions->domains, which the caller frees.
 *
 * UCXPOOL_ERR_NO_MEMORY
 */
static ucxpool_status_t verify_init(mem_regions_t *regions,
                                    ucp_context_h  context)
{
    regions->domains = malloc(sizeof(*regions->domains));
    if (regions->domains == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for the list of UCX's memory domains");
    }
    read_domains(context, mem_regions_are_on_gpu(regions), regions->domains);
    return UCXPOOL_OK;
}

/* Verify that the handle covers the region. */
static ucxpool_status_t verify_range(const mem_regions_t *regions,
                                     unsigned             index)
{
    const mem_region_t *region = &regions->regions[index];
    uintptr_t           start  = (uintptr_t)region->address;
    ucp_mem_attr_t      attr   = {0};
    uintptr_t           at;
    ucs_status_t        status;

    attr.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
    status          = ucp_mem_query(region->memh, &attr);
    at              = (uintptr_t)attr.address;
    if (status != UCS_OK) {
        return reg_error(status, regions, index, "querying the handle of",
                         "try another version of UCX");
    }
    /* Compare differences: the end of the handle's range could overflow. */
    if ((at > start) || (attr.length < region->size) ||
        (start - at > attr.length - region->size)) {
        return base_error(UCXPOOL_ERR_IO,
                          "UCX registered %zu bytes at %p for region %u, which "
                          "has %zu bytes at %p",
                          attr.length, attr.address, index, region->size,
                          region->address);
    }
    return UCXPOOL_OK;
}

/* Read the region's domains from its key. A key that cannot be parsed neither
 * proves nor disproves a registration. */
static void read_key(mem_regions_t *regions, unsigned index, const void *key,
                     size_t size)
{
    ucx_domains_t *domains = regions->domains;

    if ((domains->num > 0) && !ucx_key_read(key, size, domains->num,
                                            &regions->regions[index].domains)) {
        base_info("this UCX (%s) packs keys in an unknown format: cannot "
                  "verify which memory domains have registered a region",
                  ucp_get_version_string());
        domains->num    = 0;
        domains->needed = 0;
    }
}

/* Verify that peers can get a key. UCX packs the keys of the memory domains: if
 * none has registered the region, the key is empty. */
static ucxpool_status_t verify_key(mem_regions_t *regions, unsigned index,
                                   ucp_context_h context)
{
    void        *key  = NULL;
    size_t       size = 0;
    ucs_status_t status;

    status = ucp_rkey_pack(context, regions->regions[index].memh, &key, &size);
    if (status != UCS_OK) {
        return reg_error(status, regions, index, "packing the key of",
                         "choose other transports (UCX_TLS)");
    }
    if (size > 0) {
        read_key(regions, index, key, size);
    }
    ucp_rkey_buffer_release(key);
    if (size == 0) {
        return base_error(UCXPOOL_ERR_IO,
                          "UCX packed an empty key for region %u: no transport "
                          "registered it; choose other transports (UCX_TLS)",
                          index);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t refused(const mem_regions_t *regions, unsigned index,
                                uint64_t missing)
{
    char names[UCX_DOMAINS_TEXT];

    ucx_domains_format(regions->domains, missing, names);
    return base_error(
        UCXPOOL_ERR_IO,
        "region %u of %u (%zu bytes each) is not registered with the memory "
        "domain %s, though UCX reported success; %zu bytes were registered "
        "before it; %s, or exclude the device (UCX_NET_DEVICES)",
        index, regions->num_regions, regions->region_size, names,
        index * regions->region_size, reg_advice(regions));
}

/* Change domains->needed to the network domains that have registered the first
 * region. All other regions must be registered with the same domains. */
static void update_needed(mem_regions_t *regions, uint64_t missing)
{
    ucx_domains_t *domains = regions->domains;
    uint64_t       taken   = regions->regions[0].domains;
    char           names[2][UCX_DOMAINS_TEXT];

    for (unsigned i = 0; i < domains->num; i++) {
        const ucx_domain_t *domain = &domains->domains[i];

        if (domain->is_network && domain->needs_keys) {
            domains->needed |= taken & (UINT64_C(1) << i);
        }
    }
    domains->needed &= ~missing;
    ucx_domains_format(domains, taken, names[0]);
    ucx_domains_format(domains, domains->needed, names[1]);
    base_info("UCX registers %s memory with the memory domains %s; needed: %s",
              mem_regions_are_on_gpu(regions) ? "the GPU's" : "host", names[0],
              names[1]);
    if (missing != 0) {
        ucx_domains_format(domains, missing, names[0]);
        base_info("UCX does not use %s, which could register the GPU's memory",
                  names[0]);
    }
}

static ucxpool_status_t verify_domains(mem_regions_t *regions, unsigned index)
{
    uint64_t needed  = regions->domains->needed;
    uint64_t missing = needed & ~regions->regions[index].domains;

    if ((missing != 0) && ((index > 0) || !mem_regions_are_on_gpu(regions) ||
                           (missing == needed))) {
        return refused(regions, index, missing);
    }
    if ((index == 0) && (regions->domains->num > 0)) {
        update_needed(regions, missing);
    }
    return UCXPOOL_OK;
}

/*
 * Verify that the handle of a region covers the region (ucp_mem_query), and
 * that its packed remote key contains every required memory domain. Sets the
 * region's `domains` to all domains in the key. Regions must be verified in
 * order, because UCX must use the domains of the first region for all of them.
 *
 * For GPU memory one network is sufficient, because UCX may not use networks
 * that are far from the GPU.
 *
 * If UCX's packed keys or the names of its domains cannot be parsed, the
 * function verifies only that a key exists. regions->domains->num is then 0.
 *
 * UCXPOOL_ERR_IO  the region is not registered; the detail names the region and
 *                 the domain
 * others          UCX failed: see ucx_status()
 */
static ucxpool_status_t verify(mem_regions_t *regions, unsigned index,
                               ucp_context_h context)
{
    ucxpool_status_t status = verify_range(regions, index);

    if (status == UCXPOOL_OK) {
        status = verify_key(regions, index, context);
    }
    if (status == UCXPOOL_OK) {
        status = verify_domains(regions, index);
    }
    return status;
}

void ucx_reg_verified(const mem_regions_t *regions, uint64_t *num_needed_p,
                      uint64_t *num_regions_p)
{
    const ucx_domains_t *domains = regions->domains;

    *num_needed_p  = 0;
    *num_regions_p = 0;
    if (domains == NULL) {
        return; /* the pool has no regions to register */
    }
    for (uint64_t rest = domains->needed; rest != 0; rest &= rest - 1) {
        (*num_needed_p)++;
    }
    for (unsigned i = 0; (i < regions->num_regions) && (domains->num > 0);
         i++) {
        *num_regions_p += regions->regions[i].memh != NULL;
    }
}

/* --- registering ---------------------------------------------------------- */

ucxpool_status_t ucx_facts_get(ucp_context_h context, ucx_facts_t *facts_p)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    ucs_status_t       status;
    unsigned           release;

    status = ucp_context_query(context, &attr);
    if (status != UCS_OK) {
        return base_error(ucx_status(status),
                          "UCX did not report its supported memory types: %s; "
                          "try another version of UCX",
                          ucs_status_string(status));
    }
    facts_p->has_cuda =
        (attr.memory_types & (UINT64_C(1) << UCS_MEMORY_TYPE_CUDA)) != 0;
    ucp_get_version(&facts_p->major, &facts_p->minor, &release);
    return UCXPOOL_OK;
}

ucxpool_status_t ucx_facts_probe(ucx_facts_t *facts_p)
{
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features   = UCP_FEATURE_AM | UCP_FEATURE_RMA,
    };
    ucp_context_h    context;
    ucs_status_t     ucs_status;
    ucx_locale_t     locale;
    ucxpool_status_t status;

    ucx_locale_begin(&locale);
    ucs_status = ucp_init(&params, NULL, &context);
    ucx_locale_end(&locale);
    if (ucs_status != UCS_OK) {
        return base_error(
            ucx_status(ucs_status),
            "UCX failed to start: %s (check UCX_TLS and UCX_NET_DEVICES)",
            ucs_status_string(ucs_status));
    }
    status = ucx_facts_get(context, facts_p);
    ucp_cleanup(context);
    return status;
}

ucs_status_t ucx_mem_map(ucp_context_h context, void *address, size_t length,
                         bool is_on_gpu, ucp_mem_h *memh_p)
{
    const ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                      UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .address     = address,
        .length      = length,
        .memory_type = is_on_gpu ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST,
    };

    return ucp_mem_map(context, &params, memh_p);
}

void ucx_mem_unmap(ucp_context_h context, ucp_mem_h memh)
{
    /* Fails only for handles that UCX did not create. */
    ucs_status_t status = ucp_mem_unmap(context, memh);

    assert(status == UCS_OK);
    (void)status;
}

static void region_deregister(mem_region_t *region, ucp_context_h context)
{
    if (region->memh != NULL) {
        ucx_mem_unmap(context, region->memh);
        region->memh    = NULL;
        region->domains = 0;
    }
}

static ucxpool_status_t region_register(mem_regions_t *regions, unsigned index,
                                        ucp_context_h context)
{
    mem_region_t    *region = &regions->regions[index];
    ucp_mem_h        memh;
    ucs_status_t     ucs_status;
    ucxpool_status_t status;

    assert(region->memh == NULL);
    regions->num_maps++;
    ucs_status = ucx_mem_map(context, region->address, region->size,
                             mem_regions_are_on_gpu(regions), &memh);
    if (ucs_status != UCS_OK) {
        return reg_error(ucs_status, regions, index, "registering",
                         reg_advice(regions));
    }
    region->memh = memh;
    status       = verify(regions, index, context);
    if (status != UCXPOOL_OK) {
        region_deregister(region, context);
    }
    return status;
}

/* Check that UCX supports the kind of memory. A UCX without CUDA would treat
 * GPU addresses as host addresses and read them. */
static ucxpool_status_t check_kind(const mem_regions_t *regions,
                                   ucp_context_h        context)
{
    ucx_facts_t      facts;
    ucxpool_status_t status;

    if (!mem_regions_are_on_gpu(regions)) {
        return UCXPOOL_OK;
    }
    status = ucx_facts_get(context, &facts);
    if ((status == UCXPOOL_OK) && !facts.has_cuda) {
        return base_error(
            UCXPOOL_ERR_UNSUPPORTED,
            "cannot register GPU memory: UCX %u.%u has no CUDA support; use "
            "another UCX, check UCX_TLS, or set UCXPOOL_CUDA_BACKING=host",
            facts.major, facts.minor);
    }
    return status;
}

ucxpool_status_t ucx_reg_regions(mem_regions_t *regions, ucp_context_h context)
{
    ucxpool_status_t status;

    status = check_kind(regions, context);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = verify_init(regions, context);
    if (status != UCXPOOL_OK) {
        return status;
    }
    for (unsigned i = 0; i < regions->num_regions; i++) {
        regions->num_registered = i;
        status                  = region_register(regions, i, context);
        if (status != UCXPOOL_OK) {
            goto err_deregister_regions;
        }
    }
    regions->num_registered = regions->num_regions;
    return UCXPOOL_OK;

err_deregister_regions:
    ucx_dereg_regions(regions, context);
    return status;
}

void ucx_dereg_regions(mem_regions_t *regions, ucp_context_h context)
{
    for (unsigned i = 0; i < regions->num_regions; i++) {
        region_deregister(&regions->regions[i], context);
    }
    free(regions->domains);
    regions->domains = NULL;
}

/* --- packed keys ---------------------------------------------------------- */

#define TYPE_SIZE 1u

bool ucx_key_read(const void *key, size_t size, unsigned num_domains,
                  uint64_t *domains_p)
{
    const uint8_t *bytes = key;
    uint64_t       domains;
    size_t         at = sizeof(domains) + TYPE_SIZE;

    if (size < at) {
        return false;
    }
    memcpy(&domains, bytes, sizeof(domains));
    if ((num_domains < 64) && ((domains >> num_domains) != 0)) {
        return false;
    }
    for (uint64_t rest = domains; rest != 0; rest &= rest - 1) {
        if ((at >= size) || (bytes[at] > size - at - 1)) {
            return false;
        }
        at += 1u + bytes[at];
    }
    *domains_p = domains;
    return true;
}
