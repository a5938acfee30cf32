#include "xfer/message.h"

#include "base/error.h"
#include "core/control.h"
#include "core/inbox.h"
#include "xfer/mailbox.h"
#include "xfer/state.h"

#include <stdlib.h>
#include <string.h>

/* Room for the lengths of most messages whose bytes come later. */
#define SMALL_ROOM 64u

/* --- the index of messages without a receive -------------------------------
 * For each kind of key, lists of the messages whose keys have one hash, in the
 * order of pool->xfer->unexpected. As many lists as messages, or more.
 *
 * The hash depends on a random factor of the pool, so that a peer cannot choose
 * keys with one hash. The second product spreads numbers that follow each
 * other, which some factors leave close together.
 */

static base_list_t *find_list(const ucxpool_t *pool, xfer_message_key_t key,
                              const ucxpool_channel_t *channel, uint64_t value)
{
    uint64_t hash = (value ^ (uintptr_t)channel) * pool->xfer->hash_factor;
    uint32_t size = pool->xfer->index_size;

    hash = (hash ^ (hash >> 32)) * UINT64_C(0x9e3779b97f4a7c15);
    return &pool->xfer->index[key * size + (((hash >> 32) * size) >> 32)];
}

static void index_add(ucxpool_message_t *message)
{
    const ucxpool_t         *pool    = message->pool;
    const ucxpool_channel_t *channel = message->channel;
    base_list_t             *links   = message->index_links;
    const proto_desc_t      *desc    = &message->desc;

    if (pool->xfer->index == NULL) {
        return;
    }
    base_list_add_tail(find_list(pool, XFER_BY_TAG, NULL, desc->tag),
                       &links[XFER_BY_TAG]);
    base_list_add_tail(
        find_list(pool, XFER_BY_CHANNEL_AND_TAG, channel, desc->tag),
        &links[XFER_BY_CHANNEL_AND_TAG]);
    if (desc->message != 0) {
        base_list_add_tail(
            find_list(pool, XFER_BY_NUMBER, channel, desc->message),
            &links[XFER_BY_NUMBER]);
    }
}

static void index_del(ucxpool_message_t *message)
{
    for (unsigned i = 0; i < XFER_NUM_KEYS; i++) {
        base_list_del(&message->index_links[i]);
    }
}

/* Without memory it stays as it is. */
static void index_grow(ucxpool_t *pool)
{
    uint32_t     size = base_max(2 * pool->xfer->index_size, 64u);
    base_list_t *lists =
        core_alloc(pool, XFER_NUM_KEYS * size * sizeof(*lists));
    ucxpool_message_t *message;

    if (lists == NULL) {
        return;
    }
    base_list_for_each(message, &pool->xfer->unexpected, ucxpool_message_t,
                       link) {
        index_del(message);
    }
    for (uint32_t i = 0; i < XFER_NUM_KEYS * size; i++) {
        base_list_init(&lists[i]);
    }
    free(pool->xfer->index);
    pool->xfer->index      = lists;
    pool->xfer->index_size = size;
    base_list_for_each(message, &pool->xfer->unexpected, ucxpool_message_t,
                       link) {
        index_add(message);
    }
}

/* It waits for a receive. */
static void enter_unexpected(ucxpool_message_t *message)
{
    ucxpool_t *pool = message->pool;

    if (pool->xfer->num_unexpected >= pool->xfer->index_size) {
        index_grow(pool);
    }
    base_list_add_tail(&pool->xfer->unexpected, &message->link);
    index_add(message);
    message->waits = true;
    pool->xfer->num_unexpected++;
    message->channel->xfer->messages.num_unexpected++;
    core_event_set(&message->channel->event, UCXPOOL_EVENT_MESSAGE);
}

static void leave_list(ucxpool_message_t *message)
{
    ucxpool_channel_t *channel = message->channel;

    base_list_del(&message->link);
    if (message->waits) {
        index_del(message);
        message->waits = false;
        message->pool->xfer->num_unexpected--;
        if (--channel->xfer->messages.num_unexpected == 0) {
            core_event_clear(&channel->event, UCXPOOL_EVENT_MESSAGE);
        }
    }
}

