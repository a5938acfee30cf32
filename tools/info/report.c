#include "info/report.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Column of the values, so that they stand one below the other. */
#define VALUE_COLUMN 40

static void indent(const report_t *report)
{
    fprintf(report->stream, "%*s", (int)(2 * report->depth), "");
}

/* Bytes that are no UTF-8 go out as they came: they can only stem from a path
 * or variable of the user's. */
static void write_string(FILE *stream, const char *text)
{
    fputc('"', stream);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        if ((c == '"') || (c == '\\')) {
            fprintf(stream, "\\%c", c);
        } else if ((c < 0x20) || (c == 0x7f)) {
            fprintf(stream, "\\u%04x", c);
        } else {
            fputc(c, stream);
        }
    }
    fputc('"', stream);
}

static void write_plain(FILE *stream, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;

        fputc(((c < 0x20) || (c == 0x7f)) ? '?' : c, stream);
    }
}

/* What stands before a value or a section. */
static void write_key(report_t *report, const char *key)
{
    fputs(report->is_first ? "\n" : ",\n", report->stream);
    report->is_first = false;
    indent(report);
    write_string(report->stream, key);
    fputs(": ", report->stream);
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

/* What stands before and behind a value, with the reason for it. */
static void value_begin(report_t *report, const char *key)
{
    if (!report->json) {
        write_label(report, key);
        return;
    }
    write_key(report, key);
    if (report->why[0] != '\0') {
        fputs("{\"value\": ", report->stream);
    }
}

static void value_end(report_t *report)
{
    bool has_reason = (report->why[0] != '\0');

    if (has_reason && report->json) {
        fputs(", \"why\": ", report->stream);
        write_string(report->stream, report->why);
        fputc('}', report->stream);
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

static void write_text(report_t *report, const char *key, const char *text)
{
    value_begin(report, key);
    if (report->json) {
        write_string(report->stream, text);
    } else {
        write_plain(report->stream, text);
    }
    value_end(report);
}

/* A value that is written without quotes; people see `plain`. */
static void write_bare(report_t *report, const char *key, const char *json,
                       const char *plain)
{
    value_begin(report, key);
    fputs(report->json ? json : plain, report->stream);
    value_end(report);
}

void report_begin(report_t *report, FILE *stream, bool json)
{
    report->stream   = stream;
    report->json     = json;
    report->depth    = 0;
    report->is_first = true;
    report->why[0]   = '\0';
    if (json) {
        fputc('{', stream);
        report->depth = 1;
    }
}

void report_end(report_t *report)
{
    if (report->json) {
        fputs("\n}\n", report->stream);
    }
}

void report_section_begin(report_t *report, const char *key, const char *title)
{
    if (report->json) {
        write_key(report, key);
        fputc('{', report->stream);
    } else {
        if ((report->depth == 0) && !report->is_first) {
            fputc('\n', report->stream);
        }
        indent(report);
        fprintf(report->stream, "%s\n", title);
    }
    report->is_first = true;
    report->depth++;
}

void report_section_end(report_t *report)
{
    report->depth--;
    if (report->json) {
        if (!report->is_first) {
            fputc('\n', report->stream);
            indent(report);
        }
        fputc('}', report->stream);
    }
    report->is_first = false;
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
    write_text(report, key, text);
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
    static const char units[] = "bkmgt";
    char              number[32], plain[32];
    uint64_t          factor = 1;
    size_t            unit   = 0;

    while ((unit < sizeof(units) - 2) && (bytes / factor >= 1024)) {
        factor *= 1024;
        unit++;
    }
    snprintf(number, sizeof(number), "%" PRIu64, bytes);
    if (bytes % factor == 0) {
        snprintf(plain, sizeof(plain), "%" PRIu64 "%c", bytes / factor,
                 units[unit]);
    } else {
        snprintf(plain, sizeof(plain), "%.1f%c", (double)bytes / (double)factor,
                 units[unit]);
    }
    write_bare(report, key, number, plain);
}

void report_list(report_t *report, const char *key, char *const *texts,
                 size_t num_texts)
{
    value_begin(report, key);
    fputs(report->json ? "[" : "", report->stream);
    for (size_t i = 0; i < num_texts; i++) {
        fputs((i == 0) ? "" : ", ", report->stream);
        if (report->json) {
            write_string(report->stream, texts[i]);
        } else {
            write_plain(report->stream, texts[i]);
        }
    }
    if (report->json) {
        fputc(']', report->stream);
    } else if (num_texts == 0) {
        fputs("none", report->stream);
    }
    value_end(report);
}
