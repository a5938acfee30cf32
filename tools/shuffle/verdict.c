#include <config.h>

#include "tools/shuffle/verdict.h"
#include "tools/shuffle/error.h"

#include <string.h>

static void verdict_add_times(exchange_times_t       *sum,
                              const exchange_times_t *times)
{
    stopwatch_add(&sum->transfer, &times->transfer);
    stopwatch_add(&sum->wait, &times->wait);
    sum->bytes_sent += times->bytes_sent;
    sum->bytes_received += times->bytes_received;
    sum->batches_sent += times->batches_sent;
    sum->batches_received += times->batches_received;
}

void verdict_sum(const result_t *results, unsigned num_workers, result_t *sum_p)
{
    memset(sum_p, 0, sizeof(*sum_p));
    for (unsigned i = 0; i < num_workers; i++) {
        tally_add(&sum_p->in, &results[i].in);
        tally_add(&sum_p->out, &results[i].out);
        verdict_add_times(&sum_p->times, &results[i].times);
        sum_p->num_added += results[i].num_added;
        stopwatch_add(&sum_p->whole, &results[i].whole);
        stopwatch_add(&sum_p->copy, &results[i].copy);
        sum_p->gpu_store.size += results[i].gpu_store.size;
        sum_p->gpu_store.held += results[i].gpu_store.held;
        sum_p->gpu_store.held_max += results[i].gpu_store.held_max;
        sum_p->early += results[i].early;
        sum_p->num_map += results[i].num_map;
        sum_p->num_ucx += results[i].num_ucx;
        pool_stats_add(&sum_p->stats, &results[i].stats);
    }
}

int verdict_check(const result_t *sum)
{
    if (tally_is_equal(&sum->in, &sum->out)) {
        return 0;
    }
    return say_error("the output differs from the input: %llu records, %llu "
                     "bytes, checksum %016llx were read, but %llu records, "
                     "%llu bytes, checksum %016llx written",
                     (unsigned long long)sum->in.records,
                     (unsigned long long)sum->in.bytes,
                     (unsigned long long)sum->in.checksum,
                     (unsigned long long)sum->out.records,
                     (unsigned long long)sum->out.bytes,
                     (unsigned long long)sum->out.checksum);
}
