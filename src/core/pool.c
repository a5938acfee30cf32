#include "core/pool.h"

#include "base/clock.h"
#include "copy/engine.h"

#include <stdlib.h>
#include <sys/eventfd.h>

/* The minimum interval between warnings that a peer can cause. */
#define WARN_NS UINT64_C(1000000000)

void core_lock(ucxpool_t *pool)
{
    base_own_lock_take(&pool->lock);
    copy_engine_enter(pool->engine);
}

void core_unlock(ucxpool_t *pool)
{
    copy_engine_leave(pool->engine);
    base_own_lock_give(&pool->lock);
}

void core_wake(ucxpool_t *pool)
{
    if (!__atomic_exchange_n(&pool->wakeup.is_woken, true, __ATOMIC_SEQ_CST)) {
        eventfd_write(pool->wakeup.event_fd, 1);
    }
}

void core_unlock_posted(ucxpool_t *pool)
{
    if (pool->wakeup.is_armed) {
        core_wake(pool);
    }
    core_unlock(pool);
}

void core_pool_end_operation(ucxpool_t *pool)
{
    if ((--pool->num_operations == 0) && (pool->finish != NULL)) {
        pool->finish(pool);
    }
}

bool core_pool_may_warn(ucxpool_t *pool)
{
    uint64_t now = base_clock_now();

    if (now < pool->wireup.next_warning) {
        return false;
    }
    pool->wireup.next_warning = now + WARN_NS;
    return true;
}

bool core_pool_count_refused(ucxpool_t *pool)
{
    pool->stats.handshakes_refused++;
    return core_pool_may_warn(pool);
}

void *core_alloc(ucxpool_t *pool, size_t size)
{
    pool->stats.allocations++;
    return malloc(size);
}
