#include "xfer/send.h"

#include "base/error.h"
#include "core/control.h"
#include "xfer/state.h"

#include <string.h>

/*
 * The steps of a send, in the order of xfer_send_step_t:
 *
 *   TURN       wait until the send is the first in its channel's queue; then
 *              wait for a credit, or until the receiver has room for the
 *              descriptor without the data
 *   DESC       send the descriptor; if it contains the data, the send ends
 *   RUNS       send a long list of runs
 *   ACCEPT     wait for the receiver's ACCEPT, and for a word of revoked[]
 *              (core/ring.h)
 *   FRAGMENTS  gather fragments, except those in place, and send as many as the
 *              window allows
 *   DONE       wait for the receiver's DONE
 */
typedef enum step_result {
    STEP_NEXT,  /* continue with the next step */
    STEP_WAIT,  /* something will wake the request */
    STEP_STALL, /* no room in the wire or the GPU: try again */
    STEP_END    /* the request has ended */
} step_result_t;

typedef step_result_t (*step_t)(ucxpool_request_t *request);

ucxpool_status_t xfer_send_check_limits(const ucxpool_request_t *request)
{
    const ucxpool_channel_t *channel = request->channel;

    if (!(channel->wireup.handshake & CORE_HELLO_RECEIVED)) {
        return UCXPOOL_OK;
    }
    if ((request->data.num_runs > channel->peer.max_runs) ||
        (request->metadata.length > channel->peer.max_metadata)) {
        return base_error(UCXPOOL_ERR_LIMIT,
                          "%zu runs of equal lengths and %zu bytes of metadata "
                          "exceed the limits of the peer: "
                          "UCXPOOL_MAX_SEGMENTS=%llu, UCXPOOL_MAX_METADATA=%u; "
                          "raise them there",
                          request->data.num_runs, request->metadata.length,
                          (unsigned long long)channel->peer.max_runs,
                          channel->peer.max_metadata);
    }
    return UCXPOOL_OK;
}

static size_t runs_size(const ucxpool_request_t *request)
{
    return request->data.num_runs * sizeof(copy_run_t);
}

static bool is_eager(const ucxpool_request_t *request)
{
    uint64_t limit = request->pool->config.eager_size;

    /* An eager send ends before the receiver copies its data, so a write to a
     * window must not be eager. */
    return (!request->has_gpu_segments ||
            (request->data.totals.payload_size == 0)) &&
           (request->send->desc_flags != PROTO_DESC_WRITE) &&
           (request->data.totals.payload_size <= limit) &&
           (request->data.totals.stream_size + runs_size(request) +
                request->metadata.length <=
            PROTO_DATA_MAX);
}

/* Returns true if the data of the send can be sent in the descriptor now. This
 * needs a credit. */
static bool can_send_eager(const ucxpool_request_t *request)
{
    return (request->channel->flow.credits != 0) && is_eager(request);
}

static size_t desc_data_size(const ucxpool_request_t *request,
                             uint32_t                *flags_p)
{
    size_t size = request->metadata.length;

    *flags_p = 0;
    if (can_send_eager(request)) {
        *flags_p = PROTO_DESC_EAGER;
        return size + runs_size(request) + request->data.totals.stream_size;
    }
    if (size + runs_size(request) > PROTO_DATA_MAX) {
        *flags_p = PROTO_DESC_RUNS;
        return size;
    }
    return size + runs_size(request);
}

/* Returns how many units of the receiver's max_unexpected the descriptor
 * uses. */
static uint32_t cost_of(const ucxpool_request_t *request)
{
    uint32_t flags;

    return proto_desc_cost(desc_data_size(request, &flags),
                           request->channel->peer.max_unexpected);
}

static void put_cost(ucxpool_request_t *request)
{
    request->channel->flow.announced -= request->send->cost;
    request->send->cost = 0;
}

static step_result_t step_turn(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;

    if ((channel->state != UCXPOOL_CHANNEL_OPEN) ||
        !xfer_queue_is_first(request)) {
        return STEP_WAIT;
    }
    if (xfer_send_check_limits(request) != UCXPOOL_OK) {
        xfer_queue_leave(request);
        core_request_end(request, UCXPOOL_ERR_LIMIT, ucxpool_error_detail());
        return STEP_END;
    }
    if (can_send_eager(request)) {
        return STEP_NEXT;
    }
    if (is_eager(request) && !xfer_queue_may_announce(channel)) {
        return STEP_WAIT;
    }
    return (cost_of(request) <=
            channel->peer.max_unexpected - channel->flow.announced)
               ? STEP_NEXT
               : STEP_WAIT;
}

