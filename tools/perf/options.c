#include <config.h>

#include "perf/options.h"
#include "common/number.h"
#include "perf/devices.h"
#include "perf/error.h"

#include <ucxpool/version.h>

#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

enum {
    OPTION_WIRE = 256,
    OPTION_TABLE,
    OPTION_SIDES,
    OPTION_CPUS,
    OPTION_JSON,
    OPTION_CSV,
    OPTION_PLOT,
    OPTION_LIST,
    OPTION_DEVICE,
    OPTION_PAGEABLE,
    OPTION_UNTOLD
};

static const char short_options[] = "t:s:n:O:r:T:l:qhV";

static const struct option long_options[] = {
    {"test", required_argument, NULL, 't'},
    {"table", required_argument, NULL, OPTION_TABLE},
    {"size", required_argument, NULL, 's'},
    {"count", required_argument, NULL, 'n'},
    {"outstanding", required_argument, NULL, 'O'},
    {"rounds", required_argument, NULL, 'r'},
    {"time", required_argument, NULL, 'T'},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"pageable", required_argument, NULL, OPTION_PAGEABLE},
    {"untold", no_argument, NULL, OPTION_UNTOLD},
    {"wire", required_argument, NULL, OPTION_WIRE},
    {"sides", required_argument, NULL, OPTION_SIDES},
    {"cpus", required_argument, NULL, OPTION_CPUS},
    {"json", optional_argument, NULL, OPTION_JSON},
    {"csv", optional_argument, NULL, OPTION_CSV},
    {"plot", required_argument, NULL, OPTION_PLOT},
    {"list", no_argument, NULL, OPTION_LIST},
    {"listen", required_argument, NULL, 'l'},
    {"quiet", no_argument, NULL, 'q'},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static const char help[] =
    "usage: ucxpool_perf [-t TEST] [-s SIZE] [-n COUNT] [options]\n"
    "       ucxpool_perf --table map|ucx|both|cuda|cuda-ucx|all [options]\n"
    "       ucxpool_perf -l PORT               on one host, and on the other\n"
    "       ucxpool_perf [options] HOST:PORT\n"
    "\n"
    "Do the same transfer through the pool and through raw UCX, in turn, and\n"
    "tell how fast each is.\n"
    "\n"
    "  -t, --test TEST       what to do (--list tells; default: each); given\n"
    "                        several times: these in turn; all: every table\n"
    "      --table TABLE     make a table of the project's targets: map, ucx,\n"
    "                        both; cuda, cuda-ucx with a GPU's memory; or all\n"
    "  -s, --size SIZE       bytes of a buffer, as 256, 4k, 64m\n"
    "  -n, --count COUNT     buffers of a message\n"
    "  -O, --outstanding NUM messages in flight (default: 2)\n"
    "  -r, --rounds NUM      rounds at most (default: 40)\n"
    "  -T, --time SECONDS    begin no round after that (default: 10)\n"
    "      --device cuda[:N[,M]]\n"
    "                        buffers in the memory of GPU N (default: 0) for\n"
    "                        both processes, or N at the sender, M at the\n"
    "                        receiver\n"
    "      --pageable SIDE   with --device: send, recv or both: there buffers "
    "lie\n"
    "                        in host memory that no GPU reaches\n"
    "      --untold          with --device: the pool has to find out what\n"
    "                        memory the buffers are\n"
    "      --wire WIRE       the pool's wire: auto, map, ucx (default: auto)\n"
    "      --sides LIST      sides to compare, as am-each/peer,iov/none; the\n"
    "                        first one is what the others are compared with\n"
    "                        where it is the pool\n"
    "      --cpus A,B        pin the sender to processor A, the receiver to B\n"
    "      --json[=FILE], --csv[=FILE]\n"
    "                        for programs: to a file, or instead of the text\n"
    "      --plot FILE.svg   draw the rates (or .png; needs gnuplot)\n"
    "      --list            print tests, sides and tables, and end\n"
    "  -l, --listen [HOST:]PORT\n"
    "                        serve one run from another process; from another\n"
    "                        host where both know a secret\n"
    "                        (UCXPOOL_SECRET_FILE)\n"
    "  -q, --quiet           no progress on stderr\n"
    "  -h, --help            print this, and end\n"
    "  -V, --version         print versions, and end\n"
    "\n"
    "UCX_ and UCXPOOL_ variables apply to both processes. Exit code: 0 done,\n"
    "1 failed, 2 wrong usage. Targets that were missed are no failure.\n";

