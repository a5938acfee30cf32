/*
 * Records with quoting, as RFC 4180 has it, and programs write it:
 *
 *     1,"a, b","5"" disk",x "y" z      fields: 1   a, b   5" disk   x "y" z
 *     2,"two
 *     lines",,                         one record
 *
 * A quote opens a field only at its begin; anywhere else it is a character.
 * Between two bytes the text is in one of these states:
 *
 *     CSV_START   a field begins          CSV_QUOTED  between quotes
 *     CSV_PLAIN   in a field              CSV_CLOSED  a quote may have closed
 */
#ifndef SHUFFLE_CSV_H
#define SHUFFLE_CSV_H

#include "tools/shuffle/field.h"

typedef enum csv_state {
    CSV_START,
    CSV_PLAIN,
    CSV_QUOTED,
    CSV_CLOSED
} csv_state_t;

/* The state behind some more bytes. */
csv_state_t csv_scan(csv_state_t state, const char *data, size_t length);

/*
 * The length of what ends with the next record's end, its newline included; 0
 * when the record goes on behind the data.
 *
 * state [in/out]  At the begin of data; behind that newline, or behind data.
 */
size_t csv_record_end(csv_state_t *state, const char *data, size_t length);

/*
 * As field_find(), with commas. A carriage return at the record's end is none
 * of its last field. The key is a part of the record, without the quotes around
 * it; where it is not yet the value, which csv_value() makes, is_raw is set.
 */
bool csv_find(unsigned number, const char *record, size_t length,
              field_key_t *key_p);

/* The value of a field that is raw, which is not longer, in `value`. Returns
 * its length. */
size_t csv_value(const field_key_t *key, char *value);

#endif