/* --- words of revoked[] ---------------------------------------------------
 * A send holds a word of revoked[] while the receiver may read its data. So at
 * most PROTO_SENDS_MAX sends of a channel transfer data at a time. The others
 * wait in xfer->word_waiters.
 */

/* Take a word for the send. Returns false if all words are in use. */
static bool take_word(ucxpool_request_t *request)
{
    uint64_t *words = request->channel->xfer->words;

    for (unsigned i = 0; i < PROTO_SENDS_MAX / 64; i++) {
        if (words[i] != UINT64_MAX) {
            unsigned bit = (unsigned)__builtin_ctzll(~words[i]);

            words[i] |= UINT64_C(1) << bit;
            request->send->word = 64 * i + bit + 1;
            return true;
        }
    }
    return false;
}

/* Wake the first send that waits for a word. */
static void wake_word_waiter(ucxpool_channel_t *channel)
{
    base_list_t *word_waiters = &channel->xfer->word_waiters;

    if (!base_list_is_empty(word_waiters)) {
        core_request_wake(
            base_list_head(word_waiters, ucxpool_request_t, link));
    }
}

static void put_word(ucxpool_request_t *request)
{
    unsigned i = request->send->word - 1;

    if (request->send->word != 0) {
        request->channel->xfer->words[i / 64] &= ~(UINT64_C(1) << i % 64);
        request->send->word = 0;
        wake_word_waiter(request->channel);
    }
}

/* --- steps ---------------------------------------------------------------- */

/* Take a message number, and units of the peer's max_unexpected, for a send
 * whose descriptor has `size` bytes of data. */
static void take_number(ucxpool_request_t *request, size_t size)
{
    ucxpool_channel_t *channel = request->channel;

    request->send->cost = proto_desc_cost(size, channel->peer.max_unexpected);
    channel->flow.announced += request->send->cost;
    request->send->message =
        core_numbers_take(&channel->requests.sends, request);
    base_list_add_tail(&channel->xfer->sent, &request->send->sent_link);
}

static void put_number(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;

    core_numbers_put(&channel->requests.sends, request->send->message);
    request->send->message = 0;
    put_cost(request);
    put_word(request);
    xfer_queue_wake(channel);
}

/* Fill the descriptor. read: the stream, if it was read from files; else
 * NULL. */
static void fill_desc(ucxpool_request_t *request, proto_desc_t *desc,
                      uint32_t flags, uint8_t *data, const uint8_t *read)
{
    uint64_t stream_size = request->data.totals.stream_size;

    desc->message       = request->send->message;
    desc->sequence      = request->send->sequence;
    desc->tag           = request->tag;
    desc->payload_size  = request->data.totals.payload_size;
    desc->num_runs      = (uint32_t)request->data.num_runs;
    desc->metadata_size = (uint32_t)request->metadata.length;
    desc->flags         = flags | request->send->desc_flags;
    if (request->send->slot != 0) {
        desc->flags |= PROTO_DESC_MAILED;
        desc->slot = xfer_mailbox_slot(request);
    }
    if (!(flags & PROTO_DESC_RUNS) && (request->data.num_runs != 0)) {
        memcpy(data, request->data.runs, runs_size(request));
        data += runs_size(request);
    }
    if (request->metadata.length != 0) {
        memcpy(data, request->metadata.bytes, request->metadata.length);
        data += request->metadata.length;
    }
    if ((flags & PROTO_DESC_EAGER) && (read != NULL)) {
        memcpy(data, read, stream_size);
    } else if (flags & PROTO_DESC_EAGER) {
        (void)copy_gather(request->plan, 0, stream_size, data);
    }
}

/* Send the descriptor, with the stream if it is eager. read: see
 * fill_desc(). */