/* The first of a list of those that wait; link: the offset of the list's. */
static ucxpool_message_t *find_in(const base_list_t *list, size_t link,
                                  const ucxpool_channel_t *channel,
                                  uint64_t tag, uint64_t mask)
{
    for (base_list_t *at = list->next; at != list; at = at->next) {
        ucxpool_message_t *message =
            (ucxpool_message_t *)(void *)((uint8_t *)at - link);

        if (((channel == NULL) || (message->channel == channel)) &&
            (((tag ^ message->desc.tag) & mask) == 0)) {
            return message;
        }
    }
    return NULL;
}

ucxpool_message_t *xfer_message_match(ucxpool_t               *pool,
                                      const ucxpool_channel_t *channel,
                                      uint64_t tag, uint64_t mask)
{
    const base_list_t *list = &pool->xfer->unexpected;
    size_t             link = offsetof(ucxpool_message_t, link);
    xfer_message_key_t key =
        (channel == NULL) ? XFER_BY_TAG : XFER_BY_CHANNEL_AND_TAG;
    ucxpool_message_t *message;

    if (base_list_is_empty(list)) {
        return NULL;
    }
    if ((mask == UINT64_MAX) && (pool->xfer->index != NULL)) {
        list = find_list(pool, key, channel, tag);
        link = offsetof(ucxpool_message_t, index_links) +
               key * sizeof(base_list_t);
    }
    message = find_in(list, link, channel, tag, mask);
    if (message != NULL) {
        leave_list(message);
    }
    return message;
}

/* --- their memory ----------------------------------------------------------
 */

static ucxpool_message_t *message_alloc(ucxpool_channel_t *channel,
                                        base_list_t *home, size_t room)
{
    ucxpool_message_t *message =
        core_alloc(channel->pool, sizeof(*message) + room);

    if (message == NULL) {
        core_channel_fail(channel, UCXPOOL_ERR_NO_MEMORY,
                          "no memory for a message");
        return NULL;
    }
    base_list_init(&message->link);
    for (unsigned i = 0; i < XFER_NUM_KEYS; i++) {
        base_list_init(&message->index_links[i]);
    }
    message->home = home;
    return message;
}

static ucxpool_message_t *take_first(base_list_t *list)
{
    ucxpool_message_t *message = base_list_head(list, ucxpool_message_t, link);

    base_list_del(&message->link);
    return message;
}

/* One that is free; else another one with this room, if there may be more. */
static ucxpool_message_t *get_record(ucxpool_channel_t *channel,
                                     xfer_records_t *records, size_t room)
{
    ucxpool_message_t *message;

    if (!base_list_is_empty(&records->free)) {
        return take_first(&records->free);
    }
    message = message_alloc(channel, &records->free, room);
    if (message != NULL) {
        records->count++;
    }
    return message;
}

static bool has_record(const ucxpool_channel_t *channel,
                       const xfer_records_t    *records)
{
    return !base_list_is_empty(&records->free) ||
           (records->count < channel->pool->config.credits);
}

/* With room for an eager one; the peer has no more credits than there are. */
static ucxpool_message_t *get_eager(ucxpool_channel_t *channel)
{
    xfer_messages_t   *messages = &channel->xfer->messages;
    ucxpool_message_t *message;

    if (!has_record(channel, &messages->eager)) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent more messages than it has "
                          "credits (%u)",
                          messages->eager.count);
        return NULL;
    }
    message = get_record(channel, &messages->eager, PROTO_DATA_MAX);
    if (message != NULL) {
        message->cost = 0;
        channel->flow.num_eager++;
    }
    return message;
}

/* For a descriptor that is not eager, and the bytes that came with it. */
static ucxpool_message_t *get_announced(ucxpool_channel_t *channel,
                                        size_t             data_size)
{
    xfer_messages_t   *messages = &channel->xfer->messages;
    bool               is_small = data_size <= SMALL_ROOM;
    xfer_records_t    *records = is_small ? &messages->small : &messages->large;
    size_t             room    = is_small ? SMALL_ROOM : PROTO_DATA_MAX;
    uint32_t           max     = channel->pool->config.max_unexpected;
    uint32_t           cost    = proto_desc_cost(data_size, max);
    ucxpool_message_t *message;

    if (cost > max - messages->announced) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer announced more messages than are taken; "
                          "UCXPOOL_MAX_UNEXPECTED=%u",
                          max);
        return NULL;
    }
    message = has_record(channel, records)
                  ? get_record(channel, records, room)
                  : message_alloc(channel, NULL, data_size);
    if (message != NULL) {
        message->cost = cost;
        messages->announced += cost;
    }
    return message;
}

