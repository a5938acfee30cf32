#include <config.h>

#include "tools/shuffle/chunk.h"
#include "tools/shuffle/error.h"

int chunk_next_run(const chunk_t *chunk, uint32_t num_partitions,
                   chunk_run_t *run, tally_t *tally)
{
    size_t   start = run->offset + run->length;
    uint32_t i     = run->end;
    size_t   end;

    run->offset = start;
    if (i == chunk->num_records) {
        run->length = 0;
        return 0;
    }
    run->partition = hash_partition(chunk->hashes[i], num_partitions);
    do {
        end = i + 1 < chunk->num_records ? chunk->ends[i] : chunk->num_bytes;
        if ((end <= start) || (end > chunk->num_bytes) ||
            (chunk->bytes[end - 1] != '\n')) {
            return say_error("record %u of a chunk of bucket %u does not end "
                             "where its column says",
                             i, chunk->bucket);
        }
        tally_record(tally, chunk->bytes + start, end - start);
        start = end;
        i++;
    } while (
        (i < chunk->num_records) &&
        (hash_partition(chunk->hashes[i], num_partitions) == run->partition));
    run->end    = i;
    run->length = start - run->offset;
    return 1;
}
