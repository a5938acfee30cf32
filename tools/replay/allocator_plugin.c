/* A plug-in as an allocator. */
#include "replay/ballast.h"
#include "replay/error.h"
#include "replay/plugin.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char default_name[] = "plugin";

typedef struct plugin_allocator {
    allocator_t super;
    ballast_t   ballast;
} plugin_allocator_t;

static const plugin_t *plugin_of(const allocator_t *allocator)
{
    return (const plugin_t *)allocator->kind;
}

static bool is_host(const device_t *device)
{
    return device->ordinal == DEVICE_HOST;
}

/* One that is told its capacity keeps to it; from another one all other memory
 * is taken away, as from the driver's allocators. */
static int create(const allocator_kind_t *kind, device_t *device,
                  uint64_t capacity, allocator_t **allocator_p)
{
    const plugin_t     *plugin = (const plugin_t *)kind;
    plugin_allocator_t *self   = calloc(1, sizeof(*self));
    int                 code;

    if (self == NULL) {
        return replay_error("out of memory");
    }
    self->super.kind   = kind;
    self->super.device = device;
    if (!is_host(device) &&
        (ballast_take(&self->ballast, device,
                      plugin->init == NULL ? capacity : 0) != 0)) {
        goto err_free;
    }
    code = plugin->init == NULL ? 0 : plugin->init(device->ordinal, capacity);
    if (code != 0) {
        replay_error("%s: plugin_init(%d, %llu) returns %d", plugin->path,
                     device->ordinal, (unsigned long long)capacity, code);
        goto err_drop_ballast;
    }
    *allocator_p = &self->super;
    return 0;

err_drop_ballast:
    if (!is_host(device)) {
        ballast_drop(&self->ballast, device);
    }
err_free:
    free(self);
    return -1;
}

static void destroy(allocator_t *allocator)
{
    plugin_allocator_t *self = (plugin_allocator_t *)allocator;

    if (plugin_of(allocator)->end != NULL) {
        plugin_of(allocator)->end();
    }
    if (!is_host(allocator->device)) {
        ballast_drop(&self->ballast, allocator->device);
    }
    free(self);
}

static allocator_answer_t take(allocator_t *allocator, size_t size,
                               void *stream, void **address_p)
{
    *address_p = plugin_of(allocator)->alloc(
        (ssize_t)size, allocator->device->ordinal, stream);
    return *address_p == NULL ? ALLOCATOR_FULL : ALLOCATOR_OK;
}

static allocator_answer_t give(allocator_t *allocator, void *address,
                               size_t size, void *stream)
{
    plugin_of(allocator)->free(address, (ssize_t)size,
                               allocator->device->ordinal, stream);
    return ALLOCATOR_OK;
}

static uint64_t reserved(allocator_t *allocator)
{
    plugin_allocator_t *self = (plugin_allocator_t *)allocator;

    if (plugin_of(allocator)->reserved != NULL) {
        return plugin_of(allocator)->reserved();
    }
    return is_host(allocator->device)
               ? 0
               : ballast_used(&self->ballast, allocator->device);
}

int plugin_name(plugin_t *plugin, const char *text)
{
    const char *equals = strchr(text, '=');
    size_t      length = strspn(text, "abcdefghijklmnopqrstuvwxyz"
                                           "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                           "0123456789_-.");

    memset(plugin, 0, sizeof(*plugin));
    /* A path may have such a character as well, behind a slash. */
    if ((equals == NULL) || (memchr(text, '/', (size_t)(equals - text)))) {
        strcpy(plugin->name, default_name);
        plugin->path = text;
    } else if ((length == 0) || (length >= sizeof(plugin->name)) ||
               (text + length != equals)) {
        return -1;
    } else {
        memcpy(plugin->name, text, length);
        plugin->path = equals + 1;
    }
    if ((plugin->path[0] == '\0') || (allocator_find(plugin->name) != NULL)) {
        return -1;
    }
    plugin->kind = (allocator_kind_t){.name     = plugin->name,
                                      .doc      = plugin->path,
                                      .create   = create,
                                      .destroy  = destroy,
                                      .alloc    = take,
                                      .free     = give,
                                      .reserved = reserved};
    return 0;
}

/* The address of a function, for a pointer to one. */
static void find(const plugin_t *plugin, const char *symbol, void *function_p)
{
    void *function = dlsym(plugin->library, symbol);

    memcpy(function_p, &function, sizeof(function));
}

static int find_all(plugin_t *plugin)
{
    const char *missing = NULL;

    find(plugin, "plugin_alloc", &plugin->alloc);
    find(plugin, "plugin_free", &plugin->free);
    find(plugin, "plugin_init", &plugin->init);
    find(plugin, "plugin_end", &plugin->end);
    find(plugin, "plugin_reserved", &plugin->reserved);
    if (plugin->alloc == NULL) {
        missing = "plugin_alloc";
    } else if (plugin->free == NULL) {
        missing = "plugin_free";
    }
    return missing == NULL
               ? 0
               : replay_error("%s has no function %s(): ucxpool_replay(1) "
                              "tells what a plug-in has",
                              plugin->path, missing);
}

int plugin_load(plugin_t *plugin)
{
    char path[4096];

    /* Without a slash the loader would look for it elsewhere. */
    if (snprintf(path, sizeof(path), "%s%s",
                 strchr(plugin->path, '/') == NULL ? "./" : "",
                 plugin->path) >= (int)sizeof(path)) {
        return replay_error("%s: such a path is too long", plugin->path);
    }
    plugin->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin->library == NULL) {
        return replay_error("the plug-in %s cannot be loaded: %s", plugin->path,
                            dlerror());
    }
    return find_all(plugin);
}
