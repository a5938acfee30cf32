/*
 * The command line.
 */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include "common/result_file.h"
#include "perf/job.h"

#include <stdbool.h>

typedef enum options_format {
    FORMAT_TEXT,
    FORMAT_JSON,
    FORMAT_CSV
} options_format_t;

typedef enum file { FILE_JSON, FILE_CSV, FILE_PLOT, FILE_LAST } file_t;

enum { OPTIONS_MAX_TESTS = 32 };

typedef struct options {
    const char      *tests[OPTIONS_MAX_TESTS];
    unsigned         num_tests;
    const char      *table;      /* one of test_row_t, "all", or NULL */
    int32_t          devices[2]; /* as in work_t */
    uint32_t         pageable;   /* likewise */
    bool             untold;
    uint64_t         size;  /* 0: as the test has it */
    uint64_t         count; /* 0: as the test has it */
    unsigned         outstanding;
    unsigned         rounds;
    double           seconds; /* of a job */
    uint32_t         pool_mode;
    unsigned         num_sides; /* 0: as the test has them */
    side_t           sides[JOB_MAX_SIDES];
    int              cpus[2];          /* -1: not pinned */
    options_format_t format;           /* of the standard output */
    result_file_t    files[FILE_LAST]; /* besides */
    const char      *listen;
    const char      *connect;
    bool             list;
    bool             quiet;
} options_t;

/*
 * Read the command line. Returns -1 when the program should go on, else the
 * exit code (0 after --help and --version, 2 after a wrong usage, said).
 */
int options_parse(options_t *options, int argc, char **argv);

#endif
