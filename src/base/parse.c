#include "base/parse.h"

#include "base/config.h"
#include "base/math.h"

#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct unit {
    const char *name;
    uint64_t    factor;
} unit_t;

/* Smallest first: formatting takes the last one that divides the value. */
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

/* Read digits (one at least); *rest_p is what follows them. */
static bool parse_digits(const char *text, uint64_t *number_p,
                         const char **rest_p)
{
    uint64_t number = 0;

    if (!isdigit((unsigned char)*text)) {
        return false;
    }
    for (; isdigit((unsigned char)*text); text++) {
        if (!base_mul(number, 10u, &number) ||
            !base_add(number, (unsigned)(*text - '0'), &number)) {
            return false;
        }
    }
    *number_p = number;
    *rest_p   = text;
    return true;
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
    uint64_t    number, size;
    const char *rest;
    char        unit[2] = "";

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
    /* The b for "bytes" may stand alone or behind the other letter. */
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
    uint64_t    number, ns;
    const char *rest;

    if (strcasecmp(text, "inf") == 0) {
        *ns_p = UINT64_MAX;
        return true;
    }
    if (!parse_digits(text, &number, &rest)) {
        return false;
    }
    /* Zero is the same in every unit. */
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
    uint64_t    number;
    const char *rest;

    if (!parse_digits(text, &number, &rest) || (*rest != '\0') ||
        (number > UINT_MAX)) {
        return false;
    }
    *number_p = (unsigned)number;
    return true;
}

bool base_parse_percent(const char *text, unsigned *percent_p)
{
    uint64_t    number;
    const char *rest;

    if (!parse_digits(text, &number, &rest) ||
        ((*rest != '\0') && (strcmp(rest, "%") != 0)) || (number > 100)) {
        return false;
    }
    *percent_p = (unsigned)number;
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
             unit->name);
}

void base_format_size(uint64_t size, char text[BASE_FORMAT_SIZE])
{
    if (size == BASE_SIZE_AUTO) {
        strcpy(text, "auto");
    } else if (size == BASE_SIZE_INF) {
        strcpy(text, "inf");
    } else if (size == 0) {
        strcpy(text, "0");
    } else {
        format_units(size_units, NUM_SIZE_UNITS, size, text);
    }
}

void base_format_time(uint64_t ns, char text[BASE_FORMAT_SIZE])
{
    if (ns == UINT64_MAX) {
        strcpy(text, "inf");
    } else if (ns == 0) {
        strcpy(text, "0");
    } else {
        format_units(time_units, NUM_TIME_UNITS, ns, text);
    }
}
