#include "domains_stand_in.h"

#include <ucp/api/ucp.h>
#include <uct/api/uct.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const domains_played_t *played;
static unsigned                num_played;
static domains_fault_t         fault;
static unsigned                num_keys;
static int                     num_live;

void domains_play(const domains_played_t *domains, unsigned num)
{
    played     = domains;
    num_played = num;
    num_keys   = 0;
    fault      = DOMAINS_FAULT_NONE;
}

void domains_fail(domains_fault_t what)
{
    fault = what;
}

int domains_num_live(void)
{
    return num_live;
}

/* UCX's own libraries call some of these functions. */
#pragma GCC visibility push(default)
void         __real_ucp_context_print_info(ucp_context_h context, FILE *stream);
ucs_status_t __real_uct_query_components(uct_component_h **list, unsigned *num);
void         __real_uct_release_component_list(uct_component_h *list);
ucs_status_t __real_uct_component_query(uct_component_h       component,
                                        uct_component_attr_t *attr);
ucs_status_t __real_uct_md_config_read(uct_component_h component,
                                       const char *prefix, const char *file,
                                       uct_md_config_t **config_p);
void         __real_uct_config_release(void *config);
ucs_status_t __real_uct_md_open(uct_component_h component, const char *name,
                                const uct_md_config_t *config, uct_md_h *md_p);
void         __real_uct_md_close(uct_md_h md);
ucs_status_t __real_uct_md_query(uct_md_h md, uct_md_attr_t *attr);
ucs_status_t __real_uct_md_query_tl_resources(uct_md_h                 md,
                                              uct_tl_resource_desc_t **list,
                                              unsigned                *num);
void         __real_uct_release_tl_resource_list(uct_tl_resource_desc_t *list);
ucs_status_t __real_ucp_rkey_pack(ucp_context_h context, ucp_mem_h memh,
                                  void **key, size_t *size);
void         __real_ucp_rkey_buffer_release(void *key);

void         __wrap_ucp_context_print_info(ucp_context_h context, FILE *stream);
ucs_status_t __wrap_uct_query_components(uct_component_h **list, unsigned *num);
void         __wrap_uct_release_component_list(uct_component_h *list);
ucs_status_t __wrap_uct_component_query(uct_component_h       component,
                                        uct_component_attr_t *attr);
ucs_status_t __wrap_uct_md_config_read(uct_component_h component,
                                       const char *prefix, const char *file,
                                       uct_md_config_t **config_p);
void         __wrap_uct_config_release(void *config);
ucs_status_t __wrap_uct_md_open(uct_component_h component, const char *name,
                                const uct_md_config_t *config, uct_md_h *md_p);
void         __wrap_uct_md_close(uct_md_h md);
ucs_status_t __wrap_uct_md_query(uct_md_h md, uct_md_attr_t *attr);
ucs_status_t __wrap_uct_md_query_tl_resources(uct_md_h                 md,
                                              uct_tl_resource_desc_t **list,
                                              unsigned                *num);
void         __wrap_uct_release_tl_resource_list(uct_tl_resource_desc_t *list);
ucs_status_t __wrap_ucp_rkey_pack(ucp_context_h context, ucp_mem_h memh,
                                  void **key, size_t *size);
void         __wrap_ucp_rkey_buffer_release(void *key);
#pragma GCC visibility pop

/* In UCX's output, each domain has its own component, which may have the same
 * name as another. */
void __wrap_ucp_context_print_info(ucp_context_h context, FILE *stream)
{
    if (num_played == 0) {
        __real_ucp_context_print_info(context, stream);
        return;
    }
    fprintf(stream, "#\n# UCP context\n#\n");
    if (fault == DOMAINS_FAULT_PRINT) {
        fprintf(stream, "# memory domains: %u\n", num_played);
        return;
    }
    for (unsigned i = 0; i < num_played; i++) {
        fprintf(stream, "#     component %-2u :  %s\n", i, played[i].component);
    }
    fprintf(stream, "#\n");
    for (unsigned i = 0; i < num_played; i++) {
        fprintf(stream, "#            md %-2u :  component %-2u %s \n",
                i + ((fault == DOMAINS_FAULT_HOLE) && (i > 0)), i,
                played[i].name);
    }
    fprintf(stream, "#\n#      resource 0  :  md 0  dev 0  flags -- a/b\n#\n");
}

/* A component is the number, from 1, of the first domain that belongs to it. */
static unsigned number_of_component(unsigned domain)
{
    unsigned first = 0;

    while (strcmp(played[first].component, played[domain].component) != 0) {
        first++;
    }
    return first + 1;
}

ucs_status_t __wrap_uct_query_components(uct_component_h **list, unsigned *num)
{
    if (num_played == 0) {
        return __real_uct_query_components(list, num);
    }
    if (fault == DOMAINS_FAULT_LIST) {
        return UCS_ERR_NO_MEMORY;
    }
    *list = calloc(num_played, sizeof(**list));
    *num  = 0;
    for (unsigned i = 0; i < num_played; i++) {
        if (number_of_component(i) == i + 1) {
            (*list)[(*num)++] = (uct_component_h)(uintptr_t)(i + 1);
        }
    }
    num_live++;
    return UCS_OK;
}

void __wrap_uct_release_component_list(uct_component_h *list)
{
    if (num_played == 0) {
        __real_uct_release_component_list(list);
        return;
    }
    free(list);
    num_live--;
}

