#include <config.h>

#include "mem/nvml.h"

#include "base/text.h"

#include <ctype.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- NVML ----------------------------------------------------------------- */

#define LIBRARY_NAME "libnvidia-ml.so.1"

static bool is_ok(const mem_nvml_t *nvml, nvmlReturn_t result, const char *call,
                  mem_nvml_facts_t *facts)
{
    const char *words;

    if (result == NVML_SUCCESS) {
        return true;
    }
    words = nvml->nvmlErrorString(result);
    snprintf(facts->reason, sizeof(facts->reason), "%s: %s (%d)", call,
             words != NULL ? words : "unknown error", (int)result);
    base_text_clean(facts->reason);
    return false;
}

/* Look up one function of the table. Stores its symbol in *missing_p. Returns
 * false if the function is missing. */
static bool find(void *library, const char *symbol, void *place,
                 const char **missing_p)
{
    void *function = dlsym(library, symbol);

    *missing_p = symbol;
    memcpy(place, &function, sizeof(function));
    return function != NULL;
}

#define FIND(_result, _name, _symbol, _params) \
    &&find(nvml->library, _symbol, &nvml->_name, &missing)

static bool load(mem_nvml_t *nvml, char *reason, size_t reason_size)
{
    const char *wish = secure_getenv(MEM_NVML_LIBRARY_VARIABLE);
    const char *path =
        ((wish != NULL) && (*wish != '\0')) ? wish : LIBRARY_NAME;
    const char *missing = NULL;

    nvml->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (nvml->library == NULL) {
        snprintf(reason, reason_size, "%s", dlerror());
        return false;
    }
    if (true MEM_NVML_CALLS(FIND)) {
        const char *unused;

        (void)find(nvml->library, "nvmlDeviceGetNvLinkState",
                   &nvml->nvmlDeviceGetNvLinkState, &unused);
        return true;
    }
    snprintf(reason, reason_size, "%s has no %s", path, missing);
    dlclose(nvml->library);
    return false;
}

/* Returns the number of active links. Queries of links that the GPU does not
 * have return errors. */
static int count_nvlinks(const mem_nvml_t *nvml, nvmlDevice_t device)
{
    int num = 0;

    if (nvml->nvmlDeviceGetNvLinkState == NULL) {
        return -1;
    }
    for (unsigned link = 0; link < NVML_NVLINK_MAX_LINKS; link++) {
        nvmlEnableState_t state = NVML_FEATURE_DISABLED;

        if ((nvml->nvmlDeviceGetNvLinkState(device, link, &state) ==
             NVML_SUCCESS) &&
            (state == NVML_FEATURE_ENABLED)) {
            num++;
        }
    }
    return num;
}

/* Query BAR1. For GPUs that share the host's memory, NVML reports either that
 * BAR1 is not supported or that its size is 0. */
static void query_bar1(const mem_nvml_t *nvml, nvmlDevice_t device,
                       mem_nvml_facts_t *facts)
{
    nvmlBAR1Memory_t memory = {0};
    nvmlReturn_t     result;

    result             = nvml->nvmlDeviceGetBAR1MemoryInfo(device, &memory);
    facts->has_no_bar1 = result == NVML_ERROR_NOT_SUPPORTED;
    if (!is_ok(nvml, result, "nvmlDeviceGetBAR1MemoryInfo", facts)) {
        return;
    }
    if (memory.bar1Total == 0) {
        facts->has_no_bar1 = true;
        snprintf(facts->reason, sizeof(facts->reason), "this GPU has no BAR1");
        return;
    }
    facts->bar1_size = memory.bar1Total;
    facts->bar1_used = memory.bar1Used;
    facts->bar1_free = memory.bar1Free;
}

static void query_device(const mem_nvml_t *nvml, const char *bus_id,
                         mem_nvml_facts_t *facts)
{
    nvmlDevice_t device;

    if (is_ok(nvml, nvml->nvmlDeviceGetHandleByPciBusId(bus_id, &device),
              "nvmlDeviceGetHandleByPciBusId", facts)) {
        facts->num_nvlinks = count_nvlinks(nvml, device);
        query_bar1(nvml, device, facts);
    }
}

