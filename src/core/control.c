#include "core/control.h"

#include "base/log.h"
#include "core/local.h"
#include "core/wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The maximum number of unsent active messages in UCX, for each channel. */
#define CONTROLS_MAX 64u

/*
 * Buffer sizes for the variable part of a message outside the ring. Messages in
 * a backlog contain a short text, or describe a window. Messages of the largest
 * size are never queued in a backlog, so their number is limited to
 * CONTROLS_MAX, the number that UCX holds.
 */
#define ROOM_WORDS  256u
#define ROOM_WINDOW 8192u

/*
 * Returns true if the backlog has as many messages as the protocol allows for a
 * peer that does not read: one TAKEN for each fragment in flight, one short
 * message for each descriptor that the peer may send, and two CANCELs for each
 * send. A peer that causes more messages than this is trying to exhaust
 * this process's memory. The limit for long messages is lower.
 */
static bool is_backlog_full(const ucxpool_channel_t *channel, size_t data_size)
{
    const base_config_t *config = &channel->pool->config;
    uint64_t             max    = PROTO_SENDS_MAX * (config->depth + 4);

    max += config->credits;
    if (data_size > ROOM_WORDS) {
        return channel->control.num_long >= max;
    }
    max += config->max_unexpected + 2 * (uint64_t)channel->requests.sends.num;
    return channel->control.num_backlog >= max;
}

static const size_t rooms[CORE_CONTROL_SIZES] = {ROOM_WORDS, ROOM_WINDOW,
                                                 PROTO_DATA_MAX};

static_assert(PROTO_REASON_MAX <= ROOM_WORDS, "a text must fit");
static_assert(PROTO_LENT_MAX * sizeof(proto_lent_t) <= ROOM_WORDS,
              "all lent blocks must fit");
static_assert(PROTO_PARTS_MAX * sizeof(proto_window_part_t) <= ROOM_WINDOW,
              "all parts of a window must fit");

/* A message outside the ring. */
typedef struct core_control {
    base_list_t        link; /* in the free list, in a backlog, or in none */
    ucxpool_channel_t *channel;
    core_endpoint_t   *endpoint; /* of the UCX operation */
    base_list_t       *home; /* the free list of this size; NULL: the message is
                                freed */
    size_t        fixed_size;
    size_t        data_size;
    bool          in_backlog;
    proto_fixed_t fixed;
    uint8_t       data[];
} core_control_t;

static core_control_t *control_alloc(ucxpool_t *pool, base_list_t *home,
                                     size_t room)
{
    core_control_t *control = core_alloc(pool, sizeof(*control) + room);

    if (control != NULL) {
        base_list_init(&control->link);
        control->home = home;
    }
    return control;
}

/* Get a message with room for data_size bytes. Only a HELLO may exceed the
 * largest size. */
static core_control_t *control_get(ucxpool_t *pool, size_t data_size)
{
    core_control_t *control;

    for (unsigned i = 0; i < CORE_CONTROL_SIZES; i++) {
        base_list_t *home = &pool->free.controls[i];

        if (data_size > rooms[i]) {
            continue;
        }
        control = base_list_pop(home, core_control_t, link);
        return (control != NULL) ? control
                                 : control_alloc(pool, home, rooms[i]);
    }
    return control_alloc(pool, NULL, data_size);
}

static void control_put(core_control_t *control)
{
    if (control->home == NULL) {
        free(control);
    } else {
        base_list_add_head(control->home, &control->link);
    }
}

static void fill_head(ucxpool_channel_t *channel, proto_head_t *head,
                      proto_type_t type)
{
    uint32_t credits = base_min(channel->flow.credits_owed, UINT16_MAX);

    if (!(channel->wireup.handshake & CORE_GO_RECEIVED)) {
        credits = 0;
    }
    channel->flow.credits_owed -= credits;
    head->type    = (uint8_t)type;
    head->version = PROTO_VERSION;
    head->credits = (uint16_t)credits;
    head->channel = channel->peer.channel;
    head->key     = channel->peer.channel_key;
}

