/*
 * The command line of a tool, as a table: what each option is called, what it
 * takes, where its value is stored and what --help prints. --help and
 * --version are in no table, they are the same for all tools.
 */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

typedef enum option_type {
    OPTION_TYPE_FLAG,
    OPTION_TYPE_TEXT,
    OPTION_TYPE_NUMBER,
    OPTION_TYPE_SIZE,
    OPTION_TYPE_SECONDS,
    OPTION_TYPE_FILE,
    OPTION_TYPE_CALL
} option_type_t;

typedef struct option_row {
    const char   *name;   /* --name */
    char          letter; /* as in -n; 0: none */
    const char   *value;  /* as "SIZE"; "[=FILE]" is optional; NULL: none */
    const char   *help;   /* is wrapped */
    option_type_t type;
    size_t        offset; /* of the value in the tool's options */
    uint64_t      max;

    /* Returns 0; -1 where the value is wrong, and `right` is printed; or the
     * exit code of an error that was printed. */
    int (*read)(void *options, const char *value);
    const char *right; /* what to give, as "give 1/N"; NULL: by the type */
} option_row_t;

/* The last words of a row. */
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
#define OPTION_FILE(struct_t, member) /* result_file_t */ \
    .type = OPTION_TYPE_FILE, .offset = offsetof(struct_t, member)
#define OPTION_CALL(function, what_to_give) \
    .type = OPTION_TYPE_CALL, .read = (function), .right = (what_to_give)

typedef struct program {
    const char         *name;
    const char         *usage; /* its arguments; a line for each way to call */
    const char         *purpose;
    const option_row_t *rows;          /* the last one has no name */
    const char         *notes;         /* below the options */
    unsigned            max_arguments; /* that are no options */

    /* Of another library that --version names as well; NULL: none. */
    const char *(*ucx_version)(void);
} program_t;

/*
 * Read the command line into a tool's options. Returns -1 to go on; or the exit
 * code after --help, --version or an error, which are printed.
 *
 * arguments_p [out]  The arguments that are no options; NULL behind the last.
 */
int options_read(const program_t *program, void *options, int argc, char **argv,
                 char ***arguments_p);

/* Print an error of usage and where to read more; returns the exit code. */
int options_wrong(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#endif
