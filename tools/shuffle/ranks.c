/*
 * Runs a job under a launcher (mpirun, srun). Each process is one worker, a
 * rank. The ranks synchronize through PMIx. Each rank publishes a value and
 * waits until all ranks have published theirs:
 *
 *     card    its job and the address of its pool -> connect, work
 *     result  all compute the same sum            -> commit
 *     end     whether its files have their names  -> settle, or withdraw
 *
 * Each rank gives the files of its own partitions their final names, in its own
 * directory.
 */
#include "tools/shuffle/job.h"

#include "common/error.h"

#include <stdlib.h>

bool ranks_are_launched(void)
{
    return (getenv("PMIX_RANK") != NULL) || (getenv("PMI_RANK") != NULL);
}

#ifdef HAVE_PMIX

#include <pmix.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#define RANKS_WAIT_MS 20
/* Time limits, in case the launcher does nothing. mpirun sends SIGTERM, and
 * SIGKILL a second later. */
#define RANKS_PATIENCE_MS 3000
#define RANKS_LINGER_MS   2000
#define RANKS_VERSION     7u

/* Published before the pool's address. All ranks must have the same job,
 * because their parts would not fit together otherwise. */
typedef struct ranks_card {
    uint64_t version;
    uint64_t num_files;
    uint64_t num_bytes;
    uint64_t num_partitions;
    uint64_t field;
    uint64_t header; /* hash of the header; 0: no header */
} ranks_card_t;

/* PMIx supports one job per process, so these are global. */
static pmix_proc_t           ranks_self;
static unsigned              ranks_num;
static bool                  ranks_may_be_connected;
static volatile sig_atomic_t ranks_signal;

static int ranks_error(const char *what, pmix_status_t status)
{
    return keep_error("cannot %s the other workers: %s", what,
                      PMIx_Error_string(status));
}

int ranks_init(unsigned *rank_p, unsigned *num_ranks_p, uint64_t *run_p)
{
    pmix_proc_t   all;
    pmix_value_t *value;
    pmix_status_t status;

    if (getenv("PMIX_RANK") == NULL) {
        return keep_error("the launcher does not support PMIx: use the mpirun "
                          "of Open MPI, or srun --mpi=pmix");
    }
    status = PMIx_Init(&ranks_self, NULL, 0);
    if (status != PMIX_SUCCESS) {
        return ranks_error("meet", status);
    }
    PMIX_PROC_CONSTRUCT(&all);
    PMIX_LOAD_PROCID(&all, ranks_self.nspace, PMIX_RANK_WILDCARD);
    status = PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value);
    if (status != PMIX_SUCCESS) {
        PMIx_Finalize(NULL, 0);
        return ranks_error("count", status);
    }
    ranks_num = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    *rank_p      = ranks_self.rank;
    *num_ranks_p = ranks_num;
    *run_p       = hash_bytes(ranks_self.nspace, strlen(ranks_self.nspace), 0);
    return 0;
}

void ranks_cleanup(void)
{
    PMIx_Finalize(NULL, 0);
}

void ranks_abort(int status, int signal_number)
{
    if (!ranks_may_be_connected) {
        return;
    }
    if (signal_number == 0) {
        PMIx_Abort(status, "a worker of ucxpool_shuffle failed", NULL, 0);
        /* A signal interrupts this call. */
        poll(NULL, 0, RANKS_PATIENCE_MS);
    }
    poll(NULL, 0, RANKS_LINGER_MS);
}

static void ranks_on_signal(int signal_number)
{
    ranks_signal = signal_number;
}

