#include <config.h>

#include "tools/shuffle/field.h"
#include "tools/shuffle/csv.h"

#include <string.h>

static bool field_is_blank(char c)
{
    return (c == ' ') || (c == '\t');
}

static bool field_find_delimited(const field_rule_t *rule, const char *record,
                                 size_t length, field_key_t *key_p)
{
    const char *end   = record + length;
    const char *start = record;
    const char *next;

    for (unsigned number = 1;; number++) {
        next = memchr(start, rule->delimiter, (size_t)(end - start));
        if (number == rule->number) {
            key_p->data   = start;
            key_p->length = (size_t)((next != NULL ? next : end) - start);
            return true;
        }
        if (next == NULL) {
            return false;
        }
        start = next + 1;
    }
}

static bool field_find_blanks(const field_rule_t *rule, const char *record,
                              size_t length, field_key_t *key_p)
{
    const char *end = record + length;
    const char *at  = record;
    const char *start;

    for (unsigned number = 1;; number++) {
        while ((at < end) && field_is_blank(*at)) {
            at++;
        }
        if (at == end) {
            return false;
        }
        start = at;
        while ((at < end) && !field_is_blank(*at)) {
            at++;
        }
        if (number == rule->number) {
            key_p->data   = start;
            key_p->length = (size_t)(at - start);
            return true;
        }
    }
}

bool field_find(const field_rule_t *rule, const char *record, size_t length,
                field_key_t *key_p)
{
    key_p->is_raw = false;
    if (rule->delimiter == FIELD_CSV) {
        return csv_find(rule->number, record, length, key_p);
    }
    if (rule->delimiter == FIELD_BLANKS) {
        return field_find_blanks(rule, record, length, key_p);
    }
    return field_find_delimited(rule, record, length, key_p);
}

int field_delimiter_parse(const char *text)
{
    if (strcmp(text, "tab") == 0) {
        return '\t';
    }
    if (strcmp(text, "blank") == 0) {
        return FIELD_BLANKS;
    }
    if (strcmp(text, "csv") == 0) {
        return FIELD_CSV;
    }
    /* A newline ends records, so it cannot part fields. */
    if ((text[0] != '\0') && (text[1] == '\0') && (text[0] != '\n')) {
        return (unsigned char)text[0];
    }
    return FIELD_UNKNOWN;
}

int field_delimiter_guess(const char *path)
{
    static const struct {
        const char *suffix;
        int         delimiter;
    } guesses[] = {
        {".tbl", '|'},          {".csv", FIELD_CSV},    {".tsv", '\t'},
        {".tab", '\t'},         {".passwd", ':'},       {".group", ':'},
        {".txt", FIELD_BLANKS}, {".log", FIELD_BLANKS},
    };
    const char *name = strrchr(path, '/');
    const char *suffix;

    name   = name != NULL ? name + 1 : path;
    suffix = strrchr(name, '.');
    if ((strcmp(name, "passwd") == 0) || (strcmp(name, "group") == 0)) {
        return ':';
    }
    for (size_t i = 0; i < sizeof(guesses) / sizeof(guesses[0]); i++) {
        if ((suffix != NULL) && (strcmp(suffix, guesses[i].suffix) == 0)) {
            return guesses[i].delimiter;
        }
    }
    return FIELD_UNKNOWN;
}
