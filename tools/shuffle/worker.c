#include <config.h>

#include "tools/shuffle/worker.h"
#include "tools/shuffle/error.h"
#include "tools/shuffle/input.h"
#include "tools/shuffle/stopwatch.h"
#include "tools/shuffle/store.h"
#include "tools/shuffle/writer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Read at a time: what stays in the processor's cache. */
#define WORKER_BUFFER_SIZE ((size_t)256 * 1024)
/* How long to sleep before looking again whether to end. */
#define WORKER_WAIT_MS 20
/* More than the processor's cache holds. */
#define WORKER_MEMCPY_SIZE ((size_t)64 * 1024 * 1024)

typedef struct worker {
    worker_params_t params;
    const job_t    *job;
    exchange_t     *exchange;
    batch_shape_t   shape;
    store_t         own_memory;
    batch_t        *own;  /* for the worker's own partitions */
    batch_t       **open; /* by target: being filled, or NULL */
    reader_t        reader;
    writer_t        writer;
    tally_t         in;
    char           *value; /* of a key that is not as it stands there */
    size_t          value_size;
} worker_t;

/* One look at everything that is not reading. */
static int worker_turn(worker_t *worker)
{
    if (worker->params.interrupt(worker->params.interrupt_arg) != 0) {
        return -1;
    }
    if (worker->exchange == NULL) {
        return 0;
    }
    if (exchange_progress(worker->exchange) != 0) {
        return -1;
    }
    return writer_take_arrivals(&worker->writer, worker->exchange);
}

static int worker_wait(worker_t *worker)
{
    exchange_wait(worker->exchange, WORKER_WAIT_MS);
    return worker_turn(worker);
}

/* Write all that is held. It may be much, and others wait for answers. */
static int worker_write_held(worker_t *worker)
{
    int result;

    while ((result = writer_write_held(&worker->writer)) > 0) {
        if (worker_turn(worker) != 0) {
            return -1;
        }
    }
    return result;
}

/* --- what is read ------------------------------------------------------- */

/* The batch of a target that takes records now. NULL with an error. */
static batch_t *worker_batch(worker_t *worker, unsigned target)
{
    batch_t *batch = worker->open[target];

    if (batch != NULL) {
        return batch;
    }
    if (target == worker->params.index) {
        batch = worker->own;
        batch_reset(batch, target);
    } else {
        while ((batch = exchange_batch_get(worker->exchange, target)) == NULL) {
            if (worker_wait(worker) != 0) {
                return NULL;
            }
        }
    }
    worker->open[target] = batch;
    return batch;
}

static int worker_flush(worker_t *worker, unsigned target)
{
    batch_t *batch = worker->open[target];

    worker->open[target] = NULL;
    if ((batch == NULL) || (batch->num_chunks == 0)) {
        return 0;
    }
    if (target == worker->params.index) {
        /* What is too large to be held comes after what is: in the order in
         * which a lone worker without a store writes it. */
        return batch_is_large(batch) && (worker_write_held(worker) != 0)
                   ? -1
                   : writer_take_batch(&worker->writer, batch);
    }
    return exchange_post(worker->exchange, batch);
}

static int worker_append(worker_t *worker, uint64_t hash, const char *record,
                         size_t length)
{
    uint32_t partition = hash_partition(hash, worker->job->num_partitions);
    unsigned target    = job_worker(worker->job, partition);
    uint32_t bucket    = job_bucket(worker->job, partition);
    batch_t *batch;
    int      result;

    for (;;) {
        batch = worker_batch(worker, target);
        if (batch == NULL) {
            return -1;
        }
        result = batch_append(batch, bucket, hash, record, length);
        if (result != 0) {
            return result < 0 ? -1 : 0;
        }
        if (worker_flush(worker, target) != 0) {
            return -1;
        }
    }
}

static int worker_take_record(worker_t *worker, const record_t *record)
{
    uint64_t hash = hash_bytes(record->key, record->key_length, HASH_SEED_KEY);

    tally_record(&worker->in, record->data, record->length);
    return worker_append(worker, hash, record->data, record->length);
}

static int worker_read(worker_t *worker)
{
    record_t record;
    size_t   size = 0; /* since the last turn */
    int      result;

    while ((result = reader_next(&worker->reader, &record)) > 0) {
        if ((record.length > 0) && (worker_take_record(worker, &record) != 0)) {
            return -1;
        }
        size += record.length;
        if ((record.length == 0) || (size >= WORKER_BUFFER_SIZE)) {
            progress_add(&worker->params.progress->bytes_read, size);
            size = 0;
            if (worker_turn(worker) != 0) {
                return -1;
            }
        }
    }
    if (result < 0) {
        return -1;
    }
    progress_add(&worker->params.progress->bytes_read, size);
    for (unsigned i = 0; i < worker->job->num_workers; i++) {
        if (worker_flush(worker, i) != 0) {
            return -1;
        }
    }
    return 0;
}

/* --- all of it ---------------------------------------------------------- */

