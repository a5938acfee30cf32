#include <config.h>

#include "ucx/signals.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

/* Of libucs, where it has it: take UCX's handler of one signal away. */
typedef void give_back_t(int signal);

static give_back_t *find_give_back(void)
{
    give_back_t *function;

    *(void **)&function = dlsym(RTLD_DEFAULT, "ucs_debug_disable_signal");
    return function;
}

/* Is the signal's handler a function of the same library? */
static bool is_of_ucx(int signal, give_back_t *give_back)
{
    struct sigaction action;
    Dl_info          handler;
    Dl_info          ucx;

    if ((sigaction(signal, NULL, &action) != 0) ||
        (action.sa_handler == SIG_DFL) || (action.sa_handler == SIG_IGN)) {
        return false;
    }
    return (dladdr(*(void **)&action.sa_handler, &handler) != 0) &&
           (dladdr(*(void **)&give_back, &ucx) != 0) &&
           (handler.dli_fbase == ucx.dli_fbase);
}

static void give_signal_back(int signal, give_back_t *give_back)
{
    if (is_of_ucx(signal, give_back)) {
        give_back(signal);
    }
}

void ucx_signals_give_back(void)
{
    static const int errors[]  = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
    give_back_t     *give_back = find_give_back();

    if (give_back == NULL) {
        return;
    }
    if ((getenv("UCX_HANDLE_ERRORS") == NULL) &&
        (getenv("UCX_ERROR_SIGNALS") == NULL)) {
        for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
            give_signal_back(errors[i], give_back);
        }
    }
    if (getenv("UCX_DEBUG_SIGNO") == NULL) {
        give_signal_back(SIGHUP, give_back);
    }
}

/* UCX has taken them by now, since its libraries are loaded before this one,
 * and a program may get such a signal before it makes a pool. */
__attribute__((constructor)) static void loaded(void)
{
    ucx_signals_give_back();
}
