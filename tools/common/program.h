/*
 * The main function of a tool, and its command line as a table. A row has an
 * option's name and value, the place where the value is stored, and the --help
 * text.
 */
#ifndef COMMON_PROGRAM_H
#define COMMON_PROGRAM_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef enum option_type {
    OPTION_TYPE_FLAG,
    OPTION_TYPE_TEXT,
    OPTION_TYPE_NUMBER,
    OPTION_TYPE_SIZE,
    OPTION_TYPE_SECONDS,
    OPTION_TYPE_CALL
} option_type_t;

typedef struct option_row {
    const char   *name;   /* --name */
    char          letter; /* 'n' for -n; 0: none */
    const char   *value;  /* "SIZE"; NULL: none */
    const char   *help;   /* will be wrapped */
    option_type_t type;
    size_t        offset; /* of the value in the tool's options */
    uint64_t      max;

    /* Returns 0. Returns -1 if the value is wrong; the caller then prints
     * `right`. Returns the exit code if it has printed an error itself. */
    int (*read)(void *options, const char *value);
    /* Advice, such as "give 1/N". NULL: the advice of the type. */
    const char *right;
} option_row_t;

/* Macros for the last members of a row. */
#define OPTION_FLAG(struct_t, member) /* bool */ \
    .type = OPTION_TYPE_FLAG, .offset = offsetof(struct_t, member)
#define OPTION_TEXT(struct_t, member) /* const char * */ \
    .type = OPTION_TYPE_TEXT, .offset = offsetof(struct_t, member)
#define OPTION_NUMBER(struct_t, member, most) /* unsigned, 1 to most */ \
    .type = OPTION_TYPE_NUMBER, .offset = offsetof(struct_t, member), \
    .max = (most)
#define OPTION_SIZE(struct_t, member, most) /* uint64_t, 1 to most */ \
    .type = OPTION_TYPE_SIZE, .offset = offsetof(struct_t, member), \
    .max = (most)
#define OPTION_SECONDS(struct_t, member) /* double */ \
    .type = OPTION_TYPE_SECONDS, .offset = offsetof(struct_t, member)
#define OPTION_CALL(function, what_to_give) \
    .type = OPTION_TYPE_CALL, .read = (function), .right = (what_to_give)

/* The last rows of every table. */
/* clang-format off */
#define OPTION_LAST_ROWS \
    {"help", 'h', .help = "print this help and exit"}, \
    {"version", 'V', .help = "print the version and exit"}, \
    {.name = NULL}
/* clang-format on */

typedef struct program {
    const char         *name;
    const char         *usage; /* the arguments; a line for each form of call */
    const char         *purpose;
    const option_row_t *rows;          /* OPTION_LAST_ROWS at the end */
    const char         *notes;         /* below the options */
    unsigned            max_arguments; /* that are not options */

    /* Version of another library that --version also prints; NULL: none. */
    const char *(*ucx_version)(void);

    /* Check the options. arguments: those that are not options; NULL after the
     * last. Returns -1 to run the tool. Otherwise returns the exit code, after
     * printing an error or a list to stdout. */
    int (*check)(void *options, char **arguments);

    /* Do the work. Returns the exit code. output: the standard output. UCX logs
     * to the C library's stdout, which is redirected to the standard error. */
    int (*run)(void *options, FILE *output);
} program_t;

/* Read the command line into a tool's options, and run the tool. Returns the
 * exit code: 1 also if the output could not be written. */
int program_main(const program_t *program, void *options, int argc,
                 char **argv);

/* Print a usage error and a hint about --help; returns the exit code. */
int options_wrong(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#endif