/* What is held in a store is copied there from pinned memory. */
static int worker_init_own(worker_t *worker)
{
    size_t size   = batch_memory_size(&worker->shape);
    int    result = worker->params.gpu_store != NULL
                        ? store_init_pinned(
                              &worker->own_memory,
                              gpu_store_device(worker->params.gpu_store), size)
                        : store_init_plain(&worker->own_memory, size);

    if (result != 0) {
        return -1;
    }
    worker->open = calloc(worker->job->num_workers, sizeof(*worker->open));
    if (worker->open == NULL) {
        return say_error("out of memory for %u workers",
                         worker->job->num_workers);
    }
    worker->own = batch_create(&worker->shape,
                               store_take(&worker->own_memory, size), NULL);
    return worker->own != NULL ? 0 : -1;
}

static int worker_init(worker_t *worker, const worker_params_t *params)
{
    const job_t *job = params->job;

    memset(worker, 0, sizeof(*worker));
    worker->params   = *params;
    worker->job      = job;
    worker->exchange = params->exchange;
    job_batch_shape(job, &worker->shape);
    if (reader_init(
            &worker->reader, &job->inputs,
            inputs_begin(&job->inputs, params->index, job->num_workers),
            inputs_begin(&job->inputs, params->index + 1, job->num_workers),
            job->field, WORKER_BUFFER_SIZE) != 0) {
        return -1;
    }
    return worker_init_own(worker) == 0
               ? writer_init(&worker->writer, job, params->index,
                             params->progress, params->gpu_store)
               : -1;
}

static void worker_cleanup(worker_t *worker)
{
    writer_cleanup(&worker->writer);
    batch_destroy(worker->own);
    free(worker->open);
    store_cleanup(&worker->own_memory);
    reader_cleanup(&worker->reader);
}

/* The last batches, both ways. */
static int worker_drain(worker_t *worker)
{
    if (worker->exchange == NULL) {
        return 0;
    }
    if ((exchange_end(worker->exchange) != 0) || (worker_turn(worker) != 0)) {
        return -1;
    }
    while (!exchange_is_over(worker->exchange)) {
        if (worker_wait(worker) != 0) {
            return -1;
        }
    }
    return 0;
}

/*
 * For comparison: how long the plain copy of as many bytes takes, in pieces of
 * the size of a batch, from memory that is not in the cache.
 */
static void worker_time_memcpy(const worker_t *worker, uint64_t num_bytes,
                               stopwatch_t *total_p)
{
    size_t      piece  = worker->shape.arena_size;
    size_t      pieces = WORKER_MEMCPY_SIZE / piece + 1;
    char       *source = malloc(piece * pieces);
    char       *target = malloc(piece);
    stopwatch_t start;

    if ((source != NULL) && (target != NULL)) {
        memset(source, 1, piece * pieces);
        memset(target, 2, piece);
        start = stopwatch_start();
        for (uint64_t done = 0; done < num_bytes; done += piece) {
            memcpy(target, source + done / piece % pieces * piece,
                   num_bytes - done < piece ? num_bytes - done : piece);
            /* The copy must not be left out. */
            __asm__ volatile("" : : "r"(target) : "memory");
        }
        stopwatch_stop(total_p, &start);
    }
    free(source);
    free(target);
}

static void worker_report(const worker_t *worker, result_t *result)
{
    struct rusage usage = {0};

    getrusage(RUSAGE_SELF, &usage);
    result->max_resident = (uint64_t)usage.ru_maxrss * 1024;
    result->in           = worker->in;
    result->out          = worker->writer.out;
    result->num_added    = worker->reader.num_added;
    result->early        = worker->writer.early;
    if (worker->params.gpu_store != NULL) {
        gpu_store_stats_get(worker->params.gpu_store, &result->gpu_store);
    }
    if (worker->exchange == NULL) {
        return;
    }
    exchange_times_get(worker->exchange, &result->times);
    exchange_stats_get(worker->exchange, &result->stats, &result->degraded_to);
    result->num_map = exchange_count_wire(worker->exchange, UCXPOOL_WIRE_MAP);
    result->num_ucx = exchange_count_wire(worker->exchange, UCXPOOL_WIRE_UCX);
    if (worker->job->compare_memcpy) {
        worker_time_memcpy(worker, result->times.bytes_received, &result->copy);
    }
}

int worker_run(const worker_params_t *params, result_t *result_p)
{
    stopwatch_t start = stopwatch_start();
    worker_t    worker;
    int         result = -1;

    memset(result_p, 0, sizeof(*result_p));
    if ((worker_init(&worker, params) == 0) && (worker_read(&worker) == 0) &&
        (worker_drain(&worker) == 0) && (worker_write_held(&worker) == 0) &&
        (writer_finish(&worker.writer) == 0)) {
        stopwatch_stop(&result_p->whole, &start);
        worker_report(&worker, result_p);
        result = 0;
    }
    worker_cleanup(&worker);
    return result;
}
