/*
 * A report: named values in named sections, for people as lines and for
 * programs as one JSON object. Keys are lower case with _ between words, for
 * which people see a blank; a key in capitals is a name and stays as it is.
 *
 *     text     title                      JSON   {"key": {
 *                key    value                       "key": value
 *                                               }}
 */
#ifndef INFO_REPORT_H
#define INFO_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct report {
    FILE    *stream;
    bool     json;
    unsigned depth;    /* sections that are open */
    bool     is_first; /* nothing was written in the open section yet */
    char     why[512]; /* why the next value is what it is; "" for none */
} report_t;

void report_begin(report_t *report, FILE *stream, bool json);
void report_end(report_t *report);

/* Sections nest. The title is what people see. */
void report_section_begin(report_t *report, const char *key, const char *title);
void report_section_end(report_t *report);

/*
 * Why the next value is what it is. People see it in brackets; for programs the
 * value becomes {"value": ..., "why": "..."}.
 */
void report_because(report_t *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A value of text. */
void report_text(report_t *report, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void report_bool(report_t *report, const char *key, bool value);
void report_number(report_t *report, const char *key, uint64_t value);

/* Bytes: programs get the number, people 4m or 1.9g. */
void report_size(report_t *report, const char *key, uint64_t bytes);

/* Texts in a row; people see "none" where there are none. */
void report_list(report_t *report, const char *key, char *const *texts,
                 size_t num_texts);

#endif