static step_result_t send_desc(ucxpool_request_t *request, uint32_t flags,
                               size_t size, const uint8_t *read)
{
    ucxpool_channel_t *channel = request->channel;
    proto_fixed_t     *fixed;
    void              *data;

    fixed = core_control_begin(channel, PROTO_DESC, size, CORE_MAY, &data);
    if (fixed == NULL) {
        return STEP_STALL;
    }
    request->send->sequence = channel->flow.next_sequence++;
    if (flags & PROTO_DESC_EAGER) {
        channel->flow.credits--;
    } else {
        take_number(request, size);
    }
    if (flags == 0) {
        xfer_mailbox_take(request);
    }
    fill_desc(request, &fixed->desc, flags, data, read);
    core_control_end(channel);
    if (flags & PROTO_DESC_EAGER) {
        core_traffic_add(&channel->counts.sent[CORE_MODE_EAGER],
                         request->data.totals.payload_size);
        xfer_queue_leave(request);
        core_request_end(request, UCXPOOL_OK, NULL);
        return STEP_END;
    }
    request->send->runs_sent =
        (flags & PROTO_DESC_RUNS) ? 0 : (uint32_t)request->data.num_runs;
    return STEP_NEXT;
}

/* Read the data from files, then send the descriptor. The read comes first,
 * because a descriptor that has been started must be sent. */
static step_result_t send_read(ucxpool_request_t *request, uint32_t flags,
                               size_t size)
{
    uint8_t          stream[PROTO_DATA_MAX];
    ucxpool_status_t status;

    status =
        copy_gather(request->plan, 0, request->data.totals.stream_size, stream);
    if (status != UCXPOOL_OK) {
        xfer_send_stop(request, status, ucxpool_error_detail());
        return STEP_END;
    }
    return send_desc(request, flags, size, stream);
}

static step_result_t step_desc(ucxpool_request_t *request)
{
    uint32_t flags;
    size_t   size = desc_data_size(request, &flags);

    if (!(flags & PROTO_DESC_EAGER) &&
        !core_numbers_reserve(&request->channel->requests.sends)) {
        xfer_queue_end(request, UCXPOOL_ERR_NO_MEMORY,
                       "no memory for the number of a send");
        return STEP_END;
    }
    if ((flags & PROTO_DESC_EAGER) &&
        copy_memory_is_ranges(&request->data.memory)) {
        return send_read(request, flags, size);
    }
    return send_desc(request, flags, size, NULL);
}

static step_result_t step_runs(ucxpool_request_t *request)
{
    struct xfer_send *send = request->send;
    proto_fixed_t    *fixed;
    void             *data;

    while (send->runs_sent < request->data.num_runs) {
        uint32_t count =
            base_min((uint32_t)request->data.num_runs - send->runs_sent,
                     (uint32_t)(PROTO_DATA_MAX / sizeof(copy_run_t)));

        fixed = core_control_begin(request->channel, PROTO_RUNS,
                                   count * sizeof(copy_run_t), CORE_MAY, &data);
        if (fixed == NULL) {
            return STEP_STALL;
        }
        fixed->runs.sequence = send->sequence;
        fixed->runs.first    = send->runs_sent;
        fixed->runs.num_runs = count;
        memcpy(data, request->data.runs + send->runs_sent,
               count * sizeof(copy_run_t));
        core_control_end(request->channel);
        send->runs_sent += count;
    }
    xfer_queue_leave(request);
    return STEP_NEXT;
}

static step_result_t step_accept(ucxpool_request_t *request)
{
    base_list_t *word_waiters = &request->channel->xfer->word_waiters;

    if (xfer_send_is_mailed(request->send)) {
        return STEP_NEXT;
    }
    if (request->send->receive == 0) {
        return STEP_WAIT;
    }
    if (base_list_is_empty(&request->link)) {
        base_list_add_tail(word_waiters, &request->link);
    }
    if ((word_waiters->next != &request->link) || !take_word(request)) {
        return STEP_WAIT;
    }
    base_list_del(&request->link);
    wake_word_waiter(request->channel);
    return STEP_NEXT;
}

/* Called when all fragments have been created, or the channel has failed. */
static step_result_t end_fragments(const ucxpool_request_t *request)
{
    return base_list_is_empty(&request->send->unsent) ? STEP_NEXT : STEP_WAIT;
}

/* Called when the next fragment could not be created. Retries later, or ends
 * the send. */
static step_result_t stop_fragments(ucxpool_request_t *request,
                                    ucxpool_status_t   status)
{
    if (status == UCXPOOL_INPROGRESS) {
        return STEP_WAIT;
    }
    if (status == UCXPOOL_ERR_BUSY) {
        return STEP_STALL;
    }
    xfer_send_stop(request, status, ucxpool_error_detail());
    return STEP_END;
}

