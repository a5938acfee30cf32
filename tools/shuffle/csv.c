#include <config.h>

#include "tools/shuffle/csv.h"

#include <string.h>

static bool csv_ends_field(char c)
{
    return (c == ',') || (c == '\n');
}

/* From a byte in the middle of a field to the next quote that opens one, or to
 * the end. */
static const char *csv_skip_plain(const char *at, const char *end,
                                  csv_state_t *state_p)
{
    const char *from = at;

    while ((at = memchr(at, '"', (size_t)(end - at))) != NULL) {
        if ((at > from) && csv_ends_field(at[-1])) {
            *state_p = CSV_START;
            return at;
        }
        at++;
    }
    *state_p = (end > from) && csv_ends_field(end[-1]) ? CSV_START : CSV_PLAIN;
    return end;
}

csv_state_t csv_scan(csv_state_t state, const char *data, size_t length)
{
    const char *end = data + length;
    const char *at  = data;

    while (at < end) {
        if (state == CSV_QUOTED) {
            at = memchr(at, '"', (size_t)(end - at));
            if (at == NULL) {
                return CSV_QUOTED;
            }
            at++;
            state = CSV_CLOSED;
        } else if ((state != CSV_PLAIN) && (*at == '"')) {
            at++;
            state = CSV_QUOTED;
        } else {
            at = csv_skip_plain(at, end, &state);
        }
    }
    return state;
}

size_t csv_record_end(csv_state_t *state, const char *data, size_t length)
{
    const char *end = data + length;
    const char *at  = data;
    const char *newline;

    while ((newline = memchr(at, '\n', (size_t)(end - at))) != NULL) {
        *state = csv_scan(*state, at, (size_t)(newline + 1 - at));
        at     = newline + 1;
        if (*state != CSV_QUOTED) {
            return (size_t)(at - data);
        }
    }
    *state = csv_scan(*state, at, (size_t)(end - at));
    return 0;
}

/* Behind the field that begins here: its comma, or the end. */
static const char *csv_field_end(const char *at, const char *end)
{
    const char *comma;

    if ((at < end) && (*at == '"')) {
        for (at++; at < end; at += 2) {
            at = memchr(at, '"', (size_t)(end - at));
            if ((at == NULL) || (at + 1 == end)) {
                return end;
            }
            if (at[1] != '"') {
                break;
            }
        }
        at = at < end ? at : end;
    }
    comma = memchr(at, ',', (size_t)(end - at));
    return comma != NULL ? comma : end;
}

static void csv_take_key(const char *start, const char *end, field_key_t *key)
{
    key->data   = start;
    key->length = (size_t)(end - start);
    key->is_raw = false;
    if ((key->length == 0) || (*start != '"')) {
        return;
    }
    /* Nothing but the quotes around it. */
    if ((key->length >= 2) &&
        (memchr(start + 1, '"', key->length - 1) == end - 1)) {
        key->data++;
        key->length -= 2;
        return;
    }
    key->is_raw = true;
}

bool csv_find(unsigned number, const char *record, size_t length,
              field_key_t *key_p)
{
    const char *end   = record + length;
    const char *start = record;
    const char *next;

    if ((length > 0) && (end[-1] == '\r')) {
        end--;
    }
    for (;; number--) {
        next = csv_field_end(start, end);
        if (number == 1) {
            csv_take_key(start, next, key_p);
            return true;
        }
        if (next == end) {
            return false;
        }
        start = next + 1;
    }
}

size_t csv_value(const field_key_t *key, char *value)
{
    const char *end       = key->data + key->length;
    bool        is_quoted = true;
    size_t      length    = 0;

    for (const char *at = key->data + 1; at < end; at++) {
        if (is_quoted && (*at == '"')) {
            if ((at + 1 < end) && (at[1] == '"')) {
                at++;
            } else {
                is_quoted = false;
                continue;
            }
        }
        value[length++] = *at;
    }
    return length;
}
