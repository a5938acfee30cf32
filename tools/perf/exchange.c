#include "perf/exchange.h"
#include "common/clock.h"
#include "perf/error.h"

#include <sched.h>

/* Nothing moved for so long: one of the two hangs. */
#define STALL_NS (UINT64_C(30) * 1000000000u)

/* Progress calls between two looks at the clock, and between two moments at
 * which another process may have the processor: the other end may be waiting
 * for it where there are fewer processors than processes. */
#define STALL_LOOK  4096u
#define STALL_YIELD 256u

typedef struct stall {
    unsigned calls;
    uint64_t since;
} stall_t;

static void stall_reset(stall_t *stall)
{
    stall->calls = 0;
    stall->since = 0;
}

static int stall_check(stall_t *stall, const end_t *end)
{
    char name[SIDE_NAME_SIZE];

    if (++stall->calls % STALL_YIELD == 0) {
        sched_yield();
    }
    if (stall->calls % STALL_LOOK != 0) {
        return 0;
    }
    if (stall->since == 0) {
        stall->since = clock_now();
        return 0;
    }
    if (clock_now() - stall->since < STALL_NS) {
        return 0;
    }
    return perf_error("%s: nothing moved for %u seconds; is the other process "
                      "alive, and do both see the same UCX_ settings?",
                      side_name(end->side, name),
                      (unsigned)(STALL_NS / 1000000000u));
}

void exchange_progress(end_t *out, end_t *in)
{
    out->ops->progress(out);
    if ((in != NULL) && !side_is_pool(in->side)) {
        in->ops->progress(in);
    }
}

static int advance(end_t *end, stall_t *stall)
{
    end->ops->progress(end);
    if (end->failed) {
        return -1;
    }
    return stall_check(stall, end);
}

/* Let operations end whose effect the other side has seen already. */
static int drain(end_t *end)
{
    stall_t stall;

    stall_reset(&stall);
    for (unsigned slot = 0; slot < end->work.outstanding; slot++) {
        while (end->slots[slot].pending != 0) {
            if (advance(end, &stall) != 0) {
                return -1;
            }
        }
    }
    return 0;
}

static int collect_replies(end_t *end, samples_t *times, uint64_t *num_replied)
{
    for (unsigned i = 0; i < end->work.outstanding; i++) {
        end_slot_t *slot = &end->slots[i];

        if (slot->busy && slot->replied) {
            slot->busy    = false;
            slot->replied = false;
            (*num_replied)++;
            if ((times != NULL) &&
                (samples_add(times, (double)(clock_now() - slot->posted_at) *
                                        1e-9) != 0)) {
                return -1;
            }
        }
    }
    return 0;
}

/* Post the next message, if its slot is free: then *num_posted_p grows. */
static int post(end_t *end, uint64_t num_messages, uint64_t *num_posted_p)
{
    unsigned    index = (unsigned)(*num_posted_p % end->work.outstanding);
    end_slot_t *slot  = &end->slots[index];

    if ((*num_posted_p == num_messages) || slot->busy || (slot->pending != 0)) {
        return 0;
    }
    slot->busy      = true;
    slot->posted_at = clock_now();
    (*num_posted_p)++;
    return end->ops->send(end, index);
}

int exchange_send(end_t *end, uint64_t num_messages, samples_t *times,
                  double *seconds_p)
{
    uint64_t num_posted  = 0;
    uint64_t num_replied = 0;
    uint64_t before      = 0;
    uint64_t start       = clock_now();
    stall_t  stall;

    stall_reset(&stall);
    while (num_replied < num_messages) {
        uint64_t num_before = num_posted;

        if (post(end, num_messages, &num_posted) != 0) {
            return -1;
        }
        if ((num_posted == num_before) && (advance(end, &stall) != 0)) {
            return -1;
        }
        if (collect_replies(end, times, &num_replied) != 0) {
            return -1;
        }
        if (num_replied + num_posted != before) {
            before = num_replied + num_posted;
            stall_reset(&stall);
        }
    }
    *seconds_p = (double)(clock_now() - start) * 1e-9;
    return drain(end);
}

/* Messages of a batch that go through one slot. */
static uint64_t slot_share(const end_t *end, unsigned slot,
                           uint64_t num_messages)
{
    return (num_messages + end->work.outstanding - 1 - slot) /
           end->work.outstanding;
}

int exchange_expect(end_t *end, uint64_t num_messages)
{
    for (unsigned i = 0; i < end->work.outstanding; i++) {
        end->slots[i].num_left = slot_share(end, i, num_messages);
        if ((end->slots[i].num_left != 0) && (end->ops->expect(end, i) != 0)) {
            return -1;
        }
    }
    return 0;
}

/*
 * Answer what has arrived. The next message of a slot cannot be missed: it is
 * expected before anything is progressed again.
 */
static int answer(end_t *end, uint64_t *num_answered)
{
    for (unsigned i = 0; i < end->work.outstanding; i++) {
        end_slot_t *slot = &end->slots[i];

        if (!slot->arrived) {
            continue;
        }
        slot->arrived = false;
        slot->num_left--;
        (*num_answered)++;
        if (end->ops->reply(end, i) != 0) {
            return -1;
        }
        if ((slot->num_left != 0) && (end->ops->expect(end, i) != 0)) {
            return -1;
        }
    }
    return 0;
}

int exchange_recv(end_t *end, uint64_t num_messages)
{
    uint64_t num_answered = 0;
    uint64_t before       = 0;
    stall_t  stall;

    stall_reset(&stall);
    while (num_answered < num_messages) {
        if ((advance(end, &stall) != 0) || (answer(end, &num_answered) != 0)) {
            return -1;
        }
        if (num_answered != before) {
            before = num_answered;
            stall_reset(&stall);
        }
    }
    return drain(end);
}

static int advance_both(end_t *out, end_t *in, stall_t *stall)
{
    exchange_progress(out, in);
    return out->failed || in->failed ? -1 : stall_check(stall, out);
}

int exchange_both(end_t *out, end_t *in, uint64_t num_messages,
                  samples_t *times, double *seconds_p)
{
    uint64_t num_posted   = 0;
    uint64_t num_replied  = 0;
    uint64_t num_answered = 0;
    uint64_t before       = 0;
    uint64_t start        = clock_now();
    stall_t  stall;

    stall_reset(&stall);
    while ((num_replied < num_messages) || (num_answered < num_messages)) {
        if ((post(out, num_messages, &num_posted) != 0) ||
            (advance_both(out, in, &stall) != 0) ||
            (collect_replies(out, times, &num_replied) != 0) ||
            (answer(in, &num_answered) != 0)) {
            return -1;
        }
        if (num_replied + num_posted + num_answered != before) {
            before = num_replied + num_posted + num_answered;
            stall_reset(&stall);
        }
    }
    *seconds_p = (double)(clock_now() - start) * 1e-9;
    return (drain(out) != 0) || (drain(in) != 0) ? -1 : 0;
}
