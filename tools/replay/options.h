/*
 * The command line.
 */
#ifndef REPLAY_OPTIONS_H
#define REPLAY_OPTIONS_H

#include "common/result_file.h"
#include "replay/allocator.h"
#include "replay/measure.h"
#include "replay/plugin.h"

#include <stdbool.h>

typedef enum format { FORMAT_TEXT, FORMAT_CSV, FORMAT_JSON } format_t;

typedef enum file {
    FILE_LOG, /* path NULL, but writes_log: the standard output */
    FILE_JSON,
    FILE_CSV,
    FILE_PICTURE,
    FILE_LAST
} file_t;

#define OPTIONS_MAX_KINDS (ALLOCATOR_NUM_KINDS + PLUGIN_MAX)

typedef struct options {
    const char *log;        /* the file; NULL: a workload */
    const char *workload;   /* NULL: a log */
    const char *allocators; /* their names; NULL: all that the
                               device can have, and plug-ins */
    const allocator_kind_t *kinds[OPTIONS_MAX_KINDS];
    unsigned                num_kinds;
    plugin_t                plugins[PLUGIN_MAX];
    unsigned                num_plugins;
    int                     ordinal; /* DEVICE_HOST or a GPU */
    unsigned                divisor; /* of sizes */
    measure_params_t        params;
    bool                    writes_log; /* and no more */
    format_t                format;     /* on the standard output */
    result_file_t           files[FILE_LAST];
    bool                    list;
} options_t;

/* Returns -1 to go on, or the exit code. */
int options_parse(options_t *options, int argc, char **argv);

#endif
