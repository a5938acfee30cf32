#include "info/report.h"
#include "common/error.h"
#include "common/number.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Column of the values, which are aligned. */
#define VALUE_COLUMN 40

static void indent(const report_t *report)
{
    fprintf(report->stream, "%*s", (int)(2 * report->depth), "");
}

/* Write control characters as "?": single bytes, and those that UTF-8 encodes
 * as 0xc2 and a byte below 0xa0. */
static void write_plain(FILE *stream, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c    = (unsigned char)*text;
        unsigned char next = (unsigned char)text[1];

        if ((c == 0xc2) && (next >= 0x80) && (next < 0xa0)) {
            text++;
            c = '?';
        }
        fputc(((c < 0x20) || (c == 0x7f)) ? '?' : c, stream);
    }
}

static void write_label(report_t *report, const char *key)
{
    int  column  = (int)(2 * report->depth);
    bool is_name = isupper((unsigned char)*key);

    indent(report);
    for (; *key != '\0'; key++, column++) {
        fputc((!is_name && (*key == '_')) ? ' ' : *key, report->stream);
    }
    fprintf(report->stream, "%*s",
            (column < VALUE_COLUMN) ? VALUE_COLUMN - column : 1, "");
}

/* Begin a value. Returns its key in JSON. */
static const char *value_begin(report_t *report, const char *key)
{
    if (!report->json) {
        write_label(report, key);
    } else if (report->why[0] != '\0') {
        json_open_inline(&report->writer, key, '{');
        return "value";
    }
    return key;
}

static void value_end(report_t *report)
{
    bool has_reason = (report->why[0] != '\0');

    if (has_reason && report->json) {
        json_text(&report->writer, "why", report->why);
        json_close(&report->writer);
    } else if (has_reason) {
        fputs(" (", report->stream);
        write_plain(report->stream, report->why);
        fputc(')', report->stream);
    }
    if (!report->json) {
        fputc('\n', report->stream);
    }
    report->why[0] = '\0';
}

/* Write a value that has no quotes in JSON. The text report shows `plain`. */
static void write_bare(report_t *report, const char *key, const char *json,
                       const char *plain)
{
    key = value_begin(report, key);
    if (report->json) {
        json_bare(&report->writer, key, "%s", json);
    } else {
        fputs(plain, report->stream);
    }
    value_end(report);
}

void report_begin(report_t *report, FILE *stream, bool json)
{
    *report = (report_t){.stream = stream, .json = json, .is_first = true};
    json_init(&report->writer, stream);
    if (json) {
        json_open(&report->writer, NULL, '{');
    }
}

void report_end(report_t *report)
{
    if (report->json) {
        json_close(&report->writer);
    }
}

void report_section_begin(report_t *report, const char *key, const char *title)
{
    if (report->json) {
        json_open(&report->writer, key, '{');
        return;
    }
    if ((report->depth == 0) && !report->is_first) {
        fputc('\n', report->stream);
    }
    indent(report);
    fprintf(report->stream, "%s\n", title);
    report->is_first = false;
    report->depth++;
}

void report_section_end(report_t *report)
{
    if (report->json) {
        json_close(&report->writer);
    } else {
        report->depth--;
    }
}

void report_because(report_t *report, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(report->why, sizeof(report->why), format, args);
    va_end(args);
}

void report_text(report_t *report, const char *key, const char *format, ...)
{
    char    text[4096 + 256];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    key = value_begin(report, key);
    if (report->json) {
        json_text(&report->writer, key, text);
    } else {
        write_plain(report->stream, text);
    }
    value_end(report);
}

void report_bool(report_t *report, const char *key, bool value)
{
    write_bare(report, key, value ? "true" : "false", value ? "yes" : "no");
}

void report_number(report_t *report, const char *key, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRIu64, value);
    write_bare(report, key, text, text);
}

void report_size(report_t *report, const char *key, uint64_t bytes)
{
    char number[32], plain[NUMBER_TEXT_SIZE];

    snprintf(number, sizeof(number), "%" PRIu64, bytes);
    number_print_size(bytes, plain);
    write_bare(report, key, number, plain);
}

static bool contains(const words_t *words, const char *text)
{
    for (size_t i = 0; i < words->num_texts; i++) {
        if (strcmp(words->texts[i], text) == 0) {
            return true;
        }
    }
    return false;
}

void words_add(words_t *words, const char *text)
{
    char *copy;

    if (!contains(words, text)) {
        copy = tool_calloc(1, strlen(text) + 1);
        words->texts =
            tool_grow(words->texts, words->num_texts, sizeof(char *));
        words->texts[words->num_texts++] = strcpy(copy, text);
    }
}

void report_words(report_t *report, const char *key, words_t *words)
{
    key = value_begin(report, key);
    if (report->json) {
        json_open_inline(&report->writer, key, '[');
    } else if (words->num_texts == 0) {
        fputs("none", report->stream);
    }
    for (size_t i = 0; i < words->num_texts; i++) {
        if (report->json) {
            json_text(&report->writer, NULL, words->texts[i]);
        } else {
            fputs((i == 0) ? "" : ", ", report->stream);
            write_plain(report->stream, words->texts[i]);
        }
        free(words->texts[i]);
    }
    if (report->json) {
        json_close(&report->writer);
    }
    value_end(report);
    free(words->texts);
    *words = (words_t){NULL, 0};
}
