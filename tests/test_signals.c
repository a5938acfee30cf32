/* UCX's signal handlers, in a program that is linked with the library. */
#include <config.h>

#include "pair.h"
#include "test.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

static const int signals[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGHUP};
#define NUM_SIGNALS ((int)(sizeof(signals) / sizeof(signals[0])))

/* Handlers found by main() before Check installs its own. */
static struct sigaction found[NUM_SIGNALS];

static volatile sig_atomic_t num_caught;

static void catch_signal(int signal)
{
    num_caught++;
}

static void *handler_of(int signal)
{
    struct sigaction action;

    ck_assert_int_eq(sigaction(signal, NULL, &action), 0);
    return *(void **)&action.sa_handler;
}

static bool is_of_ucx(void *handler)
{
    Dl_info info;

    return (dladdr(handler, &info) != 0) &&
           (strstr(info.dli_fname, "libucs") != NULL);
}

TEST(a_program_begins_without_ucxs_handlers)
{
    for (int i = 0; i < NUM_SIGNALS; i++) {
        ck_assert(!is_of_ucx(*(void **)&found[i].sa_handler));
    }
}

TEST(a_program_without_handlers_has_none_after_creation)
{
    ucxpool_t *pool;

    for (int i = 0; i < NUM_SIGNALS; i++) {
        signal(signals[i], SIG_DFL);
    }
    pool = pair_pool(NULL);
    for (int i = 0; i < NUM_SIGNALS; i++) {
        ck_assert_ptr_null(handler_of(signals[i]));
    }
    ucxpool_destroy(pool);
}

TEST(a_programs_own_handlers_stay)
{
    ucxpool_t *pool;

    signal(SIGSEGV, catch_signal);
    pool = pair_pool(NULL);
    ck_assert_int_eq(raise(SIGSEGV), 0);
    signal(SIGBUS, catch_signal);
    ck_assert_int_eq(raise(SIGBUS), 0);
    ucxpool_destroy(pool);
    pool = pair_pool(NULL);
    ck_assert_int_eq(raise(SIGSEGV), 0);
    ck_assert_int_eq(raise(SIGBUS), 0);
    ck_assert_int_eq(num_caught, 4);
    ucxpool_destroy(pool);
}

/* The number of signals with a handler at the start of a program with this
 * environment variable. */
static int num_kept(const char *name, const char *value)
{
    pid_t pid = fork();

    if (pid == 0) {
        setenv(name, value, 1);
        execl("/proc/self/exe", "test_signals", "count", (char *)NULL);
        _exit(99);
    }
    return test_exit_of(pid);
}

/* UCX 1.22, as released, installs no handler except for SIGHUP unless
 * UCX_HANDLE_ERRORS requests it. */
TEST(the_environment_may_ask_for_ucxs_handlers)
{
    unsigned major, minor, patch;

    ck_assert_int_eq(num_kept("UCX_HANDLE_ERRORS", "bt"), 4);
    ck_assert_int_eq(num_kept("UCX_HANDLE_ERRORS", "none"), 0);
    ucp_get_version(&major, &minor, &patch);
    if ((major == 1) && (minor < 14)) {
        ck_assert_int_eq(num_kept("UCX_ERROR_SIGNALS", "SIGBUS,SIGFPE"), 2);
    }
    ck_assert_int_eq(num_kept("UCX_DEBUG_SIGNO", "SIGHUP"), 1);
}

/* --- loading the library late, as a Java VM does -------------------------- */

TEST(handlers_stay_if_the_library_is_loaded_late)
{
    const char *builddir = getenv("top_builddir");
    pid_t       pid;

    ck_assert_int_eq(chdir((builddir == NULL) ? "." : builddir), 0);
    pid = fork();
    if (pid == 0) {
        execl("tests/late_load", "late_load", ".libs/libucxpool.so",
              (char *)NULL);
        _exit(99);
    }
    ck_assert_int_eq(test_exit_of(pid), 0);
}

static int count(void)
{
    int num = 0;

    for (int i = 0; i < NUM_SIGNALS; i++) {
        num += is_of_ucx(*(void **)&found[i].sa_handler);
    }
    return num;
}

int main(int argc, char **argv)
{
    for (int i = 0; i < NUM_SIGNALS; i++) {
        sigaction(signals[i], NULL, &found[i]);
    }
    if ((argc == 2) && (strcmp(argv[1], "count") == 0)) {
        return count();
    }
    return test_run_all();
}
