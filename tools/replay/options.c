#include <config.h>

#include "replay/options.h"
#include "common/number.h"
#include "replay/error.h"
#include "replay/help.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CAPACITY (UINT64_C(1) << 47)
#define MAX_DIVISOR  65536

enum {
    OPTION_STEP = 256,
    OPTION_RESERVE,
    OPTION_MARK,
    OPTION_WRITE,
    OPTION_JSON,
    OPTION_CSV,
    OPTION_PICTURE,
    OPTION_LIST
};

static const char short_options[] = "w:a:p:d:c:ms:r:thV";

static const struct option long_options[] = {
    {"workload", required_argument, NULL, 'w'},
    {"allocators", required_argument, NULL, 'a'},
    {"plugin", required_argument, NULL, 'p'},
    {"device", required_argument, NULL, 'd'},
    {"capacity", required_argument, NULL, 'c'},
    {"min-capacity", no_argument, NULL, 'm'},
    {"step", required_argument, NULL, OPTION_STEP},
    {"reserve", required_argument, NULL, OPTION_RESERVE},
    {"scale", required_argument, NULL, 's'},
    {"rounds", required_argument, NULL, 'r'},
    {"threads", no_argument, NULL, 't'},
    {"mark", no_argument, NULL, OPTION_MARK},
    {"write", required_argument, NULL, OPTION_WRITE},
    {"json", optional_argument, NULL, OPTION_JSON},
    {"csv", optional_argument, NULL, OPTION_CSV},
    {"picture", required_argument, NULL, OPTION_PICTURE},
    {"list", no_argument, NULL, OPTION_LIST},
    {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'V'},
    {NULL, 0, NULL, 0},
};

static int wrong(const char *option, const char *value, const char *right)
{
    replay_error("%s %s: %s", option, value, right);
    return 2;
}

static const allocator_kind_t *find_kind(const options_t *options,
                                         const char      *name)
{
    for (unsigned i = 0; i < options->num_plugins; i++) {
        if (strcmp(options->plugins[i].name, name) == 0) {
            return &options->plugins[i].kind;
        }
    }
    return allocator_find(name);
}

static int add_plugin(options_t *options, const char *text)
{
    plugin_t *plugin = &options->plugins[options->num_plugins];

    if (options->num_plugins == PLUGIN_MAX) {
        replay_error("-p %s: %d plug-ins at most", text, PLUGIN_MAX);
        return 2;
    }
    if ((plugin_name(plugin, text) != 0) ||
        (find_kind(options, plugin->name) != NULL)) {
        return wrong("-p", text,
                     "give NAME=FILE.so, with a name of its own: at most 15 "
                     "letters, digits, - _ .");
    }
    options->num_plugins++;
    return 0;
}

static int parse_allocators(const char *text, options_t *options)
{
    char  list[256];
    char *rest = list;

    if (strlen(text) >= sizeof(list)) {
        return -1;
    }
    strcpy(list, text);
    options->num_kinds = 0;
    while (rest != NULL) {
        const allocator_kind_t *kind = find_kind(options, strsep(&rest, ","));

        if (kind == NULL) {
            return -1;
        }
        for (unsigned i = 0; i < options->num_kinds; i++) {
            if (options->kinds[i] == kind) {
                return -1;
            }
        }
        options->kinds[options->num_kinds++] = kind;
    }
    return 0;
}

static int parse_device(const char *text, int *ordinal_p)
{
    char extra;

    if (strcmp(text, "host") == 0) {
        *ordinal_p = DEVICE_HOST;
        return 0;
    }
    *ordinal_p = 0;
    if (strcmp(text, "cuda") == 0) {
        return 0;
    }
    return (sscanf(text, "cuda:%d%c", ordinal_p, &extra) == 1) &&
                   (*ordinal_p >= 0)
               ? 0
               : -1;
}

static int parse_scale(const char *text, unsigned *divisor_p)
{
    return strncmp(text, "1/", 2) == 0
               ? number_parse(text + 2, MAX_DIVISOR, divisor_p)
               : -1;
}

static int set_capacity(options_t *options, const char *value)
{
    uint64_t *capacity = &options->params.capacity;

    if ((number_parse_size(value, MAX_CAPACITY, capacity) != 0) ||
        (*capacity < ALLOCATOR_UNIT)) {
        return wrong("-c", value, "give bytes, 2m or more, as 512m or 8g");
    }
    *capacity =
        (*capacity + ALLOCATOR_UNIT - 1) / ALLOCATOR_UNIT * ALLOCATOR_UNIT;
    return 0;
}

/* How it is measured. */
static int set_measure(options_t *options, int option, const char *value)
{
    measure_params_t *params = &options->params;

    switch (option) {
    case OPTION_STEP:
        return (number_parse_seconds(value, &params->percent) == 0) &&
                       (params->percent >= 0.01) && (params->percent <= 100)
                   ? 0
                   : wrong("--step", value, "give percent, 0.01 to 100");
    case OPTION_RESERVE:
        return reserve_parse(value, &params->reserve) == 0
                   ? 0
                   : wrong("--reserve", value, "give bytes, as 8g, or 50%");
    case 's':
        return parse_scale(value, &options->divisor) == 0
                   ? 0
                   : wrong("-s", value, "give 1/N, N from 1 to 64k");
    case 'r':
        return number_parse(value, MEASURE_MAX_ROUNDS, &params->num_rounds) == 0
                   ? 0
                   : wrong("-r", value, "give a number, 1 to 1000");
    case 'm':
        params->is_searched = true;
        return 0;
    case 't':
        params->has_threads = true;
        return 0;
    case OPTION_MARK:
        params->is_marked = true;
        return 0;
    default:
        return 2;
    }
}

