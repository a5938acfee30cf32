/* A worker is one loop in one thread. After each buffer that it reads, the
 * worker checks for arrived batches. While it has no free batch for a target,
 * it only checks for arrived batches. */
#include "tools/shuffle/job.h"

#include "common/error.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* Limits of the size of a batch. A larger batch leaves the CPU's cache
 * before it is received. With smaller batches the control messages take longer
 * than the copies. */
#define WORKER_BATCH_MAX (2 * MIB)
#define WORKER_BATCH_MIN (64 * KIB)
/* Total size of all batches of a worker. The size is smaller with many workers,
 * because each maps the memory of all others. */
#define WORKER_BATCHES_FEW  (64 * MIB)
#define WORKER_BATCHES_MANY (24 * MIB)
/* Bytes per read, which fit in the CPU's cache. */
#define WORKER_BUFFER_SIZE (256 * KIB)
/* Time to sleep before checking again whether to end. */
#define WORKER_WAIT_MS 20

typedef struct worker {
    worker_params_t params;
    const job_t    *job;
    batch_t       **open; /* by target: batch being filled, or NULL */
    reader_t        reader;
    output_t        output;
    result_t       *result;
} worker_t;

/* --- before ------------------------------------------------------------- */

void worker_choose_batch(job_t *job)
{
    size_t all =
        job->num_workers <= 4 ? WORKER_BATCHES_FEW : WORKER_BATCHES_MANY;
    size_t size = all / (3 * (size_t)job->num_workers);

    size            = size > WORKER_BATCH_MAX ? WORKER_BATCH_MAX : size;
    size            = size < WORKER_BATCH_MIN ? WORKER_BATCH_MIN : size;
    job->batch_size = size;
}

int worker_prepare(worker_params_t *params)
{
    const job_t *job = params->job;

    if (job->num_workers == 1) {
        return 0;
    }
    params->exchange =
        exchange_create(params->index, job->num_workers, job->batch_size);
    return params->exchange != NULL ? 0 : -1;
}

static int worker_init(worker_t *worker)
{
    const worker_params_t *params = &worker->params;
    const job_t           *job    = params->job;
    output_set_t           set    = job_partitions(job, params->index);

    worker->job = job;
    reader_init(&worker->reader, &job->inputs,
                inputs_begin(&job->inputs, params->index, job->num_workers),
                inputs_begin(&job->inputs, params->index + 1, job->num_workers),
                job->field, WORKER_BUFFER_SIZE);
    worker->open = tool_calloc(job->num_workers, sizeof(*worker->open));
    if (output_init(&worker->output, &job->folder, &set) != 0) {
        return -1;
    }
    return job->inputs.header == NULL
               ? 0
               : output_write_header(&worker->output, job->inputs.header,
                                     job->inputs.header_length);
}

static void worker_cleanup(worker_t *worker)
{
    output_cleanup(&worker->output);
    reader_cleanup(&worker->reader);
    free(worker->open);
}

/* --- writing ------------------------------------------------------------- */

static int worker_write(worker_t *worker, const batch_t *batch)
{
    const job_t *job = worker->job;
    batch_run_t  run = {0};
    int          result;

    while ((result = batch_next_run(batch, job->num_partitions, &run,
                                    &worker->result->out)) > 0) {
        if (run.partition % job->num_workers != worker->params.index) {
            return keep_error("worker %u received records of partition %u, "
                              "which is not its own",
                              worker->params.index, run.partition);
        }
        if (output_append(&worker->output, run.partition,
                          batch->bytes + run.offset, run.length) != 0) {
            return -1;
        }
    }
    return result;
}

static int worker_take_arrivals(worker_t *worker)
{
    batch_t *batch;
    int      result = 0;

    while ((result == 0) &&
           ((batch = exchange_received(worker->params.exchange)) != NULL)) {
        result = worker_write(worker, batch);
        exchange_put(worker->params.exchange, batch);
    }
    return result;
}

/* --- turns -------------------------------------------------------------- */

