#include <config.h>

#include "bootstrap/door.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/math.h"
#include "bootstrap/hall.h"
#include "bootstrap/listen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Events and newcomers that one call deals with. */
#define EVENTS_PER_CALL  32
#define ACCEPTS_PER_CALL 16

/* When the system has no file descriptor for a newcomer, the listening socket
 * stays readable; it is left alone for this long. */
#define ACCEPT_PAUSE_NS 100000000u

/* In the place of a slot's index in an epoll event. */
#define LISTENER_INDEX UINT32_MAX

struct xfer_door {
    int          listen_fd;
    int          epoll_fd;
    uint16_t     port;
    bool         is_paused;
    uint64_t     pause_end;
    xfer_hall_t *hall;
};

static bool watch_listener(xfer_door_t *door, int operation, uint32_t events)
{
    struct epoll_event event = {
        .events   = events,
        .data.u32 = LISTENER_INDEX,
    };

    return epoll_ctl(door->epoll_fd, operation, door->listen_fd, &event) == 0;
}

static void pause_accept(xfer_door_t *door, int error)
{
    char text[64];

    xfer_hall_warn(door->hall,
                   "cannot take a newcomer, raise the limit of "
                   "open files",
                   strerror_r(error, text, sizeof(text)));
    door->is_paused = true;
    door->pause_end = base_clock_deadline(ACCEPT_PAUSE_NS);
    watch_listener(door, EPOLL_CTL_MOD, 0);
}

static unsigned end_pause(xfer_door_t *door)
{
    uint64_t now;

    if (!door->is_paused) {
        return 0;
    }
    now = base_clock_now();
    if (now < door->pause_end) {
        return 0;
    }
    if (watch_listener(door, EPOLL_CTL_MOD, EPOLLIN)) {
        door->is_paused = false;
    } else {
        door->pause_end = now + ACCEPT_PAUSE_NS;
    }
    return 1;
}

static unsigned accept_newcomers(xfer_door_t *door)
{
    xfer_address_t peer;
    unsigned       num_events = 0;
    int            fd;

    while (num_events < ACCEPTS_PER_CALL) {
        fd = xfer_listen_accept(door->listen_fd, &peer);
        if (fd < 0) {
            if ((errno != EAGAIN) && (errno != EWOULDBLOCK)) {
                pause_accept(door, errno);
            }
            break;
        }
        xfer_hall_enter(door->hall, fd, &peer);
        num_events++;
    }
    return num_events;
}

unsigned xfer_door_progress(xfer_door_t *door)
{
    struct epoll_event events[EVENTS_PER_CALL];
    unsigned           num_events   = end_pause(door);
    bool               has_newcomer = false;
    int                num_ready;

    num_events += xfer_hall_end_late(door->hall);
    num_ready = epoll_wait(door->epoll_fd, events, EVENTS_PER_CALL, 0);
    /* Newcomers last: they take slots, and what the events say of a slot must
     * not be applied to its next owner. */
    for (int i = 0; i < num_ready; i++) {
        if (events[i].data.u32 == LISTENER_INDEX) {
            has_newcomer = true;
        } else {
            xfer_hall_progress(door->hall, events[i].data.u32);
            num_events++;
        }
    }
    if (has_newcomer) {
        num_events += accept_newcomers(door);
    }
    return num_events;
}

uint64_t xfer_door_deadline(const xfer_door_t *door)
{
    uint64_t deadline = xfer_hall_deadline(door->hall);

    return door->is_paused ? base_min(deadline, door->pause_end) : deadline;
}

static ucxpool_status_t open_listener(xfer_door_t              *door,
                                      const xfer_door_params_t *params)
{
    bool only_loopback =
        (params->secret == NULL) && !params->listen_without_secret;
    xfer_address_t   address;
    ucxpool_status_t status;

    status = xfer_listen_open(params->where, only_loopback, &door->listen_fd,
                              &address);
    if (status != UCXPOOL_OK) {
        return status;
    }
    door->port = xfer_address_port(&address);
    if (watch_listener(door, EPOLL_CTL_ADD, EPOLLIN)) {
        return UCXPOOL_OK;
    }
    status = base_error_errno(errno, "cannot watch the socket of %s",
                              params->where->text);
    close(door->listen_fd);
    return status;
}

ucxpool_status_t xfer_door_create(const xfer_door_params_t *params,
                                  xfer_door_t             **door_p)
{
    xfer_door_t     *door;
    ucxpool_status_t status;

    if ((params->blob_length > XFER_BLOB_MAX) || (params->max_half_open == 0) ||
        (params->accept_queue == 0)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "a listener needs MAX_HALF_OPEN and ACCEPT_QUEUE of "
                          "at least 1 and at most %d bytes to greet with",
                          XFER_BLOB_MAX);
    }
    door = calloc(1, sizeof(*door));
    if (door == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory to listen on %s",
                          params->where->text);
    }
    door->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (door->epoll_fd < 0) {
        status =
            base_error_errno(errno, "cannot listen on %s", params->where->text);
        goto err_free_door;
    }
    door->hall = xfer_hall_create(params, door->epoll_fd);
    if (door->hall == NULL) {
        status = base_error(UCXPOOL_ERR_NO_MEMORY,
                            "no memory to listen on %s with MAX_HALF_OPEN=%u "
                            "and ACCEPT_QUEUE=%u",
                            params->where->text, params->max_half_open,
                            params->accept_queue);
        goto err_close_epoll;
    }
    status = open_listener(door, params);
    if (status != UCXPOOL_OK) {
        goto err_destroy_hall;
    }
    *door_p = door;
    return UCXPOOL_OK;

err_destroy_hall:
    xfer_hall_destroy(door->hall);
err_close_epoll:
    close(door->epoll_fd);
err_free_door:
    free(door);
    return status;
}

void xfer_door_destroy(xfer_door_t *door)
{
    if (door == NULL) {
        return;
    }
    xfer_hall_destroy(door->hall);
    close(door->listen_fd);
    close(door->epoll_fd);
    free(door);
}

size_t xfer_door_num_waiting(const xfer_door_t *door)
{
    return xfer_hall_num_waiting(door->hall);
}

ucxpool_status_t xfer_door_take(xfer_door_t *door, xfer_door_peer_t *peer_p)
{
    return xfer_hall_take(door->hall, peer_p);
}

int xfer_door_fd(const xfer_door_t *door)
{
    return door->epoll_fd;
}

uint16_t xfer_door_port(const xfer_door_t *door)
{
    return door->port;
}

uint64_t xfer_door_num_refused(const xfer_door_t *door)
{
    xfer_door_stats_t stats;

    xfer_hall_get_stats(door->hall, &stats);
    return stats.num_refused;
}

void xfer_door_get_stats(const xfer_door_t *door, xfer_door_stats_t *stats_p)
{
    xfer_hall_get_stats(door->hall, stats_p);
}
