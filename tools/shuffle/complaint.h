/*
 * What went wrong, in one sentence: what failed, on what, and what to change.
 * The function that knows the cause says it; everyone else only returns -1.
 */
#ifndef SHUFFLE_COMPLAINT_H
#define SHUFFLE_COMPLAINT_H

/* Bytes of the longest sentence that is kept, its final 0 included. */
#define COMPLAINT_SIZE 1024

/* Keep the sentence and return -1. */
int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The last sentence; "" when nothing went wrong yet. */
const char *complaint_text(void);

#endif
