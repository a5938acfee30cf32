/* The values of the keys: what they may be, from text, and back. */
#include "base/keys.h"

#include "base/math.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void *field_of(const base_key_t *key, base_config_t *config)
{
    return (char *)config + key->offset;
}

static bool parse_size(const base_key_t *key, const char *text, size_t *field)
{
    size_t size;

    if (!base_parse_size(text, &size)) {
        return false;
    }
    if (size == BASE_SIZE_AUTO) {
        if (!(key->flags & BASE_KEY_AUTO)) {
            return false;
        }
    } else if (size == BASE_SIZE_INF) {
        if (!(key->flags & BASE_KEY_INF)) {
            return false;
        }
    } else if ((size == 0) && (key->flags & BASE_KEY_ZERO)) {
        *field = 0;
        return true;
    } else if ((size < key->min) || (size > key->max) ||
               ((key->flags & BASE_KEY_POW2) && !base_is_pow2(size))) {
        return false;
    }
    *field = size;
    return true;
}

static bool parse_time(const base_key_t *key, const char *text, uint64_t *field)
{
    uint64_t ns;

    if (!base_parse_time(text, &ns)) {
        return false;
    }
    if (ns == UINT64_MAX) {
        if (!(key->flags & BASE_KEY_INF)) {
            return false;
        }
    } else if ((ns < key->min) || (ns > key->max)) {
        return false;
    }
    *field = ns;
    return true;
}

static bool parse_number(const base_key_t *key, const char *text,
                         unsigned *field)
{
    unsigned number;
    bool     good = (key->type == BASE_KEY_PERCENT)
                        ? base_parse_percent(text, &number)
                        : base_parse_unsigned(text, &number);

    if (!good || (number < key->min) || (number > key->max)) {
        return false;
    }
    *field = number;
    return true;
}

static bool parse_switch(const char *text, base_switch_t *field)
{
    bool yes;

    if (base_parse_bool(text, &yes)) {
        *field = yes ? BASE_SWITCH_YES : BASE_SWITCH_NO;
        return true;
    }
    if (base_parse_word(text, (const char *const[]){"try", NULL},
                        &(unsigned){0})) {
        *field = BASE_SWITCH_TRY;
        return true;
    }
    return false;
}

static bool parse_path(const char *text, char *field)
{
    if (strlen(text) >= BASE_PATH_SIZE) {
        return false;
    }
    strcpy(field, text);
    return true;
}

bool base_key_parse(const base_key_t *key, const char *text,
                    base_config_t *config)
{
    void *field = field_of(key, config);

    switch (key->type) {
    case BASE_KEY_SIZE:
        return parse_size(key, text, field);
    case BASE_KEY_TIME:
        return parse_time(key, text, field);
    case BASE_KEY_UNSIGNED:
    case BASE_KEY_PERCENT:
        return parse_number(key, text, field);
    case BASE_KEY_BOOL:
        return base_parse_bool(text, field);
    case BASE_KEY_SWITCH:
        return parse_switch(text, field);
    case BASE_KEY_WORD:
        return base_parse_word(text, key->words, field);
    case BASE_KEY_PATH:
        return parse_path(text, field);
    }
    return false;
}

void base_key_format(const base_key_t *key, const base_config_t *config,
                     char text[BASE_KEY_VALUE_SIZE])
{
    static const char *const switches[] = {[BASE_SWITCH_NO]  = "n",
                                           [BASE_SWITCH_YES] = "y",
                                           [BASE_SWITCH_TRY] = "try"};
    const void              *field      = (const char *)config + key->offset;

    switch (key->type) {
    case BASE_KEY_SIZE:
        base_format_size(*(const size_t *)field, text);
        break;
    case BASE_KEY_TIME:
        base_format_time(*(const uint64_t *)field, text);
        break;
    case BASE_KEY_UNSIGNED:
    case BASE_KEY_PERCENT:
        snprintf(text, BASE_KEY_VALUE_SIZE, "%u", *(const unsigned *)field);
        break;
    case BASE_KEY_BOOL:
        strcpy(text, *(const bool *)field ? "y" : "n");
        break;
    case BASE_KEY_SWITCH:
        strcpy(text, switches[*(const base_switch_t *)field]);
        break;
    case BASE_KEY_WORD:
        strcpy(text, key->words[*(const unsigned *)field]);
        break;
    case BASE_KEY_PATH:
        strcpy(text, field);
        break;
    }
}

/* Append to a text of BASE_KEY_EXPECTED_SIZE bytes; what does not fit is cut.
 */
static void __attribute__((format(printf, 2, 3)))
append(char *text, const char *format, ...)
{
    size_t  length = strlen(text);
    va_list args;

    va_start(args, format);
    vsnprintf(text + length, BASE_KEY_EXPECTED_SIZE - length, format, args);
    va_end(args);
}

static void format_number(uint64_t number, char *text)
{
    snprintf(text, BASE_FORMAT_SIZE, "%" PRIu64, number);
}

/* "from 4k to 1g", "of 4k or more", or nothing where there is no limit. */
static void append_range(const base_key_t *key, char *text)
{
    void (*format)(uint64_t number, char *text) = format_number;
    char min[BASE_FORMAT_SIZE], max[BASE_FORMAT_SIZE];

    if (key->type == BASE_KEY_SIZE) {
        format = base_format_size;
    } else if (key->type == BASE_KEY_TIME) {
        format = base_format_time;
    }
    format(key->min, min);
    format(key->max, max);
    if (key->max != BASE_KEY_NO_MAX) {
        append(text, " from %s to %s", min, max);
    } else if (key->min != 0) {
        append(text, " of %s or more", min);
    }
}

static void append_specials(const base_key_t *key, char *text)
{
    if (key->flags & BASE_KEY_ZERO) {
        append(text, ", or 0");
    }
    if (key->flags & BASE_KEY_AUTO) {
        append(text, ", or auto");
    }
    if (key->flags & BASE_KEY_INF) {
        append(text, ", or inf");
    }
}

static void append_words(const char *const *words, char *text)
{
    append(text, "one of");
    for (unsigned i = 0; words[i] != NULL; i++) {
        append(text, "%s%s", (i == 0) ? " " : ", ", words[i]);
    }
}

void base_key_expected(const base_key_t *key, char text[BASE_KEY_EXPECTED_SIZE])
{
    text[0] = '\0';
    switch (key->type) {
    case BASE_KEY_SIZE:
        append(text,
               (key->flags & BASE_KEY_POW2) ? "a power of two" : "a size");
        append_range(key, text);
        append(text, ", written as 64k, 4m or 2g");
        append_specials(key, text);
        break;
    case BASE_KEY_TIME:
        append(text, "a time");
        append_range(key, text);
        append(text, ", written as 5s, 200ms or 10us");
        append_specials(key, text);
        break;
    case BASE_KEY_UNSIGNED:
        append(text, "a number");
        append_range(key, text);
        break;
    case BASE_KEY_PERCENT:
        append(text, "a percentage");
        append_range(key, text);
        break;
    case BASE_KEY_BOOL:
        append(text, "y or n");
        break;
    case BASE_KEY_SWITCH:
        append(text, "y, n or try");
        break;
    case BASE_KEY_WORD:
        append_words(key->words, text);
        break;
    case BASE_KEY_PATH:
        append(text, "the path of a file, shorter than %d bytes",
               BASE_PATH_SIZE);
        break;
    }
}
