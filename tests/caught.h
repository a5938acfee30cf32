/*
 * What a test writes to stderr, kept to be looked at.
 */
#ifndef TESTS_CAUGHT_H
#define TESTS_CAUGHT_H

/* The checked fixture of such a test. */
void caught_begin(void);
void caught_end(void);

/* All that was written since then, or 4095 bytes of it; valid until the next
 * call. */
const char *caught_text(void);

#endif
