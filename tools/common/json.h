/*
 * Writes JSON. A container's members stand on lines of their own, or all in
 * one line. In an array, and outside of all containers, the key is NULL.
 */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_MAX_DEPTH 8

typedef struct json {
    FILE    *stream;
    unsigned depth;    /* containers that are open */
    bool     is_first; /* nothing was written in the innermost one */
    char     closing[JSON_MAX_DEPTH];
    bool     is_inline[JSON_MAX_DEPTH];
} json_t;

void json_init(json_t *json, FILE *stream);

/* bracket: '{' or '['. */
void json_open(json_t *json, const char *key, char bracket);
void json_open_inline(json_t *json, const char *key, char bracket);

/* The innermost one; a line ends with the outermost one. */
void json_close(json_t *json);

/* Escapes the text. Bytes that are not UTF-8 are written as they are. */
void json_text(json_t *json, const char *key, const char *text);
void json_bool(json_t *json, const char *key, bool value);
void json_number(json_t *json, const char *key, uint64_t number);

/* Another number, or null. */
void json_bare(json_t *json, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
