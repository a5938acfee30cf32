#include "java/jni/library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

library_t library;

static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static bool            is_open;

/* Find a function by name. Returns NULL, with the reason in `why`, if there is
 * none. */
static void *find(void *handle, const char *name, char *why, size_t why_size)
{
    void *function = dlsym(handle, name);

    if (function == NULL) {
        snprintf(why, why_size, "it has no %s(): it is older than this package",
                 name);
    }
    return function;
}

#define FIND(name) \
    &&((library.name = (__typeof__(ucxpool_##name) *)find( \
            handle, "ucxpool_" #name, why, why_size)) != NULL)

static bool open_once(const char *path, char *why, size_t why_size)
{
    void *handle;

    /* The 0 keeps a value that the user has set. */
    setenv("UCX_ERROR_SIGNALS", "", 0);
    setenv("UCX_DEBUG_SIGNO", "0", 0);
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        snprintf(why, why_size, "%s", dlerror());
        return false;
    }
    if (true LIBRARY_FUNCTIONS(FIND)) {
        return true;
    }
    dlclose(handle);
    return false;
}

bool library_open(const char *path, char *why, size_t why_size)
{
    pthread_mutex_lock(&open_lock);
    if (!is_open) {
        is_open = open_once(path, why, why_size);
    }
    pthread_mutex_unlock(&open_lock);
    return is_open;
}
