/* Looks up functions by name and interface version. */
#include <config.h>

#include "state.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#ifndef STAND_IN_WITHOUT_PROCS

/* The plain symbol of some names is an older version that the stand-in
 * lacks. */
static void *find(const char *name)
{
    char    symbol[96];
    Dl_info self;
    void   *library, *function = NULL;

    if (dladdr(&config, &self) == 0) {
        return NULL;
    }
    library = dlopen(self.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    if (library == NULL) {
        return NULL;
    }
    snprintf(symbol, sizeof(symbol), "%s_v2", name);
    function = dlsym(library, symbol);
    if (function == NULL) {
        function = dlsym(library, name);
    }
    dlclose(library);
    return function;
}

ENTRY(cuGetProcAddress_v2, const char *name, void **function_p, int version,
      cuuint64_t flags, int *status)
{
    BEGIN("cuGetProcAddress", NEEDS_NOTHING);
    *function_p = NULL;
    *status     = 1;
    FAIL_IF((version > config.version) || (flags != 0),
            CUDA_ERROR_INVALID_VALUE);
    if (strcmp(name, config.without) != 0) {
        *function_p = find(name);
    }
    *status = *function_p == NULL ? 1 : 0;
    return done(*function_p == NULL ? CUDA_ERROR_NOT_FOUND : CUDA_SUCCESS);
}

#endif
