#include "tools/shuffle/batch.h"

#include "common/error.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* Expected minimum size of a record. If records are shorter, the columns hashes
 * and ends are full before bytes is. */
#define BATCH_RECORD_SIZE 32u
#define BATCH_ALIGNMENT   64u

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "columns are sent as they lie in memory");

/* --- hashes and tallies ------------------------------------------------- */

static uint64_t hash_load(const unsigned char *data)
{
    uint64_t word;

    memcpy(&word, data, sizeof(word));
    return le64toh(word);
}

/* Combine the halves of the product and the factors. The factors are included
 * because a factor of 0 would otherwise discard earlier input. */
static uint64_t hash_fold(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;

    return (uint64_t)product ^ (uint64_t)(product >> 64) ^ a ^
           ((b << 32) | (b >> 32));
}

static uint64_t hash_step(uint64_t state, const unsigned char *data)
{
    return hash_fold(hash_load(data) ^ 0x9e3779b97f4a7c15u,
                     hash_load(data + 8) ^ state);
}

uint64_t hash_bytes(const void *bytes, size_t length, uint64_t seed)
{
    const unsigned char *data     = bytes;
    unsigned char        tail[16] = {0};
    uint64_t             one      = seed ^ (length * 0xd6e8feb86659fd93u);
    uint64_t             two      = seed + 0xa0761d6478bd642fu;

    /* Compute two independent chains, so that the multiplier is always busy. */
    for (; length >= 32; data += 32, length -= 32) {
        one = hash_step(one, data);
        two = hash_step(two, data + 16);
    }
    if (length >= 16) {
        one = hash_step(one, data);
        data += 16;
        length -= 16;
    }
    memcpy(tail, data, length);
    one = hash_step(one, tail);
    one = hash_fold(one ^ 0xe7037ed1a0b428dbu, two ^ 0x8ebc6af09c88c6e3u);
    return one ^ (one >> 29);
}

void tally_record(tally_t *tally, const char *record, size_t length)
{
    tally->records++;
    tally->bytes += length;
    tally->checksum += hash_bytes(record, length, HASH_SEED_RECORD);
}

void tally_add(tally_t *tally, const tally_t *other)
{
    tally->records += other->records;
    tally->bytes += other->bytes;
    tally->checksum += other->checksum;
}

bool tally_is_equal(const tally_t *one, const tally_t *other)
{
    return (one->records == other->records) && (one->bytes == other->bytes) &&
           (one->checksum == other->checksum);
}

/* --- a batch ------------------------------------------------------------ */

static size_t batch_max_records(size_t size)
{
    return size / BATCH_RECORD_SIZE + 1;
}

static size_t batch_columns_size(size_t num_records)
{
    return num_records * (sizeof(uint64_t) + sizeof(uint32_t)) -
           sizeof(uint32_t);
}

size_t batch_memory_size(size_t size)
{
    size_t all = batch_columns_size(batch_max_records(size)) + size;

    return (all + BATCH_ALIGNMENT - 1) / BATCH_ALIGNMENT * BATCH_ALIGNMENT;
}

/* Lay out columns with room for this number of records. */
static void batch_lay_out(batch_t *batch, char *memory, size_t num_records)
{
    batch->hashes = (uint64_t *)memory;
    batch->ends   = (uint32_t *)(batch->hashes + num_records);
    batch->bytes  = (char *)(batch->ends + num_records - 1);
}

void batch_init(batch_t *batch, char *memory, size_t size)
{
    memset(batch, 0, sizeof(*batch));
    batch->memory = memory;
    batch->size   = size;
    batch_reset(batch);
}

void batch_reset(batch_t *batch)
{
    free(batch->large);
    batch->large       = NULL;
    batch->num_records = 0;
    batch->num_bytes   = 0;
    batch_lay_out(batch, batch->memory, batch_max_records(batch->size));
}

static int batch_take_large(batch_t *batch, size_t length)
{
    batch->large = malloc(length);
    return batch->large != NULL
               ? 0
               : keep_error("out of memory for a batch of %zu bytes", length);
}