/* --- sends that push ------------------------------------------------------ */

static void go(core_link_work_t *work)
{
    core_request_wake(
        xfer_send_request(base_container_of(work, struct xfer_send, push)));
}

/* If the channel is still opening, xfer_send_opened() calls this again. */
void xfer_send_want_link(ucxpool_request_t *request)
{
    if ((request->channel->state == UCXPOOL_CHANNEL_OPEN) &&
        request->channel->peer.pushes) {
        core_link_post(&request->send->push, request->channel, CORE_LINK_OUT,
                       request->data.totals.stream_size, go);
    }
}

void xfer_send_opened(ucxpool_channel_t *channel)
{
    ucxpool_request_t *request;

    base_list_for_each(request, &channel->xfer->queue, ucxpool_request_t,
                       link) {
        xfer_send_want_link(request);
    }
    xfer_queue_wake(channel);
}

/* --- sends that read files ---------------------------------------------------
 * A read may wait for a disk. So each round of progress reads only one
 * fragment. The sends in pool->xfer->readers take turns. */

static void wake_reader(ucxpool_t *pool)
{
    ucxpool_request_t *first;

    if (!base_list_is_empty(&pool->xfer->readers)) {
        first = xfer_send_request(
            base_list_head(&pool->xfer->readers, struct xfer_send, read_link));
        core_request_wake(first);
    }
}

static void leave_readers(ucxpool_request_t *request)
{
    if (!base_list_is_empty(&request->send->read_link)) {
        base_list_del(&request->send->read_link);
        wake_reader(request->pool);
    }
}

/* Returns true if the send may read a fragment from its file now. Otherwise the
 * send is woken when its turn to read comes. */
static bool may_read(ucxpool_request_t *request)
{
    ucxpool_t   *pool = request->pool;
    base_list_t *link = &request->send->read_link;

    if (base_list_is_empty(link)) {
        base_list_add_tail(&pool->xfer->readers, link);
    }
    if (pool->xfer->readers.next != link) {
        return false;
    }
    if (pool->xfer->read_in == pool->progress_count) {
        core_request_wake(request);
        return false;
    }
    return true;
}

static step_result_t read_fragment(ucxpool_request_t *request)
{
    ucxpool_t       *pool = request->pool;
    ucxpool_status_t status;

    if (!may_read(request)) {
        return STEP_WAIT;
    }
    base_list_del(&request->send->read_link);
    status = xfer_fragment_post(request);
    if (status == UCXPOOL_OK) {
        pool->xfer->read_in = pool->progress_count;
        if (!request->send->all_posted) {
            base_list_add_tail(&pool->xfer->readers, &request->send->read_link);
        }
    }
    wake_reader(pool);
    if (status != UCXPOOL_OK) {
        return stop_fragments(request, status);
    }
    status = xfer_fragment_flush(request);
    if (status == UCXPOOL_ERR_BUSY) {
        return STEP_STALL;
    }
    return request->send->all_posted ? end_fragments(request) : STEP_WAIT;
}

static step_result_t step_fragments(ucxpool_request_t *request)
{
    struct xfer_send *send  = request->send;
    unsigned          batch = copy_engine_batch(request->pool->engine);
    ucxpool_status_t  status;

    if (send->is_early) {
        batch++; /* send the fragment before other requests start copies */
    }
    if (request->stream.marker != NULL) {
        return STEP_WAIT;
    }
    for (unsigned i = 0; i < batch; i++) {
        status = xfer_fragment_flush(request);
        if (status == UCXPOOL_ERR_BUSY) {
            leave_readers(request);
            core_link_leave(&send->push);
            return STEP_STALL;
        }
        if ((status != UCXPOOL_OK) || send->all_posted) {
            return end_fragments(request);
        }
        if (copy_memory_is_ranges(&request->data.memory)) {
            return read_fragment(request);
        }
        if ((send->loan != 0) && !core_link_take(&send->push)) {
            return STEP_WAIT;
        }
        status = xfer_fragment_post(request);
        if (send->all_posted || (status == UCXPOOL_INPROGRESS)) {
            core_link_leave(&send->push);
        }
        if (status != UCXPOOL_OK) {
            return stop_fragments(request, status);
        }
    }
    return STEP_STALL;
}

static step_result_t step_done(ucxpool_request_t *request)
{
    return STEP_WAIT;
}

