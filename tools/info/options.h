/*
 * The command line of ucxpool_info, and how it ends.
 */
#ifndef INFO_OPTIONS_H
#define INFO_OPTIONS_H

#include <stdbool.h>

typedef enum end { END_DONE = 0, END_FAILED = 1, END_WRONG_USAGE = 2 } end_t;

typedef struct options {
    bool config; /* print the settings, nothing else */
    bool budget; /* print the budget, nothing else */
    bool json;
    bool no_pool;
    bool self_test;
} options_t;

/*
 * Read the command line. False when the program is to end at once, with
 * *end_p: after --help and --version, which print, and after a mistake, which
 * is told.
 */
bool options_read(int argc, char *const *argv, options_t *options,
                  end_t *end_p);

/* Tell what went wrong, on stderr. */
void say_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
