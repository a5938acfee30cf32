#include "core/source.h"

#include "base/error.h"

#include <errno.h>
#include <sys/epoll.h>

/* Those that one call looks at; the others come next time. */
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
    return base_error_errno(errno, "a descriptor cannot be watched");
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

        if ((source != NULL) && (source->ready != NULL)) {
            count += source->ready(source);
        }
    }
    pool->wakeup.num_ready = 0;
    return count;
}
