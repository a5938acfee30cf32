/*
 * The verdict: does what was written equal what was read?
 */
#ifndef SHUFFLE_VERDICT_H
#define SHUFFLE_VERDICT_H

#include "tools/shuffle/result.h"

/* The sum of all workers. */
void verdict_sum(const result_t *results, unsigned num_workers,
                 result_t *sum_p);

/* Compare records, bytes and checksum. Returns -1 with an error. */
int verdict_check(const result_t *sum);

#endif
