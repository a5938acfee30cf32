#include "xfer/recv.h"

#include "base/error.h"
#include "core/control.h"
#include "core/inbox.h"
#include "wire/wire.h"
#include "xfer/post.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The size of the data in a small record: enough for the runs of most messages
 * that are not eager, and for the shortest eager messages. */
#define SMALL_ROOM 64u

/* The maximum number of early messages delivered per call. If many messages
 * waited for an earlier message, this limit lets the pool serve its other
 * channels in between. */
#define ROUND_MAX 64u

/* --- lists and the index --------------------------------------------------
 * The index holds the messages that no receive has matched. The messages in
 * each list of the index are in the same order as in pool->xfer->unexpected.
 * Early messages are indexed only by number.
 */

static void index_add(ucxpool_message_t *message)
{
    const xfer_index_t      *index   = &message->pool->xfer->index;
    const ucxpool_channel_t *channel = message->channel;
    base_list_t             *links   = message->index_links;
    const proto_desc_t      *desc    = &message->desc;

    if (desc->message != 0) {
        base_list_add_tail(
            xfer_index_list(index, XFER_BY_NUMBER, channel, desc->message),
            &links[XFER_BY_NUMBER]);
    }
    if (message->place == XFER_UNEXPECTED) {
        base_list_add_tail(xfer_index_list(index, XFER_BY_TAG, NULL, desc->tag),
                           &links[XFER_BY_TAG]);
        base_list_add_tail(
            xfer_index_list(index, XFER_BY_CHANNEL_AND_TAG, channel, desc->tag),
            &links[XFER_BY_CHANNEL_AND_TAG]);
    }
}

static void index_list(const base_list_t *list)
{
    ucxpool_message_t *message;

    base_list_for_each(message, list, ucxpool_message_t, link) {
        index_add(message);
    }
}

/* Add a message that is not in a list. place: XFER_EARLY, XFER_UNEXPECTED. */
static void enter_list(ucxpool_message_t *message, xfer_place_t place)
{
    struct xfer_pool *xfer = message->pool->xfer;

    if (xfer_index_grow(&xfer->index, message->pool)) {
        index_list(&xfer->early);
        index_list(&xfer->unexpected);
    }
    message->place = place;
    base_list_add_tail((place == XFER_EARLY) ? &xfer->early : &xfer->unexpected,
                       &message->link);
    index_add(message);
    xfer->index.num++;
}

static void enter_unexpected(ucxpool_message_t *message)
{
    ucxpool_channel_t *channel = message->channel;

    enter_list(message, XFER_UNEXPECTED);
    channel->xfer->messages.num_unexpected++;
    core_event_set(&channel->event, UCXPOOL_EVENT_MESSAGE);
}

static ucxpool_message_t **early_slot(const ucxpool_channel_t *channel,
                                      uint64_t                 sequence)
{
    const xfer_messages_t *messages = &channel->xfer->messages;

    return &messages->early[sequence & (messages->early_size - 1)];
}

static void leave_list(ucxpool_message_t *message)
{
    ucxpool_channel_t *channel = message->channel;
    xfer_place_t       place   = message->place;

    base_list_del(&message->link);
    message->place = XFER_TAKEN;
    if ((place == XFER_EARLY) || (place == XFER_UNEXPECTED)) {
        for (unsigned i = 0; i < XFER_NUM_KEYS; i++) {
            base_list_del(&message->index_links[i]);
        }
        message->pool->xfer->index.num--;
    }
    if (place == XFER_EARLY) {
        *early_slot(channel, message->desc.sequence) = NULL;
    }
    if ((place == XFER_UNEXPECTED) &&
        (--channel->xfer->messages.num_unexpected == 0)) {
        core_event_clear(&channel->event, UCXPOOL_EVENT_MESSAGE);
    }
}

/* Returns the first message in a list that matches. link: the offset of the
 * list's link in a message. */
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
    if (mask == UINT64_MAX) {
        list = xfer_index_list(&pool->xfer->index, key, channel, tag);
        link = offsetof(ucxpool_message_t, index_links) +
               key * sizeof(base_list_t);
    }
    message = find_in(list, link, channel, tag, mask);
    if (message != NULL) {
        leave_list(message);
    }
    return message;
}

