/* Random sizes in random order. */
#include "replay/random.h"
#include "replay/workloads.h"

#include <math.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

/* RMM's benchmark random_allocations, as it stands in its source. */
#define RMM_PERCENT   73
#define RMM_MAX_USAGE (16000 * MIB)

int workload_make_rmm(trace_t *trace, const uint64_t *numbers)
{
    uint64_t num_allocations = numbers[0];
    uint64_t max_size        = numbers[1] * MIB;
    minstd_t minstd          = {1};
    maker_t  maker;

    maker_init(&maker, trace, 1, 0);
    for (uint64_t i = 0; i < 2 * num_allocations; i++) {
        uint64_t size   = minstd_between(&minstd, 1, max_size);
        bool     allocs = true;

        if (maker.num_live > 0) {
            allocs = (minstd_between(&minstd, 0, 99) < RMM_PERCENT) &&
                     (trace->num_allocations < num_allocations) &&
                     (maker.live_bytes + size < RMM_MAX_USAGE);
        }
        if (allocs) {
            maker_alloc(&maker, size);
        } else {
            maker_free(&maker, minstd_between(&minstd, 0, num_allocations - 1) %
                                   maker.num_live);
        }
    }
    return maker_cleanup(&maker);
}

typedef struct plan {
    uint64_t seed;
    uint64_t num_allocations;
    uint64_t min_size;
    uint64_t max_size;
    bool     is_log_uniform;
    uint64_t max_live;
} plan_t;

static uint64_t draw_size(const plan_t *plan, random64_t *random)
{
    double low  = log2((double)plan->min_size);
    double high = log2((double)plan->max_size);

    if (plan->is_log_uniform) {
        return (uint64_t)exp2(low + (high - low) * random64_fraction(random));
    }
    return plan->min_size +
           random64_below(random, plan->max_size - plan->min_size + 1);
}

/* Allocate or free by a coin; a random live one is freed, also where there is
 * no room for more; at last all that is left. */
static int make_plan(trace_t *trace, const plan_t *plan)
{
    random64_t random = {plan->seed};
    maker_t    maker;

    maker_init(&maker, trace, 1, 0);
    while ((trace->num_allocations < plan->num_allocations) &&
           !maker.has_failed) {
        uint64_t size   = draw_size(plan, &random);
        bool     allocs = random64_below(&random, 2) == 0;

        if ((maker.num_live == 0) ||
            (allocs && (maker.live_bytes + size < plan->max_live))) {
            maker_alloc(&maker, size);
        } else {
            maker_free(&maker, random64_below(&random, maker.num_live));
        }
    }
    while ((maker.num_live > 0) && !maker.has_failed) {
        maker_free(&maker, random64_below(&random, maker.num_live));
    }
    return maker_cleanup(&maker);
}

int workload_make_trace1(trace_t *trace, const uint64_t *numbers)
{
    (void)numbers;
    return make_plan(trace, &(plan_t){1, 3000, 1, 256 * MIB, false, 16 * GIB});
}

int workload_make_trace2(trace_t *trace, const uint64_t *numbers)
{
    (void)numbers;
    return make_plan(trace, &(plan_t){2, 5000, 256, GIB, true, 16 * GIB});
}

int workload_make_trace3(trace_t *trace, const uint64_t *numbers)
{
    (void)numbers;
    return make_plan(trace, &(plan_t){3, 600, 1, 2 * GIB, false, 24 * GIB});
}

int workload_make_trace4(trace_t *trace, const uint64_t *numbers)
{
    (void)numbers;
    return make_plan(trace, &(plan_t){4, 20000, 256, 64 * MIB, true, 8 * GIB});
}
