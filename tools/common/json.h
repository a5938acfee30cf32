/*
 * Functions that write JSON. The members of a container are on separate lines,
 * or all on one line. The key is NULL in arrays and outside all containers.
 */
#ifndef COMMON_JSON_H
#define COMMON_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define JSON_MAX_DEPTH 8

typedef struct json {
    FILE    *stream;
    unsigned depth;    /* open containers */
    bool     is_first; /* the innermost container is empty */
    char     closing[JSON_MAX_DEPTH];
    bool     is_inline[JSON_MAX_DEPTH];
} json_t;

void json_init(json_t *json, FILE *stream);

/* Open a container. bracket: '{' or '['. */
void json_open(json_t *json, const char *key, char bracket);
void json_open_inline(json_t *json, const char *key, char bracket);

/* Close the innermost container. Closing the outermost container ends the line.
 */
void json_close(json_t *json);

/* Write text, with escapes. Bytes that are not UTF-8 are written unchanged.
 */
void json_text(json_t *json, const char *key, const char *text);
void json_bool(json_t *json, const char *key, bool value);
void json_number(json_t *json, const char *key, uint64_t number);

/* Write any other number, or null. */
void json_bare(json_t *json, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
