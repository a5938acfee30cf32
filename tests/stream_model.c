#include "stream_model.h"

size_t stream_model_random(uint64_t *state, size_t limit)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(*state >> 33) % limit;
}

size_t stream_model_make(const size_t *lengths, size_t num_lengths,
                         const ucxpool_segment_t *segments, char **stream)
{
    size_t segment = 0, offset = 0, n = 0, end = 0;

    for (size_t i = 0; i < num_lengths; i++) {
        for (; (lengths[i] != 0) && (n % COPY_ALIGNMENT != 0); n++) {
            stream[n] = NULL;
        }
        for (size_t j = 0; j < lengths[i]; j++) {
            while (offset == segments[segment].length) {
                segment++;
                offset = 0;
            }
            stream[n++] = (char *)segments[segment].address + offset++;
            end         = n;
        }
    }
    return end;
}

void stream_model_plan(copy_plan_t *plan, const copy_run_t *runs,
                       size_t num_runs, const copy_totals_t *totals,
                       const ucxpool_segment_t *segments, size_t num_segments)
{
    copy_memory_t memory = copy_memory_of_segments(segments, num_segments);

    copy_plan_init(plan, runs, num_runs, totals, &memory);
}

void stream_model_plan_any(copy_plan_t *plan, const copy_run_t *runs,
                           size_t num_runs, const copy_totals_t *totals,
                           const ucxpool_segment_t *segments,
                           size_t num_segments, size_t length, void **pieces)
{
    copy_memory_t memory = copy_memory_of_pieces(pieces, num_segments, length);

    if (length == 0) {
        stream_model_plan(plan, runs, num_runs, totals, segments, num_segments);
        return;
    }
    for (size_t i = 0; i < num_segments; i++) {
        pieces[i] = segments[i].address;
    }
    copy_plan_init(plan, runs, num_runs, totals, &memory);
}
