/*
 * Words that two processes of one host share: by these they tell each other of
 * a copy that has ended. Each word has one writer.
 */
#ifndef PERF_MAILBOX_H
#define PERF_MAILBOX_H

#include "perf/control.h"
#include "perf/work.h"

typedef struct mailbox {
    uint32_t sent[WORK_MAX_OUTSTANDING];    /* messages copied, by slot */
    uint32_t replied[WORK_MAX_OUTSTANDING]; /* answers, by slot */
    uint32_t closed[2];                     /* by the sender, the receiver */
} mailbox_t;

/* Both processes call this. Returns 0 or -1, the error said; NULL is given
 * where the other process is not of this host and user. */
int  mailbox_create(control_t *control, bool is_sender, mailbox_t **mailbox_p);
void mailbox_destroy(mailbox_t *mailbox);

/* What was written before is seen by who reads the new value. */
static inline void mailbox_write(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline uint32_t mailbox_read(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

#endif
