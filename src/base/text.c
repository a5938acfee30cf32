#include "base/text.h"

#include "base/math.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

void base_text_clean(char *text)
{
    for (; *text != '\0'; text++) {
        if (((unsigned char)*text < 0x20) || (*text == 0x7f)) {
            *text = '?';
        }
    }
}

static bool letters_equal(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* rows[2] is the row of letter i of a, rows[1] and rows[0] the two before. */
static void distance_row(size_t      rows[3][BASE_TEXT_DISTANCE_MAX + 1],
                         const char *a, const char *b, size_t i)
{
    rows[2][0] = i;
    for (size_t j = 1; b[j - 1] != '\0'; j++) {
        size_t changed = letters_equal(a[i - 1], b[j - 1]) ? 0 : 1;
        size_t best    = rows[1][j - 1] + changed;

        best = base_min(best, rows[1][j] + 1);
        best = base_min(best, rows[2][j - 1] + 1);
        if ((i > 1) && (j > 1) && letters_equal(a[i - 1], b[j - 2]) &&
            letters_equal(a[i - 2], b[j - 1])) {
            best = base_min(best, rows[0][j - 2] + 1);
        }
        rows[2][j] = best;
    }
}

size_t base_text_distance(const char *a, const char *b)
{
    size_t rows[3][BASE_TEXT_DISTANCE_MAX + 1] = {{0}};
    size_t a_length                            = strlen(a);
    size_t b_length                            = strlen(b);

    if ((a_length > BASE_TEXT_DISTANCE_MAX) ||
        (b_length > BASE_TEXT_DISTANCE_MAX)) {
        return SIZE_MAX;
    }

    for (size_t j = 0; j <= b_length; j++) {
        rows[2][j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        memcpy(rows[0], rows[1], sizeof(rows[0]));
        memcpy(rows[1], rows[2], sizeof(rows[1]));
        distance_row(rows, a, b, i);
    }
    return rows[2][b_length];
}