static int wrong(const char *option, const char *value, const char *right)
{
    perf_error("%s %s: %s", option, value, right);
    return 2;
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

static int parse_wire(const char *text, uint32_t *mode_p)
{
    for (uint32_t mode = MODE_AUTO; mode < MODE_LAST; mode++) {
        if (strcmp(side_mode_name(mode), text) == 0) {
            *mode_p = mode;
            return 0;
        }
    }
    return -1;
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

static int add_test(options_t *options, const char *name)
{
    if (strcmp(name, "all") == 0) {
        options->table = "all";
        return 0;
    }
    if (test_find(name) == NULL) {
        return wrong("-t", name, "no such test; --list names them");
    }
    if (options->num_tests == OPTIONS_MAX_TESTS) {
        return wrong("-t", name, "32 tests at most");
    }
    options->tests[options->num_tests++] = name;
    return 0;
}

static int set_table(options_t *options, const char *name)
{
    static const char *const names[] = {"map",  "ucx",      "both",
                                        "cuda", "cuda-ucx", "all"};

    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(names[i], name) == 0) {
            options->table = names[i];
            return 0;
        }
    }
    return wrong("--table", name, "give map, ucx, both, cuda, cuda-ucx or all");
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
        return number_parse_size(value, WORK_MAX_BYTES, &options->size) == 0
                   ? 0
                   : wrong("-s", value,
                           "give bytes, 1 to 64g, as 256, 4k, 64m");
    case 'n':
        return number_parse_size(value, WORK_MAX_BUFFERS, &options->count) == 0
                   ? 0
                   : wrong("-n", value, "give a number, 1 to 16m");
    case 'O':
        return number_parse(value, WORK_MAX_OUTSTANDING,
                            &options->outstanding) == 0
                   ? 0
                   : wrong("-O", value, "give a number, 1 to 64");
    case 'r':
        return number_parse(value, 1000000, &options->rounds) == 0
                   ? 0
                   : wrong("-r", value, "give a number, 1 to 1000000");
    case 'T':
        return number_parse_seconds(value, &options->seconds) == 0
                   ? 0
                   : wrong("-T", value, "give seconds, as 10 or 0.5");
    default:
        return 2;
    }
}

