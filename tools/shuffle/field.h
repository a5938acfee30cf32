/*
 * The key field of a record.
 *
 *     delimiter '|'    a|b||d      fields 1 to 4: "a" "b" "" "d"
 *     blanks           ' a \t b'   fields 1 and 2: "a" "b"
 *
 * With a delimiter an empty record has one field, which is empty; between
 * blanks it has none.
 */
#ifndef SHUFFLE_FIELD_H
#define SHUFFLE_FIELD_H

#include <stdbool.h>
#include <stddef.h>

/* Delimiters other than a byte 0 .. 255. */
#define FIELD_BLANKS  256 /* runs of spaces and tabs */
#define FIELD_CSV     257 /* commas, and quotes: see csv.h */
#define FIELD_UNKNOWN (-1)

typedef struct field_rule {
    int      delimiter; /* a byte, or one of these */
    unsigned number;    /* 1 or more */
} field_rule_t;

typedef struct field_key {
    const char *data;
    size_t      length;
    bool        is_raw; /* csv_value() makes it the value */
} field_key_t;

/* Find the field in a record (without its newline). False: it has too few. */
bool field_find(const field_rule_t *rule, const char *record, size_t length,
                field_key_t *key_p);

/*
 * The delimiter named on the command line: one character, "tab", "blank" or
 * "csv". FIELD_UNKNOWN when it is none of them.
 */
int field_delimiter_parse(const char *text);

/* The delimiter that a file's name suggests, or FIELD_UNKNOWN. */
int field_delimiter_guess(const char *path);

#endif
