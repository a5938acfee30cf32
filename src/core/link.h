/*
 * The link of a pool's GPU to those of its peers, in each direction, and the
 * works that want it: writes and reads of windows, pushed messages.
 *
 * A GPU that moves bytes to several others at once is slow: where two of them
 * write to a third, what is left for the rest waits behind. Between four GPUs,
 * each to each, that is 230 GB/s in place of 356. So long works have the link
 * one after the other, and a few launches of one are under way at a time.
 *
 *     queue:  B, start 0  ->  C, start 0  ->  B, start 256 MiB
 *             ^ has the link, until all of it is launched
 *
 * A work starts where its channel's last one ends, counted in bytes, or where
 * the link is now, if that is later; the least start goes first (start-time
 * fair queueing), and of equal ones that which was posted first. In an
 * all-to-all that is well where each pool begins with another peer.
 */
#ifndef CORE_LINK_H
#define CORE_LINK_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct core_link;
struct ucxpool_channel;

/* A work up to so long takes no part: it is over before others notice. */
#define CORE_LINK_SHORT ((uint64_t)4 << 20)

typedef struct core_link_work core_link_work_t;

/* It has the link: launch, or let progress do it soon. Called in progress, with
 * the pool's lock. */
typedef void (*core_link_go_cb_t)(core_link_work_t *work);

struct core_link_work {
    base_list_t       queue; /* the link's, or none */
    struct core_link *link;  /* NULL: it takes no part */
    uint64_t          start;
    uint64_t          number; /* in the order of posting */
    core_link_go_cb_t go;
};

typedef struct core_link {
    base_list_t queue; /* of works that could launch; the first may */
    uint64_t    now;   /* start of the one that launched last */
    uint64_t    end;   /* of all works that were posted */
    uint64_t    num_works;
    unsigned    num_jobs; /* launches under way */
    uint64_t    size;     /* their bytes */
} core_link_t;

typedef enum core_link_way {
    CORE_LINK_OUT,
    CORE_LINK_IN,
    CORE_NUM_LINKS
} core_link_way_t;

void core_link_init(core_link_t *link);

/* A work of zeros is posted. It takes part if it is long and the peer has
 * another GPU. */
void core_link_post(core_link_work_t *work, struct ucxpool_channel *channel,
                    core_link_way_t way, uint64_t size, core_link_go_cb_t go);

/* It could launch: may it? If not it is told when. */
bool core_link_take(core_link_work_t *work);

/* It could not launch more, or has nothing left. */
void core_link_leave(core_link_work_t *work);

/* A launch of it, of so many bytes, is under way, or is over. */
void core_link_began(core_link_work_t *work, uint64_t size);
void core_link_ended(core_link_work_t *work, uint64_t size);

/* Is there one that could launch now? It is told in progress. */
bool core_link_has_work(const core_link_t *link);

static inline bool core_link_is_idle(const core_link_t *link)
{
    return base_list_is_empty(&link->queue);
}

void core_link_progress(core_link_t *link);

#endif
