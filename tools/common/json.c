#include "common/json.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

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

static void new_line(const json_t *json)
{
    fprintf(json->stream, "\n%*s", (int)(2 * json->depth), "");
}

static bool is_inline(const json_t *json)
{
    return (json->depth > 0) && json->is_inline[json->depth - 1];
}

static void write_key(json_t *json, const char *key)
{
    if (json->depth > 0) {
        fputs(json->is_first ? "" : ",", json->stream);
        if (!is_inline(json)) {
            new_line(json);
        } else if (!json->is_first) {
            fputc(' ', json->stream);
        }
    }
    json->is_first = false;
    if (key != NULL) {
        write_string(json->stream, key);
        fputs(": ", json->stream);
    }
}

void json_init(json_t *json, FILE *stream)
{
    memset(json, 0, sizeof(*json));
    json->stream = stream;
}

static void open_container(json_t *json, const char *key, char bracket,
                           bool in_line)
{
    assert(json->depth < JSON_MAX_DEPTH);
    write_key(json, key);
    fputc(bracket, json->stream);
    json->is_inline[json->depth] = in_line;
    json->closing[json->depth++] = bracket == '{' ? '}' : ']';
    json->is_first               = true;
}

void json_open(json_t *json, const char *key, char bracket)
{
    open_container(json, key, bracket, false);
}

void json_open_inline(json_t *json, const char *key, char bracket)
{
    open_container(json, key, bracket, true);
}

void json_close(json_t *json)
{
    bool has_lines = !is_inline(json) && !json->is_first;

    json->depth--;
    if (has_lines) {
        new_line(json);
    }
    fputc(json->closing[json->depth], json->stream);
    json->is_first = false;
    if (json->depth == 0) {
        fputc('\n', json->stream);
    }
}

void json_text(json_t *json, const char *key, const char *text)
{
    write_key(json, key);
    write_string(json->stream, text);
}

void json_bool(json_t *json, const char *key, bool value)
{
    json_bare(json, key, "%s", value ? "true" : "false");
}

void json_number(json_t *json, const char *key, uint64_t number)
{
    json_bare(json, key, "%" PRIu64, number);
}

void json_bare(json_t *json, const char *key, const char *format, ...)
{
    va_list args;

    write_key(json, key);
    va_start(args, format);
    vfprintf(json->stream, format, args);
    va_end(args);
}
