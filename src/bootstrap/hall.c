#include <config.h>

#include "bootstrap/hall.h"

#include "base/clock.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/math.h"
#include "bootstrap/handshake.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* At most one line is logged in this time, so that strangers cannot fill a
 * disk. */
#define LOG_INTERVAL_NS 1000000000u

/* A half-open connection, in hall->half_open; or in hall->free. */
typedef struct hall_slot {
    base_list_t      link;
    int              fd;
    bool             wants_send; /* what the epoll has been told */
    uint64_t         deadline;
    char             name[XFER_ADDRESS_NAME_SIZE];
    xfer_handshake_t handshake;
} hall_slot_t;

struct xfer_hall {
    xfer_self_t       self;
    char              name[XFER_WHERE_SIZE];
    int               epoll_fd;
    uint64_t          timeout_ns;
    uint64_t          next_log;
    uint64_t          num_unlogged;
    xfer_door_stats_t stats;
    base_list_t       free;
    base_list_t       half_open;   /* oldest first: the first to time out */
    unsigned          num_answers; /* slots that have a place in the queue */
    size_t            queue_size;
    size_t            queue_head;
    size_t            queue_length;
    xfer_door_peer_t *queue;
    uint8_t           blob[XFER_BLOB_MAX];
    void (*fit_blob)(void *arg, void *blob, const void *caller, size_t length);
    void       *arg;
    hall_slot_t slots[];
};

void xfer_hall_warn(xfer_hall_t *hall, const char *who, const char *what)
{
    uint64_t now = base_clock_now();

    if (now < hall->next_log) {
        hall->num_unlogged++;
        return;
    }
    if (hall->num_unlogged == 0) {
        base_warn("%s: %s: %s", hall->name, who, what);
    } else {
        base_warn("%s: %s: %s (and %llu more warnings before it)", hall->name,
                  who, what, (unsigned long long)hall->num_unlogged);
    }
    hall->next_log     = now + LOG_INTERVAL_NS;
    hall->num_unlogged = 0;
}

/* --- slots ---------------------------------------------------------------- */

static bool holds_place(const hall_slot_t *slot)
{
    return slot->handshake.state == XFER_HANDSHAKE_ANSWER;
}

static bool slot_unwatch(xfer_hall_t *hall, hall_slot_t *slot)
{
    return epoll_ctl(hall->epoll_fd, EPOLL_CTL_DEL, slot->fd, NULL) == 0;
}

/* The slot is free again, and its connection somebody else's. */
static void slot_free(xfer_hall_t *hall, hall_slot_t *slot)
{
    slot->fd = -1;
    xfer_handshake_cleanup(&slot->handshake);
    base_list_del(&slot->link);
    base_list_add_tail(&hall->free, &slot->link);
    hall->stats.num_half_open--;
}

/* Hang up. Closing alone would leave the socket in the epoll for as long as a
 * forked child holds a copy of it. */
static void slot_close(xfer_hall_t *hall, hall_slot_t *slot)
{
    (void)slot_unwatch(hall, slot);
    close(slot->fd);
    slot_free(hall, slot);
}

static void slot_refuse(xfer_hall_t *hall, hall_slot_t *slot,
                        const char *reason)
{
    hall->stats.num_refused++;
    xfer_hall_warn(hall, slot->name, reason);
    slot_close(hall, slot);
}

static void slot_finish(xfer_hall_t *hall, hall_slot_t *slot)
{
    xfer_door_peer_t *peer;
    const void       *blob;

    assert(hall->queue_length < hall->queue_size);
    if (!slot_unwatch(hall, slot)) {
        slot_refuse(hall, slot, "the system does not let go of the connection");
        return;
    }
    peer = &hall->queue[(hall->queue_head + hall->queue_length) %
                        hall->queue_size];
    blob = xfer_handshake_blob(&slot->handshake, &peer->length);
    memcpy(peer->blob, blob, peer->length);
    xfer_address_format_own(slot->fd, peer->ends.local);
    memcpy(peer->ends.remote, slot->name, sizeof(peer->ends.remote));
    peer->fd = slot->fd;
    hall->queue_length++;
    hall->stats.num_proven++;
    base_debug("%s: %s is proven", hall->name, slot->name);
    slot_free(hall, slot);
}

