/*
 * Captures the text that a test writes to stderr.
 */
#ifndef TESTS_CAUGHT_H
#define TESTS_CAUGHT_H

/* The checked fixture of a test that captures text. */
void caught_begin(void);
void caught_end(void);

/* Returns the text written since caught_begin(), at most 4095 bytes. The text
 * is valid until the next call. */
const char *caught_text(void);

#endif