/* --- memory --------------------------------------------------------------- */

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

/* Returns a record with room for the data. Up to CREDITS records of each size
 * are kept for reuse. */
static ucxpool_message_t *get_record(ucxpool_channel_t *channel,
                                     size_t             data_size)
{
    xfer_messages_t   *messages = &channel->xfer->messages;
    bool               is_small = data_size <= SMALL_ROOM;
    xfer_records_t    *records = is_small ? &messages->small : &messages->large;
    ucxpool_message_t *message =
        base_list_pop(&records->free, ucxpool_message_t, link);

    if (message != NULL) {
        return message;
    }
    if (records->count >= channel->pool->config.credits) {
        return message_alloc(channel, NULL, data_size);
    }
    message = message_alloc(channel, &records->free,
                            is_small ? SMALL_ROOM : PROTO_DATA_MAX);
    records->count += (message != NULL);
    return message;
}

/* Returns a record for an eager message, which costs a credit. */
static ucxpool_message_t *get_eager(ucxpool_channel_t *channel,
                                    size_t             data_size)
{
    ucxpool_message_t *message;

    if (channel->flow.num_eager >= channel->pool->config.credits) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent more messages than it has "
                          "credits (%u)",
                          channel->flow.num_eager);
        return NULL;
    }
    message = get_record(channel, data_size);
    if (message != NULL) {
        message->cost = 0;
        channel->flow.num_eager++;
    }
    return message;
}

/* Returns a record for a descriptor that is not eager, with its data. */
static ucxpool_message_t *get_announced(ucxpool_channel_t *channel,
                                        size_t             data_size)
{
    uint32_t          *announced_p = &channel->xfer->messages.announced;
    uint32_t           max         = channel->pool->config.max_unexpected;
    uint32_t           cost        = proto_desc_cost(data_size, max);
    ucxpool_message_t *message;

    if (cost > max - *announced_p) {
        core_channel_fail(
            channel, UCXPOOL_ERR_PROTOCOL,
            "the peer announced more messages than this pool accepts; "
            "UCXPOOL_MAX_UNEXPECTED=%u",
            max);
        return NULL;
    }
    message = get_record(channel, data_size);
    if (message != NULL) {
        message->cost = cost;
        *announced_p += cost;
    }
    return message;
}

static ucxpool_message_t *message_get(ucxpool_channel_t *channel, bool is_eager,
                                      size_t data_size)
{
    ucxpool_message_t *message = is_eager ? get_eager(channel, data_size)
                                          : get_announced(channel, data_size);

    if (message == NULL) {
        return NULL;
    }
    message->pool         = channel->pool;
    message->channel      = channel;
    message->place        = XFER_TAKEN;
    message->canceled     = false;
    message->canceled_why = NULL;
    message->refused      = false;
    message->own_runs     = false;
    message->runs         = NULL;
    message->stream       = NULL;
    core_channel_get(channel);
    return message;
}

/* Stop counting the message against max_unexpected, so that the peer can send
 * another one. */
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

/* Free a message without returning its credit. */
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
    message->place = XFER_PROBED;
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

/* Refuse a message whose list would exceed the channel's limit. */
static void refuse(const ucxpool_message_t *message)
{
    ucxpool_channel_t *channel = message->channel;
    char               reason[PROTO_TEXT_MAX + 1];

    channel->counts.messages_refused++;
    snprintf(reason, sizeof(reason),
             "too many lists of lengths wait for receives: raise the "
             "receiver's UCXPOOL_MAX_SEGMENTS=%zu or post its receives earlier",
             channel->pool->config.max_segments);
    core_control_done(channel, message->desc.message, UCXPOOL_ERR_LIMIT,
                      reason);
}

/* Pass a complete message that is next in order to the oldest matching receive.
 * If no receive matches, the message becomes unexpected. */
