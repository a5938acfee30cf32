/*
 * ucxpool_replay: plays a trace of allocations on the heap and on other
 * allocators.
 */
#include "common/error.h"
#include "common/number.h"
#include "common/program.h"
#include "replay/measure.h"
#include "replay/workload.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CAPACITY (UINT64_C(1) << 47)
#define MAX_DIVISOR  65536
#define MAX_KINDS    (2 + PLUGIN_MAX)

/* Percentage of the host's free memory that a trace may use. */
#define MEMORY_PERCENT 75

typedef struct run {
    /* Options. */
    const char *log;        /* the file; NULL: a workload */
    const char *workload;   /* NULL: a log */
    const char *allocators; /* their names; NULL: all of the device */
    const allocator_kind_t *kinds[MAX_KINDS]; /* that -a may name */
    unsigned                num_kinds;
    measure_t               measures[MAX_KINDS];
    unsigned                num_measures;
    plugin_t                plugins[PLUGIN_MAX];
    unsigned                num_plugins;
    int                     ordinal; /* DEVICE_HOST or a GPU */
    unsigned                divisor; /* sizes are divided by this */
    measure_params_t        params;
    bool                    csv;
    bool                    list;

    FILE    *output; /* the standard output */
    trace_t *trace;
    device_t device;
} run_t;

/* --- options ------------------------------------------------------------- */

static const allocator_kind_t *find_kind(const run_t *run, const char *name)
{
    for (unsigned i = 0; i < run->num_kinds; i++) {
        if (strcmp(run->kinds[i]->name, name) == 0) {
            return run->kinds[i];
        }
    }
    return NULL;
}

static int read_plugin(void *arg, const char *text)
{
    run_t    *run    = arg;
    plugin_t *plugin = &run->plugins[run->num_plugins];

    if (run->num_plugins == PLUGIN_MAX) {
        return options_wrong("-p %s: give at most %d plug-ins", text,
                             PLUGIN_MAX);
    }
    if ((plugin_name(plugin, text) != 0) ||
        (find_kind(run, plugin->name) != NULL)) {
        return -1;
    }
    run->num_plugins++;
    run->kinds[run->num_kinds++] = &plugin->kind;
    return 0;
}

static int read_device(void *arg, const char *text)
{
    run_t *run = arg;

    if (strcmp(text, "host") == 0) {
        run->ordinal = DEVICE_HOST;
        return 0;
    }
    return gpu_parse(text, &run->ordinal);
}

static int read_capacity(void *arg, const char *text)
{
    uint64_t *capacity = &((run_t *)arg)->params.capacity;

    if ((number_parse_size(text, MAX_CAPACITY, capacity) != 0) ||
        (*capacity < ALLOCATOR_UNIT)) {
        return -1;
    }
    *capacity = allocator_round_up(*capacity);
    return 0;
}

static int read_reserve(void *arg, const char *text)
{
    measure_params_t *params = &((run_t *)arg)->params;
    char              sign, extra;

    if ((sscanf(text, "%3u%c%c", &params->reserve_percent, &sign, &extra) ==
         2) &&
        (sign == '%')) {
        return (params->reserve_percent > 0) && (params->reserve_percent <= 100)
                   ? 0
                   : -1;
    }
    params->reserve_percent = 0;
    return number_parse_size(text, MAX_CAPACITY, &params->reserve_bytes);
}

static int read_scale(void *arg, const char *text)
{
    return strncmp(text, "1/", 2) == 0
               ? number_parse(text + 2, MAX_DIVISOR, &((run_t *)arg)->divisor)
               : -1;
}