int batch_append(batch_t *batch, uint64_t hash, const char *record,
                 size_t length)
{
    if ((batch->large != NULL) ||
        (batch->num_records == batch_max_records(batch->size)) ||
        ((length > batch->size - batch->num_bytes) &&
         (batch->num_records > 0))) {
        return 0;
    }
    if (length > batch->size) {
        if (batch_take_large(batch, batch_columns_size(1) + length) != 0) {
            return -1;
        }
        batch_lay_out(batch, batch->large, 1);
    }
    if (batch->num_records > 0) {
        batch->ends[batch->num_records - 1] = (uint32_t)batch->num_bytes;
    }
    batch->hashes[batch->num_records++] = hash;
    memcpy(batch->bytes + batch->num_bytes, record, length);
    batch->num_bytes += length;
    return 1;
}

size_t batch_length(const batch_t *batch)
{
    return batch_columns_size(batch->num_records) + batch->num_bytes;
}

size_t batch_segments(batch_t *batch, const ucxpool_segment_t **segments_p)
{
    ucxpool_segment_t *segments = batch->segments;

    segments[0].address = batch->hashes;
    segments[0].length  = batch->num_records * sizeof(*batch->hashes);
    segments[1].address = batch->ends;
    segments[1].length  = (batch->num_records - 1) * sizeof(*batch->ends);
    segments[2].address = batch->bytes;
    segments[2].length  = batch->num_bytes;
    *segments_p         = segments;
    return 3;
}

int batch_prepare(batch_t *batch, uint64_t num_records, size_t length)
{
    if ((num_records == 0) || (num_records > length / sizeof(uint64_t)) ||
        (batch_columns_size(num_records) > length)) {
        return keep_error("a batch of %zu bytes cannot have %llu records",
                          length, (unsigned long long)num_records);
    }
    batch->num_records = num_records;
    batch->num_bytes   = length - batch_columns_size(num_records);
    return length <= batch_memory_size(batch->size)
               ? 0
               : batch_take_large(batch, length);
}

char *batch_place(const batch_t *batch)
{
    return batch->large != NULL ? batch->large : batch->memory;
}

void batch_parse(batch_t *batch)
{
    batch_lay_out(batch, batch_place(batch), batch->num_records);
}

int batch_next_run(const batch_t *batch, uint32_t num_partitions,
                   batch_run_t *run, tally_t *tally)
{
    size_t start = run->offset + run->length;
    size_t i     = run->end;
    size_t end;

    run->offset = start;
    run->length = 0;
    if (i == batch->num_records) {
        return 0;
    }
    run->partition = hash_partition(batch->hashes[i], num_partitions);
    do {
        end = i + 1 < batch->num_records ? batch->ends[i] : batch->num_bytes;
        if ((end <= start) || (end > batch->num_bytes) ||
            (batch->bytes[end - 1] != '\n')) {
            return keep_error("record %zu of a batch of worker %u does not end "
                              "at the offset that the column ends gives",
                              i, batch->peer);
        }
        tally_record(tally, batch->bytes + start, end - start);
        start = end;
        i++;
    } while (
        (i < batch->num_records) &&
        (hash_partition(batch->hashes[i], num_partitions) == run->partition));
    run->end    = i;
    run->length = start - run->offset;
    return 1;
}

/* --- lists -------------------------------------------------------------- */

void batch_list_init(batch_list_t *list, char *memory, unsigned num,
                     size_t size)
{
    list->all  = tool_calloc(num, sizeof(*list->all));
    list->num  = num;
    list->idle = NULL;
    for (unsigned i = 0; i < num; i++) {
        batch_init(&list->all[i], memory + i * batch_memory_size(size), size);
        batch_list_put(list, &list->all[i]);
    }
}

void batch_list_cleanup(batch_list_t *list)
{
    for (unsigned i = 0; i < list->num; i++) {
        free(list->all[i].large);
    }
    free(list->all);
    memset(list, 0, sizeof(*list));
}

batch_t *batch_list_get(batch_list_t *list)
{
    batch_t *batch = list->idle;

    if (batch != NULL) {
        list->idle = batch->next;
    }
    return batch;
}

void batch_list_put(batch_list_t *list, batch_t *batch)
{
    batch_reset(batch);
    batch->next = list->idle;
    list->idle  = batch;
}