/* Begin a message outside the ring. It is queued in the backlog if the channel
 * has no room now; otherwise it is sent directly. */
static proto_fixed_t *begin_outside(ucxpool_channel_t *channel,
                                    proto_type_t type, size_t data_size,
                                    bool in_backlog, void **data_p)
{
    core_control_t *control;

    if (in_backlog && is_backlog_full(channel, data_size)) {
        core_channel_fail(channel, UCXPOOL_ERR_PROTOCOL,
                          "the peer does not read its messages: %u are waiting",
                          channel->control.num_backlog);
        return NULL;
    }
    control = control_get(channel->pool, data_size);
    if (control == NULL) {
        core_channel_fail(channel, UCXPOOL_ERR_NO_MEMORY,
                          "no memory for a control message");
        return NULL;
    }
    control->channel    = channel;
    control->data_size  = data_size;
    control->in_backlog = in_backlog;
    control->fixed_size = proto_fixed_size(type);
    memset(&control->fixed, 0, control->fixed_size);
    channel->control.writing = control;
    fill_head(channel, &control->fixed.head, type);
    if (data_p != NULL) {
        *data_p = control->data;
    }
    return &control->fixed;
}

static proto_fixed_t *begin_in_ring(ucxpool_channel_t *channel,
                                    proto_type_t type, size_t data_size,
                                    void **data_p)
{
    size_t fixed_size = proto_fixed_size(type);
    void  *fixed;
    void  *data;

    if (!core_ring_reserve(&channel->ring, fixed_size, data_size, &fixed,
                           &data)) {
        return NULL;
    }
    channel->control.writing = NULL;
    memset(fixed, 0, fixed_size);
    fill_head(channel, fixed, type);
    if (data_p != NULL) {
        *data_p = data;
    }
    return fixed;
}

/* Begin a message in the ring. Without a ring, the message is sent directly.
 * Returns NULL if there is no room now. */
static proto_fixed_t *begin_now(ucxpool_channel_t *channel, proto_type_t type,
                                size_t data_size, void **data_p)
{
    if (channel->wire->has_ring) {
        return begin_in_ring(channel, type, data_size, data_p);
    }
    return (channel->control.num_in_ucx >= CONTROLS_MAX)
               ? NULL
               : begin_outside(channel, type, data_size, false, data_p);
}

proto_fixed_t *core_control_begin(ucxpool_channel_t *channel, proto_type_t type,
                                  size_t data_size, core_control_way_t way,
                                  void **data_p)
{
    proto_fixed_t *fixed = NULL;

    if (way == CORE_OUTSIDE) {
        return begin_outside(channel, type, data_size, false, data_p);
    }
    if (base_list_is_empty(&channel->control.backlog)) {
        fixed = begin_now(channel, type, data_size, data_p);
    }
    if ((fixed != NULL) || (way == CORE_MAY)) {
        return fixed;
    }
    return begin_outside(channel, type, data_size, true, data_p);
}

static void control_sent(void *request, ucs_status_t status, void *arg)
{
    core_control_t    *control  = arg;
    ucxpool_channel_t *channel  = control->channel;
    core_endpoint_t   *endpoint = control->endpoint;

    /* `status` is ignored, because UCX also reports a failure to the endpoint's
     * error handler. */
    ucp_request_free(request);
    channel->control.num_in_ucx--;
    control_put(control);
    core_channel_put(channel);
    core_endpoint_end(endpoint);
}

