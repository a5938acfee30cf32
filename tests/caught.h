/*
 * Captures the text that a test writes to stderr.
 */
#ifndef TESTS_CAUGHT_H
#define TESTS_CAUGHT_H

/* The checked fixture of such a test. */
void caught_begin(void);
void caught_end(void);

/* The text written since then, at most 4095 bytes; valid until the next
 * call. */
const char *caught_text(void);

#endif
