#include "replay/random.h"

uint64_t random64_next(random64_t *random)
{
    uint64_t mixed = random->state += UINT64_C(0x9e3779b97f4a7c15);

    mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
    return mixed ^ (mixed >> 31);
}

uint64_t random64_below(random64_t *random, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)random64_next(random) * bound) >> 64);
}

double random64_fraction(random64_t *random)
{
    return (double)(random64_next(random) >> 11) * 0x1p-53;
}

/* Lehmer's generator: 1 to MODULUS - 1. */
#define MODULUS    UINT64_C(2147483647)
#define MULTIPLIER UINT64_C(16807)

/* One of NUM_VALUES, from 0. */
#define NUM_VALUES (MODULUS - 1)

static uint64_t minstd_next(minstd_t *minstd)
{
    minstd->state = (uint32_t)(minstd->state * MULTIPLIER % MODULUS);
    return minstd->state - 1;
}

/* From 0 to span, which is less than NUM_VALUES - 1: what does not divide
 * evenly is drawn again. */
static uint64_t draw_few(minstd_t *minstd, uint64_t span)
{
    uint64_t scale = (NUM_VALUES - 1) / (span + 1);
    uint64_t past  = scale * (span + 1);
    uint64_t value;

    do {
        value = minstd_next(minstd);
    } while (value >= past);
    return value / scale;
}

/* From 0 to span, which is larger: put together of several. */
static uint64_t draw_many(minstd_t *minstd, uint64_t span)
{
    uint64_t high, value;

    do {
        high  = minstd_between(minstd, 0, span / NUM_VALUES) * NUM_VALUES;
        value = high + minstd_next(minstd);
    } while ((value > span) || (value < high));
    return value;
}

uint64_t minstd_between(minstd_t *minstd, uint64_t low, uint64_t high)
{
    uint64_t span = high - low;

    if (span < NUM_VALUES - 1) {
        return low + draw_few(minstd, span);
    }
    return low + (span == NUM_VALUES - 1 ? minstd_next(minstd)
                                         : draw_many(minstd, span));
}