static void send_outside(core_control_t *control)
{
    ucxpool_channel_t  *channel = control->channel;
    ucp_request_param_t param   = {
          .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_CALLBACK |
                          UCP_OP_ATTR_FIELD_USER_DATA,
          .flags     = UCP_AM_SEND_FLAG_EAGER,
          .cb.send   = control_sent,
          .user_data = control,
    };
    ucs_status_ptr_t result;

    if (core_local_is_up(channel)) {
        core_local_send(channel, &control->fixed, control->fixed_size,
                        control->data, control->data_size);
        control_put(control);
        return;
    }
    if (!core_channel_can_send(channel)) {
        control_put(control);
        return;
    }
    if ((control->fixed.head.type == PROTO_HELLO) ||
        (control->fixed.head.type == PROTO_GO)) {
        param.flags |= UCP_AM_SEND_FLAG_REPLY;
    }
    channel->control.num_in_ucx++;
    core_channel_get(channel);
    result = ucp_am_send_nbx(channel->conn.endpoint->ep, channel->peer.am_id,
                             &control->fixed, control->fixed_size,
                             control->data, control->data_size, &param);
    if (UCS_PTR_IS_PTR(result)) {
        control->endpoint = channel->conn.endpoint;
        core_endpoint_start(control->endpoint);
        return;
    }
    if (UCS_PTR_IS_ERR(result)) {
        base_debug("%s: cannot send a control message: %s", channel->name,
                   ucs_status_string(UCS_PTR_STATUS(result)));
        core_channel_set_broken(channel);
    }
    channel->control.num_in_ucx--;
    control_put(control);
    core_channel_put(channel);
}

void core_control_doorbell(ucxpool_channel_t *channel)
{
    /* If UCX already holds CONTROLS_MAX messages for the peer, these messages
     * wake it. */
    if (core_ring_needs_doorbell(&channel->ring) &&
        (channel->control.num_in_ucx < CONTROLS_MAX)) {
        core_control_post(channel, PROTO_DOORBELL, CORE_OUTSIDE);
    }
}

void core_control_hold(ucxpool_t *pool)
{
    pool->channels.holds_doorbells = true;
}