static ucxpool_message_t *message_get(ucxpool_channel_t *channel, bool is_eager,
                                      size_t data_size)
{
    ucxpool_message_t *message =
        is_eager ? get_eager(channel) : get_announced(channel, data_size);

    if (message == NULL) {
        return NULL;
    }
    message->pool         = channel->pool;
    message->channel      = channel;
    message->waits        = false;
    message->probed       = false;
    message->canceled     = false;
    message->canceled_why = NULL;
    message->refused      = false;
    message->own_runs     = false;
    message->runs         = NULL;
    message->stream       = NULL;
    core_channel_get(channel);
    return message;
}

/* It does not count any more among those that the peer has announced. */
static void uncount(ucxpool_message_t *message)
{
    message->channel->xfer->messages.announced -= message->cost;
    message->cost = 0;
}

static void put_memory(ucxpool_message_t *message)
{
    if (message->desc.flags & PROTO_DESC_EAGER) {
        message->channel->flow.num_eager--;
    }
    if (message->home != NULL) {
        base_list_add_head(message->home, &message->link);
    } else {
        free(message);
    }
}

/* Back to the channel, without a credit. */
static void message_put(ucxpool_message_t *message)
{
    ucxpool_channel_t *channel = message->channel;

    leave_list(message);
    if (message->own_runs) {
        free(message->runs);
        message->own_runs = false;
        channel->xfer->messages.num_runs -= message->desc.num_runs;
    }
    free(message->canceled_why);
    uncount(message);
    put_memory(message);
    core_channel_put(channel);
}

void xfer_message_keep(ucxpool_message_t *message)
{
    message->probed = true;
    base_list_add_tail(&message->pool->xfer->probed, &message->link);
}

void xfer_message_release(ucxpool_message_t *message)
{
    if (message->desc.flags & PROTO_DESC_EAGER) {
        message->channel->flow.credits_owed++;
    }
    message_put(message);
}

void xfer_message_drop(ucxpool_message_t *message, ucxpool_status_t status,
                       const char *reason)
{
    if ((message->desc.message != 0) && !message->canceled) {
        core_control_done(message->channel, message->desc.message, status,
                          reason);
    }
    xfer_message_release(message);
}

/* The oldest receive for a message; NULL: none. */
static ucxpool_request_t *find_posted(const ucxpool_channel_t *channel,
                                      uint64_t                 tag)
{
    ucxpool_request_t *request;

    base_list_for_each(request, &channel->pool->xfer->posted, ucxpool_request_t,
                       link) {
        if ((request->any_channel || (request->channel == channel)) &&
            (((request->tag ^ tag) & request->mask) == 0)) {
            return request;
        }
    }
    return NULL;
}

/* In its turn and complete: to the oldest receive, or among the unexpected. */
static void deliver(ucxpool_message_t *message)
{
    ucxpool_t         *pool = message->pool;
    ucxpool_request_t *request;

    if (message->refused && !message->canceled) {
        pool->stats.messages_refused++;
        core_control_done(message->channel, message->desc.message,
                          UCXPOOL_ERR_LIMIT,
                          "too many lists of lengths wait for a receive");
    }
    if (message->canceled) {
        core_control_done(message->channel, message->desc.message,
                          UCXPOOL_ERR_CANCELED, NULL);
    }
    if (message->refused || message->canceled) {
        xfer_message_release(message);
        return;
    }
    if (message->desc.flags & PROTO_DESC_WINDOW) {
        pool->dispatch->window_message(message);
        return;
    }
    request = find_posted(message->channel, message->desc.tag);
    if (request != NULL) {
        base_list_del(&request->link);
        request->kind->match(request, message);
        return;
    }
    enter_unexpected(message);
}