ucs_status_t __wrap_uct_component_query(uct_component_h       component,
                                        uct_component_attr_t *attr)
{
    if (num_played == 0) {
        return __real_uct_component_query(component, attr);
    }
    snprintf(attr->name, sizeof(attr->name), "%s",
             played[(uintptr_t)component - 1].component);
    return (fault == DOMAINS_FAULT_COMPONENT) ? UCS_ERR_IO_ERROR : UCS_OK;
}

ucs_status_t __wrap_uct_md_config_read(uct_component_h component,
                                       const char *prefix, const char *file,
                                       uct_md_config_t **config_p)
{
    if (num_played == 0) {
        return __real_uct_md_config_read(component, prefix, file, config_p);
    }
    if (fault == DOMAINS_FAULT_CONFIG) {
        return UCS_ERR_NO_MEMORY;
    }
    *config_p = malloc(1);
    num_live++;
    return UCS_OK;
}

void __wrap_uct_config_release(void *config)
{
    if (num_played == 0) {
        __real_uct_config_release(config);
        return;
    }
    free(config);
    num_live--;
}

ucs_status_t __wrap_uct_md_open(uct_component_h component, const char *name,
                                const uct_md_config_t *config, uct_md_h *md_p)
{
    if (num_played == 0) {
        return __real_uct_md_open(component, name, config, md_p);
    }
    for (unsigned i = 0; i < num_played; i++) {
        if ((strcmp(played[i].name, name) == 0) &&
            (number_of_component(i) == (uintptr_t)component) &&
            (fault != DOMAINS_FAULT_OPEN)) {
            *md_p = (uct_md_h)(uintptr_t)(i + 1);
            num_live++;
            return UCS_OK;
        }
    }
    return UCS_ERR_NO_DEVICE;
}

void __wrap_uct_md_close(uct_md_h md)
{
    if (num_played == 0) {
        __real_uct_md_close(md);
        return;
    }
    num_live--;
}

ucs_status_t __wrap_uct_md_query(uct_md_h md, uct_md_attr_t *attr)
{
    const domains_played_t *domain;

    if (num_played == 0) {
        return __real_uct_md_query(md, attr);
    }
    if (fault == DOMAINS_FAULT_QUERY) {
        return UCS_ERR_IO_ERROR;
    }
    domain = &played[(uintptr_t)md - 1];
    memset(attr, 0, sizeof(*attr));
    attr->cap.flags =
        (domain->registers_host || domain->registers_gpu ? UCT_MD_FLAG_REG
                                                         : 0) |
        (domain->needs_keys ? UCT_MD_FLAG_NEED_RKEY : 0);
    attr->cap.reg_mem_types =
        (domain->registers_host ? UCS_BIT(UCS_MEMORY_TYPE_HOST) : 0) |
        (domain->registers_gpu ? UCS_BIT(UCS_MEMORY_TYPE_CUDA) : 0);
    return UCS_OK;
}

ucs_status_t __wrap_uct_md_query_tl_resources(uct_md_h                 md,
                                              uct_tl_resource_desc_t **list,
                                              unsigned                *num)
{
    if (num_played == 0) {
        return __real_uct_md_query_tl_resources(md, list, num);
    }
    if (fault == DOMAINS_FAULT_RESOURCES) {
        return UCS_ERR_NO_MEMORY;
    }
    *num                = 2;
    *list               = calloc(*num, sizeof(**list));
    (*list)[0].dev_type = UCT_DEVICE_TYPE_SELF;
    (*list)[1].dev_type = played[(uintptr_t)md - 1].is_network
                              ? UCT_DEVICE_TYPE_NET
                              : UCT_DEVICE_TYPE_SHM;
    num_live++;
    return UCS_OK;
}

void __wrap_uct_release_tl_resource_list(uct_tl_resource_desc_t *list)
{
    if (num_played == 0) {
        __real_uct_release_tl_resource_list(list);
        return;
    }
    free(list);
    num_live--;
}

static bool takes(const domains_played_t *domain)
{
    return (domain->registers_host || domain->registers_gpu) &&
           ((domain->refuses_from == 0) || (num_keys < domain->refuses_from));
}

ucs_status_t __wrap_ucp_rkey_pack(ucp_context_h context, ucp_mem_h memh,
                                  void **key, size_t *size)
{
    uint64_t map = 0;
    uint8_t *bytes;
    size_t   at = sizeof(map) + 1;

    if (num_played == 0) {
        return __real_ucp_rkey_pack(context, memh, key, size);
    }
    num_keys++;
    bytes = calloc(1, 4096);
    for (unsigned i = 0; i < num_played; i++) {
        if (takes(&played[i])) {
            map |= UINT64_C(1) << i;
            bytes[at] = (uint8_t)played[i].key_size;
            at += 1 + played[i].key_size;
        }
    }
    memcpy(bytes, &map, sizeof(map));
    *key  = bytes;
    *size = (fault == DOMAINS_FAULT_KEY) ? sizeof(map) : at;
    num_live++;
    return UCS_OK;
}

void __wrap_ucp_rkey_buffer_release(void *key)
{
    if (num_played == 0) {
        __real_ucp_rkey_buffer_release(key);
        return;
    }
    free(key);
    num_live--;
}
