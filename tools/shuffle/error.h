/*
 * What went wrong, in one sentence: what failed, on what, and what to change.
 * The function that knows the cause says it; everyone else only returns -1.
 */
#ifndef SHUFFLE_ERROR_H
#define SHUFFLE_ERROR_H

/* Bytes of the longest sentence that is kept, its final 0 included. */
#define ERROR_SIZE 1024

/* Keep the sentence and return -1. */
int say_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The last sentence; "" when nothing went wrong yet. */
const char *error_text(void);

#endif
