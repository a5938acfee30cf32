#include <config.h>

#include "perf/options.h"
#include "perf/error.h"

#include <ucxpool/version.h>

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

enum {
    OPTION_SIDES = 256,
    OPTION_CPUS,
    OPTION_JSON,
    OPTION_CSV,
    OPTION_PLOT,
    OPTION_LIST,
    OPTION_VERSION
};

static const char short_options[] = "t:s:n:O:r:T:qh";

static const struct option long_options[] = {
    {"test", required_argument, NULL, 't'},
    {"size", required_argument, NULL, 's'},
    {"count", required_argument, NULL, 'n'},
    {"outstanding", required_argument, NULL, 'O'},
    {"rounds", required_argument, NULL, 'r'},
    {"time", required_argument, NULL, 'T'},
    {"sides", required_argument, NULL, OPTION_SIDES},
    {"cpus", required_argument, NULL, OPTION_CPUS},
    {"json", no_argument, NULL, OPTION_JSON},
    {"csv", no_argument, NULL, OPTION_CSV},
    {"plot", required_argument, NULL, OPTION_PLOT},
    {"list", no_argument, NULL, OPTION_LIST},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, OPTION_VERSION},
    {NULL, 0, NULL, 0},
};

static const char help[] =
    "usage: ucxpool_perf [-t TEST] [-s SIZE] [-n COUNT] [options]\n"
    "Do the same transfer in several ways of raw UCX, in turn, and tell how\n"
    "fast each is.\n"
    "\n"
    "  -t, --test TEST       what to do (--list tells; default: each)\n"
    "  -s, --size SIZE       bytes of a buffer, as 256, 4k, 64m\n"
    "  -n, --count COUNT     buffers of a message\n"
    "  -O, --outstanding NUM messages in flight (default: 2)\n"
    "  -r, --rounds NUM      rounds at most (default: 40)\n"
    "  -T, --time SECONDS    begin no round after that (default: 10)\n"
    "      --sides LIST      sides to compare, as am-each/peer,iov/none\n"
    "      --cpus A,B        pin the sender to processor A, the receiver to B\n"
    "      --json, --csv     print for programs\n"
    "      --plot FILE.svg   draw the rates (needs gnuplot)\n"
    "      --list            print tests, sides and tables, and end\n"
    "  -q, --quiet           no progress on stderr\n"
    "  -h, --help            print this, and end\n"
    "      --version         print versions, and end\n"
    "\n"
    "UCX_ variables apply to both processes. Exit code: 0 done, 1 failed,\n"
    "2 wrong usage.\n";

static int wrong(const char *option, const char *value, const char *right)
{
    perf_error("%s %s: %s", option, value, right);
    return 2;
}

/* A number with a suffix k, m or g. */
static int parse_size(const char *text, uint64_t max, uint64_t *size_p)
{
    static const char suffixes[] = "kmg";
    const char       *suffix;
    char             *end;
    uint64_t          size;
    unsigned          shift = 0;

    errno = 0;
    size  = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || (errno != 0)) {
        return -1;
    }
    if (*end != '\0') {
        suffix = strchr(suffixes, tolower((unsigned char)*end));
        if ((suffix == NULL) || (end[1] != '\0')) {
            return -1;
        }
        shift = 10 * (unsigned)(suffix - suffixes + 1);
    }
    if ((size == 0) || (size > max >> shift)) {
        return -1;
    }
    *size_p = size << shift;
    return 0;
}

static int parse_seconds(const char *text, double *seconds_p)
{
    char *end;

    *seconds_p = strtod(text, &end);
    if ((end == text) || (*end != '\0') || !(*seconds_p > 0) ||
        (*seconds_p > 1e6)) {
        return -1;
    }
    return 0;
}

static int parse_cpus(const char *text, int cpus[2])
{
    char extra;

    if ((sscanf(text, "%d,%d%c", &cpus[0], &cpus[1], &extra) != 2) ||
        (cpus[0] < 0) || (cpus[1] < 0) || (cpus[0] >= CPU_SETSIZE) ||
        (cpus[1] >= CPU_SETSIZE)) {
        return -1;
    }
    return 0;
}

static int parse_sides(const char *text, options_t *options)
{
    char  list[1024];
    char *rest;

    if (strlen(text) >= sizeof(list)) {
        return -1;
    }
    strcpy(list, text);
    options->num_sides = 0;
    for (char *name = strtok_r(list, ",", &rest); name != NULL;
         name       = strtok_r(NULL, ",", &rest)) {
        if ((options->num_sides == JOB_MAX_SIDES) ||
            (side_parse(name, &options->sides[options->num_sides++]) != 0)) {
            return -1;
        }
    }
    return options->num_sides == 0 ? -1 : 0;
}

