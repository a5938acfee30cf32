#include <config.h>

#include "tools/shuffle/ranks.h"
#include "tools/shuffle/error.h"
#include "tools/shuffle/verdict.h"
#include "tools/shuffle/worker.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_WAIT_MS 20
#define RANKS_VERSION 2u

/* What each rank shows before its pool's address: all must have the same job,
 * or the parts would not fit together. */
typedef struct ranks_card {
    uint64_t version;
    uint64_t num_files;
    uint64_t num_bytes;
    uint64_t num_partitions;
    uint64_t field;
    uint64_t header; /* its hash, 0: none */
} ranks_card_t;

typedef enum ranks_word {
    RANKS_RESULT    = 1,
    RANKS_COMMITTED = 2,
    RANKS_VERDICT   = 3
} ranks_word_t;

typedef struct ranks_note {
    uint32_t word;
    int32_t  is_good;
    result_t result;
} ranks_note_t;

_Static_assert(sizeof(ranks_note_t) <= EXCHANGE_NOTE_SIZE, "it is one note");

typedef struct ranks {
    job_t       *job;
    launcher_t  *launcher;
    result_t    *results;
    gpu_store_t *gpu_store;
    exchange_t  *exchange;
    progress_t   progress;
} ranks_t;

static volatile sig_atomic_t ranks_signal;

static void ranks_on_signal(int signal_number)
{
    ranks_signal = signal_number;
}

static void ranks_signals_init(void)
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
        return say_error("ended by signal %d (%s)", (int)ranks_signal,
                         strsignal(ranks_signal));
    }
    return 0;
}

static void ranks_card_fill(const ranks_t *ranks, ranks_card_t *card)
{
    const inputs_t *inputs = &ranks->job->inputs;

    card->version        = RANKS_VERSION;
    card->num_files      = inputs->num_files;
    card->num_bytes      = inputs->size;
    card->num_partitions = ranks->job->num_partitions;
    card->field          = ranks->job->field;

    card->header = inputs->header == NULL
                       ? 0
                       : hash_bytes(inputs->header, inputs->header_length,
                                    HASH_SEED_RECORD);
}

static int ranks_show(ranks_t *ranks)
{
    const void *address;
    size_t      length;
    char       *card;
    int         result;

    if (exchange_address(ranks->exchange, &address, &length) != 0) {
        return -1;
    }
    card = calloc(1, sizeof(ranks_card_t) + length);
    if (card == NULL) {
        return say_error("out of memory");
    }
    ranks_card_fill(ranks, (ranks_card_t *)card);
    memcpy(card + sizeof(ranks_card_t), address, length);
    result =
        launcher_show(ranks->launcher, card, sizeof(ranks_card_t) + length);
    free(card);
    return result;
}

static int ranks_connect_one(ranks_t *ranks, unsigned rank)
{
    ranks_card_t own;
    ranks_card_t peer;
    void        *card;
    size_t       length;
    int          result;

    if (launcher_look(ranks->launcher, rank, &card, &length) != 0) {
        return -1;
    }
    ranks_card_fill(ranks, &own);
    if (length < sizeof(peer)) {
        result = say_error("worker %u is of another version", rank);
    } else if (memcmp(card, &own, sizeof(own)) != 0) {
        memcpy(&peer, card, sizeof(peer));
        result =
            say_error("worker %u has another job: %llu bytes in %llu files "
                      "there, %llu bytes in %llu files here; all hosts "
                      "must have the same files",
                      rank, (unsigned long long)peer.num_bytes,
                      (unsigned long long)peer.num_files,
                      (unsigned long long)own.num_bytes,
                      (unsigned long long)own.num_files);
    } else {
        result =
            exchange_connect(ranks->exchange, rank, (char *)card + sizeof(own),
                             length - sizeof(own));
    }
    free(card);
    return result;
}

static int ranks_meet(ranks_t *ranks, const batch_shape_t *shape)
{
    exchange_params_t params = {ranks->launcher->rank,
                                ranks->launcher->num_ranks, shape,
                                ranks->gpu_store};

    if ((exchange_create(&params, &ranks->exchange) != 0) ||
        (ranks_show(ranks) != 0)) {
        return -1;
    }
    for (unsigned i = 0; i < ranks->launcher->num_ranks; i++) {
        if ((i != ranks->launcher->rank) &&
            (ranks_connect_one(ranks, i) != 0)) {
            return -1;
        }
    }
    return 0;
}

static int ranks_work(ranks_t *ranks, result_t *result)
{
    worker_params_t params = {0};

    params.job       = ranks->job;
    params.index     = ranks->launcher->rank;
    params.exchange  = ranks->exchange;
    params.gpu_store = ranks->gpu_store;
    params.progress  = &ranks->progress;
    params.interrupt = ranks_interrupt;
    return worker_run(&params, result);
}

static int ranks_commit(const ranks_t *ranks)
{
    output_set_t own = job_partitions(ranks->job, ranks->launcher->rank);

    return output_commit(&ranks->job->folder, &own);
}

/* After the commit, when it is known how those of the others ended. */
static int ranks_settle(const ranks_t *ranks, int result)
{
    output_set_t own = job_partitions(ranks->job, ranks->launcher->rank);

    if (result == 0) {
        output_settle(&ranks->job->folder, &own);
    } else {
        output_withdraw(&ranks->job->folder, &own);
    }
    return result;
}

/* --- notes -------------------------------------------------------------- */

