#include <config.h>

#include "tools/shuffle/writer.h"
#include "tools/shuffle/complaint.h"

#include <string.h>

int writer_init(writer_t *writer, const job_t *job, unsigned index,
                progress_t *progress)
{
    output_set_t set = job_partitions(job, index);

    memset(writer, 0, sizeof(*writer));
    writer->job      = job;
    writer->index    = index;
    writer->progress = progress;
    return output_init(&writer->output, &job->folder, &set);
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

int writer_take_batch(writer_t *writer, batch_t *batch)
{
    return writer_write(writer, batch->chunks, batch->num_chunks);
}

static int writer_write_arrival(writer_t *writer, arrival_t *arrival)
{
    return arrival_parse(arrival) == 0 ?
               writer_write(writer, arrival->chunks, arrival->num_chunks) :
               -1;
}

int writer_take_arrivals(writer_t *writer, exchange_t *exchange)
{
    arrival_t *arrival;
    int        result;

    while ((arrival = exchange_arrival_get(exchange)) != NULL) {
        result = writer_write_arrival(writer, arrival);
        exchange_arrival_release(exchange, arrival);
        if (result != 0) {
            return -1;
        }
    }
    return 0;
}

int writer_finish(writer_t *writer)
{
    return output_finish(&writer->output);
}