static int parse_number(const char *text, uint64_t max, unsigned *number_p)
{
    uint64_t number;

    if (parse_size(text, max, &number) != 0) {
        return -1;
    }
    *number_p = (unsigned)number;
    return 0;
}

static int set_test(options_t *options, const char *name)
{
    if (test_find(name) == NULL) {
        return wrong("-t", name, "no such test; --list names them");
    }
    options->test = name;
    return 0;
}

static void print_version(void)
{
    printf("ucxpool_perf (libucxpool) %s\nUCX %s\n", ucxpool_version_string(),
           ucp_get_version_string());
}

/* What the work is and how long it is done. */
static int set_work(options_t *options, int option, const char *value)
{
    switch (option) {
    case 's':
        return parse_size(value, WORK_MAX_BYTES, &options->size) == 0
                   ? 0
                   : wrong("-s", value,
                           "give bytes, 1 to 64g, as 256, 4k, 64m");
    case 'n':
        return parse_size(value, WORK_MAX_BUFFERS, &options->count) == 0
                   ? 0
                   : wrong("-n", value, "give a number, 1 to 16m");
    case 'O':
        return parse_number(value, WORK_MAX_OUTSTANDING,
                            &options->outstanding) == 0
                   ? 0
                   : wrong("-O", value, "give a number, 1 to 64");
    case 'r':
        return parse_number(value, 1000000, &options->rounds) == 0
                   ? 0
                   : wrong("-r", value, "give a number, 1 to 1000000");
    case 'T':
        return parse_seconds(value, &options->seconds) == 0
                   ? 0
                   : wrong("-T", value, "give seconds, as 10 or 0.5");
    default:
        return 2;
    }
}

static int set_sides(options_t *options, int option, const char *value)
{
    switch (option) {
    case OPTION_SIDES:
        return parse_sides(value, options) == 0
                   ? 0
                   : wrong("--sides", value,
                           "give names from --list, with commas between");
    case OPTION_CPUS:
        return parse_cpus(value, options->cpus) == 0
                   ? 0
                   : wrong("--cpus", value, "give two numbers, as 0,1");
    default:
        return set_work(options, option, value);
    }
}

/* Returns as options_parse() does. */
static int set_option(options_t *options, int option, const char *value)
{
    int code = 0;

    switch (option) {
    case 't':
        code = set_test(options, value);
        break;
    case OPTION_JSON:
        options->format = FORMAT_JSON;
        break;
    case OPTION_CSV:
        options->format = FORMAT_CSV;
        break;
    case OPTION_PLOT:
        options->plot = value;
        break;
    case OPTION_LIST:
        options->list = true;
        break;
    case 'q':
        options->quiet = true;
        break;
    case 'h':
        fputs(help, stdout);
        return 0;
    case OPTION_VERSION:
        print_version();
        return 0;
    case '?':
        fputs("ucxpool_perf: --help tells how to use it\n", stderr);
        return 2;
    default:
        code = set_sides(options, option, value);
    }
    return code == 0 ? -1 : code;
}

int options_parse(options_t *options, int argc, char **argv)
{
    int option;
    int code;

    memset(options, 0, sizeof(*options));
    options->outstanding = 2;
    options->rounds      = 40;
    options->seconds     = 10;
    options->pool_mode   = MODE_AUTO;
    options->cpus[0]     = -1;
    options->cpus[1]     = -1;
    while ((option = getopt_long(argc, argv, short_options, long_options,
                                 NULL)) != -1) {
        code = set_option(options, option, optarg);
        if (code >= 0) {
            return code;
        }
    }
    if (optind < argc) {
        perf_error("%s: there are no arguments but options; --help tells more",
                   argv[optind]);
        return 2;
    }
    return -1;
}

static void print_test(const test_t *test)
{
    char   name[SIDE_NAME_SIZE];
    side_t side;

    printf("  %-10s %s\n             -s %llu -n %llu; sides: ", test->name,
           test->title, (unsigned long long)test->size,
           (unsigned long long)test->count);
    for (unsigned i = 0; test->raw_ways[i] != WAY_LAST; i++) {
        for (side.mode = MODE_PEER; side.mode <= MODE_NONE; side.mode++) {
            side.way = test->raw_ways[i];
            printf(" %s", side_name(side, name));
        }
    }
    printf("\n");
}

void options_print_list(void)
{
    const test_t *test;

    printf("tests (-t), with their defaults:\n\n");
    for (unsigned i = 0; (test = test_at(i)) != NULL; i++) {
        print_test(test);
    }
    printf("\nsides (--sides): WAY/MODE\n\n"
           "  am-each, am, am-memh, tag, tag-memh, iov   raw UCX: /peer with "
           "failure handling,\n"
           "                                             "
           "/none without\n");
}
