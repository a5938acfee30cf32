/*
 * Words that two processes of one host share: by these they tell each other of
 * a copy that has ended. Each word has one writer.
 */
#ifndef PERF_SHARED_WORDS_H
#define PERF_SHARED_WORDS_H

#include "perf/control.h"
#include "perf/work.h"

typedef struct shared_words {
    uint32_t sent[WORK_MAX_OUTSTANDING];    /* messages copied, by slot */
    uint32_t replied[WORK_MAX_OUTSTANDING]; /* answers, by slot */
    uint32_t closed[2];                     /* by the sender, the receiver */
} shared_words_t;

/* Both processes call this. Returns 0 or -1, the error said; NULL is given
 * where the other process is not of this host and user. */
int  shared_words_create(control_t *control, bool is_sender,
                         shared_words_t **words_p);
void shared_words_destroy(shared_words_t *words);

/* A reader of the new value sees what was written before it. */
static inline void shared_words_write(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline uint32_t shared_words_read(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

#endif
