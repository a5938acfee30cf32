/*
 * Errors of the tool: one sentence on stderr, said by the first function that
 * knows the cause. Everyone else only returns -1.
 */
#ifndef PERF_ERROR_H
#define PERF_ERROR_H

/* Print "ucxpool_perf: ..." and return -1. */
int perf_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
