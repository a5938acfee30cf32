/*
 * The report of ucxpool_info consists of named values in named sections. It is
 * written as lines of text or as one JSON object. Keys are lower case with _
 * between words, which the text shows as a blank. A key in capitals is a name
 * and is not changed.
 *
 *     text     title                      JSON   {"key": {
 *                key    value                       "key": value
 *                                               }}
 */
#ifndef INFO_REPORT_H
#define INFO_REPORT_H

#include "common/json.h"
#include "common/pool.h"

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

/* Begin a section. Sections may be nested. The text shows the title. */
void report_section_begin(report_t *report, const char *key, const char *title);
void report_section_end(report_t *report);

/*
 * Set the reason for the next value. The text shows it in brackets. In JSON the
 * value becomes {"value": ..., "why": "..."}.
 */
void report_because(report_t *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Report a value that is text. */
void report_text(report_t *report, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void report_bool(report_t *report, const char *key, bool value);
void report_number(report_t *report, const char *key, uint64_t value);

/* Report a number of bytes: as a number in JSON, as 4m or 1.9g in text. */
void report_size(report_t *report, const char *key, uint64_t bytes);

/* A growing list of texts without duplicates. A new list is all zeros. */
typedef struct words {
    char **texts;
    size_t num_texts;
} words_t;

/* Add a copy of a text, unless the list already contains the text. */
void words_add(words_t *words, const char *text);

/* Report the texts as one value, and free them. In text, an empty list is shown
 * as "none". */
void report_words(report_t *report, const char *key, words_t *words);

/* --- the sections --------------------------------------------------------
 *
 * Functions that can fail return false after printing and reporting an error.
 */

/* Report the version of the library and how this tool was built. */
void info_build_report(report_t *report);

/* Report UCX's version, devices and lanes. */
bool info_ucx_report(report_t *report);

/* Report this machine's memory, huge pages and limits. */
void info_machine_report(report_t *report);

/* Report the GPUs, and the blocks that a pool on each would have. It is not a
 * failure if there is no GPU. */
bool info_gpu_report(report_t *report, const ucxpool_config_t *config);

/* Report a pool with these settings, and the reasons for its properties.
 * Creates and destroys the pool. */
bool info_pool_report(report_t *report, const ucxpool_config_t *config);

/*
 * Report the wire between two pools on this host. Connects two small pools,
 * unless the settings leave no blocks.
 *
 * self_test  Also send a message between two other pools, and compare the
 *            bytes that arrive.
 */
bool info_wire_report(report_t *report, const ucxpool_config_t *config,
                      bool self_test);

/* Report the settings: in text those that differ from their defaults, in JSON
 * all. */
void info_settings_report(report_t *report, const ucxpool_config_t *config);

#endif
