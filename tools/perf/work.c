#include "perf/work.h"

#define NUM_COLUMNS 6u
#define FEWEST_ROWS UINT64_C(64)
#define VALUE_SIZE  8u /* of the widest column */

/* How many sizes of batches there are. */
static uint64_t num_batches(const work_t *work)
{
    uint64_t num = 1;

    while (FEWEST_ROWS << num <= work->size / VALUE_SIZE) {
        num++;
    }
    return num;
}

/* The smallest and the largest batch are whole, the others a bit less, so that
 * not all lengths are powers of two. */
static uint64_t num_rows(const work_t *work, uint64_t batch)
{
    if (work->size / VALUE_SIZE < FEWEST_ROWS) {
        return work->size / VALUE_SIZE;
    }
    return (FEWEST_ROWS << batch) -
           (batch + 1 < num_batches(work) ? batch * 13 : 0);
}

uint64_t work_length(const work_t *work, uint64_t index)
{
    uint64_t rows;

    if (!work->mixed) {
        return work->size;
    }
    rows = num_rows(work, index / NUM_COLUMNS % num_batches(work));
    switch (index % NUM_COLUMNS) {
    case 0:
        return (rows + 7) / 8;
    case 1:
        return rows;
    case 2:
        return rows * 2;
    case 3:
        return rows * 4;
    case 4:
        return rows * 4 + 4;
    default:
        return rows * 8;
    }
}

uint64_t work_bytes(const work_t *work)
{
    uint64_t num_all   = NUM_COLUMNS * num_batches(work);
    uint64_t num_whole = work->count / num_all;
    uint64_t bytes     = 0;

    if (!work->mixed) {
        return work->size * work->count;
    }
    for (uint64_t i = 0; i < num_all; i++) {
        bytes += work_length(work, i) *
                 (num_whole + (i < work->count % num_all ? 1 : 0));
    }
    return bytes;
}

static bool device_is_sane(int32_t device)
{
    return (device >= WORK_HOST) && (device <= WORK_MAX_DEVICE);
}

bool work_is_sane(const work_t *work)
{
    return (work->size >= 1) && (work->size <= WORK_MAX_BYTES) &&
           (work->count >= 1) && (work->count <= WORK_MAX_BUFFERS) &&
           (work->size <= WORK_MAX_BYTES / work->count) &&
           (work->outstanding >= 1) &&
           (work->outstanding <= WORK_MAX_OUTSTANDING) &&
           (work->size * work->count <= WORK_MAX_BYTES / work->outstanding) &&
           (!work->echo || ((work->count == 1) && !work->both)) &&
           (!work->mixed || (work->size >= VALUE_SIZE)) &&
           (work->misaligned < WORK_LINE) && device_is_sane(work->devices[0]) &&
           device_is_sane(work->devices[1]) &&
           ((work->devices[0] == WORK_HOST) ==
            (work->devices[1] == WORK_HOST)) &&
           (work->pageable <= (WORK_PAGEABLE_SEND | WORK_PAGEABLE_RECV)) &&
           ((work->pageable == 0) || work_is_on_gpu(work));
}
