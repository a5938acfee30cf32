#include "replay/curve.h"

size_t curve_step(size_t num_events)
{
    return num_events / (CURVE_MAX_POINTS - 4) + 1;
}

void curve_add(curve_t *curve, curve_point_t point)
{
    if (curve->num < CURVE_MAX_POINTS) {
        curve->points[curve->num++] = point;
    }
}

uint64_t curve_peak(const curve_t *curve)
{
    uint64_t peak = 0;

    for (size_t i = 0; i < curve->num; i++) {
        if (curve->points[i].reserved > peak) {
            peak = curve->points[i].reserved;
        }
    }
    return peak;
}