void mem_nvml_query(const char *bus_id, mem_nvml_facts_t *facts_p)
{
    mem_nvml_t nvml;

    memset(facts_p, 0, sizeof(*facts_p));
    facts_p->num_nvlinks = -1;
    if (!load(&nvml, facts_p->reason, sizeof(facts_p->reason))) {
        base_text_clean(facts_p->reason);
        return;
    }
    if (is_ok(&nvml, nvml.nvmlInit(), "nvmlInit", facts_p)) {
        if (nvml.nvmlSystemGetDriverVersion(facts_p->driver_version,
                                            sizeof(facts_p->driver_version)) !=
            NVML_SUCCESS) {
            facts_p->driver_version[0] = '\0';
        }
        query_device(&nvml, bus_id, facts_p);
        (void)nvml.nvmlShutdown();
    }
    dlclose(nvml.library);
}

/* --- BAR1 ----------------------------------------------------------------- */

/* Index of the line of BAR1, which follows the line of BAR0. */
#define BAR1_LINE 1

/* Make the path of the device's resources. The kernel uses lower case. Returns
 * false if bus_id is not a valid bus id, because it becomes part of a path. */
static bool make_path(const char *bus_id, char *path, size_t size)
{
    const char *wish = secure_getenv(MEM_BAR_SYSFS_VARIABLE);
    int         length;

    if (strspn(bus_id, "0123456789abcdefABCDEF:.") != strlen(bus_id)) {
        return false;
    }
    length = snprintf(path, size, "%s/bus/pci/devices/",
                      ((wish != NULL) && (*wish != '\0')) ? wish : "/sys");
    if ((length < 0) ||
        ((size_t)length + strlen(bus_id) + sizeof("/resource") > size)) {
        return false;
    }
    for (const char *letter = bus_id; *letter != '\0'; letter++) {
        path[length++] = (char)tolower((unsigned char)*letter);
    }
    strcpy(path + length, "/resource");
    return true;
}

/* Read the size of BAR1 from a line such as
 * "0x00000000d0000000 0x00000000dfffffff 0x000000000014220c". */
static uint64_t read_size(FILE *file)
{
    uint64_t start, end, flags;
    char     line[128];

    for (int i = 0; i <= BAR1_LINE; i++) {
        if (fgets(line, sizeof(line), file) == NULL) {
            return 0;
        }
    }
    if ((sscanf(line, "%" SCNx64 " %" SCNx64 " %" SCNx64, &start, &end,
                &flags) != 3) ||
        (start == 0) || (end <= start) || (end - start == UINT64_MAX)) {
        return 0;
    }
    return end - start + 1;
}

static void query_kernel(const char *bus_id, mem_bar_t *bar)
{
    char   path[PATH_MAX];
    char   words[sizeof(bar->reason)];
    FILE  *file = NULL;
    size_t length;

    if (make_path(bus_id, path, sizeof(path))) {
        file = fopen(path, "re");
    }
    if (file != NULL) {
        bar->size = read_size(file);
        bar->free = bar->size;
        fclose(file);
    }
    if (bar->size != 0) {
        bar->source = MEM_BAR_SYSFS;
        return;
    }
    length = strlen(bar->reason);
    snprintf(words, sizeof(words), "; the kernel %s",
             file == NULL ? "does not know the device"
                          : "has no such resource of it");
    snprintf(bar->reason + length, sizeof(bar->reason) - length, "%s", words);
}

void mem_bar_query(const char *bus_id, mem_bar_t *bar_p)
{
    mem_nvml_facts_t facts;

    mem_nvml_query(bus_id, &facts);
    memset(bar_p, 0, sizeof(*bar_p));
    bar_p->size        = facts.bar1_size;
    bar_p->used        = facts.bar1_used;
    bar_p->free        = facts.bar1_free;
    bar_p->num_nvlinks = facts.num_nvlinks;
    snprintf(bar_p->driver_version, sizeof(bar_p->driver_version), "%s",
             facts.driver_version);
    snprintf(bar_p->reason, sizeof(bar_p->reason), "%s", facts.reason);
    if (facts.bar1_size != 0) {
        bar_p->source = MEM_BAR_NVML;
    } else if (facts.has_no_bar1) {
        bar_p->source = MEM_BAR_NONE;
    } else {
        query_kernel(bus_id, bar_p);
    }
}
