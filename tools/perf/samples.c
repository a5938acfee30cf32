#include "perf/samples.h"
#include "common/error.h"

#include <stdlib.h>
#include <string.h>

/* More than anybody needs for a 99th percentile; later ones are dropped. */
#define SAMPLES_MAX ((size_t)1 << 21)

int samples_add(samples_t *samples, double value)
{
    if (samples->num == SAMPLES_MAX) {
        return 0;
    }
    if (samples->num == samples->room) {
        size_t  room   = samples->room == 0 ? 256 : 2 * samples->room;
        double *values = realloc(samples->values, room * sizeof(*values));

        if (values == NULL) {
            return tool_error("out of memory for %zu samples", room);
        }
        samples->values = values;
        samples->room   = room;
    }
    samples->values[samples->num++] = value;
    return 0;
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
    qsort(samples->values, samples->num, sizeof(double), compare);
    place = fraction * (double)(samples->num - 1);
    below = (size_t)place;
    if (below + 1 == samples->num) {
        return samples->values[below];
    }
    place -= (double)below;
    return samples->values[below] * (1 - place) +
           samples->values[below + 1] * place;
}
