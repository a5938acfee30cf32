/*
 * The report of ucxpool_info: named values in named sections, for people as
 * lines and for programs as one JSON object. Keys are lower case with _ between
 * words, for which people see a blank; a key in capitals is a name and stays as
 * it is.
 *
 *     text     title                      JSON   {"key": {
 *                key    value                       "key": value
 *                                               }}
 */
#ifndef INFO_REPORT_H
#define INFO_REPORT_H

#include "common/json.h"
#include "common/settings.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct report {
    FILE    *stream;
    bool     json;
    json_t   writer;
    unsigned depth;    /* sections that are open, in text */
    bool     is_first; /* nothing has been written yet */
    char     why[512]; /* reason for the next value; "" for none */
} report_t;

void report_begin(report_t *report, FILE *stream, bool json);
void report_end(report_t *report);

/* Sections nest. The title is shown in text. */
void report_section_begin(report_t *report, const char *key, const char *title);
void report_section_end(report_t *report);

/*
 * The reason for the next value. In text it is shown in brackets. In JSON the
 * value becomes {"value": ..., "why": "..."}.
 */
void report_because(report_t *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A value of text. */
void report_text(report_t *report, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void report_bool(report_t *report, const char *key, bool value);
void report_number(report_t *report, const char *key, uint64_t value);

/* Bytes: a number in JSON, 4m or 1.9g in text. */
void report_size(report_t *report, const char *key, uint64_t bytes);

/* A growing list of texts without duplicates; it begins with zeros. */
typedef struct words {
    char **texts;
    size_t num_texts;
} words_t;

/* Add `length` bytes of text, unless the list contains them. If memory is
 * exhausted, they are ignored. */
void words_add(words_t *words, const char *text, size_t length);

/* Report them as one value, and free them. In text, an empty list is shown as
 * "none". */
void report_words(report_t *report, const char *key, words_t *words);

/* --- the sections --------------------------------------------------------
 *
 * Those that can fail return false after an error was printed and reported.
 */

/* The version of the library and how this tool was built. */
void info_build_report(report_t *report);

/* UCX: its version, devices and lanes. */
bool info_ucx_report(report_t *report);

/* This machine: memory, huge pages, limits. */
void info_machine_report(report_t *report);

/* The GPUs, and the blocks that a pool on each would have. No GPU is not a
 * failure. */
bool info_gpu_report(report_t *report, const ucxpool_config_t *config);

/* How much of its BAR1 a pool on each GPU may take, line by line. */
bool info_budget_report(report_t *report, const ucxpool_config_t *config);

/*
 * A pool with these settings, and the reasons for its properties. The pool is
 * created and destroyed.
 *
 * self_test  Send a message through every region.
 */
bool info_pool_report(report_t *report, const ucxpool_config_t *config,
                      bool self_test);

/* The wire between two pools of this host: two small ones are connected, unless
 * the settings leave no blocks. */
bool info_wire_report(report_t *report, const ucxpool_config_t *config);

/* How soon the failure of a peer is detected, with each transport. */
bool info_peers_report(report_t *report, const ucxpool_config_t *config);

/* Settings: for people those that are not at their defaults, for programs
 * all. */
void info_settings_report(report_t *report, const ucxpool_config_t *config);

#endif
