#include "common/number.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int number_parse_size(const char *text, uint64_t max, uint64_t *size_p)
{
    static const char suffixes[] = "kmg";
    const char       *suffix;
    char             *end;
    uint64_t          size;
    unsigned          shift = 0;

    errno = 0;
    size  = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || (errno != 0)) {
        return -1;
    }
    if (*end != '\0') {
        suffix = strchr(suffixes, tolower((unsigned char)*end));
        if ((suffix == NULL) || (end[1] != '\0')) {
            return -1;
        }
        shift = 10 * (unsigned)(suffix - suffixes + 1);
    }
    if ((size == 0) || (size > max >> shift)) {
        return -1;
    }
    *size_p = size << shift;
    return 0;
}

int number_parse_seconds(const char *text, double *seconds_p)
{
    char *end;

    *seconds_p = strtod(text, &end);
    if ((end == text) || (*end != '\0') || !(*seconds_p > 0) ||
        (*seconds_p > 1e6)) {
        return -1;
    }
    return 0;
}

int number_parse(const char *text, uint64_t max, unsigned *number_p)
{
    uint64_t number;

    if (number_parse_size(text, max, &number) != 0) {
        return -1;
    }
    *number_p = (unsigned)number;
    return 0;
}

/* Print a number of bytes in the largest unit that does not exceed it, with
 * decimals if it is not a multiple of that unit. */
static void print_scaled(uint64_t bytes, const char *const units[5],
                         int num_decimals, char text[NUMBER_TEXT_SIZE])
{
    uint64_t factor = 1;
    unsigned unit   = 0;

    while ((unit < 4) && (bytes / factor >= 1024)) {
        factor *= 1024;
        unit++;
    }
    snprintf(text, NUMBER_TEXT_SIZE, "%.*f%s",
             bytes % factor == 0 ? 0 : num_decimals,
             (double)bytes / (double)factor, units[unit]);
}

void number_print_size(uint64_t bytes, char text[NUMBER_TEXT_SIZE])
{
    static const char *const units[] = {"b", "k", "m", "g", "t"};

    print_scaled(bytes, units, 1, text);
}

const char *number_print_bytes(uint64_t bytes, char text[NUMBER_TEXT_SIZE])
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB"};

    print_scaled(bytes, units, 2, text);
    return text;
}

const char *number_print_commas(uint64_t number, char text[NUMBER_TEXT_SIZE])
{
    char     digits[24];
    unsigned num =
        (unsigned)snprintf(digits, sizeof(digits), "%" PRIu64, number);
    char *to = text;

    for (unsigned i = 0; i < num; i++) {
        if ((i > 0) && ((num - i) % 3 == 0)) {
            *to++ = ',';
        }
        *to++ = digits[i];
    }
    *to = '\0';
    return text;
}
