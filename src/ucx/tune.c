#include "ucx/context.h"

#include "base/text.h"

#include <glob.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uct/api/uct.h>

/* --- for pools on a GPU --------------------------------------------------- */

/*
 * UCX settings for pools on a GPU. They prevent UCX from registering GPU memory
 * outside the pool's regions, and from allocating GPU memory of its own.
 *
 * When it starts, UCX warns of a setting that no component knows. So the
 * library first asks UCX's CUDA component whether it has the setting.
 */

/* UCX's component that copies GPU memory, and the prefix of its settings. */
#define COMPONENT "cuda_cpy"
#define PREFIX    "CUDA_COPY_"

/* Returns true if the component has the setting and the user has not set it. */
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

/* Returns true if this is the component COMPONENT and UCX reads its settings.
 * UCX reads them only if the component finds a device. */
static bool is_wanted(uct_component_h component)
{
    uct_component_attr_t attr = {
        .field_mask = UCT_COMPONENT_ATTR_FIELD_NAME |
                      UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};

    return (uct_component_query(component, &attr) == UCS_OK) &&
           (strcmp(attr.name, COMPONENT) == 0) && (attr.md_resource_count > 0);
}

/* Returns true if UCX copies GPU memory here and the user has not set this
 * setting. */
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

/* Returns true if a list of transports, separated by commas, contains this
 * one. */
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

/* Returns true if UCX may use CUDA's transports. Otherwise the settings of the
 * component have no effect. */
static bool is_cuda_chosen(const char *transports)
{
    bool is_named = names(transports, "cuda") || names(transports, "cuda_copy");

    return transports[0] == '^' ? !is_named
                                : is_named || names(transports, "all");
}

/*
 * UCX registers the whole allocation around a range if the allocation is
 * smaller than 1/10 of the GPU's memory. The allocation may exceed the pool's
 * budget and the size of a small BAR. UCX has an exception for one GPU model
 * with a small BAR, but misspells the model's name.
 */
static void tune_registration(ucp_config_t *config, const char *transports)
{
    if (is_cuda_chosen(transports) && is_setting_auto("REG_WHOLE_ALLOC")) {
        (void)ucp_config_modify(config, PREFIX "REG_WHOLE_ALLOC", "off");
    }
}

/* UCX stages transfers of GPU memory through buffers of 4 MiB. It allocates 128
 * of these buffers at a time in the GPU's memory, and never frees them. */
static void tune_staging(ucp_config_t *config)
{
    char *value = ucx_tune_read(config, "UCX_RNDV_FRAG_ALLOC_COUNT");

    if ((value != NULL) && (strcmp(value, "host:128,cuda:128") == 0)) {
        (void)ucp_config_modify(config, "RNDV_FRAG_ALLOC_COUNT",
                                "host:128,cuda:8");
    }
    free(value);
}

/* --- for all pools -------------------------------------------------------- */

/* Returns the value in the line "NAME=value" of the text. Modifies the text. */
static const char *find_value(char *text, const char *name)
{
    size_t length = strlen(name);
    char  *rest;

    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line       = strtok_r(NULL, "\n", &rest)) {
        if ((strncmp(line, name, length) == 0) && (line[length] == '=')) {
            return line + length + 1;
        }
    }
    return NULL;
}

char *ucx_tune_read(const ucp_config_t *config, const char *name)
{
    base_string_t string;
    const char   *value;
    char         *text;

    if (base_string_open(&string) != NULL) {
        ucp_config_print(config, string.stream, NULL, UCS_CONFIG_PRINT_CONFIG);
    }
    text = base_string_close_or_warn(&string);
    if (text == NULL) {
        return NULL;
    }
    value = find_value(text, name);
    if (value == NULL) {
        free(text);
        return NULL;
    }
    return memmove(text, value, strlen(value) + 1);
}

/* Returns true if UCX may use TCP. A list that begins with ^ names the
 * transports that UCX may not use. */
static bool has_tcp(const char *transports)
{
    bool named = strstr(transports, "tcp") != NULL;

    if (transports[0] == '^') {
        return !named;
    }
    return named || (strcmp(transports, "all") == 0);
}

/*
 * Since version 1.16, UCX chooses its protocols by estimates of their speed.
 * With its default TCP segments of 8 KiB, UCX therefore sends all long data by
 * copies of 8 KiB. With segments of 64 KiB, UCX sends long data directly from
 * the caller's memory. A peer's receive buffer always holds 64 KiB, because UCX
 * already sends zero-copy fragments of that size.
 */
static void tune_tcp(ucp_config_t *config, const char *transports)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    if ((major == 1) && (minor < 16)) {
        return;
    }
    /* Return if the user has set a segment size, or if UCX may not use TCP.
     * Without TCP, UCX would warn of an unknown setting. */
    if ((getenv("UCX_TCP_TX_SEG_SIZE") != NULL) ||
        (getenv("UCX_TCP_RX_SEG_SIZE") != NULL) || !has_tcp(transports)) {
        return;
    }
    (void)ucp_config_modify(config, "TCP_TX_SEG_SIZE", "64k");
}

