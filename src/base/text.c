#include <config.h>

#include "base/text.h"

#include "base/config.h"
#include "base/error.h"
#include "base/math.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- cleaning ------------------------------------------------------------- */

/* Returns the number of bytes of the UTF-8 character at `text`; 0 if it is
 * invalid. A truncated name may end within a character. */
static unsigned letter_size(const char *text)
{
    const unsigned char *bytes = (const unsigned char *)text;
    unsigned             size;

    if (bytes[0] < 0x80) {
        return 1;
    }
    if ((bytes[0] < 0xc2) || (bytes[0] > 0xf4)) {
        return 0;
    }
    size = (bytes[0] < 0xe0) ? 2 : (bytes[0] < 0xf0) ? 3 : 4;
    for (unsigned i = 1; i < size; i++) {
        if ((bytes[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    /* Invalid: an overlong form, a surrogate, or a value above U+10FFFF. */
    if (((bytes[0] == 0xe0) && (bytes[1] < 0xa0)) ||
        ((bytes[0] == 0xed) && (bytes[1] > 0x9f)) ||
        ((bytes[0] == 0xf0) && (bytes[1] < 0x90)) ||
        ((bytes[0] == 0xf4) && (bytes[1] > 0x8f))) {
        return 0;
    }
    return size;
}

/* Returns true for ASCII control characters and for the 32 C1 controls. C1
 * controls may be UTF-8, or single bytes of older encodings, which some
 * terminals interpret. */
static bool is_control(const char *text, unsigned size)
{
    const unsigned char *bytes = (const unsigned char *)text;

    return (bytes[0] < 0x20) || (bytes[0] == 0x7f) ||
           ((size == 0) && (bytes[0] >= 0x80) && (bytes[0] <= 0x9f)) ||
           ((size == 2) && (bytes[0] == 0xc2) && (bytes[1] <= 0x9f));
}

void base_text_copy(char *to, size_t to_size, const char *from)
{
    size_t length = strnlen(from, to_size - 1);

    memcpy(to, from, length);
    to[length] = '\0';
}

void base_text_clean(char *text)
{
    while (*text != '\0') {
        unsigned size = letter_size(text);
        unsigned step = (size == 0) ? 1 : size;

        if (is_control(text, size)) {
            memset(text, '?', step);
        }
        text += step;
    }
}

/* --- quoting -------------------------------------------------------------- */

void base_quote_print(FILE *stream, const char *text)
{
    fputc('"', stream);
    while (*text != '\0') {
        unsigned size = letter_size(text);

        if ((size == 0) || ((unsigned char)*text < ' ')) {
            fputc('?', stream);
            text++;
            continue;
        }
        if ((*text == '"') || (*text == '\\')) {
            fputc('\\', stream);
        }
        fwrite(text, 1, size, stream);
        text += size;
    }
    fputc('"', stream);
}

/* --- printing into a string ----------------------------------------------- */

static ssize_t append(void *cookie, const char *text, size_t length)
{
    base_string_t *string = cookie;
    char          *longer = realloc(string->text, string->length + length + 1);

    if (longer == NULL) {
        string->has_failed = true;
        return 0;
    }
    memcpy(longer + string->length, text, length);
    string->text = longer;
    string->length += length;
    string->text[string->length] = '\0';
    return (ssize_t)length;
}

FILE *base_string_open(base_string_t *string)
{
    const cookie_io_functions_t calls = {.write = append};

    memset(string, 0, sizeof(*string));
    (void)append(string, "", 0);
    if (!string->has_failed) {
        string->stream = fopencookie(string, "w", calls);
    }
    return string->stream;
}

char *base_string_close(base_string_t *string)
{
    if ((string->stream == NULL) || (fclose(string->stream) != 0) ||
        string->has_failed) {
        free(string->text);
        string->text = NULL;
        (void)base_error(UCXPOOL_ERR_NO_MEMORY,
                         "no memory for a string of more than %zu bytes",
                         string->length);
    }
    return string->text;
}

char *base_string_close_or_warn(base_string_t *string)
{
    base_log_level_t level = base_error_log_at(BASE_LOG_WARN);
    char            *text  = base_string_close(string);

    base_error_log_at(level);
    return text;
}

/* --- values of settings --------------------------------------------------- */

typedef struct unit {
    const char *name;
    uint64_t    factor;
} unit_t;

/* In ascending order: formatting uses the largest unit that divides the
 * value. */
static const unit_t size_units[] = {
    {"", 1},
    {"k", UINT64_C(1) << 10},
    {"m", UINT64_C(1) << 20},
    {"g", UINT64_C(1) << 30},
    {"t", UINT64_C(1) << 40},
};

static const unit_t time_units[] = {
    {"ns", 1},
    {"us", UINT64_C(1000)},
    {"ms", UINT64_C(1000000)},
    {"s", UINT64_C(1000000000)},
    {"m", UINT64_C(60000000000)},
    {"h", UINT64_C(3600000000000)},
};

#define NUM_SIZE_UNITS (sizeof(size_units) / sizeof(size_units[0]))
#define NUM_TIME_UNITS (sizeof(time_units) / sizeof(time_units[0]))

/* Parse one or more digits; *rest_p points to the text after them. */
static bool parse_digits(const char *text, uint64_t *number_p, char **rest_p)
{
    errno     = 0;
    *number_p = strtoull(text, rest_p, 10);
    /* strtoull() also accepts blanks and a sign. */
    return isdigit((unsigned char)*text) && (errno == 0);
}

static bool apply_unit(const unit_t *units, size_t num_units, const char *name,
                       uint64_t number, uint64_t *value_p)
{
    for (size_t i = 0; i < num_units; i++) {
        if (strcasecmp(units[i].name, name) == 0) {
            return base_mul(number, units[i].factor, value_p);
        }
    }
    return false;
}

bool base_parse_size(const char *text, size_t *size_p)
{
    uint64_t number, size;
    char    *rest;
    char     unit[2] = "";

    if (strcasecmp(text, "auto") == 0) {
        *size_p = BASE_SIZE_AUTO;
        return true;
    }
    if (strcasecmp(text, "inf") == 0) {
        *size_p = BASE_SIZE_INF;
        return true;
    }
    if (!parse_digits(text, &number, &rest)) {
        return false;
    }
    /* The b for "bytes" may stand alone or follow another suffix. */
    if ((*rest != '\0') && (strcasecmp(rest, "b") != 0)) {
        unit[0] = *rest++;
    }
    if ((*rest != '\0') && (strcasecmp(rest, "b") != 0)) {
        return false;
    }
    if (!apply_unit(size_units, NUM_SIZE_UNITS, unit, number, &size) ||
        (size >= BASE_SIZE_INF)) {
        return false;
    }
    *size_p = (size_t)size;
    return true;
}

bool base_parse_time(const char *text, uint64_t *ns_p)
{
    uint64_t number, ns;
    char    *rest;

    if (strcasecmp(text, "inf") == 0) {
        *ns_p = UINT64_MAX;
        return true;
    }
    if (!parse_digits(text, &number, &rest)) {
        return false;
    }
    /* 0 needs no unit. */
    if ((number == 0) && (*rest == '\0')) {
        *ns_p = 0;
        return true;
    }
    if (!apply_unit(time_units, NUM_TIME_UNITS, rest, number, &ns) ||
        (ns == UINT64_MAX)) {
        return false;
    }
    *ns_p = ns;
    return true;
}

bool base_parse_unsigned(const char *text, unsigned *number_p)
{
    uint64_t number;
    char    *rest;

    if (!parse_digits(text, &number, &rest) || (*rest != '\0') ||
        (number > UINT_MAX)) {
        return false;
    }
    *number_p = (unsigned)number;
    return true;
}

bool base_parse_word(const char *text, const char *const *words,
                     unsigned *index_p)
{
    for (unsigned i = 0; words[i] != NULL; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *index_p = i;
            return true;
        }
    }
    return false;
}

bool base_parse_bool(const char *text, bool *value_p)
{
    static const char *const words[] = {
        "n", "y", "no", "yes", "off", "on", "false", "true", "0", "1", NULL};
    unsigned index;

    if (!base_parse_word(text, words, &index)) {
        return false;
    }
    *value_p = (index % 2) == 1;
    return true;
}

static void format_units(const unit_t *units, size_t num_units, uint64_t value,
                         char text[BASE_FORMAT_SIZE])
{
    const unit_t *unit = &units[0];

    for (size_t i = 1; i < num_units; i++) {
        if ((value % units[i].factor) == 0) {
            unit = &units[i];
        }
    }
    snprintf(text, BASE_FORMAT_SIZE, "%" PRIu64 "%s", value / unit->factor,
             (value == 0) ? "" : unit->name);
}

void base_format_size(uint64_t size, char text[BASE_FORMAT_SIZE])
{
    if (size == BASE_SIZE_AUTO) {
        strcpy(text, "auto");
    } else if (size == BASE_SIZE_INF) {
        strcpy(text, "inf");
    } else {
        format_units(size_units, NUM_SIZE_UNITS, size, text);
    }
}

void base_format_time(uint64_t ns, char text[BASE_FORMAT_SIZE])
{
    if (ns == UINT64_MAX) {
        strcpy(text, "inf");
    } else {
        format_units(time_units, NUM_TIME_UNITS, ns, text);
    }
}
