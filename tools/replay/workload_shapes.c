/* Workloads of one shape. */
#include "replay/random.h"
#include "replay/workloads.h"

#include <math.h>

#define KIB (UINT64_C(1) << 10)
#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

#define NUM_HOLES 65536
#define HOLE_SIZE KIB

/* Allocate and free, again and again. */
static void make_pairs(maker_t *maker, uint64_t size, uint64_t count)
{
    for (uint64_t i = 0; (i < count) && !maker->has_failed; i++) {
        maker_alloc(maker, size);
        maker_free(maker, maker->num_live - 1);
    }
}

int workload_make_pair(trace_t *trace, const uint64_t *numbers)
{
    maker_t maker;

    maker_init(&maker, trace, 1, 0);
    make_pairs(&maker, numbers[0], numbers[1]);
    return maker_cleanup(&maker);
}

/* Fill with pieces and free every second one; those that stay are left live. */
static void make_holes(maker_t *maker, uint64_t num_pieces, uint64_t size)
{
    for (uint64_t i = 0; (i < num_pieces) && !maker->has_failed; i++) {
        maker_alloc(maker, size);
    }
    /* From behind: what takes the place of a freed one is seen already. */
    for (uint64_t i = num_pieces - num_pieces % 2;
         (i > 0) && !maker->has_failed; i -= 2) {
        maker_free(maker, i - 1);
    }
}

int workload_make_holes(trace_t *trace, const uint64_t *numbers)
{
    maker_t maker;

    maker_init(&maker, trace, 1, 0);
    make_holes(&maker, 2 * NUM_HOLES, HOLE_SIZE);
    trace->first_timed = trace->num_events;
    make_pairs(&maker, numbers[0], numbers[1]);
    return maker_cleanup(&maker);
}

int workload_make_checkerboard(trace_t *trace, const uint64_t *numbers)
{
    uint64_t size  = numbers[0] * MIB;
    uint64_t total = numbers[1];
    uint64_t num   = total / size;
    maker_t  maker;

    maker_init(&maker, trace, 1, 0);
    make_holes(&maker, num, size);
    trace->first_timed = trace->num_events;
    maker_alloc(&maker, (total - maker.live_bytes) / 16 * 15);
    trace->capacity = total;
    return maker_cleanup(&maker);
}

/* A: 1 GiB that stays and 4 GiB that do not. B: 1 GiB that stays. A again. */
int workload_make_aba(trace_t *trace, const uint64_t *numbers)
{
    maker_t maker;

    (void)numbers;
    maker_init(&maker, trace, 1, 0);
    maker_alloc(&maker, GIB);
    maker_alloc(&maker, 4 * GIB);
    maker_free(&maker, 1);
    maker_alloc(&maker, GIB);
    maker_alloc(&maker, GIB);
    maker_alloc(&maker, 4 * GIB);
    maker_free(&maker, 3);
    trace->capacity = 8 * GIB;
    return maker_cleanup(&maker);
}

/* Allocations that each thread of a workload has at most. */
#define THREAD_LIVE 16

/* Sizes are log-uniform from 1 KiB to 1 MiB; threads take turns. */
int workload_make_threads(trace_t *trace, const uint64_t *numbers)
{
    uint64_t   num_threads = numbers[0];
    random64_t random      = {5};
    maker_t    makers[64];
    int        code = 0;

    for (uint64_t i = 0; i < num_threads; i++) {
        maker_init(&makers[i], trace, i + 1, (i + 1) << 8);
    }
    for (uint64_t i = 0; i < numbers[1]; i++) {
        for (uint64_t k = 0; k < num_threads; k++) {
            maker_t *maker = &makers[k];

            if (maker->num_live == THREAD_LIVE) {
                maker_free(maker, random64_below(&random, THREAD_LIVE));
            }
            maker_alloc(maker,
                        (uint64_t)(exp2(10 * random64_fraction(&random)) *
                                   (double)KIB));
        }
    }
    for (uint64_t k = 0; k < num_threads; k++) {
        while ((makers[k].num_live > 0) && !makers[k].has_failed) {
            maker_free(&makers[k], 0);
        }
        if (maker_cleanup(&makers[k]) != 0) {
            code = -1;
        }
    }
    return code;
}