/* Tell the epoll what the handshake waits for. */
static bool slot_watch(xfer_hall_t *hall, hall_slot_t *slot, int operation)
{
    bool               wants_send = xfer_handshake_wants_send(&slot->handshake);
    struct epoll_event event      = {
             .events   = wants_send ? EPOLLOUT : EPOLLIN,
             .data.u32 = (uint32_t)(slot - hall->slots),
    };

    if ((operation == EPOLL_CTL_MOD) && (wants_send == slot->wants_send)) {
        return true;
    }
    slot->wants_send = wants_send;
    return epoll_ctl(hall->epoll_fd, operation, slot->fd, &event) == 0;
}

static void slot_progress(xfer_hall_t *hall, hall_slot_t *slot)
{
    bool             held_place = holds_place(slot);
    ucxpool_status_t status;

    slot->handshake.is_full =
        (hall->queue_length + hall->num_answers) >= hall->queue_size;
    status = xfer_handshake_progress(&slot->handshake);
    hall->num_answers += (unsigned)holds_place(slot);
    hall->num_answers -= (unsigned)held_place;

    if (status == UCXPOOL_OK) {
        slot_finish(hall, slot);
    } else if (status != UCXPOOL_INPROGRESS) {
        slot_refuse(hall, slot, slot->handshake.reason);
    } else if (!slot_watch(hall, slot, EPOLL_CTL_MOD)) {
        hall->num_answers -= (unsigned)holds_place(slot);
        slot_refuse(hall, slot, "the system cannot watch the connection");
    }
}

/* End a slot whose handshake goes on. */
static void slot_abort(xfer_hall_t *hall, hall_slot_t *slot, const char *reason)
{
    hall->num_answers -= (unsigned)holds_place(slot);
    /* A refusal that is being read by the caller has its own reason. */
    if (slot->handshake.state == XFER_HANDSHAKE_DRAIN) {
        reason = slot->handshake.reason;
    }
    slot_refuse(hall, slot, reason);
}

static hall_slot_t *slot_take(xfer_hall_t *hall)
{
    hall_slot_t *slot;

    if (base_list_is_empty(&hall->free)) {
        slot = base_list_head(&hall->half_open, hall_slot_t, link);
        hall->stats.num_dropped++;
        slot_abort(hall, slot,
                   "all places at the door are taken, and it was "
                   "there longest");
    }
    slot = base_list_head(&hall->free, hall_slot_t, link);
    base_list_del(&slot->link);
    return slot;
}

/* Strangers must not have the descriptors that UCX needs for proven peers. The
 * ones that have been here longest give way to the newcomer. */
static bool make_spare(xfer_hall_t *hall)
{
    while (!base_limits_has(BASE_LIMITS_DESCRIPTORS)) {
        if (base_list_is_empty(&hall->half_open)) {
            return false;
        }
        hall->stats.num_dropped++;
        slot_abort(hall, base_list_head(&hall->half_open, hall_slot_t, link),
                   "descriptors are short (raise the limit of open files), and "
                   "it was there longest");
    }
    return true;
}

void xfer_hall_enter(xfer_hall_t *hall, int fd, const xfer_address_t *peer)
{
    hall_slot_t     *slot;
    ucxpool_status_t status;
    char             name[XFER_ADDRESS_NAME_SIZE];

    if (!make_spare(hall)) {
        xfer_address_format(peer, name);
        hall->stats.num_refused++;
        xfer_hall_warn(hall, name,
                       "no descriptors are left for a connection, raise the "
                       "limit of open files");
        close(fd);
        return;
    }
    slot           = slot_take(hall);
    slot->fd       = fd;
    slot->deadline = base_clock_deadline(hall->timeout_ns);
    xfer_address_format(peer, slot->name);
    base_list_add_tail(&hall->half_open, &slot->link);
    hall->stats.num_half_open++;

    status = xfer_handshake_init(&slot->handshake, fd, false, &hall->self);
    if (status != UCXPOOL_OK) {
        slot_refuse(hall, slot, slot->handshake.reason);
    } else if (!slot_watch(hall, slot, EPOLL_CTL_ADD)) {
        slot_refuse(hall, slot, "the system cannot watch the connection");
    } else {
        slot_progress(hall, slot);
    }
}

