#include <config.h>

#include "mem/nvml.h"

#include "base/text.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Look up one function of the table. Returns false if the function is missing.
 * *missing_p is set to its symbol in any case. */
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
        return true;
    }
    snprintf(reason, reason_size, "%s has no %s", path, missing);
    dlclose(nvml->library);
    return false;
}

/* Query BAR1. For GPUs that share the host's memory, NVML reports either that
 * BAR1 is not supported or that its size is 0. */
static void query_bar1(const mem_nvml_t *nvml, nvmlDevice_t device,
                       mem_nvml_facts_t *facts)
{
    nvmlBAR1Memory_t memory = {0};

    if (!is_ok(nvml, nvml->nvmlDeviceGetBAR1MemoryInfo(device, &memory),
               "nvmlDeviceGetBAR1MemoryInfo", facts)) {
        return;
    }
    if (memory.bar1Total == 0) {
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
        query_bar1(nvml, device, facts);
    }
}

void mem_nvml_query(const char *bus_id, mem_nvml_facts_t *facts_p)
{
    mem_nvml_t nvml;

    memset(facts_p, 0, sizeof(*facts_p));
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
