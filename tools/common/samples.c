#include "common/samples.h"
#include "common/error.h"

#include <stdlib.h>
#include <string.h>

void samples_add(samples_t *samples, double value)
{
    samples->values =
        tool_grow(samples->values, samples->num, sizeof(*samples->values));
    samples->values[samples->num++] = value;
    samples->is_sorted              = false;
}

void samples_cleanup(samples_t *samples)
{
    free(samples->values);
    memset(samples, 0, sizeof(*samples));
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;

    return (x > y) - (x < y);
}

double samples_quantile(samples_t *samples, double fraction)
{
    double place;
    size_t below;

    if (samples->num == 0) {
        return 0;
    }
    if (!samples->is_sorted) {
        qsort(samples->values, samples->num, sizeof(double), compare);
        samples->is_sorted = true;
    }
    place = fraction * (double)(samples->num - 1);
    below = (size_t)place;
    if (below + 1 == samples->num) {
        return samples->values[below];
    }
    place -= (double)below;
    return samples->values[below] * (1 - place) +
           samples->values[below + 1] * place;
}
