#include "core/wakeup.h"

#include "base/error.h"
#include "core/channel.h"

#include <errno.h>
#include <sys/epoll.h>

/* --- sources -------------------------------------------------------------- */

/* The maximum number of sources that one call handles. The next call handles
 * the other sources. */
#define BATCH_MAX 16

void core_source_init(core_source_t *source)
{
    *source = (core_source_t){.fd = -1};
}

static bool control(core_source_t *source, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    return epoll_ctl(source->pool->wakeup.epoll_fd, operation, source->fd,
                     &event) == 0;
}

ucxpool_status_t core_source_add(core_source_t *source, ucxpool_t *pool, int fd,
                                 unsigned (*ready)(core_source_t *source))
{
    *source = (core_source_t){.pool = pool, .fd = fd, .ready = ready};
    if (control(source, EPOLL_CTL_ADD, EPOLLIN)) {
        return UCXPOOL_OK;
    }
    source->fd = -1;
    return base_error_errno(errno, "cannot watch a descriptor");
}

bool core_source_set_watched(core_source_t *source, bool is_watched)
{
    return control(source, EPOLL_CTL_MOD, is_watched ? EPOLLIN : 0);
}

void core_source_remove(core_source_t *source)
{
    ucxpool_t *pool = source->pool;

    if (source->fd < 0) {
        return;
    }
    (void)control(source, EPOLL_CTL_DEL, 0);
    source->fd = -1;
    for (int i = 0; i < pool->wakeup.num_ready; i++) {
        if (pool->wakeup.ready[i].data.ptr == source) {
            pool->wakeup.ready[i].data.ptr = NULL;
        }
    }
}

unsigned core_source_progress(ucxpool_t *pool)
{
    struct epoll_event batch[BATCH_MAX];
    unsigned           count = 0;

    pool->wakeup.ready = batch;
    pool->wakeup.num_ready =
        epoll_wait(pool->wakeup.epoll_fd, batch, BATCH_MAX, 0);
    for (int i = 0; i < pool->wakeup.num_ready; i++) {
        core_source_t *source = batch[i].data.ptr;

        if (batch[i].data.ptr == pool) {
            pool->wakeup.is_ucx_armed = false; /* UCX's worker is ready */
        } else if ((source != NULL) && (source->ready != NULL)) {
            count += source->ready(source);
        }
    }
    pool->wakeup.num_ready = 0;
    return count;
}

/* --- events --------------------------------------------------------------- */

void core_event_init(core_event_t *event, ucxpool_t *pool,
                     ucxpool_channel_t *channel, ucxpool_listener_t *listener)
{
    *event = (core_event_t){
        .pool     = pool,
        .channel  = channel,
        .listener = listener,
    };
    base_list_init(&event->link);
}

static bool is_due(const core_event_t *event)
{
    return (event->kinds != 0) &&
           ((event->channel == NULL) || event->channel->user_ref);
}

void core_event_update(core_event_t *event)
{
    bool is_in_line = !base_list_is_empty(&event->link);

    if (is_due(event) && !is_in_line) {
        base_list_add_tail(&event->pool->channels.events, &event->link);
    } else if (!is_due(event) && is_in_line) {
        base_list_del(&event->link);
    }
}

void core_event_count(ucxpool_t *pool)
{
    __atomic_store_n(&pool->wakeup.num_events, pool->wakeup.num_events + 1,
                     __ATOMIC_RELAXED);
}

uint64_t core_event_counted(const ucxpool_t *pool)
{
    return __atomic_load_n(&pool->wakeup.num_events, __ATOMIC_RELAXED);
}

void core_event_set(core_event_t *event, ucxpool_event_kind_t kind)
{
    event->kinds |= kind;
    if (!__atomic_load_n(&event->pool->wakeup.polls_events, __ATOMIC_RELAXED)) {
        core_event_count(event->pool);
    }
    core_event_update(event);
}

void core_event_clear(core_event_t *event, ucxpool_event_kind_t kind)
{
    event->kinds &= ~(unsigned)kind;
    core_event_update(event);
}

bool core_event_is_pending(ucxpool_t *pool)
{
    bool with_events =
        __atomic_load_n(&pool->wakeup.polls_events, __ATOMIC_RELAXED);
    bool is_pending;

    if (!with_events &&
        !__atomic_load_n(&pool->wakeup.polls_completions, __ATOMIC_RELAXED)) {
        return false;
    }
    core_lock(pool);
    is_pending = !base_list_is_empty(&pool->requests.to_report) ||
                 (with_events && !base_list_is_empty(&pool->channels.events));
    core_unlock(pool);
    return is_pending;
}

static ucxpool_event_t take_event(core_event_t *event)
{
    ucxpool_event_t reported = {
        .kinds    = event->kinds,
        .channel  = event->channel,
        .listener = event->listener,
        .user_ptr = (event->channel == NULL) ? NULL : event->channel->user_ptr,
    };

    base_list_del(&event->link);
    core_event_clear(event, UCXPOOL_EVENT_STATE);
    return reported;
}

size_t core_event_report(ucxpool_t *pool, ucxpool_event_t *events, size_t max)
{
    size_t      num = 0;
    base_list_t round;

    base_list_init(&round);
    base_list_splice_tail(&round, &pool->channels.events);
    while ((num < max) && !base_list_is_empty(&round)) {
        events[num++] = take_event(base_list_head(&round, core_event_t, link));
    }
    base_list_splice_tail(&round, &pool->channels.events);
    base_list_splice_tail(&pool->channels.events, &round);
    return num;
}
