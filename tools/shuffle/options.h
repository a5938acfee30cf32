/*
 * The command line.
 */
#ifndef SHUFFLE_OPTIONS_H
#define SHUFFLE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct options {
    unsigned     num_workers;    /* 0: not given */
    uint32_t     num_partitions; /* 0: not given */
    int          delimiter;      /* see field.h; FIELD_UNKNOWN: not given */
    unsigned     field;
    const char  *folder;
    bool         has_header;
    bool         json;
    bool         compare_memcpy;
    bool         on_gpu;
    int          gpu;        /* -1: not given */
    size_t       gpu_memory; /* 0: not given */
    char *const *files;
    size_t       num_files;
} options_t;

typedef enum options_outcome {
    OPTIONS_RUN,
    OPTIONS_SHOWN, /* --help or --version: printed */
    OPTIONS_WRONG  /* with an error */
} options_outcome_t;

options_outcome_t options_parse(options_t *options, int argc, char **argv);

#endif
