#include "mem/nvml.h"
#include "stand_in.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

static int live;

/* The value of a key, up to the next comma; NULL if it is not given. */
static const char *value_of(const char *key, char *value, size_t size)
{
    const char *text   = getenv("NVML_STAND_IN");
    size_t      length = strlen(key);

    while ((text != NULL) && (*text != '\0')) {
        if ((strncmp(text, key, length) == 0) && (text[length] == '=')) {
            text += length + 1;
            snprintf(value, size, "%.*s", (int)strcspn(text, ","), text);
            return value;
        }
        text = strchr(text, ',');
        text = text == NULL ? NULL : text + 1;
    }
    return NULL;
}

static unsigned long long number_of(const char *key, unsigned long long other)
{
    char        text[32];
    const char *value = value_of(key, text, sizeof(text));

    return value == NULL ? other : strtoull(value, NULL, 10);
}

static nvmlReturn_t result_of(const char *symbol)
{
    char        text[64];
    const char *value  = value_of("fail", text, sizeof(text));
    size_t      length = strlen(symbol);

    if ((value == NULL) || (strncmp(value, symbol, length) != 0) ||
        (value[length] != ':')) {
        return NVML_SUCCESS;
    }
    return (nvmlReturn_t)atoi(value + length + 1);
}

EXPORT int nvml_stand_in_live(void)
{
    return live;
}

EXPORT nvmlReturn_t nvmlInit_v2(void);
EXPORT nvmlReturn_t nvmlShutdown(void);
EXPORT const char  *nvmlErrorString(nvmlReturn_t result);
EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned size);
EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char   *bus_id,
                                                     nvmlDevice_t *device);
EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t      device,
                                                nvmlBAR1Memory_t *memory);

nvmlReturn_t nvmlInit_v2(void)
{
    live += result_of("nvmlInit_v2") == NVML_SUCCESS;
    return result_of("nvmlInit_v2");
}

nvmlReturn_t nvmlShutdown(void)
{
    live--;
    return NVML_SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_DRIVER_NOT_LOADED:
        return "Driver Not Loaded";
    default:
        return NULL;
    }
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *text, unsigned size)
{
    char        buffer[32];
    const char *version = value_of("driver", buffer, sizeof(buffer));

    snprintf(text, size, "%s", version == NULL ? "580.1" : version);
    return result_of("nvmlSystemGetDriverVersion");
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char   *bus_id,
                                              nvmlDevice_t *device)
{
    if (strncmp(bus_id, "0000:", 5) != 0) {
        return NVML_ERROR_NOT_FOUND;
    }
    *device = (nvmlDevice_t)&live;
    return result_of("nvmlDeviceGetHandleByPciBusId_v2");
}

nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t      device,
                                         nvmlBAR1Memory_t *memory)
{
    if ((live == 0) || (device != (nvmlDevice_t)&live)) {
        return NVML_ERROR_INVALID_ARGUMENT;
    }
    memory->bar1Total = number_of("bar1", 256ull << 20);
    memory->bar1Used  = number_of("used", 4096);
    memory->bar1Free  = memory->bar1Total - memory->bar1Used;
    return result_of("nvmlDeviceGetBAR1MemoryInfo");
}
