/*
 * A program that installs signal handlers before it loads the library, like a
 * Java virtual machine. The handlers must stay installed, also while a pool
 * exists.
 *
 *     late_load LIBRARY
 */
#include <ucxpool/pool.h>

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static volatile sig_atomic_t num_caught;

static void catch_signal(int signal)
{
    num_caught++;
}

static void *find(void *library, const char *name)
{
    void *function = dlsym(library, name);

    if (function == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return function;
}

static int check_caught(int expected, const char *when)
{
    raise(SIGSEGV);
    raise(SIGHUP);
    if (num_caught != expected) {
        fprintf(stderr, "%s: %d signals were caught, not %d\n", when,
                (int)num_caught, expected);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    ucxpool_status_t (*create)(const ucxpool_params_t *, ucxpool_t **);
    void (*destroy)(ucxpool_t *);
    ucxpool_t *pool;
    void      *library;
    int        failed;

    if (argc != 2) {
        return 2;
    }
    signal(SIGSEGV, catch_signal);
    signal(SIGHUP, catch_signal);
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    failed             = check_caught(2, "after loading");
    *(void **)&create  = find(library, "ucxpool_create");
    *(void **)&destroy = find(library, "ucxpool_destroy");
    if (create(NULL, &pool) != UCXPOOL_OK) {
        return 2;
    }
    failed += check_caught(4, "with a pool");
    destroy(pool);
    return failed;
}
