/*
 * Settings of UCX for pools on a GPU, so that it registers and takes no GPU
 * memory behind the pool's back.
 *
 * UCX warns of a setting that no component knows, once it is started: so the
 * component is asked first.
 */
#include "ucx/tune.h"

#include <stdlib.h>
#include <string.h>

#include <uct/api/uct.h>

/* UCX's name of what copies GPU memory, and what its settings begin with. */
#define COMPONENT "cuda_cpy"
#define PREFIX    "CUDA_COPY_"

/* It has the setting, which nobody has set. */
static bool is_auto(uct_component_h component, const char *setting)
{
    uct_md_config_t *config;
    char             value[64];
    ucs_status_t     status;

    status = uct_md_config_read(component, NULL, NULL, &config);
    if (status != UCS_OK) {
        return false;
    }
    status = uct_config_get(config, setting, value, sizeof(value));
    uct_config_release(config);
    return (status == UCS_OK) && (strcmp(value, "auto") == 0);
}

/* UCX reads the settings of a component only where that finds a device. */
static bool is_wanted(uct_component_h component)
{
    uct_component_attr_t attr = {
        .field_mask = UCT_COMPONENT_ATTR_FIELD_NAME |
                      UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};

    return (uct_component_query(component, &attr) == UCS_OK) &&
           (strcmp(attr.name, COMPONENT) == 0) && (attr.md_resource_count > 0);
}

/* Does UCX copy GPU memory here, and is that left to it? */
static bool is_setting_auto(const char *setting)
{
    uct_component_h *components;
    unsigned         num_components;
    bool             found = false;

    if (uct_query_components(&components, &num_components) != UCS_OK) {
        return false;
    }
    for (unsigned i = 0; (i < num_components) && !found; i++) {
        found = is_wanted(components[i]) && is_auto(components[i], setting);
    }
    uct_release_component_list(components);
    return found;
}

/* Does a list of transports, apart by commas, name this one? */
static bool names(const char *list, const char *name)
{
    size_t length;

    for (; *list != '\0'; list += length) {
        list += strspn(list, ",^\\");
        length = strcspn(list, ",");
        if ((length == strlen(name)) && (strncmp(list, name, length) == 0)) {
            return true;
        }
    }
    return false;
}

/* Transports that were chosen without CUDA's have no use for its settings. */
static bool is_cuda_chosen(const char *transports)
{
    bool is_named = names(transports, "cuda") || names(transports, "cuda_copy");

    return transports[0] == '^' ? !is_named
                                : is_named || names(transports, "all");
}

/*
 * UCX registers the whole of the allocation that a range lies in, as long as
 * that is less than a tenth of the GPU's memory: more than the pool's budget,
 * and more than a small BAR holds. It makes an exception for one such GPU, and
 * misspells its name.
 */
static void tune_registration(ucp_config_t *config, const char *transports)
{
    if (is_cuda_chosen(transports) && is_setting_auto("REG_WHOLE_ALLOC")) {
        (void)ucp_config_modify(config, PREFIX "REG_WHOLE_ALLOC", "off");
    }
}

/* What UCX stages goes through buffers of 4 MiB, of which it takes 128 at a
 * time out of the GPU's memory, for ever. */
static void tune_staging(ucp_config_t *config)
{
    char *value = ucx_tune_read(config, "UCX_RNDV_FRAG_ALLOC_COUNT");

    if ((value != NULL) && (strcmp(value, "host:128,cuda:128") == 0)) {
        (void)ucp_config_modify(config, "RNDV_FRAG_ALLOC_COUNT",
                                "host:128,cuda:8");
    }
    free(value);
}

void ucx_tune_gpu(ucp_config_t *config, const char *transports)
{
    tune_registration(config, transports);
    tune_staging(config);
}
