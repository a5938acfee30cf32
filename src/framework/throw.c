#include <config.h>

#include "framework/throw.h"
#include "base/error.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* c10::detail::torchCheckFail(function, file, line, message), with which
 * TORCH_CHECK ends; and std::__throw_bad_alloc(). */
#define TORCH_LIBRARY  "libc10.so"
#define TORCH_FUNCTION "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"
#define CXX_LIBRARY    "libstdc++.so.6"
#define CXX_FUNCTION   "_ZSt17__throw_bad_allocv"

typedef void (*torch_function_t)(const char *function, const char *file,
                                 uint32_t line, const char *message);
typedef void (*cxx_function_t)(void);

/* A function of a library that the process has loaded by now; NULL if it has
 * not. The library is never unloaded: an exception is on its way through it. */
static void *find(const char *library, const char *function)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);

    return handle == NULL ? NULL : dlsym(handle, function);
}

void framework_throw(void)
{
    void          *found = find(CXX_LIBRARY, CXX_FUNCTION);
    cxx_function_t throw_bad_alloc;

    if (found != NULL) {
        memcpy(&throw_bad_alloc, &found, sizeof(throw_bad_alloc));
        throw_bad_alloc();
    }
}

void framework_throw_torch(ucxpool_status_t status)
{
    void            *found = find(TORCH_LIBRARY, TORCH_FUNCTION);
    char             message[BASE_ERROR_SIZE + 32];
    torch_function_t fail;

    if (found == NULL) {
        framework_throw();
        return;
    }
    /* Programs look for the first words to tell this error from others. */
    snprintf(message, sizeof(message), "%s%s",
             status == UCXPOOL_ERR_NO_MEMORY ? "CUDA out of memory. " : "",
             ucxpool_error_detail());
    memcpy(&fail, &found, sizeof(fail));
    fail("ucxpool_torch_alloc_or_throw", __FILE__, __LINE__, message);
}