/* Where the parts of a complete descriptor lie; checked. */
static bool settle(ucxpool_message_t *message, size_t data_size)
{
    ucxpool_channel_t *channel = message->channel;
    uint8_t           *data    = message->data;
    size_t             size    = data_size;

    if (!(message->desc.flags & PROTO_DESC_RUNS)) {
        message->runs = (copy_run_t *)data;
        data += message->desc.num_runs * sizeof(copy_run_t);
        size -= message->desc.num_runs * sizeof(copy_run_t);
    }
    if (proto_check_desc(&message->desc, message->runs, size,
                         &message->totals) != UCXPOOL_OK) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL, "%s",
                          ucxpool_error_detail());
        return false;
    }
    message->metadata = data;
    message->stream   = data + message->desc.metadata_size;
    return true;
}

/* Its turn, or its end, has come. */
static void leave_arriving(ucxpool_message_t *message)
{
    base_list_del(&message->link);
    message->channel->xfer->messages.num_arriving--;
}

/* Deliver what stands next in the order. */
static void deliver_arriving(ucxpool_channel_t *channel)
{
    ucxpool_message_t *message;
    ucxpool_message_t *next;
    bool               found = true;

    while (found) {
        found = false;
        base_list_for_each_safe(message, next,
                                &channel->xfer->messages.arriving,
                                ucxpool_message_t, link) {
            if ((message->desc.sequence == channel->flow.expected_sequence) &&
                (message->runs_missing == 0)) {
                channel->flow.expected_sequence++;
                leave_arriving(message);
                deliver(message);
                found = true;
                break;
            }
        }
    }
}

/*
 * Room for runs that come in messages of their own. The lists of a channel that
 * wait for a receive hold MAX_SEGMENTS runs together; a message with more is
 * refused when its turn has come.
 */
static bool expect_runs(ucxpool_message_t *message)
{
    ucxpool_channel_t *channel  = message->channel;
    size_t             num_runs = message->desc.num_runs;
    size_t             max      = channel->pool->config.max_segments;

    message->runs_missing = message->desc.num_runs;
    if (num_runs > max) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent a list of %zu lengths; "
                          "UCXPOOL_MAX_SEGMENTS=%zu",
                          num_runs, max);
        return false;
    }
    if (num_runs > max - channel->xfer->messages.num_runs) {
        message->refused = true;
        return true;
    }
    /* Zeroed: runs that never come have the count 0, which is refused. */
    channel->pool->stats.allocations++;
    message->runs = calloc(num_runs, sizeof(copy_run_t));
    if (message->runs == NULL) {
        core_channel_fail(channel, UCXPOOL_ERR_NO_MEMORY,
                          "no memory for a list of %zu lengths", num_runs);
        return false;
    }
    message->own_runs = true;
    channel->xfer->messages.num_runs += num_runs;
    return true;
}

static bool is_known(const ucxpool_channel_t *channel, uint64_t sequence)
{
    ucxpool_message_t *other;

    if (sequence < channel->flow.expected_sequence) {
        return true;
    }
    base_list_for_each(other, &channel->xfer->messages.arriving,
                       ucxpool_message_t, link) {
        if (other->desc.sequence == sequence) {
            return true;
        }
    }
    return false;
}

/* To the others whose turn has not come, and all whose turn has now. */
static void arrive(ucxpool_message_t *message)
{
    ucxpool_channel_t *channel = message->channel;

    base_list_add_tail(&channel->xfer->messages.arriving, &message->link);
    channel->xfer->messages.num_arriving++;
    deliver_arriving(channel);
    if (channel->xfer->messages.num_arriving > PROTO_ARRIVING_MAX) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent %u descriptors and not the one before "
                          "them",
                          channel->xfer->messages.num_arriving);
    }
}

/* One bit, or none. */
static bool is_for_one(uint32_t flags)
{
    return (flags & (flags - 1)) == 0;
}

