#include "core/link.h"

#include "base/math.h"
#include "copy/engine.h"
#include "core/channel.h"
#include "core/pool.h"

#include <assert.h>

/* The minimum number of launches in flight: two that the GPU executes, and the
 * next one. If these have less than SIZE_MIN bytes in total, the GPU may finish
 * them before the CPU has prepared the next launch. So more launches are
 * allowed. */
#define JOBS_MIN 3u
#define SIZE_MIN ((uint64_t)32 << 20)

void core_link_init(core_link_t *link)
{
    *link = (core_link_t){.now = 0};
    base_list_init(&link->queue);
}

void core_link_post(core_link_work_t *work, ucxpool_channel_t *channel,
                    core_link_way_t way, uint64_t size, core_link_go_cb_t go)
{
    core_link_t *link = &channel->pool->links[way];

    assert(work->link == NULL);
    if ((size <= CORE_LINK_SHORT) ||
        ((channel->peer.mapping != NULL) && core_channel_shares_gpu(channel))) {
        return;
    }
    base_list_init(&work->queue);
    work->link              = link;
    work->go                = go;
    work->number            = link->num_works++;
    work->start             = base_max(link->now, channel->link_ends[way]);
    channel->link_ends[way] = work->start + size;
    link->end               = base_max(link->end, channel->link_ends[way]);
}

static bool is_before(const core_link_work_t *a, const core_link_work_t *b)
{
    return (a->start != b->start) ? a->start < b->start : a->number < b->number;
}

static void enter(core_link_work_t *work)
{
    base_list_t      *queue = &work->link->queue;
    core_link_work_t *other;

    base_list_for_each(other, queue, core_link_work_t, queue) {
        if (is_before(work, other)) {
            break;
        }
    }
    base_list_add_tail(base_list_link(other, core_link_work_t, queue),
                       &work->queue);
}

static bool is_free(const core_link_t *link)
{
    return (link->num_jobs < JOBS_MIN) || (link->size < SIZE_MIN);
}

bool core_link_take(core_link_work_t *work)
{
    core_link_t *link = work->link;

    if (link == NULL) {
        return true;
    }
    if (base_list_is_empty(&work->queue)) {
        enter(work);
    }
    return is_free(link) && (link->queue.next == &work->queue);
}

void core_link_leave(core_link_work_t *work)
{
    core_link_t *link = work->link;

    if ((link == NULL) || base_list_is_empty(&work->queue)) {
        return;
    }
    base_list_del(&work->queue);
    if (base_list_is_empty(&link->queue)) {
        /* The link is idle, so the next transfers of all channels have the same
         * start tag. */
        link->now = link->end;
    }
}

void core_link_began(core_link_work_t *work, uint64_t size)
{
    core_link_t *link = work->link;

    if (link != NULL) {
        link->num_jobs++;
        link->size += size;
        link->now = base_max(link->now, work->start);
    }
}

void core_link_ended(core_link_work_t *work, uint64_t size)
{
    if (work->link != NULL) {
        work->link->num_jobs--;
        work->link->size -= size;
    }
}

bool core_link_has_work(const core_link_t *link)
{
    return !base_list_is_empty(&link->queue) && is_free(link);
}

void core_link_progress(core_link_t *link)
{
    core_link_work_t *first;

    if (core_link_has_work(link)) {
        first = base_list_head(&link->queue, core_link_work_t, queue);
        first->go(first);
    }
}