static int set_sides(options_t *options, int option, const char *value)
{
    switch (option) {
    case OPTION_WIRE:
        return parse_wire(value, &options->pool_mode) == 0
                   ? 0
                   : wrong("--wire", value, "give auto, map or ucx");
    case OPTION_SIDES:
        return parse_sides(value, options) == 0
                   ? 0
                   : wrong("--sides", value,
                           "give names from --list, with commas between");
    case OPTION_DEVICE:
        return devices_parse(value, options->devices) == 0
                   ? 0
                   : wrong("--device", value,
                           "give cuda, cuda:N for a GPU that both processes "
                           "use, or cuda:N,M for one each");
    case OPTION_PAGEABLE:
        return devices_parse_pageable(value, &options->pageable) == 0
                   ? 0
                   : wrong("--pageable", value, "give send, recv or both");
    case OPTION_UNTOLD:
        options->untold = true;
        return 0;
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
        code = add_test(options, value);
        break;
    case OPTION_TABLE:
        code = set_table(options, value);
        break;
    case OPTION_JSON:
        options->files[FILE_JSON].path = value;
        options->format = value == NULL ? FORMAT_JSON : options->format;
        break;
    case OPTION_CSV:
        options->files[FILE_CSV].path = value;
        options->format = value == NULL ? FORMAT_CSV : options->format;
        break;
    case OPTION_PLOT:
        options->files[FILE_PLOT].path = value;
        break;
    case OPTION_LIST:
        options->list = true;
        break;
    case 'l':
        options->listen = value;
        break;
    case 'q':
        options->quiet = true;
        break;
    case 'h':
        fputs(help, stdout);
        return 0;
    case 'V':
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

/* Is it a table of buffers in a GPU's memory? */
static bool table_is_on_gpu(const options_t *options)
{
    return strcmp(options->table, "all") == 0
               ? options->devices[0] != WORK_HOST
               : test_table_is_on_gpu(options->table);
}

static int check_table(const options_t *options)
{
    bool is_on_gpu = table_is_on_gpu(options);

    if ((options->num_tests != 0) || (options->num_sides != 0) ||
        (options->pool_mode != MODE_AUTO) || (options->pageable != 0) ||
        options->untold ||
        (!is_on_gpu && ((options->size != 0) || (options->count != 0)))) {
        perf_error(
            "a table has tests, sizes, sides and wires of its own: "
            "leave out -t, --sides, --wire, --pageable, --untold, and -s "
            "and -n where it is not about a GPU's memory");
        return 2;
    }
    if (!is_on_gpu && (options->devices[0] != WORK_HOST)) {
        perf_error("--table %s is about host memory: leave out --device",
                   options->table);
        return 2;
    }
    return -1;
}

/* A block's get and put moves nothing. */
static int check_block(const options_t *options)
{
    bool has_block = false;

    for (unsigned i = 0; i < options->num_tests; i++) {
        has_block |= test_find(options->tests[i])->unit == TEST_UNIT_BLOCK;
    }
    if (!has_block) {
        return -1;
    }
    if ((options->num_sides != 0) || (options->pool_mode != MODE_AUTO) ||
        (options->size != 0) || (options->count != 0) ||
        (options->pageable != 0) || options->untold) {
        perf_error("block sends nothing: leave out -s, -n, --sides, --wire, "
                   "--pageable and --untold");
        return 2;
    }
    return -1;
}

static int check(options_t *options)
{
    if ((options->listen != NULL) && (options->connect != NULL)) {
        perf_error("give -l PORT on one host and HOST:PORT on the other");
        return 2;
    }
    if ((options->num_sides != 0) && (options->pool_mode != MODE_AUTO)) {
        perf_error("--sides names the pool's wires, as in pool/ucx: leave out "
                   "--wire");
        return 2;
    }
    if ((options->pageable != 0) && (options->devices[0] == WORK_HOST)) {
        perf_error("--pageable is about pools on a GPU: give --device");
        return 2;
    }
    if (options->untold && (options->devices[0] == WORK_HOST)) {
        perf_error("--untold is about pools on a GPU: give --device");
        return 2;
    }
    if (options->table == NULL) {
        return check_block(options);
    }
    if (check_table(options) >= 0) {
        return 2;
    }
    if (table_is_on_gpu(options) && (options->devices[0] == WORK_HOST)) {
        options->devices[0] = 0;
        options->devices[1] = 0;
    }
    return -1;
}

static void set_defaults(options_t *options)
{
    static const result_file_t files[FILE_LAST] = {
        [FILE_JSON] = {.option = "--json", .suffixes = ".json"},
        [FILE_CSV]  = {.option = "--csv", .suffixes = ".csv"},
        [FILE_PLOT] = {.option = "--plot", .suffixes = ".svg or .png"},
    };

    memset(options, 0, sizeof(*options));
    memcpy(options->files, files, sizeof(files));
    options->outstanding = 2;
    options->rounds      = 40;
    options->seconds     = 10;
    options->pool_mode   = MODE_AUTO;
    options->devices[0]  = WORK_HOST;
    options->devices[1]  = WORK_HOST;
    options->cpus[0]     = -1;
    options->cpus[1]     = -1;
}

int options_parse(options_t *options, int argc, char **argv)
{
    int option;
    int code;

    set_defaults(options);
    while ((option = getopt_long(argc, argv, short_options, long_options,
                                 NULL)) != -1) {
        code = set_option(options, option, optarg);
        if (code >= 0) {
            return code;
        }
    }
    if (optind < argc) {
        options->connect = argv[optind++];
    }
    if (optind < argc) {
        perf_error("%s: one argument at most (HOST:PORT); --help tells more",
                   argv[optind]);
        return 2;
    }
    return check(options);
}