void xfer_message_desc(ucxpool_channel_t *channel, const proto_desc_t *desc,
                       const void *data, size_t data_size)
{
    ucxpool_message_t *message;

    if (is_known(channel, desc->sequence) ||
        ((desc->flags & PROTO_DESC_EAGER) && (desc->message != 0)) ||
        (!(desc->flags & PROTO_DESC_EAGER) && (desc->message == 0)) ||
        ((desc->flags & PROTO_DESC_EAGER) && (desc->flags & PROTO_DESC_RUNS))) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent descriptor %llu twice, or half eager",
                          (unsigned long long)desc->sequence);
        return;
    }
    if (!is_for_one(desc->flags & PROTO_DESC_WINDOW)) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent a message of a window of two kinds");
        return;
    }
    if ((desc->flags & PROTO_DESC_MAILED) &&
        (desc->flags &
         (PROTO_DESC_WINDOW | PROTO_DESC_EAGER | PROTO_DESC_RUNS))) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer mailed a message that cannot be");
        return;
    }
    if (desc->metadata_size > channel->pool->config.max_metadata) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent %u bytes of metadata; "
                          "UCXPOOL_MAX_METADATA=%zu",
                          desc->metadata_size,
                          channel->pool->config.max_metadata);
        return;
    }
    message =
        message_get(channel, (desc->flags & PROTO_DESC_EAGER) != 0, data_size);
    if (message == NULL) {
        return;
    }
    channel->flow.arrived_sequence = desc->sequence + 1;
    message->desc                  = *desc;
    message->runs_missing          = 0;
    memcpy(message->data, data, data_size);
    if ((desc->flags & PROTO_DESC_RUNS) ? !expect_runs(message)
                                        : !settle(message, data_size)) {
        message_put(message);
        return;
    }
    if ((desc->flags & PROTO_DESC_MAILED) &&
        !xfer_mailbox_check(channel, desc, message->totals.stream_size)) {
        message_put(message);
        return;
    }
    arrive(message);
}

/* The descriptor that a SHORT stands for. */
static proto_desc_t desc_of(const proto_short_t *in_short, uint64_t sequence,
                            size_t data_size)
{
    return (proto_desc_t){
        .head         = in_short->head,
        .sequence     = sequence,
        .tag          = in_short->tag,
        .payload_size = data_size,
        .num_runs     = 1,
        .flags        = PROTO_DESC_EAGER,
    };
}

static void fill_short(ucxpool_message_t *message, const proto_desc_t *desc,
                       const void *data)
{
    const uint64_t   size = desc->payload_size;
    const copy_run_t run  = {.length = size, .count = 1};

    message->desc         = *desc;
    message->runs_missing = 0;
    message->totals       = copy_totals_of_piece(size);
    message->runs         = (copy_run_t *)(void *)message->data;
    message->metadata     = message->data + sizeof(run);
    message->stream       = message->metadata;
    memcpy(message->runs, &run, sizeof(run));
    memcpy(message->stream, data, size);
}

/*
 * One whose turn it is, and that a receive waits for, is put where it belongs
 * out of the ring. The others get a place, and go the way of all descriptors.
 */
void xfer_message_short(ucxpool_channel_t   *channel,
                        const proto_short_t *in_short, const void *data,
                        size_t data_size)
{
    uint64_t           sequence = channel->flow.arrived_sequence++;
    ucxpool_request_t *request  = NULL;
    ucxpool_message_t *message;
    proto_desc_t       desc;

    if ((sequence == channel->flow.expected_sequence) &&
        base_list_is_empty(&channel->xfer->messages.arriving)) {
        request = find_posted(channel, in_short->tag);
    }
    if ((request != NULL) &&
        request->kind->match_short(request, channel, in_short->tag, data,
                                   data_size)) {
        channel->flow.expected_sequence++;
        channel->flow.credits_owed++;
        return;
    }
    if (is_known(channel, sequence)) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent descriptor %llu twice",
                          (unsigned long long)sequence);
        return;
    }
    message = message_get(channel, true, data_size);
    if (message == NULL) {
        return;
    }
    desc = desc_of(in_short, sequence, data_size);
    fill_short(message, &desc, data);
    arrive(message);
}

/* More runs of a message, checked to be some of those that are missing. */
static void take_runs(ucxpool_message_t *message, const proto_runs_t *runs,
                      const void *data)
{
    if (!message->refused) {
        memcpy(message->runs + runs->first, data,
               runs->num_runs * sizeof(copy_run_t));
    }
    message->runs_missing -= runs->num_runs;
    if ((message->runs_missing == 0) &&
        (message->refused || settle(message, message->desc.metadata_size))) {
        deliver_arriving(message->channel);
    }
}

