#include <config.h>

#include "tools/shuffle/chunk.h"
#include "tools/shuffle/complaint.h"

int chunk_count(const chunk_t *chunk, uint32_t num_partitions, tally_t *tally)
{
    size_t start = 0;
    size_t end;

    for (uint32_t i = 0; i < chunk->num_records; i++) {
        end = i + 1 < chunk->num_records ? chunk->ends[i] : chunk->num_bytes;
        if ((end <= start) || (end > chunk->num_bytes) ||
            (chunk->bytes[end - 1] != '\n')) {
            return complain("record %u of a chunk of partition %u does not "
                            "end where its column says",
                            i, chunk->partition);
        }
        if (hash_partition(chunk->hashes[i], num_partitions) !=
            chunk->partition) {
            return complain("record %u of a chunk of partition %u belongs to "
                            "another partition",
                            i, chunk->partition);
        }
        tally_record(tally, chunk->bytes + start, end - start);
        start = end;
    }
    return 0;
}
