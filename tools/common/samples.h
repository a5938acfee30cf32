/*
 * A growing list of numbers, and its quantiles.
 */
#ifndef COMMON_SAMPLES_H
#define COMMON_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct samples {
    double *values;
    size_t  num;
    bool    is_sorted;
} samples_t;

/* Add a number. Zeroed memory is an empty list. Ends the program if memory is
 * exhausted. */
void samples_add(samples_t *samples, double value);
void samples_cleanup(samples_t *samples);

/* Returns the value below which a `fraction` (0 to 1) of the numbers are,
 * interpolated between two neighbors. Sorts the list. Returns 0 for an empty
 * list. */
double samples_quantile(samples_t *samples, double fraction);

#endif
