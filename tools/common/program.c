#include "common/program.h"
#include "common/error.h"
#include "common/number.h"

#include <ucxpool/version.h>

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define EXIT_USAGE  2
#define MAX_ROWS    32
#define FIRST_LONG  256 /* after all letters */
#define HELP_COLUMN 24
#define HELP_WIDTH  79

/* --- help ---------------------------------------------------------------- */

static void print_wrapped(const char *text, int column)
{
    int at = column;

    while (*text != '\0') {
        int length = (int)strcspn(text, " ");

        if ((at > column) && (at + 1 + length > HELP_WIDTH)) {
            printf("\n%*s", column, "");
            at = column;
        }
        at += printf("%s%.*s", at > column ? " " : "", length, text);
        text += length;
        text += strspn(text, " ");
    }
    putchar('\n');
}

static void print_row(const option_row_t *row)
{
    char short_name[] = {'-', row->letter, ',', '\0'};
    int  width;

    width = printf("  %3s --%s%s%s", row->letter != '\0' ? short_name : "",
                   row->name, row->value != NULL ? " " : "",
                   row->value != NULL ? row->value : "");
    if (width > HELP_COLUMN - 2) {
        putchar('\n');
        width = 0;
    }
    printf("%*s", HELP_COLUMN - width, "");
    print_wrapped(row->help, HELP_COLUMN);
}

static void print_help(const program_t *program)
{
    const char *start = "usage:";
    const char *usage = program->usage;
    size_t      length;

    do {
        length = strcspn(usage, "\n");
        printf("%6s %s %.*s\n", start, program->name, (int)length, usage);
        start = "";
        usage += length;
    } while (*usage++ != '\0');
    putchar('\n');
    print_wrapped(program->purpose, 0);
    putchar('\n');
    for (unsigned i = 0; program->rows[i].name != NULL; i++) {
        print_row(&program->rows[i]);
    }
    putchar('\n');
    print_wrapped(program->notes, 0);
}

static void print_version(const program_t *program)
{
    printf("%s (libucxpool) %s\n", program->name, ucxpool_version_string());
    if (program->ucx_version != NULL) {
        printf("UCX %s\n", program->ucx_version());
    }
}

/* --- errors -------------------------------------------------------------- */

static int point_to_help(void)
{
    fprintf(stderr, "Try '%s --help'.\n", tool_name);
    return EXIT_USAGE;
}

int options_wrong(const char *format, ...)
{
    char    text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    tool_error("%s", text);
    return point_to_help();
}

static int report_wrong_value(const option_row_t *row, const char *value)
{
    char most[NUMBER_TEXT_SIZE];
    char name[64];

    if (row->letter != '\0') {
        snprintf(name, sizeof(name), "-%c", row->letter);
    } else {
        snprintf(name, sizeof(name), "--%s", row->name);
    }
    if (row->right != NULL) {
        return options_wrong("%s %s: %s", name, value, row->right);
    }
    if (row->type == OPTION_TYPE_SECONDS) {
        return options_wrong("%s %s: give seconds, such as 10 or 0.5", name,
                             value);
    }
    if (row->type == OPTION_TYPE_NUMBER) {
        return options_wrong("%s %s: give a number, 1 to %llu", name, value,
                             (unsigned long long)row->max);
    }
    number_print_size(row->max, most);
    return options_wrong("%s %s: give bytes, 1 to %s, such as 256, 4k, 64m",
                         name, value, most);
}

/* --- reading ------------------------------------------------------------- */

static int read_value(const option_row_t *row, void *options, char *value)
{
    void *target = (char *)options + row->offset;

    switch (row->type) {
    case OPTION_TYPE_FLAG:
        *(bool *)target = true;
        return 0;
    case OPTION_TYPE_TEXT:
        *(const char **)target = value;
        return 0;
    case OPTION_TYPE_NUMBER:
        return number_parse(value, row->max, target);
    case OPTION_TYPE_SIZE:
        return number_parse_size(value, row->max, target);
    case OPTION_TYPE_SECONDS:
        return number_parse_seconds(value, target);
    case OPTION_TYPE_CALL:
        break;
    }
    return row->read(options, value);
}