static int ranks_say(ranks_t *ranks, unsigned target, ranks_word_t word,
                     bool is_good, const result_t *result)
{
    ranks_note_t note = {0};

    note.word    = word;
    note.is_good = is_good;
    if (result != NULL) {
        note.result = *result;
    }
    return exchange_note_send(ranks->exchange, target, &note, sizeof(note));
}

/* Wait for a note of that word; from whom is in *source_p. */
static int ranks_hear(ranks_t *ranks, ranks_word_t word, ranks_note_t *note_p,
                      unsigned *source_p)
{
    exchange_note_t *note;
    uint32_t         length;

    while ((note = exchange_note_get(ranks->exchange)) == NULL) {
        if ((ranks_interrupt(NULL) != 0) ||
            (exchange_progress(ranks->exchange) != 0)) {
            return -1;
        }
        exchange_wait(ranks->exchange, RANKS_WAIT_MS);
    }
    length    = note->length;
    *source_p = note->source;
    memcpy(note_p, note->data, sizeof(*note_p));
    free(note);
    if ((length != sizeof(*note_p)) || (note_p->word != word)) {
        return say_error("worker %u said something out of turn", *source_p);
    }
    return 0;
}

/* Rank 0: one note of that word from each other rank. */
static int ranks_gather(ranks_t *ranks, ranks_word_t word)
{
    ranks_note_t note;
    unsigned     source;

    for (unsigned i = 1; i < ranks->launcher->num_ranks; i++) {
        if (ranks_hear(ranks, word, &note, &source) != 0) {
            return -1;
        }
        if (!note.is_good) {
            return say_error("worker %u could not finish", source);
        }
        if (word == RANKS_RESULT) {
            ranks->results[source] = note.result;
        }
    }
    return 0;
}

/* The notes must have gone before the pool goes. */
static int ranks_flush(ranks_t *ranks)
{
    while (exchange_notes_pending(ranks->exchange) > 0) {
        if ((ranks_interrupt(NULL) != 0) ||
            (exchange_progress(ranks->exchange) != 0)) {
            return -1;
        }
    }
    return 0;
}

static int ranks_judge(ranks_t *ranks, int result)
{
    for (unsigned i = 1; i < ranks->launcher->num_ranks; i++) {
        if (ranks_say(ranks, i, RANKS_VERDICT, result == 0, NULL) != 0) {
            return -1;
        }
    }
    return result;
}

static int ranks_lead(ranks_t *ranks)
{
    result_t sum;
    int      result = ranks_gather(ranks, RANKS_RESULT);

    if (result == 0) {
        verdict_sum(ranks->results, ranks->launcher->num_ranks, &sum);
        result = verdict_check(&sum);
    }
    if (ranks_judge(ranks, result) != 0) {
        return -1;
    }
    if (ranks_commit(ranks) != 0) {
        ranks_judge(ranks, -1);
        return -1;
    }
    result = ranks_judge(ranks, ranks_gather(ranks, RANKS_COMMITTED));
    return ranks_settle(ranks, result) == 0 ? ranks_flush(ranks) : -1;
}

static int ranks_obey(ranks_t *ranks)
{
    ranks_note_t note;
    unsigned     source;

    if (ranks_hear(ranks, RANKS_VERDICT, &note, &source) != 0) {
        return -1;
    }
    return note.is_good ? 0 : say_error("worker 0 ended the run");
}

static int ranks_follow(ranks_t *ranks, const result_t *result)
{
    int committed;
    int said;

    if ((ranks_say(ranks, 0, RANKS_RESULT, true, result) != 0) ||
        (ranks_obey(ranks) != 0)) {
        return -1;
    }
    committed = ranks_commit(ranks);
    said      = ranks_say(ranks, 0, RANKS_COMMITTED, committed == 0, NULL);
    if (committed != 0) {
        ranks_flush(ranks);
        return -1;
    }
    return ranks_settle(ranks, said == 0 ? ranks_obey(ranks) : -1);
}

/* One process alone has nobody to talk to. */
static int ranks_conclude(ranks_t *ranks, result_t *result)
{
    if (ranks->exchange == NULL) {
        return (verdict_check(result) == 0) && (ranks_commit(ranks) == 0)
                   ? ranks_settle(ranks, 0)
                   : -1;
    }
    if (ranks->launcher->rank == 0) {
        return ranks_lead(ranks);
    }
    return ranks_follow(ranks, result);
}

int ranks_run(job_t *job, launcher_t *launcher, result_t *results)
{
    output_set_t  all   = {0, 1, job->num_partitions};
    ranks_t       ranks = {0};
    result_t     *own   = &results[launcher->rank];
    batch_shape_t shape;
    int           result;

    ranks.job      = job;
    ranks.launcher = launcher;
    ranks.results  = results;
    ranks_signals_init();
    job_batch_shape(job, &shape);
    result =
        job_make_gpu_store(job, launcher->local_rank, &shape, &ranks.gpu_store);
    if ((result == 0) && (launcher->num_ranks > 1)) {
        result = ranks_meet(&ranks, &shape);
    }
    if ((result != 0) || (ranks_work(&ranks, own) != 0) ||
        (ranks_conclude(&ranks, own) != 0)) {
        /* Of all partitions: one of the others may have died in this folder. */
        output_discard(&job->folder, &all);
        if ((ranks.exchange != NULL) && exchange_lost_peer(ranks.exchange)) {
            launcher_await(launcher);
        }
        /* The pool stays, and its connections: see launcher_abort(). */
        return ranks_signal != 0 ? ranks_signal : -1;
    }
    exchange_destroy(ranks.exchange);
    gpu_store_destroy(ranks.gpu_store);
    return 0;
}