/*
 * Exclude UCX's shared memory. An endpoint with failure handling never uses
 * shared memory, but every worker allocates several MiB of it. A killed process
 * would leave this memory in /dev/shm.
 */
static void tune_transports(ucp_config_t *config, const char *transports)
{
    if ((getenv("UCX_TLS") == NULL) && (strcmp(transports, "all") == 0)) {
        (void)ucp_config_modify(config, "TLS", "^posix,sysv");
    }
}

/* --- network devices ------------------------------------------------------ */

bool ucx_tune_devices(ucp_config_t *config, const char *devices)
{
    char *transports = ucx_tune_read(config, "UCX_TLS");
    char *chosen     = ucx_tune_read(config, "UCX_NET_DEVICES");
    bool  limits     = (devices[0] != '\0') && (transports != NULL) &&
                  has_tcp(transports) && (chosen != NULL) &&
                  (strcmp(chosen, "all") == 0) &&
                  (getenv("UCX_NET_DEVICES") == NULL);

    limits =
        limits && (ucp_config_modify(config, "NET_DEVICES", devices) == UCS_OK);
    free(transports);
    free(chosen);
    return limits;
}

/* Returns true if the file contains the port state "4: ACTIVE". */
static bool is_active(const char *path)
{
    FILE *file  = fopen(path, "re");
    int   state = EOF;

    if (file != NULL) {
        state = fgetc(file);
        fclose(file);
    }
    return state == '4';
}

/* Add each active RDMA port to the list, as UCX names it: "mlx5_0:1". */
static void add_rdma_ports(char *devices, size_t size)
{
    static const char pattern[] = "/sys/class/infiniband/*/ports/*/state";
    glob_t            found;
    char              name[64];
    unsigned          port;
    size_t            length;

    if (glob(pattern, 0, NULL, &found) != 0) {
        return;
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        if ((sscanf(found.gl_pathv[i], "/sys/class/infiniband/%63[^/]/ports/%u",
                    name, &port) == 2) &&
            is_active(found.gl_pathv[i])) {
            length = strlen(devices);
            snprintf(devices + length, size - length, ",%s:%u", name, port);
        }
    }
    globfree(&found);
}

void ucx_tune_local_devices(char *devices, size_t size)
{
    struct ifaddrs *all;

    devices[0] = '\0';
    if (getifaddrs(&all) != 0) {
        return;
    }
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
        if ((one->ifa_flags & IFF_LOOPBACK) && (one->ifa_flags & IFF_UP) &&
            (one->ifa_addr != NULL) && (one->ifa_addr->sa_family == AF_INET)) {
            snprintf(devices, size, "%s", one->ifa_name);
            add_rdma_ports(devices, size);
            break;
        }
    }
    freeifaddrs(all);
}

/* Returns true if the list contains the name up to a ':', which starts the
 * label of an alias. */
static bool has_name(const char *devices, const char *name)
{
    size_t length = strcspn(name, ":");

    for (;; devices++) {
        if ((strncmp(devices, name, length) == 0) &&
            ((devices[length] == ',') || (devices[length] == '\0'))) {
            return true;
        }
        devices = strchr(devices, ',');
        if (devices == NULL) {
            return false;
        }
    }
}

/* Returns true if the device is up and has an address that TCP can use. */
static bool is_up(const struct ifaddrs *device)
{
    return (device->ifa_flags & IFF_UP) && (device->ifa_addr != NULL) &&
           ((device->ifa_addr->sa_family == AF_INET) ||
            (device->ifa_addr->sa_family == AF_INET6));
}

bool ucx_tune_other_devices(const char *devices, char *others, size_t size)
{
    struct ifaddrs *all;
    size_t          length;

    others[0] = '\0';
    if (getifaddrs(&all) != 0) {
        return false;
    }
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
        if (is_up(one) && !has_name(devices, one->ifa_name) &&
            !has_name(others, one->ifa_name)) {
            length = strlen(others);
            snprintf(others + length, size - length, "%s%.*s",
                     (length == 0) ? "" : ",", (int)strcspn(one->ifa_name, ":"),
                     one->ifa_name);
        }
    }
    freeifaddrs(all);
    return true;
}

bool ucx_tune_has_device(const char *devices, const char *name)
{
    char others[UCX_DEVICES_SIZE];

    if (name != NULL) {
        return has_name(devices, name);
    }
    return ucx_tune_other_devices(devices, others, sizeof(others)) &&
           (others[0] == '\0');
}

/* --- entry point ---------------------------------------------------------- */

void ucx_tune(ucp_config_t *config, bool for_gpu)
{
    char *transports = ucx_tune_read(config, "UCX_TLS");

    if (transports == NULL) {
        return;
    }
    tune_tcp(config, transports);
    tune_transports(config, transports);
    if (for_gpu) {
        tune_registration(config, transports);
        tune_staging(config);
    }
    free(transports);
}