static const option_row_t option_rows[] = {
    {"workload", 'w', "NAME",
     "run this workload instead of a log (--list prints all)",
     OPTION_TEXT(run_t, workload)},
    {"allocators", 'a', "LIST",
     "some of heap, async and plug-ins (default: all that the device "
     "supports)",
     OPTION_TEXT(run_t, allocators)},
    {"plugin", 'p', "[NAME=]FILE.so",
     "an allocator of your own, with the name plugin or NAME; repeat the "
     "option for more",
     OPTION_CALL(read_plugin, "give NAME=FILE.so; each name must be different "
                              "and have at most 15 letters, digits, - _ .")},
    {"device", 'd', "host|cuda[:N]", "memory of the host (default) or of GPU N",
     OPTION_CALL(read_device, "give host, cuda or cuda:N")},
    {"capacity", 'c', "SIZE",
     "memory limit of each allocator, such as 512m, 8g",
     OPTION_CALL(read_capacity, "give bytes, 2m or more, such as 512m or 8g")},
    {"reserve", 0, "SIZE",
     "memory that the heap reserves before the first run, in bytes or as N% of "
     "the free memory",
     OPTION_CALL(read_reserve,
                 "give bytes, such as 8g, or a percentage, such as 50%")},
    {"scale", 's', "1/N", "divide all sizes by N",
     OPTION_CALL(read_scale, "give 1/N, N from 1 to 64k")},
    {"rounds", 'r', "NUM",
     "replay NUM times, each timed as a whole (default: 3)",
     OPTION_NUMBER(run_t, params.num_rounds, MEASURE_MAX_ROUNDS)},
    {"csv", 0, NULL, "print CSV instead of text", OPTION_FLAG(run_t, csv)},
    {"list", 0, NULL, "print the workloads and allocators, and exit",
     OPTION_FLAG(run_t, list)},
    OPTION_LAST_ROWS,
};

/* Add an allocator to those that are measured. */
static void add_kind(run_t *run, const allocator_kind_t *kind)
{
    run->measures[run->num_measures++] = (measure_t){
        .device = &run->device, .params = &run->params, .kind = kind};
}

/* Parse the list of allocators. Returns 0, or -1 if the list is wrong. */
static int parse_allocators(run_t *run)
{
    char  list[256];
    char *rest = list;

    if (strlen(run->allocators) >= sizeof(list)) {
        return -1;
    }
    strcpy(list, run->allocators);
    while (rest != NULL) {
        const allocator_kind_t *kind = find_kind(run, strsep(&rest, ","));

        if (kind == NULL) {
            return -1;
        }
        for (unsigned i = 0; i < run->num_measures; i++) {
            if (run->measures[i].kind == kind) {
                return -1;
            }
        }
        add_kind(run, kind);
    }
    return 0;
}

/* Select all allocators that support the device. */
static void take_all(run_t *run)
{
    for (unsigned i = 0; i < run->num_kinds; i++) {
        if ((run->ordinal != DEVICE_HOST) || !run->kinds[i]->needs_gpu) {
            add_kind(run, run->kinds[i]);
        }
    }
}

/* Resolve the names of allocators once all options are known, because -a may
 * come before the plug-ins that it names. */
static int set_kinds(run_t *run)
{
    if (run->allocators == NULL) {
        take_all(run);
    } else if (parse_allocators(run) != 0) {
        return options_wrong("-a %s: give some of heap,async and the "
                             "names of plug-ins, each once",
                             run->allocators);
    }
    for (unsigned i = 0; i < run->num_measures; i++) {
        if ((run->ordinal == DEVICE_HOST) && run->measures[i].kind->needs_gpu) {
            return options_wrong("-a %s: this allocator has only GPU memory: "
                                 "give --device cuda",
                                 run->measures[i].kind->name);
        }
    }
    for (unsigned i = 0; i < run->num_plugins; i++) {
        if (plugin_load(&run->plugins[i]) != 0) {
            return 1;
        }
    }
    return -1;
}

static void print_list(const run_t *run)
{
    printf("Workloads:\n");
    workload_list(stdout);
    printf("\nAllocators:\n");
    for (unsigned i = 0; i < run->num_kinds; i++) {
        printf("  %-10s %s\n", run->kinds[i]->name, run->kinds[i]->doc);
    }
}

