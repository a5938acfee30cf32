/*
 * Errors of the tool: one sentence on stderr, said by the first function that
 * knows the cause. Everyone else only returns -1.
 */
#ifndef REPLAY_ERROR_H
#define REPLAY_ERROR_H

/* Print "ucxpool_replay: ..." and return -1. */
int replay_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