static void make_getopt(const option_row_t *rows, struct option *long_options,
                        char *letters)
{
    unsigned num = 0;

    for (; rows[num].name != NULL; num++) {
        int has = rows[num].value == NULL ? no_argument : required_argument;

        assert(num < MAX_ROWS);
        long_options[num] =
            (struct option){rows[num].name, has, NULL, FIRST_LONG + (int)num};
        if (rows[num].letter != '\0') {
            *letters++ = rows[num].letter;
            if (rows[num].value != NULL) {
                *letters++ = ':';
            }
        }
    }
    *letters          = '\0';
    long_options[num] = (struct option){NULL, 0, NULL, 0};
}

/* Returns the row of a result of getopt_long(), or NULL. */
static const option_row_t *find_row(const option_row_t *rows, int option)
{
    if (option >= FIRST_LONG) {
        return &rows[option - FIRST_LONG];
    }
    while ((rows->name != NULL) && (rows->letter != option)) {
        rows++;
    }
    return rows->name != NULL ? rows : NULL;
}

/*
 * Read the command line. Returns -1 if the tool is to run. Otherwise returns
 * the exit code, after printing --help, --version or an error.
 *
 * arguments_p [out]  The arguments that are not options; NULL after the last.
 */
static int options_read(const program_t *program, void *options, int argc,
                        char **argv, char ***arguments_p)
{
    struct option long_options[MAX_ROWS + 1];
    char          letters[2 * MAX_ROWS + 1];
    int           option;

    tool_name = program->name;
    make_getopt(program->rows, long_options, letters);
    while ((option = getopt_long(argc, argv, letters, long_options, NULL)) !=
           -1) {
        const option_row_t *row = find_row(program->rows, option);
        int                 code;

        if (row == NULL) {
            /* getopt_long() has already printed the reason. */
            return point_to_help();
        }
        if (row->letter == 'h') {
            print_help(program);
            return 0;
        }
        if (row->letter == 'V') {
            print_version(program);
            return 0;
        }
        code = read_value(row, options, optarg);
        if (code != 0) {
            return code < 0 ? report_wrong_value(row, optarg) : code;
        }
    }
    if ((unsigned)(argc - optind) > program->max_arguments) {
        return options_wrong("unexpected argument '%s'",
                             argv[optind + (int)program->max_arguments]);
    }
    *arguments_p = argv + optind;
    return -1;
}

/* --- the standard output -------------------------------------------------- */

/* Reserve the standard output for the tool, and redirect stdout to the standard
 * error. Returns NULL after printing an error. */
static FILE *output_take(void)
{
    int   fd     = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    FILE *stream = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (stream == NULL) {
        tool_error("cannot use standard output: %s", strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return NULL;
    }
    /* With SIGXFSZ ignored, write() fails at the file size limit. */
    signal(SIGXFSZ, SIG_IGN);
    /* If there is no standard error, no log is printed. */
    if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        close(STDOUT_FILENO);
    }
    return stream;
}

/* Close a stream at the end of the program. Returns `code` if everything was
 * written. Otherwise, for example if the disk is full, prints an error and
 * returns 1. The error names errno unless it is 0. */
static int output_end(FILE *stream, int code)
{
    bool is_bad = ferror(stream);

    if (((fclose(stream) == 0) && !is_bad) || (code != 0)) {
        return code;
    }
    tool_error("cannot write to standard output: %s",
               strerror(errno != 0 ? errno : EIO));
    return 1;
}

int program_main(const program_t *program, void *options, int argc, char **argv)
{
    char **arguments;
    FILE  *output;
    int    code = options_read(program, options, argc, argv, &arguments);

    if (code < 0) {
        code = program->check(options, arguments);
    }
    if (code >= 0) {
        return output_end(stdout, code);
    }
    output = output_take();
    if (output == NULL) {
        return 1;
    }
    code  = program->run(options, output);
    errno = 0;
    return output_end(output, code);
}
