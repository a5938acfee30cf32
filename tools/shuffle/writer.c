#include <config.h>

#include "tools/shuffle/writer.h"
#include "tools/shuffle/complaint.h"

#include <string.h>

int writer_init(writer_t *writer, const job_t *job, unsigned index,
                progress_t *progress, vault_t *vault)
{
    output_set_t set = job_partitions(job, index);

    memset(writer, 0, sizeof(*writer));
    writer->job      = job;
    writer->index    = index;
    writer->progress = progress;
    writer->vault    = vault;
    if (output_init(&writer->output, &job->folder, &set) != 0) {
        return -1;
    }
    return job->inputs.header == NULL
               ? 0
               : output_write_header(&writer->output, job->inputs.header,
                                     job->inputs.header_length);
}

void writer_cleanup(writer_t *writer)
{
    output_cleanup(&writer->output);
}

static int writer_write_chunk(writer_t *writer, const chunk_t *chunk)
{
    const job_t *job = writer->job;
    chunk_run_t  run = {0};
    int          result;

    while ((result = chunk_next_run(chunk, job->num_partitions, &run,
                                    &writer->out)) > 0) {
        if (job_worker(job, run.partition) != writer->index) {
            return complain("worker %u got records of partition %u, which is "
                            "not its own",
                            writer->index, run.partition);
        }
        if (output_append(&writer->output, run.partition,
                          chunk->bytes + run.offset, run.length) != 0) {
            return -1;
        }
    }
    progress_add(&writer->progress->bytes_written, chunk->num_bytes);
    return result;
}

static int writer_write(writer_t *writer, const chunk_t *chunks,
                        uint32_t num_chunks)
{
    for (uint32_t i = 0; i < num_chunks; i++) {
        if (writer_write_chunk(writer, &chunks[i]) != 0) {
            return -1;
        }
    }
    return 0;
}

/* --- the vault ---------------------------------------------------------- */

int writer_write_held(writer_t *writer)
{
    arrival_t *arrival;
    int        result;

    if (writer->vault == NULL) {
        return 0;
    }
    result = vault_bring(writer->vault, &arrival);
    if (result <= 0) {
        return result;
    }
    result = writer_write(writer, arrival->chunks, arrival->num_chunks);
    shelf_give(vault_shelf(writer->vault), arrival);
    return result == 0 ? 1 : -1;
}

/* Nobody may have to wait for a place of the vault. */
static int writer_make_room(writer_t *writer)
{
    while (vault_is_full(writer->vault)) {
        writer->early += vault_oldest_size(writer->vault);
        if (writer_write_held(writer) < 0) {
            return -1;
        }
    }
    return 0;
}

/* --- what comes --------------------------------------------------------- */

int writer_take_batch(writer_t *writer, batch_t *batch)
{
    if ((writer->vault != NULL) && !batch_is_large(batch)) {
        if (writer_make_room(writer) != 0) {
            return -1;
        }
        /* All places may be in the hands of the exchange. */
        if (shelf_look(vault_shelf(writer->vault)) != NULL) {
            return vault_hold_batch(writer->vault, batch);
        }
    }
    return writer_write(writer, batch->chunks, batch->num_chunks);
}

static int writer_write_arrival(writer_t *writer, arrival_t *arrival)
{
    return arrival_parse(arrival, arrival_message(arrival)) == 0
               ? writer_write(writer, arrival->chunks, arrival->num_chunks)
               : -1;
}

int writer_take_arrivals(writer_t *writer, exchange_t *exchange)
{
    arrival_t *arrival;
    int        result;

    while ((arrival = exchange_arrival_get(exchange)) != NULL) {
        if ((writer->vault != NULL) && !arrival_is_large(arrival)) {
            vault_hold(writer->vault, arrival);
            continue;
        }
        result = writer_write_arrival(writer, arrival);
        exchange_arrival_release(exchange, arrival);
        if (result != 0) {
            return -1;
        }
    }
    return writer->vault != NULL ? writer_make_room(writer) : 0;
}

int writer_finish(writer_t *writer)
{
    return output_finish(&writer->output);
}