/* Do one round of all work except reading. */
static int worker_turn(worker_t *worker)
{
    exchange_t *exchange = worker->params.exchange;

    if (worker->params.interrupt(worker->params.interrupt_arg) != 0) {
        return -1;
    }
    return (exchange == NULL) || ((exchange_progress(exchange) == 0) &&
                                  (worker_take_arrivals(worker) == 0))
               ? 0
               : -1;
}

static int worker_wait(worker_t *worker)
{
    exchange_wait(worker->params.exchange, WORKER_WAIT_MS);
    return worker_turn(worker);
}

/* --- reading ------------------------------------------------------------- */

/* Returns the batch that currently collects records for another worker, or NULL
 * with an error. */
static batch_t *worker_batch(worker_t *worker, unsigned target)
{
    batch_t **batch = &worker->open[target];

    while ((*batch == NULL) &&
           ((*batch = exchange_batch_get(worker->params.exchange, target)) ==
            NULL)) {
        if (worker_wait(worker) != 0) {
            return NULL;
        }
    }
    return *batch;
}

static int worker_flush(worker_t *worker, unsigned target)
{
    batch_t *batch = worker->open[target];

    if ((batch == NULL) || (batch->num_records == 0)) {
        return 0;
    }
    worker->open[target] = NULL;
    return exchange_post(worker->params.exchange, batch);
}

static int worker_take_record(worker_t *worker, const record_t *record)
{
    uint64_t hash = hash_bytes(record->key, record->key_length, HASH_SEED_KEY);
    uint32_t partition = hash_partition(hash, worker->job->num_partitions);
    unsigned target    = partition % worker->job->num_workers;
    batch_t *batch;
    int      result = 0;

    tally_record(&worker->result->in, record->data, record->length);
    if (target == worker->params.index) {
        tally_record(&worker->result->out, record->data, record->length);
        return output_append(&worker->output, partition, record->data,
                             record->length);
    }
    while (result == 0) {
        batch = worker_batch(worker, target);
        if (batch == NULL) {
            return -1;
        }
        result = batch_append(batch, hash, record->data, record->length);
        if ((result == 0) && (worker_flush(worker, target) != 0)) {
            return -1;
        }
    }
    return result < 0 ? -1 : 0;
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
            size = 0;
            if (worker_turn(worker) != 0) {
                return -1;
            }
        }
    }
    for (unsigned i = 0; (i < worker->job->num_workers) && (result == 0); i++) {
        result = worker_flush(worker, i);
    }
    return result;
}

/* Send and receive the last batches. */
static int worker_drain(worker_t *worker)
{
    exchange_t *exchange = worker->params.exchange;

    if (exchange == NULL) {
        return 0;
    }
    if ((exchange_end(exchange) != 0) || (worker_turn(worker) != 0)) {
        return -1;
    }
    while (!exchange_has_ended(exchange)) {
        if (worker_wait(worker) != 0) {
            return -1;
        }
    }
    return 0;
}

/* --- the result --------------------------------------------------------- */

static void worker_report(const worker_t *worker)
{
    const worker_params_t *params = &worker->params;
    result_t              *result = worker->result;
    struct rusage          usage  = {0};

    getrusage(RUSAGE_SELF, &usage);
    result->max_resident = (uint64_t)usage.ru_maxrss * 1024;
    result->num_added    = worker->reader.num_added;
    if (params->exchange != NULL) {
        exchange_report(params->exchange, &result->exchange);
    }
}

int worker_run(const worker_params_t *params, result_t *result_p)
{
    worker_t worker = {0};
    int      result = -1;

    memset(result_p, 0, sizeof(*result_p));
    worker.params = *params;
    worker.result = result_p;
    if ((worker_init(&worker) == 0) && (worker_read(&worker) == 0) &&
        (worker_drain(&worker) == 0) && (output_finish(&worker.output) == 0)) {
        worker_report(&worker);
        result = 0;
    }
    worker_cleanup(&worker);
    return result;
}