/* --- the hall ------------------------------------------------------------- */

void xfer_hall_progress(xfer_hall_t *hall, uint32_t index)
{
    if (hall->slots[index].fd >= 0) {
        slot_progress(hall, &hall->slots[index]);
    }
}

unsigned xfer_hall_end_late(xfer_hall_t *hall)
{
    unsigned     num_late = 0;
    uint64_t     now;
    hall_slot_t *slot;

    if (base_list_is_empty(&hall->half_open)) {
        return 0;
    }
    now = base_clock_now();
    while (xfer_hall_deadline(hall) <= now) {
        slot = base_list_head(&hall->half_open, hall_slot_t, link);
        hall->stats.num_timed_out++;
        slot_abort(hall, slot, "it took longer than HANDSHAKE_TIMEOUT");
        num_late++;
    }
    return num_late;
}

uint64_t xfer_hall_deadline(const xfer_hall_t *hall)
{
    if (base_list_is_empty(&hall->half_open)) {
        return BASE_CLOCK_FOREVER;
    }
    return base_list_head(&hall->half_open, hall_slot_t, link)->deadline;
}

size_t xfer_hall_num_waiting(const xfer_hall_t *hall)
{
    return hall->queue_length;
}

ucxpool_status_t xfer_hall_take(xfer_hall_t *hall, xfer_door_peer_t *peer_p)
{
    const xfer_door_peer_t *peer = &hall->queue[hall->queue_head];

    if (hall->queue_length == 0) {
        return UCXPOOL_INPROGRESS;
    }
    peer_p->ends = peer->ends;
    memcpy(peer_p->blob, peer->blob, peer->length);
    peer_p->length   = peer->length;
    peer_p->fd       = peer->fd;
    hall->queue_head = (hall->queue_head + 1) % hall->queue_size;
    hall->queue_length--;
    return UCXPOOL_OK;
}

void xfer_hall_get_stats(const xfer_hall_t *hall, xfer_door_stats_t *stats_p)
{
    *stats_p = hall->stats;
}

static void fit_blob(void *arg, const void *caller, size_t length)
{
    xfer_hall_t *hall = arg;

    hall->fit_blob(hall->arg, hall->blob, caller, length);
}

xfer_hall_t *xfer_hall_create(const xfer_door_params_t *params, int epoll_fd)
{
    size_t       num_slots = params->max_half_open;
    xfer_hall_t *hall;
    size_t       size;

    if (!base_mul(num_slots, sizeof(hall->slots[0]), &size) ||
        !base_add(size, sizeof(*hall), &size)) {
        return NULL;
    }
    hall = calloc(1, size);
    if (hall == NULL) {
        return NULL;
    }
    hall->queue_size = params->accept_queue;
    hall->queue      = calloc(hall->queue_size, sizeof(hall->queue[0]));
    if (hall->queue == NULL) {
        free(hall);
        return NULL;
    }
    base_list_init(&hall->free);
    base_list_init(&hall->half_open);
    for (size_t i = 0; i < num_slots; i++) {
        hall->slots[i].fd = -1;
        base_list_add_tail(&hall->free, &hall->slots[i].link);
    }
    if (params->blob_length > 0) {
        memcpy(hall->blob, params->blob, params->blob_length);
    }
    memcpy(hall->name, params->where->text, sizeof(hall->name));
    hall->epoll_fd         = epoll_fd;
    hall->timeout_ns       = params->handshake_timeout_ns;
    hall->self.secret      = params->secret;
    hall->self.blob        = hall->blob;
    hall->self.blob_length = params->blob_length;
    hall->fit_blob         = params->fit_blob;
    hall->arg              = params->arg;
    if (params->fit_blob != NULL) {
        hall->self.fit_blob = fit_blob;
        hall->self.arg      = hall;
    }
    return hall;
}

void xfer_hall_destroy(xfer_hall_t *hall)
{
    xfer_door_peer_t peer;

    while (!base_list_is_empty(&hall->half_open)) {
        slot_close(hall, base_list_head(&hall->half_open, hall_slot_t, link));
    }
    while (xfer_hall_take(hall, &peer) == UCXPOOL_OK) {
        close(peer.fd);
    }
    free(hall->queue);
    free(hall);
}