static void ranks_init_signals(void)
{
    struct sigaction action = {0};

    action.sa_handler = ranks_on_signal;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

static int ranks_interrupt(void *arg)
{
    if (ranks_signal != 0) {
        return keep_error("ended by signal %d (%s)", (int)ranks_signal,
                          strsignal(ranks_signal));
    }
    return 0;
}

/* --- meeting ------------------------------------------------------------ */

/* Called by a thread of PMIx. */
static void ranks_on_fence(pmix_status_t status, void *arg)
{
    __atomic_store_n((int *)arg, (int)status, __ATOMIC_RELEASE);
}

/* Publish a value, and wait until all ranks have published theirs. Progresses
 * the exchange while it waits, because other ranks may need this pool. */
static int ranks_show(exchange_t *exchange, const char *key, const void *data,
                      size_t length)
{
    static const int waiting = 1; /* not a pmix_status_t: these are 0 or less */
    /* PMIx uses these until the end of the fence, even after an interrupt. */
    static int         fence;
    static pmix_info_t info;
    bool               collect = true;
    pmix_value_t       value;
    pmix_status_t      status;

    PMIX_VALUE_CONSTRUCT(&value);
    value.type          = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = (char *)data;
    value.data.bo.size  = length;
    fence               = waiting;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    if (((status = PMIx_Put(PMIX_GLOBAL, key, &value)) != PMIX_SUCCESS) ||
        ((status = PMIx_Commit()) != PMIX_SUCCESS) ||
        ((status = PMIx_Fence_nb(NULL, 0, &info, 1, ranks_on_fence, &fence)) !=
         PMIX_SUCCESS)) {
        return ranks_error("tell", status);
    }
    while ((status = __atomic_load_n(&fence, __ATOMIC_ACQUIRE)) == waiting) {
        if (ranks_interrupt(NULL) != 0) {
            return -1;
        }
        if (exchange == NULL) {
            poll(NULL, 0, 1);
            continue;
        }
        exchange_wait(exchange, RANKS_WAIT_MS);
        if (exchange_progress(exchange) != 0) {
            return -1;
        }
    }
    return status == PMIX_SUCCESS ? 0 : ranks_error("meet", status);
}

/* Read the value of a rank. The caller releases the value. Returns NULL with an
 * error. */
static pmix_value_t *ranks_look(unsigned rank, const char *key, size_t least)
{
    pmix_proc_t   peer;
    pmix_value_t *value;
    pmix_status_t status;

    PMIX_PROC_CONSTRUCT(&peer);
    PMIX_LOAD_PROCID(&peer, ranks_self.nspace, rank);
    status = PMIx_Get(&peer, key, NULL, 0, &value);
    if (status != PMIX_SUCCESS) {
        ranks_error("hear from", status);
        return NULL;
    }
    if ((value->type != PMIX_BYTE_OBJECT) || (value->data.bo.size < least)) {
        keep_error("worker %u has another version: start the same "
                   "ucxpool_shuffle on all hosts",
                   rank);
        PMIX_VALUE_RELEASE(value);
        return NULL;
    }
    return value;
}

static int ranks_connect(exchange_t *exchange, unsigned rank,
                         const ranks_card_t *own)
{
    pmix_value_t *value =
        ranks_look(rank, "ucxpool.shuffle.card", sizeof(*own));
    const char  *address;
    ranks_card_t card;
    int          result;

    if (value == NULL) {
        return -1;
    }
    address = value->data.bo.bytes + sizeof(card);
    memcpy(&card, value->data.bo.bytes, sizeof(card));
    if (memcmp(&card, own, sizeof(card)) != 0) {
        result = keep_error(
            "worker %u has different input or options: %llu bytes in %llu "
            "files there, %llu bytes in %llu files here; give all workers the "
            "same files and options",
            rank, (unsigned long long)card.num_bytes,
            (unsigned long long)card.num_files,
            (unsigned long long)own->num_bytes,
            (unsigned long long)own->num_files);
    } else {
        result = exchange_connect(exchange, rank, address,
                                  value->data.bo.size - sizeof(card));
    }
    PMIX_VALUE_RELEASE(value);
    return result;
}

static int ranks_connect_all(const job_t *job, exchange_t *exchange)
{
    const inputs_t *inputs = &job->inputs;
    ranks_card_t card = {RANKS_VERSION,       inputs->num_files, inputs->size,
                         job->num_partitions, job->field,        0};
    const void  *address;
    char        *shown;
    size_t       length;
    int          result;

    if (exchange == NULL) {
        return 0;
    }
    if (inputs->header != NULL) {
        card.header =
            hash_bytes(inputs->header, inputs->header_length, HASH_SEED_RECORD);
    }
    if (exchange_address(exchange, &address, &length) != 0) {
        return -1;
    }
    shown = tool_calloc(1, sizeof(card) + length);
    memcpy(shown, &card, sizeof(card));
    memcpy(shown + sizeof(card), address, length);
    ranks_may_be_connected = true;
    result =
        ranks_show(NULL, "ucxpool.shuffle.card", shown, sizeof(card) + length);
    free(shown);
    for (unsigned i = 0; (i < ranks_num) && (result == 0); i++) {
        if (i != ranks_self.rank) {
            result = ranks_connect(exchange, i, &card);
        }
    }
    return result;
}

/* --- the end ------------------------------------------------------------ */

/* Compare the results. All ranks do so and come to the same conclusion. */
static int ranks_compare(exchange_t *exchange, result_t *results)
{
    if (ranks_show(exchange, "ucxpool.shuffle.result",
                   &results[ranks_self.rank], sizeof(*results)) != 0) {
        return -1;
    }
    for (unsigned i = 0; i < ranks_num; i++) {
        pmix_value_t *value =
            ranks_look(i, "ucxpool.shuffle.result", sizeof(*results));

        if (value == NULL) {
            return -1;
        }
        memcpy(&results[i], value->data.bo.bytes, sizeof(*results));
        PMIX_VALUE_RELEASE(value);
    }
    return results_check(results, ranks_num);
}

/* Give the files of this rank their final names, unless another rank cannot do
 * so for its own files. */
static int ranks_commit(exchange_t *exchange, job_t *job)
{
    output_set_t own     = job_partitions(job, ranks_self.rank);
    int          result  = output_commit(&job->folder, &own);
    char         is_good = result == 0;

    if (ranks_show(exchange, "ucxpool.shuffle.end", &is_good, 1) != 0) {
        is_good = 0;
    }
    for (unsigned i = 0; (i < ranks_num) && is_good; i++) {
        pmix_value_t *value = ranks_look(i, "ucxpool.shuffle.end", 1);

        is_good = (value != NULL) && value->data.bo.bytes[0];
        if ((value != NULL) && !is_good) {
            keep_error("worker %u could not finish", i);
        }
        if (value != NULL) {
            PMIX_VALUE_RELEASE(value);
        }
    }
    if (is_good) {
        output_settle(&job->folder, &own);
        return 0;
    }
    if (result == 0) {
        output_withdraw(&job->folder, &own);
    }
    return -1;
}

int ranks_run(job_t *job, result_t *results)
{
    output_set_t    all    = {0, 1, job->num_partitions};
    worker_params_t worker = {0};

    worker.job       = job;
    worker.index     = ranks_self.rank;
    worker.interrupt = ranks_interrupt;
    ranks_init_signals();
    if ((worker_prepare(&worker) != 0) ||
        (ranks_connect_all(job, worker.exchange) != 0) ||
        (worker_run(&worker, &results[ranks_self.rank]) != 0) ||
        (ranks_compare(worker.exchange, results) != 0) ||
        (ranks_commit(worker.exchange, job) != 0)) {
        /* Discard the files of all partitions, because another rank may have
         * died and left files in this directory. */
        output_discard(&job->folder, &all);
        if ((worker.exchange != NULL) && exchange_lost_peer(worker.exchange)) {
            /* The lost worker or the launcher prints the reason. */
            poll(NULL, 0, RANKS_PATIENCE_MS);
        }
        /* Keep the pool and its connections; see ranks_abort(). */
        return ranks_signal != 0 ? ranks_signal : -1;
    }
    exchange_destroy(worker.exchange);
    return 0;
}

#else

int ranks_init(unsigned *rank_p, unsigned *num_ranks_p, uint64_t *run_p)
{
    return keep_error(
        "a launcher started this program, which was built without PMIx: "
        "install libpmix-dev and build again, or start it on one host with -w");
}

int ranks_run(job_t *job, result_t *results)
{
    return -1;
}

void ranks_abort(int status, int signal_number)
{
}

void ranks_cleanup(void)
{
}

#endif