static const step_t steps[] = {
    [XFER_SEND_TURN] = step_turn,           [XFER_SEND_DESC] = step_desc,
    [XFER_SEND_RUNS] = step_runs,           [XFER_SEND_ACCEPT] = step_accept,
    [XFER_SEND_FRAGMENTS] = step_fragments, [XFER_SEND_DONE] = step_done,
};

static void take_steps(ucxpool_request_t *request)
{
    while (!core_request_has_ended(request) && !request->send->ending &&
           core_channel_is_live(request->channel)) {
        switch (steps[request->send->step](request)) {
        case STEP_NEXT:
            request->send->step++;
            break;
        case STEP_STALL:
            if (!core_request_has_ended(request)) {
                core_request_stall(request);
            }
            return;
        case STEP_WAIT:
        case STEP_END:
            return;
        }
    }
}

bool xfer_send_advance(ucxpool_request_t *request)
{
    const struct xfer_send *send      = request->send;
    xfer_send_step_t        step      = send->step;
    uint32_t                runs_sent = send->runs_sent;
    uint32_t                index     = send->index;

    take_steps(request);
    return core_request_has_ended(request) || (send->step != step) ||
           (send->runs_sent != runs_sent) || (send->index != index);
}

/* Returns true if the send can send all its data at once. Returns false for a
 * send that reads files, because each round of progress reads only one
 * fragment. */
static bool is_quick(const ucxpool_request_t *request)
{
    return is_eager(request) && !copy_memory_is_ranges(&request->data.memory);
}

/* --- messages from the peer, and the end ---------------------------------- */

/* The size of the smallest block of a receiver, which is also the smallest
 * valid limit for fragments. With a lower limit, a peer could make this side
 * send a fragment for each byte. */
#define FRAG_SIZE_MIN 4096u

static ucxpool_request_t *find(const ucxpool_channel_t *channel,
                               uint64_t                 message)
{
    return core_numbers_find(&channel->requests.sends, message);
}

/* Returns true if UCX operations or copies on the GPU still read the caller's
 * memory. */
static bool is_being_read(const ucxpool_request_t *request)
{
    for (unsigned i = 0; i < CORE_FRAGMENTS_MAX; i++) {
        const core_fragment_t *fragment = request->send->fragments[i];

        if ((request->send->busy & (UINT64_C(1) << i)) &&
            (((fragment->ucx != NULL) && fragment->in_place) ||
             (fragment->copy.job != NULL))) {
            return true;
        }
    }
    return false;
}

/* Mark the message as revoked: data that the receiver reads from our memory
 * from now on is invalid. */
static void revoke(const ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;

    if (request->send->word != 0) {
        core_ring_revoke(&channel->ring, request->send->word - 1,
                         request->send->message);
    }
}

static void send_cancel(ucxpool_request_t *request, ucxpool_status_t status,
                        const char *detail)
{
    ucxpool_channel_t *channel = request->channel;

    revoke(request);
    core_control_cancel(channel, request->send->message, request->send->receive,
                        status, detail);
}

/* End the request when no operation reads the caller's memory. Until then, the
 * caller must not free or change this memory. If the caller changed it, the
 * receiver would read the new bytes as the message. */
static void end(ucxpool_request_t *request, ucxpool_status_t status,
                const char *detail)
{
    if (!is_being_read(request)) {
        core_request_end(request, status, detail);
    } else if (!request->send->ending) {
        request->send->ending = true;
        request->send->end    = status;
        xfer_slice_leave(request);
        base_list_add_tail(&request->channel->xfer->ending, &request->link);
        leave_readers(request);
        core_link_leave(&request->send->push);
        core_request_set_detail(request, detail);
        core_request_drain(request);
    }
}

/* Use the blocks that the receiver lent. Returns false if they are
 * invalid. */
static bool take_loan(ucxpool_request_t *request, const void *data,
                      size_t data_size)
{
    proto_lent_t lent[PROTO_LENT_MAX];

    memcpy(lent, data, data_size);
    return request->channel->peer.pushes &&
           xfer_fragment_take_loan(request, lent,
                                   (unsigned)(data_size / sizeof(lent[0]))) &&
           (request->send->block_size >= FRAG_SIZE_MIN);
}

/* Send RETURNED for the loan of a failed message, when the message has ended
 * and none of our copies writes to the loan. */