/* What comes out. */
static int set_output(options_t *options, int option, const char *value)
{
    switch (option) {
    case OPTION_WRITE:
        options->writes_log           = true;
        options->files[FILE_LOG].path = strcmp(value, "-") != 0 ? value : NULL;
        return 0;
    case OPTION_JSON:
        options->files[FILE_JSON].path = value;
        options->format = value == NULL ? FORMAT_JSON : options->format;
        return 0;
    case OPTION_CSV:
        options->files[FILE_CSV].path = value;
        options->format = value == NULL ? FORMAT_CSV : options->format;
        return 0;
    case OPTION_PICTURE:
        options->files[FILE_PICTURE].path = value;
        return 0;
    default:
        return set_measure(options, option, value);
    }
}

/* Returns as options_parse() does. */
static int set_option(options_t *options, int option, const char *value)
{
    int code = 0;

    switch (option) {
    case 'w':
        options->workload = value;
        break;
    case 'a':
        options->allocators = value;
        break;
    case 'p':
        code = add_plugin(options, value);
        break;
    case 'd':
        code = parse_device(value, &options->ordinal) == 0
                   ? 0
                   : wrong("-d", value, "give host, cuda or cuda:N");
        break;
    case 'c':
        code = set_capacity(options, value);
        break;
    case OPTION_LIST:
        options->list = true;
        break;
    case 'h':
        help_print();
        return 0;
    case 'V':
        help_print_version();
        return 0;
    case '?':
        fputs("ucxpool_replay: --help tells how to use it\n", stderr);
        return 2;
    default:
        code = set_output(options, option, value);
    }
    return code == 0 ? -1 : code;
}

static int check_source(const options_t *options)
{
    if ((options->log == NULL) == (options->workload == NULL)) {
        replay_error(options->log == NULL
                         ? "give a log, or a workload with -w; --help tells "
                           "more"
                         : "give a log or a workload, not both");
        return 2;
    }
    return -1;
}

/* What --write asks for is all that is done. */
static int check_log(const options_t *options)
{
    if (options->writes_log && ((options->format != FORMAT_TEXT) ||
                                (options->files[FILE_JSON].path != NULL) ||
                                (options->files[FILE_CSV].path != NULL) ||
                                (options->files[FILE_PICTURE].path != NULL))) {
        replay_error("--write plays nothing: leave out --json, --csv and "
                     "--picture");
        return 2;
    }
    return -1;
}

/* What the device can have, and plug-ins. */
static void take_all(options_t *options)
{
    bool is_host = options->ordinal == DEVICE_HOST;

    for (unsigned i = 0; i < ALLOCATOR_NUM_KINDS; i++) {
        if (!is_host || !allocator_kinds[i]->needs_gpu) {
            options->kinds[options->num_kinds++] = allocator_kinds[i];
        }
    }
    for (unsigned i = 0; i < options->num_plugins; i++) {
        options->kinds[options->num_kinds++] = &options->plugins[i].kind;
    }
}

/* Once all options are known: -a may come before the plug-ins it names. */
static int set_kinds(options_t *options)
{
    bool is_host = options->ordinal == DEVICE_HOST;

    if (options->allocators == NULL) {
        take_all(options);
    } else if (parse_allocators(options->allocators, options) != 0) {
        return wrong("-a", options->allocators,
                     "give some of heap,cuda,async,bestfit and the names of "
                     "plug-ins, each once");
    }
    for (unsigned i = 0; i < options->num_kinds; i++) {
        if (is_host && options->kinds[i]->needs_gpu) {
            replay_error("-a %s: its memory is a GPU's: give --device cuda",
                         options->kinds[i]->name);
            return 2;
        }
    }
    return -1;
}

static int load_plugins(options_t *options)
{
    for (unsigned i = 0; i < options->num_plugins; i++) {
        if (plugin_load(&options->plugins[i]) != 0) {
            return 1;
        }
    }
    return -1;
}

static void set_defaults(options_t *options)
{
    static const result_file_t files[FILE_LAST] = {
        [FILE_LOG]     = {.option = "--write", .suffixes = ".csv"},
        [FILE_JSON]    = {.option = "--json", .suffixes = ".json"},
        [FILE_CSV]     = {.option = "--csv", .suffixes = ".csv"},
        [FILE_PICTURE] = {.option = "--picture", .suffixes = ".svg or .png"},
    };

    memset(options, 0, sizeof(*options));
    memcpy(options->files, files, sizeof(files));
    options->ordinal           = DEVICE_HOST;
    options->divisor           = 1;
    options->params.num_rounds = 3;
    options->params.percent    = 1;
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
        options->log = argv[optind++];
    }
    if (optind < argc) {
        replay_error("%s: one log at a time; --help tells more", argv[optind]);
        return 2;
    }
    if (options->list) {
        return -1;
    }
    code = check_source(options);
    if (code < 0) {
        code = check_log(options);
    }
    if (code < 0) {
        code = set_kinds(options);
    }
    return code < 0 ? load_plugins(options) : code;
}