void core_control_release(ucxpool_t *pool)
{
    base_list_t       *held = &pool->channels.held;
    ucxpool_channel_t *channel;

    pool->channels.holds_doorbells = false;
    if (base_list_is_empty(held)) {
        return;
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* see core_ring_publish() */
    while ((channel = base_list_pop(held, ucxpool_channel_t,
                                    control.held_link)) != NULL) {
        core_control_doorbell(channel);
    }
}

static void publish(ucxpool_channel_t *channel)
{
    ucxpool_t *pool = channel->pool;

    if (!pool->channels.holds_doorbells) {
        core_ring_commit(&channel->ring);
        core_control_doorbell(channel);
        return;
    }
    core_ring_publish(&channel->ring);
    if (base_list_is_empty(&channel->control.held_link)) {
        base_list_add_tail(&pool->channels.held, &channel->control.held_link);
    }
}

void core_control_end(ucxpool_channel_t *channel)
{
    core_control_t *control = channel->control.writing;

    if (control == NULL) {
        publish(channel);
    } else if (control->in_backlog) {
        channel->control.writing = NULL;
        base_list_add_tail(&channel->control.backlog, &control->link);
        channel->control.num_backlog++;
        channel->control.num_long += (control->data_size > ROOM_WORDS);
    } else {
        channel->control.writing = NULL;
        send_outside(control);
    }
}

void *core_control_begin_short(ucxpool_channel_t *channel, uint32_t num,
                               uint32_t length)
{
    proto_short_t *message;
    void          *fixed;
    void          *data;

    assert(channel->wire->has_ring);
    if (!base_list_is_empty(&channel->control.backlog) ||
        !core_ring_reserve(&channel->ring, sizeof(*message),
                           num * proto_short_size(length), &fixed, &data)) {
        return NULL;
    }
    channel->control.writing = NULL;
    message                  = fixed;
    message->num             = num;
    message->length          = length;
    fill_head(channel, &message->head, PROTO_SHORT);
    return data;
}

void core_control_post(ucxpool_channel_t *channel, proto_type_t type,
                       core_control_way_t way)
{
    if (core_control_begin(channel, type, 0, way, NULL) != NULL) {
        core_control_end(channel);
    }
}

void core_control_send(ucxpool_channel_t *channel, proto_type_t type,
                       const proto_fixed_t *message, const char *reason)
{
    size_t       max  = (type == PROTO_BYE) ? PROTO_REASON_MAX : PROTO_TEXT_MAX;
    size_t       size = (reason == NULL) ? 0 : base_min(strlen(reason), max);
    void        *data;
    proto_head_t head;
    proto_fixed_t *fixed;

    fixed = core_control_begin(channel, type, size, CORE_MUST, &data);
    if (fixed == NULL) {
        return; /* the channel has failed */
    }
    head = fixed->head;
    memcpy(fixed, message, proto_fixed_size(type));
    fixed->head = head;
    if (size != 0) {
        memcpy(data, reason, size);
    }
    core_control_end(channel);
}

void core_control_done(ucxpool_channel_t *channel, uint64_t message,
                       ucxpool_status_t status, const char *reason)
{
    if (core_channel_is_live(channel)) {
        core_control_send(
            channel, PROTO_DONE,
            &(proto_fixed_t){.done = {.message = message, .status = status}},
            reason);
    }
}

void core_control_cancel(ucxpool_channel_t *channel, uint64_t message,
                         uint64_t receive, ucxpool_status_t status,
                         const char *reason)
{
    const proto_fixed_t cancel = {
        .cancel = {.message = message, .receive = receive, .status = status}};

    core_control_send(channel, PROTO_CANCEL, &cancel, reason);
}

static void leave_backlog(core_control_t *control)
{
    core_controls_t *controls = &control->channel->control;

    base_list_del(&control->link);
    controls->num_backlog--;
    controls->num_long -= (control->data_size > ROOM_WORDS);
}

/* Move one message of the backlog to the ring or to UCX. */
static bool flush_one(ucxpool_channel_t *channel, core_control_t *control)
{
    proto_fixed_t *fixed;
    void          *data;

    fixed = begin_now(channel, (proto_type_t)control->fixed.head.type,
                      control->data_size, &data);
    if (fixed == NULL) {
        return false;
    }
    control->fixed.head.credits += fixed->head.credits;
    memcpy(fixed, &control->fixed, control->fixed_size);
    memcpy(data, control->data, control->data_size);
    leave_backlog(control);
    control_put(control);
    core_control_end(channel);
    return true;
}

/* Returns the number of credits that no received message uses: the credits of
 * the peer, and the credits that are owed to the peer. */
static uint32_t credits_free(const ucxpool_channel_t *channel)
{
    uint32_t credits = channel->pool->config.credits;

    return credits - base_min(channel->flow.num_eager, credits);
}

static bool owes_credits(const ucxpool_channel_t *channel)
{
    return (channel->flow.credits_owed > credits_free(channel) / 2) &&
           (channel->state == UCXPOOL_CHANNEL_OPEN);
}

bool core_control_is_due(const ucxpool_channel_t *channel)
{
    return !base_list_is_empty(&channel->control.backlog) ||
           owes_credits(channel);
}

void core_control_give_credits(ucxpool_channel_t *channel)
{
    if (owes_credits(channel)) {
        core_control_post(channel, PROTO_CREDIT, CORE_MUST);
    }
}

unsigned core_control_flush(ucxpool_channel_t *channel)
{
    unsigned        count = 0;
    core_control_t *control;

    while (!base_list_is_empty(&channel->control.backlog)) {
        control =
            base_list_head(&channel->control.backlog, core_control_t, link);
        if (!flush_one(channel, control)) {
            return count;
        }
        count++;
    }
    if (owes_credits(channel)) {
        core_control_give_credits(channel);
        count++;
    }
    return count;
}

void core_control_drop(ucxpool_channel_t *channel)
{
    core_control_t *control;

    while ((control = base_list_pop(&channel->control.backlog, core_control_t,
                                    link)) != NULL) {
        leave_backlog(control);
        control_put(control);
    }
}

void core_control_destroy_all(ucxpool_t *pool)
{
    core_control_t *control;

    for (unsigned i = 0; i < CORE_CONTROL_SIZES; i++) {
        while ((control = base_list_pop(&pool->free.controls[i], core_control_t,
                                        link)) != NULL) {
            free(control);
        }
    }
}