void xfer_message_runs(ucxpool_channel_t *channel, const proto_runs_t *runs,
                       const void *data)
{
    ucxpool_message_t *message;

    base_list_for_each(message, &channel->xfer->messages.arriving,
                       ucxpool_message_t, link) {
        if (message->desc.sequence != runs->sequence) {
            continue;
        }
        if (message->canceled) {
            return;
        }
        if ((runs->num_runs == 0) || (runs->num_runs > message->runs_missing) ||
            (runs->first > message->desc.num_runs) ||
            (runs->num_runs > message->desc.num_runs - runs->first)) {
            break;
        }
        take_runs(message, runs, data);
        return;
    }
    core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                      "the peer sent lengths that belong to no message");
}

/* One that has not been delivered: nothing more of it comes, but those behind
 * it wait for its turn to pass. */
static bool cancel_arriving(ucxpool_channel_t *channel, uint64_t number)
{
    ucxpool_message_t *message;

    base_list_for_each(message, &channel->xfer->messages.arriving,
                       ucxpool_message_t, link) {
        if (message->desc.message == number) {
            message->canceled     = true;
            message->runs_missing = 0;
            deliver_arriving(channel);
            return true;
        }
    }
    return false;
}

static bool has_number(const ucxpool_message_t *message,
                       const ucxpool_channel_t *channel, uint64_t number)
{
    return (message->channel == channel) && (message->desc.message == number);
}

/* One that waits for a receive, or that the caller looks at; NULL: none. */
static ucxpool_message_t *find_number(const ucxpool_channel_t *channel,
                                      uint64_t                 number)
{
    const ucxpool_t   *pool = channel->pool;
    ucxpool_message_t *message;

    if (pool->xfer->index != NULL) {
        base_list_for_each(message,
                           find_list(pool, XFER_BY_NUMBER, channel, number),
                           ucxpool_message_t, index_links[XFER_BY_NUMBER]) {
            if (has_number(message, channel, number)) {
                return message;
            }
        }
    } else {
        base_list_for_each(message, &pool->xfer->unexpected, ucxpool_message_t,
                           link) {
            if (has_number(message, channel, number)) {
                return message;
            }
        }
    }
    base_list_for_each(message, &pool->xfer->probed, ucxpool_message_t, link) {
        if (has_number(message, channel, number)) {
            return message;
        }
    }
    return NULL;
}

bool xfer_message_cancel(ucxpool_channel_t *channel, uint64_t number,
                         const char *why)
{
    ucxpool_message_t *message = find_number(channel, number);

    if (message == NULL) {
        return cancel_arriving(channel, number);
    }
    if (!message->canceled) {
        message->canceled     = true;
        message->canceled_why = strdup(why);
        core_control_done(channel, number, UCXPOOL_ERR_CANCELED, NULL);
    }
    if (message->probed) {
        uncount(message); /* the sender may announce another one */
    } else {
        xfer_message_release(message);
    }
    return true;
}

void xfer_message_channel_ended(ucxpool_channel_t *channel)
{
    ucxpool_message_t *message;
    ucxpool_message_t *next;

    base_list_for_each_safe(message, next, &channel->xfer->messages.arriving,
                            ucxpool_message_t, link) {
        leave_arriving(message);
        message_put(message);
    }
    base_list_for_each_safe(message, next, &channel->pool->xfer->unexpected,
                            ucxpool_message_t, link) {
        /* One that came with its bytes can still be received. */
        if ((message->channel == channel) && (message->desc.message != 0)) {
            message_put(message);
        }
    }
}

void xfer_message_drop_all(ucxpool_channel_t *channel)
{
    base_list_t *lists[] = {&channel->xfer->messages.arriving,
                            &channel->pool->xfer->unexpected,
                            &channel->pool->xfer->probed};

    for (unsigned i = 0; i < 3; i++) {
        ucxpool_message_t *message;
        ucxpool_message_t *next;

        base_list_for_each_safe(message, next, lists[i], ucxpool_message_t,
                                link) {
            if (message->channel == channel) {
                channel->refs++; /* of the last, until all are through */
                message_put(message);
            }
        }
    }
}

void xfer_message_destroy_all(ucxpool_channel_t *channel)
{
    base_list_t *free_ones = &channel->xfer->messages.eager.free;

    base_list_splice_tail(free_ones, &channel->xfer->messages.small.free);
    base_list_splice_tail(free_ones, &channel->xfer->messages.large.free);
    while (!base_list_is_empty(free_ones)) {
        free(take_first(free_ones));
    }
}