static void deliver(ucxpool_message_t *message)
{
    ucxpool_t         *pool = message->pool;
    ucxpool_request_t *request;

    if (message->refused && !message->canceled) {
        refuse(message);
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
    request = xfer_posted_find(message->channel, message->desc.tag);
    if (request != NULL) {
        request->kind->match(request, message);
        return;
    }
    enter_unexpected(message);
}

/* Check a complete descriptor and find its parts. Fails the channel if the
 * descriptor is invalid. */
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

/* --- early descriptors ------------------------------------------------------
 * The slot of an early descriptor is its sequence number modulo early_size. All
 * sequence numbers are in [expected_sequence, expected_sequence + early_size).
 */

#define EARLY_SIZE_MIN 64u

static ucxpool_message_t *find_early(const ucxpool_channel_t *channel,
                                     uint64_t                 sequence)
{
    return (sequence - channel->flow.expected_sequence <
            channel->xfer->messages.early_size)
               ? *early_slot(channel, sequence)
               : NULL;
}

/* Make a slot for this sequence number. Returns false if out of memory. */
static bool reserve_early(ucxpool_channel_t *channel, uint64_t sequence)
{
    xfer_messages_t    *messages = &channel->xfer->messages;
    uint32_t            old_size = messages->early_size;
    ucxpool_message_t **old      = messages->early;
    uint32_t            size     = base_max(old_size, EARLY_SIZE_MIN);
    ucxpool_message_t **slots;

    while (size <= sequence - channel->flow.expected_sequence) {
        size *= 2;
    }
    if (size == old_size) {
        return true;
    }
    /* calloc() does not touch the pages before their use. */
    slots = calloc(size, sizeof(*slots));
    if (slots == NULL) {
        return false;
    }
    channel->pool->stats.allocations++;
    messages->early      = slots;
    messages->early_size = size;
    for (uint32_t i = 0; i < old_size; i++) {
        if (old[i] != NULL) {
            *early_slot(channel, old[i]->desc.sequence) = old[i];
        }
    }
    free(old);
    return true;
}

unsigned xfer_message_progress(ucxpool_channel_t *channel)
{
    unsigned           count = 0;
    ucxpool_message_t *message;

    while ((count < ROUND_MAX) && xfer_message_has_turn(channel)) {
        message = *early_slot(channel, channel->flow.expected_sequence);
        leave_list(message);
        channel->flow.expected_sequence++;
        deliver(message);
        count++;
    }
    return count;
}

/* Check the sequence number of a descriptor. A sender has at most CREDITS eager
 * messages and MAX_UNEXPECTED other messages that are not delivered yet. This
 * limits the range of its sequence numbers. */
static bool check_sequence(ucxpool_channel_t *channel, uint64_t sequence)
{
    const base_config_t *config   = &channel->pool->config;
    uint64_t             expected = channel->flow.expected_sequence;

    if ((sequence - expected <
         (uint64_t)config->credits + config->max_unexpected) &&
        (find_early(channel, sequence) == NULL)) {
        return true;
    }
    core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                      "the peer sent descriptor %llu twice, or too early: the "
                      "next one is %llu",
                      (unsigned long long)sequence,
                      (unsigned long long)expected);
    return false;
}

/*
 * Allocate the list of runs that arrive in RUNS messages. All such lists of a
 * channel's messages without a receive have at most MAX_SEGMENTS runs in total.
 * A message that exceeds this limit is refused when its turn comes.
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
    /* The list is zeroed, so that missing runs have the invalid count 0. */
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

/* If it is the message's turn, deliver it and the messages that waited for it.
 * Otherwise keep it as an early message. */
static void arrive(ucxpool_message_t *message)
{
    ucxpool_channel_t *channel  = message->channel;
    uint64_t           sequence = message->desc.sequence;

    if ((sequence == channel->flow.expected_sequence) &&
        (message->runs_missing == 0)) {
        channel->flow.expected_sequence++;
        deliver(message);
        xfer_message_progress(channel);
    } else if (reserve_early(channel, sequence)) {
        *early_slot(channel, sequence) = message;
        enter_list(message, XFER_EARLY);
    } else {
        core_channel_fail(channel, UCXPOOL_ERR_NO_MEMORY,
                          "no memory for a message");
        message_put(message);
    }
}