static void return_loan(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;

    if ((request->send->loan == 0) || (request->send->message != 0) ||
        is_being_read(request)) {
        return;
    }
    if (core_channel_is_live(channel)) {
        core_control_send(
            channel, PROTO_RETURNED,
            &(proto_fixed_t){.returned.message = request->send->loan}, NULL);
    }
    request->send->loan = 0;
}

void xfer_send_accepted(ucxpool_channel_t    *channel,
                        const proto_accept_t *accept, const void *data,
                        size_t data_size)
{
    ucxpool_request_t *request = find(channel, accept->message);

    if ((request == NULL) || (request->send->receive != 0)) {
        return;
    }
    put_cost(request);
    xfer_queue_wake(channel);
    if (core_request_has_ended(request)) {
        /* Our CANCEL overtook the descriptor: cancel again. */
        request->send->loan    = (data_size != 0) ? accept->message : 0;
        request->send->receive = accept->receive;
        send_cancel(request, core_request_status(request),
                    core_request_detail(request));
        return;
    }
    if (request->send->slot != 0) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer accepted a message that is in its mailbox");
        return;
    }
    if ((accept->receive == 0) || (accept->frag_size < FRAG_SIZE_MIN) ||
        (accept->window == 0)) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer accepted a message with invalid limits: "
                          "fragments of %llu bytes, %u at a time",
                          (unsigned long long)accept->frag_size,
                          accept->window);
        return;
    }
    if ((data_size != 0) && !take_loan(request, data, data_size)) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer lent invalid blocks, or lent blocks for a "
                          "channel that does not push");
        return;
    }
    request->send->receive = accept->receive;
    xfer_mailbox_check_early(request, accept->frag_size);
    xfer_fragment_set_limits(request, accept->frag_size, accept->window);
    core_request_wake(request);
}

void xfer_send_taken(ucxpool_channel_t *channel, const proto_taken_t *taken)
{
    ucxpool_request_t *request = find(channel, taken->message);
    uint32_t           number  = taken->piece;
    core_fragment_t   *fragment;

    if ((request == NULL) || (number >= CORE_FRAGMENTS_MAX) ||
        !(request->send->busy & (UINT64_C(1) << number))) {
        return;
    }
    fragment = request->send->fragments[number];
    if ((fragment->ucx == NULL) && (fragment->copy.job == NULL)) {
        xfer_send_fragment_done(fragment);
    }
}

void xfer_send_fragment_done(core_fragment_t *fragment)
{
    ucxpool_request_t *request = fragment->request;

    xfer_fragment_free(fragment);
    if (request->send->ending && !is_being_read(request)) {
        core_request_end(request, request->send->end,
                         core_request_detail(request));
    }
    return_loan(request);
    xfer_mailbox_put(request);
    if (!core_request_has_ended(request)) {
        core_request_wake(request);
    } else {
        core_request_reuse(request);
    }
}

void xfer_send_forget(ucxpool_request_t *request)
{
    for (unsigned i = 0; i < CORE_FRAGMENTS_MAX; i++) {
        core_fragment_t *fragment = request->send->fragments[i];

        /* Fragments that UCX or a copy still uses are freed later, in
         * callbacks. */
        if ((request->send->busy & (UINT64_C(1) << i)) &&
            (fragment->ucx == NULL) && (fragment->copy.job == NULL)) {
            xfer_fragment_free(fragment);
        }
    }
    if (request->send->message != 0) {
        put_number(request);
    }
    return_loan(request);
    xfer_mailbox_put(request);
    core_request_reuse(request);
}

void xfer_send_done(ucxpool_channel_t *channel, const proto_done_t *done,
                    const char *reason)
{
    ucxpool_request_t *request = find(channel, done->message);
    ucxpool_status_t   status  = (ucxpool_status_t)done->status;

    if (request == NULL) {
        return;
    }
    if ((status != UCXPOOL_OK) && (status != UCXPOOL_ERR_CANCELED)) {
        status = UCXPOOL_ERR_REFUSED;
    }
    if (status == UCXPOOL_OK) {
        request->send->loan = 0; /* the receiver has freed the blocks */
    }
    /* The receiver no longer reads our memory, so fragments on the `map` wire
     * can be freed. UCX may not have completed its operations yet. */
    end(request, status, reason);
    xfer_send_forget(request);
}