static int check(void *arg, char **arguments)
{
    run_t *run = arg;

    if (run->list) {
        print_list(run);
        return 0;
    }
    run->log = arguments[0];
    if ((run->log == NULL) == (run->workload == NULL)) {
        return options_wrong(run->log == NULL
                                 ? "give a log, or a workload with -w"
                                 : "give a log or a workload, not both");
    }
    return set_kinds(run);
}

/* --- the work ------------------------------------------------------------- */

/* Returns -1 to continue, or the exit code. */
static int load(run_t *run)
{
    run->trace = run->workload != NULL ? workload_make(run->workload)
                                       : log_read(run->log);
    if (run->trace == NULL) {
        return run->workload != NULL ? 2 : 1;
    }
    if (run->divisor != 1) {
        trace_scale(run->trace, run->divisor);
        trace_survey(run->trace);
    }
    if (run->params.capacity == 0) {
        run->params.capacity = allocator_round_up(run->trace->capacity);
    }
    return -1;
}

/* Check that the host has enough memory, because the trace takes memory from
 * other programs. */
static int check_memory(run_t *run)
{
    char     needed[NUMBER_TEXT_SIZE], left[NUMBER_TEXT_SIZE];
    uint64_t bytes;

    if (run->ordinal != DEVICE_HOST) {
        return 0;
    }
    if (device_free_bytes(&run->device, &bytes) != 0) {
        return -1;
    }
    if (run->trace->peak_live > bytes / 100 * MEMORY_PERCENT) {
        return tool_error("%s needs %s at its peak, but %s of memory are "
                          "available: divide its sizes with --scale",
                          run->trace->name,
                          number_print_bytes(run->trace->peak_live, needed),
                          number_print_bytes(bytes, left));
    }
    return 0;
}

static int measure_all(run_t *run)
{
    if (check_memory(run) != 0) {
        return -1;
    }
    for (unsigned i = 0; i < run->num_measures; i++) {
        run->measures[i].trace = run->trace;
    }
    if (!run->csv) {
        report_trace(run->measures, run->output);
        fflush(run->output);
    }
    for (unsigned i = 0; i < run->num_measures; i++) {
        if (measure_run(&run->measures[i]) != 0) {
            return -1;
        }
    }
    (run->csv ? report_csv : report_table)(run->measures, run->num_measures,
                                           run->output);
    return 0;
}

static int work(run_t *run)
{
    int code;

    if (device_open(&run->device, run->ordinal, run->trace) != 0) {
        return -1;
    }
    code = measure_all(run);
    device_close(&run->device);
    return code;
}

static int run_all(void *arg, FILE *output)
{
    run_t *run = arg;
    int    code;

    run->output = output;
    code        = load(run);
    if (code < 0) {
        code = work(run) != 0;
    }
    trace_destroy(run->trace);
    return code;
}

static const program_t program = {
    .name  = "ucxpool_replay",
    .usage = "[options] LOG.csv\n[options] -w WORKLOAD",
    .purpose =
        "Replay a log of allocations, as RMM and UCXPOOL_HEAP_LOG write it, or "
        "a workload, on the pool's heap and on other allocators. Show how long "
        "calls take and how much memory each allocator holds.",
    .rows  = option_rows,
    .notes = "If LOG.csv is -, the log is read from standard input. UCXPOOL_ "
             "variables apply to the heap. Exit status: 0 done, 1 an error, 2 "
             "wrong usage. Failed allocations are results, not errors.",
    .max_arguments = 1,
    .check         = check,
    .run           = run_all,
};

int main(int argc, char **argv)
{
    run_t *run = tool_calloc(1, sizeof(*run));
    int    code;

    run->kinds[0]          = &allocator_heap;
    run->kinds[1]          = &allocator_async;
    run->num_kinds         = 2;
    run->ordinal           = DEVICE_HOST;
    run->divisor           = 1;
    run->params.num_rounds = 3;
    code                   = program_main(&program, run, argc, argv);
    free(run);
    return code;
}