/* Returns true if at most one bit is set. */
static bool is_for_one(uint32_t flags)
{
    return (flags & (flags - 1)) == 0;
}

void xfer_message_desc(ucxpool_channel_t *channel, const proto_desc_t *desc,
                       const void *data, size_t data_size)
{
    ucxpool_message_t *message;

    if (!check_sequence(channel, desc->sequence)) {
        return;
    }
    if (((desc->flags & PROTO_DESC_EAGER) && (desc->message != 0)) ||
        (!(desc->flags & PROTO_DESC_EAGER) && (desc->message == 0)) ||
        ((desc->flags & PROTO_DESC_EAGER) && (desc->flags & PROTO_DESC_RUNS))) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the flags of descriptor %llu contradict its number",
                          (unsigned long long)desc->sequence);
        return;
    }
    if (!is_for_one(desc->flags & PROTO_DESC_WINDOW)) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the flags of the peer's message name two kinds of "
                          "window operations");
        return;
    }
    if ((desc->flags & PROTO_DESC_MAILED) &&
        (desc->flags &
         (PROTO_DESC_WINDOW | PROTO_DESC_EAGER | PROTO_DESC_RUNS))) {
        core_channel_fail(
            channel, UCXPOOL_ERR_PROTOCOL,
            "the peer sent a message through the mailbox that is "
            "eager, has a list of lengths, or belongs to a window");
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
        !wire_mailbox_check(channel, desc, message->totals.stream_size)) {
        message_put(message);
        return;
    }
    arrive(message);
}

/* Create a record for a message of a SHORT. */
static void short_arrived(ucxpool_channel_t *channel, uint64_t sequence,
                          uint64_t tag, const void *data, size_t size)
{
    const copy_run_t   run     = {.length = size, .count = 1};
    ucxpool_message_t *message = message_get(channel, true, sizeof(run) + size);

    if (message == NULL) {
        return;
    }
    message->desc = (proto_desc_t){
        .sequence     = sequence,
        .tag          = tag,
        .payload_size = size,
        .num_runs     = 1,
        .flags        = PROTO_DESC_EAGER,
    };
    message->runs_missing = 0;
    message->totals       = copy_totals_of_piece(size);
    message->runs         = (copy_run_t *)(void *)message->data;
    message->metadata     = message->data + sizeof(run);
    message->stream       = message->metadata;
    memcpy(message->runs, &run, sizeof(run));
    memcpy(message->stream, data, size);
    arrive(message);
}

/*
 * If the message is next in order and a receive waits for it, its data is
 * copied directly from the ring. Otherwise it becomes a message like any other.
 */
static void take_short(ucxpool_channel_t *channel, uint64_t tag,
                       const void *data, size_t size)
{
    uint64_t           sequence = channel->flow.arrived_sequence++;
    ucxpool_request_t *request  = NULL;

    if (!check_sequence(channel, sequence)) {
        return;
    }
    if (sequence == channel->flow.expected_sequence) {
        request = xfer_posted_find(channel, tag);
    }
    if ((request == NULL) ||
        !request->kind->match_short(request, channel, tag, data, size)) {
        short_arrived(channel, sequence, tag, data, size);
        return;
    }
    channel->flow.expected_sequence++;
    channel->flow.credits_owed++;
    if (xfer_message_has_turn(channel)) {
        xfer_message_progress(channel);
    }
}

void xfer_message_short(ucxpool_channel_t   *channel,
                        const proto_short_t *in_short, const void *data)
{
    const uint8_t *at   = data;
    size_t         size = proto_short_size(in_short->length);
    size_t         end  = base_min(in_short->num * size, XFER_SHORTS_SIZE);
    uint64_t       tag;

    /* The peer's CPU has modified the cache lines of the messages. Load all at
     * once. Of one long message, the CPU loads the rest by itself. */
    for (size_t i = BASE_CACHE_LINE; i < end; i += BASE_CACHE_LINE) {
        __builtin_prefetch(at + i);
    }
    for (uint32_t i = 0; (i < in_short->num) && core_channel_is_live(channel);
         i++) {
        memcpy(&tag, at, sizeof(tag));
        take_short(channel, tag, at + sizeof(tag), in_short->length);
        at += size;
    }
}

