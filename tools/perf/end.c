#include "perf/end.h"
#include "common/system.h"
#include "common/error.h"

#include <sched.h>
#include <string.h>

void end_init(end_t *end, const end_ops_t *ops, const end_params_t *params)
{
    memset(end, 0, sizeof(*end));
    end->ops       = ops;
    end->side      = params->side;
    end->work      = params->work;
    end->is_sender = params->is_sender;
    end->memory    = params->memory;
    for (unsigned slot = 0; slot < end->work.outstanding; slot++) {
        end->slots[slot].end = end;
    }
}

int end_init_buffers(end_t *end, void *arena)
{
    bool   is_scattered = side_is_scattered(end->side);
    size_t shift = end->is_sender && is_scattered ? end->work.misaligned : 0;

    return buffers_init(&end->buffers, end->memory, &end->work, is_scattered,
                        shift, arena);
}

int end_fail(end_t *end, const char *what, const char *why)
{
    if (!end->failed) {
        end->failed = true;
        tool_error("%s: %s: %s", side_name(end->side), what, why);
    }
    return -1;
}

int end_no_part(end_t *end, unsigned slot)
{
    return end_fail(end, "cannot start a message",
                    "this process is the receiver");
}

/* --- a batch of messages -------------------------------------------------- */

/* If nothing has advanced for this time, one of the two processes has hung. */
#define STALL_NS (UINT64_C(30) * 1000000000u)

/* Number of progress calls between two readings of the clock, and between two
 * calls that yield the CPU. If there are fewer CPUs than processes,
 * the other end may be waiting for this CPU. */
#define STALL_LOOK  4096u
#define STALL_YIELD 256u

/* Maximum number of message times that are kept, which is enough for a 99th
 * percentile. The times of later messages are discarded. */
#define MAX_TIMES ((size_t)1 << 21)

typedef struct stall {
    unsigned calls;
    uint64_t since;
} stall_t;

static int stall_check(stall_t *stall, const end_t *end)
{
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
    return tool_error(
        "%s: no data was transferred for %u seconds; check that the other "
        "process runs and that both have the same UCX_* variables",
        side_name(end->side), (unsigned)(STALL_NS / 1000000000u));
}

void end_progress(end_t *out, end_t *in)
{
    out->ops->progress(out);
    if ((in != NULL) && !side_is(in->side, IS_POOL)) {
        in->ops->progress(in);
    }
}

/* Progress both ends, and check for errors and stalls. in: NULL for none. */
static int advance(end_t *out, end_t *in, stall_t *stall)
{
    end_progress(out, in);
    if (out->failed || ((in != NULL) && in->failed)) {
        return -1;
    }
    return stall_check(stall, out);
}

int end_wait(end_t *end, unsigned slot, unsigned limit)
{
    stall_t stall = {0, 0};

    while (end->slots[slot].pending >= limit) {
        if (advance(end, NULL, &stall) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Complete the operations whose effect the other side has already seen. */
static int drain(end_t *end)
{
    for (unsigned slot = 0; slot < end->work.outstanding; slot++) {
        if (end_wait(end, slot, 1) != 0) {
            return -1;
        }
    }
    return 0;
}

static void collect_replies(end_t *end, samples_t *times, uint64_t *num_replied)
{
    for (unsigned i = 0; i < end->work.outstanding; i++) {
        end_slot_t *slot = &end->slots[i];

        if (slot->busy && slot->replied) {
            slot->busy    = false;
            slot->replied = false;
            (*num_replied)++;
            if ((times != NULL) && (times->num < MAX_TIMES)) {
                samples_add(times,
                            (double)(clock_now() - slot->posted_at) * 1e-9);
            }
        }
    }
}

/* Post the next message if its slot is free, and then increment
 * *num_posted_p. */
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

int end_expect(end_t *end, uint64_t num_messages)
{
    unsigned num_slots = end->work.outstanding;

    for (unsigned i = 0; i < num_slots; i++) {
        end->slots[i].num_left = (num_messages + num_slots - 1 - i) / num_slots;
        if ((end->slots[i].num_left != 0) && (end->ops->expect(end, i) != 0)) {
            return -1;
        }
    }
    return 0;
}

/*
 * Reply to messages that have arrived. The next message of a slot cannot be
 * missed, because its receive is posted before the next progress call.
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

int end_exchange(end_t *out, end_t *in, uint64_t num_messages, samples_t *times,
                 double *seconds_p)
{
    end_t   *end          = out != NULL ? out : in;
    uint64_t num_out      = out != NULL ? num_messages : 0;
    uint64_t num_in       = in != NULL ? num_messages : 0;
    uint64_t num_posted   = 0;
    uint64_t num_replied  = 0;
    uint64_t num_answered = 0;
    uint64_t before       = 0;
    uint64_t start        = clock_now();
    stall_t  stall        = {0, 0};

    while ((num_replied < num_out) || (num_answered < num_in)) {
        uint64_t num_before = num_posted;

        if ((out != NULL) && (post(out, num_out, &num_posted) != 0)) {
            return -1;
        }
        if (((in != NULL) || (num_posted == num_before)) &&
            (advance(end, end == in ? NULL : in, &stall) != 0)) {
            return -1;
        }
        if (out != NULL) {
            collect_replies(out, times, &num_replied);
        }
        if ((in != NULL) && (answer(in, &num_answered) != 0)) {
            return -1;
        }
        if (num_replied + num_posted + num_answered != before) {
            before = num_replied + num_posted + num_answered;
            stall  = (stall_t){0, 0};
        }
    }
    *seconds_p = (double)(clock_now() - start) * 1e-9;
    return ((out != NULL) && (drain(out) != 0)) ||
                   ((in != NULL) && (drain(in) != 0))
               ? -1
               : 0;
}
