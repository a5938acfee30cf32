/*
 * An end is the part of a side in one of the two processes: its memory and its
 * operations.
 *
 * A slot is a message in flight. The slots cycle independently:
 *
 *     sender     send -> (replied, and nothing pending) -> send ...
 *     receiver   expect -> (arrived) -> reply, expect the next -> ...
 *
 * If the sender reads or writes the receiver's memory directly, the receiver
 * neither expects messages nor replies. The completion of the operation then
 * counts as the reply.
 */
#ifndef PERF_END_H
#define PERF_END_H

#include "perf/buffers.h"
#include "common/samples.h"

typedef struct end end_t;

/* The operations of an end. They return 0, or -1 after printing an error. None
 * of them waits. */
typedef struct end_ops {
    int (*send)(end_t *end, unsigned slot); /* sender: post a message */
    int (*expect)(end_t   *end,
                  unsigned slot); /* receiver: prepare for a message */
    int (*reply)(end_t *end, unsigned slot); /* receiver: post a reply */
    void (*progress)(end_t *end);
    void (*destroy)(end_t *end);
} end_ops_t;

typedef struct end_slot {
    end_t   *end;
    uint64_t posted_at;
    uint64_t num_left;    /* receiver: messages of the batch still to come */
    size_t   num_arrived; /* parts of a message */
    size_t   num_bytes;   /* bytes of these parts */
    unsigned pending;     /* incomplete operations */
    bool     busy;        /* sender: the message is not completed */
    bool     arrived;     /* receiver: all bytes have arrived, no reply yet */
    bool     replied;     /* sender: the reply has arrived */
} end_slot_t;

struct end {
    const end_ops_t *ops;
    work_t           work;
    side_t           side;
    bool             is_sender;
    memory_t        *memory; /* memory of its buffers; borrowed */
    bool             failed; /* an error was printed */
    buffers_t        buffers;
    end_slot_t       slots[WORK_MAX_OUTSTANDING];
};

/* Parameters of an end. */
typedef struct end_params {
    side_t    side;
    work_t    work; /* the side's part of the work */
    bool      is_sender;
    memory_t *memory; /* memory of its buffers; borrowed */
} end_params_t;

/* Returns true if this end is the source of the data. */
static inline bool end_is_source(const end_t *end)
{
    return end->is_sender != side_is(end->side, IS_READ);
}

void end_init(end_t *end, const end_ops_t *ops, const end_params_t *params);

/* Print an error, unless the end has failed before. Returns -1. */
int end_fail(end_t *end, const char *what, const char *why);

/* The functions expect() and reply() of a side whose receiver is passive. */
int end_no_part(end_t *end, unsigned slot);

/* Record that another part of a message with `num_parts` parts has arrived. */
static inline void end_part_arrived(end_slot_t *slot, size_t num_parts)
{
    if (++slot->num_arrived == num_parts) {
        slot->arrived = true;
    }
}

/* Lay out the end's buffers as its way needs them. arena: as for
 * buffers_init(). */
int end_init_buffers(end_t *end, void *arena);

/* --- a batch of messages: the same loops drive every side ----------------- */

/*
 * Send a batch, receive one, or both at the same time.
 *
 * out, in    The sending and the receiving end; NULL if there are no messages
 *            in that direction.
 * times      Receives the seconds from post to reply of each message; may be
 *            NULL.
 * seconds_p  [out] From the first post to the last reply, or until both batches
 *            are over.
 */
int end_exchange(end_t *out, end_t *in, uint64_t num_messages, samples_t *times,
                 double *seconds_p);

/* Post the receives for the first messages of a batch, before the sender
 * starts. */
int end_expect(end_t *end, uint64_t num_messages);

/* Make progress until fewer than `limit` operations of a slot are pending.
 * Fails, like a batch, if nothing moves for a long time. */
int end_wait(end_t *end, unsigned slot, unsigned limit);

/* Progress both ends. in: NULL for none. */
void end_progress(end_t *out, end_t *in);

#endif