void xfer_send_stop(ucxpool_request_t *request, ucxpool_status_t status,
                    const char *detail)
{
    if (request->send->step <= XFER_SEND_DESC) {
        xfer_queue_end(request, status, detail);
        return;
    }
    if (request->send->ending) {
        core_request_end_drain(
            request, request->send->end,
            "the peer did not stop reading the buffer of a failed send "
            "over the ucx wire");
        return;
    }
    if (request->send->step == XFER_SEND_RUNS) {
        xfer_queue_leave(request);
    }
    send_cancel(request, status, detail);
    end(request, status, detail);
}

void xfer_send_abort(ucxpool_request_t *request, ucxpool_status_t status,
                     const char *detail)
{
    ucxpool_channel_t *channel = request->channel;

    revoke(request);
    end(request, status, detail);
    if (!channel->peer.peer_maps || channel->peer.is_detached) {
        xfer_send_forget(request);
    }
}

/* --- as a request --------------------------------------------------------- */

static void init(ucxpool_request_t *request)
{
    /* Entries of fragments[] are set before their use. */
    memset(request->send, 0, offsetof(struct xfer_send, fragments));
    base_list_init(&request->send->unsent);
    base_list_init(&request->send->read_link);
    base_list_init(&request->send->sent_link);
}

static void resume(ucxpool_request_t *request)
{
    if (request->send->step == XFER_SEND_FRAGMENTS) {
        core_request_wake(request);
    }
}

static void ended(ucxpool_request_t *request, ucxpool_status_t status)
{
    xfer_queue_count(request, status);
    base_list_del(&request->send->sent_link);
    wake_word_waiter(request->channel);
    leave_readers(request);
    core_link_leave(&request->send->push);
    xfer_send_release(request);
}

static bool is_busy(const ucxpool_request_t *request)
{
    return (request->send->busy != 0) || (request->send->message != 0);
}

const core_request_kind_t xfer_send_kind = {
    .init     = init,
    .resume   = resume,
    .advance  = xfer_send_advance,
    .is_quick = is_quick,
    .stop     = xfer_send_stop,
    .abort    = xfer_send_abort,
    .ended    = ended,
    .is_busy  = is_busy,
};

/* --- flushes -------------------------------------------------------------- */

bool xfer_flush_has_sends(const ucxpool_channel_t *channel, uint64_t before)
{
    const base_list_t *queue = &channel->xfer->queue;
    const base_list_t *sent  = &channel->xfer->sent;
    struct xfer_send  *first;

    /* Both lists have the oldest send first. */
    if (!base_list_is_empty(queue) &&
        (base_list_head(queue, ucxpool_request_t, link)->order < before)) {
        return true;
    }
    if (base_list_is_empty(sent)) {
        return false;
    }
    first = base_list_head(sent, struct xfer_send, sent_link);
    return xfer_send_request(first)->order < before;
}

unsigned xfer_flush_progress(ucxpool_channel_t *channel)
{
    unsigned           count = 0;
    ucxpool_request_t *request, *next;

    base_list_for_each_safe(request, next, &channel->xfer->flushes,
                            ucxpool_request_t, link) {
        if (!xfer_flush_has_sends(channel, request->order)) {
            core_request_finish(request, UCXPOOL_OK, NULL);
            count++;
        }
    }
    return count;
}

void xfer_flush_abort(ucxpool_channel_t *channel, ucxpool_status_t status)
{
    ucxpool_request_t *request;

    while ((request = base_list_pop(&channel->xfer->flushes, ucxpool_request_t,
                                    link)) != NULL) {
        core_request_finish(request, status, channel->reason);
    }
}

static const core_request_kind_t flush_kind = {
    .stop = core_request_end,
};

ucxpool_status_t xfer_flush_post(ucxpool_channel_t              *channel,
                                 const ucxpool_request_params_t *params,
                                 ucxpool_request_t             **request_p)
{
    static const copy_memory_t nothing;
    ucxpool_request_t         *request;
    ucxpool_status_t           status;

    if (!core_channel_is_live(channel)) {
        return core_channel_ended_error(channel);
    }
    status = core_request_create(channel->pool, &channel->pool->xfer->recvs,
                                 &flush_kind, &nothing, params, &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    core_request_set_channel(request, channel);
    request->order = channel->flow.num_posted;
    core_request_arm(request);
    base_list_add_tail(&channel->xfer->flushes, &request->link);
    xfer_flush_progress(channel);
    core_request_hand_out(request, request_p);
    return UCXPOOL_OK;
}