/* Store runs of a message. The caller has checked the runs. */
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
        xfer_message_progress(message->channel);
    }
}

void xfer_message_runs(ucxpool_channel_t *channel, const proto_runs_t *runs,
                       const void *data)
{
    ucxpool_message_t *message = find_early(channel, runs->sequence);

    if (runs->sequence < channel->flow.expected_sequence) {
        return; /* the message was canceled */
    }
    if ((message == NULL) ||
        (!message->canceled &&
         ((runs->num_runs == 0) || (runs->num_runs > message->runs_missing) ||
          (runs->first > message->desc.num_runs) ||
          (runs->num_runs > message->desc.num_runs - runs->first)))) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer sent lengths that belong to no message");
    } else if (!message->canceled) {
        take_runs(message, runs, data);
    }
}

static bool has_number(const ucxpool_message_t *message,
                       const ucxpool_channel_t *channel, uint64_t number)
{
    return (message->channel == channel) && (message->desc.message == number);
}

/* Returns the message with this number that no receive has matched, or that a
 * caller probed; NULL: none. */
static ucxpool_message_t *find_number(const ucxpool_channel_t *channel,
                                      uint64_t                 number)
{
    const struct xfer_pool *xfer = channel->pool->xfer;
    ucxpool_message_t      *message;

    base_list_for_each(
        message, xfer_index_list(&xfer->index, XFER_BY_NUMBER, channel, number),
        ucxpool_message_t, index_links[XFER_BY_NUMBER]) {
        if (has_number(message, channel, number)) {
            return message;
        }
    }
    base_list_for_each(message, &xfer->probed, ucxpool_message_t, link) {
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
        return false;
    }
    if (message->place == XFER_EARLY) {
        /* Keep the message until it is next in order, because later messages
         * wait for it. */
        message->canceled     = true;
        message->runs_missing = 0;
        xfer_message_progress(channel);
        return true;
    }
    if (!message->canceled) {
        message->canceled     = true;
        message->canceled_why = strdup(why);
        core_control_done(channel, number, UCXPOOL_ERR_CANCELED, NULL);
    }
    if (message->place == XFER_PROBED) {
        uncount(message); /* the sender may announce another message */
    } else {
        xfer_message_release(message);
    }
    return true;
}

void xfer_message_channel_ended(ucxpool_channel_t *channel)
{
    ucxpool_message_t *message, *next;

    base_list_for_each_safe(message, next, &channel->pool->xfer->early,
                            ucxpool_message_t, link) {
        if (message->channel == channel) {
            message_put(message);
        }
    }
    base_list_for_each_safe(message, next, &channel->pool->xfer->unexpected,
                            ucxpool_message_t, link) {
        /* Eager messages can still be received. */
        if ((message->channel == channel) && (message->desc.message != 0)) {
            message_put(message);
        }
    }
}

void xfer_message_drop_all(ucxpool_channel_t *channel)
{
    base_list_t *lists[] = {&channel->pool->xfer->early,
                            &channel->pool->xfer->unexpected,
                            &channel->pool->xfer->probed};

    for (unsigned i = 0; i < 3; i++) {
        ucxpool_message_t *message, *next;

        base_list_for_each_safe(message, next, lists[i], ucxpool_message_t,
                                link) {
            if (message->channel == channel) {
                channel->refs++; /* message_put() must not drop the last
                                  * reference */
                message_put(message);
            }
        }
    }
}

void xfer_message_destroy_all(ucxpool_channel_t *channel)
{
    base_list_t       *free_ones = &channel->xfer->messages.small.free;
    ucxpool_message_t *message;

    base_list_splice_tail(free_ones, &channel->xfer->messages.large.free);
    while ((message = base_list_pop(free_ones, ucxpool_message_t, link)) !=
           NULL) {
        free(message);
    }
}
