#include <config.h>

#include "tools/shuffle/writer.h"
#include "tools/shuffle/error.h"

#include <string.h>

int writer_init(writer_t *writer, const job_t *job, unsigned index,
                progress_t *progress, gpu_store_t *gpu_store)
{
    output_set_t set = job_partitions(job, index);

    memset(writer, 0, sizeof(*writer));
    writer->job       = job;
    writer->index     = index;
    writer->progress  = progress;
    writer->gpu_store = gpu_store;
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
            return say_error("worker %u got records of partition %u, which is "
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

/* --- the store ---------------------------------------------------------- */

int writer_write_held(writer_t *writer)
{
    incoming_t *incoming;
    int         result;

    if (writer->gpu_store == NULL) {
        return 0;
    }
    result = gpu_store_bring(writer->gpu_store, &incoming);
    if (result <= 0) {
        return result;
    }
    result = writer_write(writer, incoming->chunks, incoming->num_chunks);
    incoming_list_put(gpu_store_list(writer->gpu_store), incoming);
    return result == 0 ? 1 : -1;
}

/* Nobody may have to wait for a place of the store. */
static int writer_make_room(writer_t *writer)
{
    while (gpu_store_is_full(writer->gpu_store)) {
        writer->early += gpu_store_oldest_size(writer->gpu_store);
        if (writer_write_held(writer) < 0) {
            return -1;
        }
    }
    return 0;
}

/* --- what comes --------------------------------------------------------- */

int writer_take_batch(writer_t *writer, batch_t *batch)
{
    if ((writer->gpu_store != NULL) && !batch_is_large(batch)) {
        if (writer_make_room(writer) != 0) {
            return -1;
        }
        /* All places may be in the hands of the exchange. */
        if (incoming_list_peek(gpu_store_list(writer->gpu_store)) != NULL) {
            return gpu_store_hold_batch(writer->gpu_store, batch);
        }
    }
    return writer_write(writer, batch->chunks, batch->num_chunks);
}

static int writer_write_incoming(writer_t *writer, incoming_t *incoming)
{
    return incoming_parse(incoming, incoming_message(incoming)) == 0
               ? writer_write(writer, incoming->chunks, incoming->num_chunks)
               : -1;
}

int writer_take_arrivals(writer_t *writer, exchange_t *exchange)
{
    incoming_t *incoming;
    int         result;

    while ((incoming = exchange_incoming_get(exchange)) != NULL) {
        if ((writer->gpu_store != NULL) && !incoming_is_large(incoming)) {
            gpu_store_hold(writer->gpu_store, incoming);
            continue;
        }
        result = writer_write_incoming(writer, incoming);
        exchange_incoming_release(exchange, incoming);
        if (result != 0) {
            return -1;
        }
    }
    return writer->gpu_store != NULL ? writer_make_room(writer) : 0;
}

int writer_finish(writer_t *writer)
{
    return output_finish(&writer->output);
}
