#include <config.h>

#include "info/options.h"

#include <ucxpool/version.h>

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>

#define NAME "ucxpool_info"

static const char help[] =
    "usage: " NAME " [OPTION]...\n"
    "Show what the pool would do on this machine, and why.\n"
    "\n"
    "  -b, --budget   print how much of its BAR1 a pool on each GPU may take,\n"
    "                 line by line; nothing else\n"
    "  -c, --config   print every setting with its meaning, its default and\n"
    "                 where its value comes from; nothing else\n"
    "  -j, --json     print one JSON object, for programs\n"
    "  -n, --no-pool  create no pool (else one is created with the present\n"
    "                 settings, looked at, and destroyed)\n"
    "  -t, --test     send a message through every region of that pool\n"
    "  -h, --help     print this and end\n"
    "  -V, --version  print the version and end\n"
    "\n"
    "Exit status: 0 done, 1 something failed, 2 wrong usage.\n"
    "Settings are read from the environment: UCXPOOL_<KEY>=<value>.\n";

static const struct option long_options[] = {
    {"budget", no_argument, NULL, 'b'},  {"config", no_argument, NULL, 'c'},
    {"help", no_argument, NULL, 'h'},    {"json", no_argument, NULL, 'j'},
    {"no-pool", no_argument, NULL, 'n'}, {"test", no_argument, NULL, 't'},
    {"version", no_argument, NULL, 'V'}, {NULL, 0, NULL, 0}};

void say_error(const char *format, ...)
{
    va_list args;

    fputs(NAME ": ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

static bool wrong_usage(end_t *end_p)
{
    fputs("Try '" NAME " --help'.\n", stderr);
    *end_p = END_WRONG_USAGE;
    return false;
}

/* True when the option is one that the report obeys. */
static bool read_option(int option, options_t *options, end_t *end_p)
{
    switch (option) {
    case 'b':
        options->budget = true;
        return true;
    case 'c':
        options->config = true;
        return true;
    case 'j':
        options->json = true;
        return true;
    case 'n':
        options->no_pool = true;
        return true;
    case 't':
        options->self_test = true;
        return true;
    case 'h':
        fputs(help, stdout);
        return false;
    case 'V':
        printf(NAME " (libucxpool) %s\n", ucxpool_version_string());
        return false;
    default:
        /* getopt has said what is wrong. */
        return wrong_usage(end_p);
    }
}

bool options_read(int argc, char *const *argv, options_t *options, end_t *end_p)
{
    int option;

    *options = (options_t){0};
    *end_p   = END_DONE;
    while ((option = getopt_long(argc, argv, "bchjntV", long_options, NULL)) !=
           -1) {
        if (!read_option(option, options, end_p)) {
            return false;
        }
    }
    if (optind < argc) {
        say_error("there is no argument to give, but here is '%s'",
                  argv[optind]);
        return wrong_usage(end_p);
    }
    if (options->no_pool && options->self_test) {
        say_error("--test needs a pool: leave out --no-pool");
        return wrong_usage(end_p);
    }
    if (options->budget && (options->config || options->self_test)) {
        say_error("--budget prints nothing else: leave out %s",
                  options->config ? "--config" : "--test");
        return wrong_usage(end_p);
    }
    if (options->config && options->self_test) {
        say_error("--config prints nothing else: leave out --test");
        return wrong_usage(end_p);
    }
    return true;
}
