/*
 * The link between a pool's GPU and the GPUs of its peers, in each direction,
 * and the transfers that use the link: writes and reads of windows, and pushed
 * messages.
 *
 * A GPU that sends to several GPUs at once is slow: if two GPUs write to a
 * third one, data for other GPUs waits behind this data. All-to-all between
 * four GPUs then reaches 230 GB/s instead of 356. So long transfers use the
 * link one after the other, with a few launches in flight at a time.
 *
 *     queue:  B, start 0  ->  C, start 0  ->  B, start 256 MiB
 *             ^ has the link, until all of it is launched
 *
 * The order is start-time fair queueing. Each transfer has a start tag and an
 * end tag, in bytes. The start tag is the end tag of the previous transfer of
 * its channel, or the link's position (`now`) if that is greater. The end tag
 * is the start tag plus the size of the transfer. The transfer with the lowest
 * start tag is next. If several transfers have the same start tag, the one that
 * was posted first is next. This order is suitable for an all-to-all in which
 * each pool begins with a different peer.
 */
#ifndef CORE_LINK_H
#define CORE_LINK_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>

struct core_link;
struct ucxpool_channel;

/* Transfers of up to this size are not queued, because they are too short to
 * delay others. */
#define CORE_LINK_SHORT ((uint64_t)4 << 20)

typedef struct core_link_work core_link_work_t;

/* Called when the transfer may use the link. Launches the transfer, or lets
 * progress launch it soon. Called by progress, with the pool's lock held. */
typedef void (*core_link_go_cb_t)(core_link_work_t *work);

struct core_link_work {
    base_list_t       queue;  /* the link's queue, or none */
    struct core_link *link;   /* NULL: not queued */
    uint64_t          start;  /* start tag */
    uint64_t          number; /* order of posting */
    core_link_go_cb_t go;
};

typedef struct core_link {
    base_list_t queue; /* ready transfers; only the first may launch */
    uint64_t    now;   /* highest start tag of a launched transfer; set to `end`
                          when the queue becomes empty */
    uint64_t end;      /* highest end tag of all posted transfers, in bytes
                          (start-time fair queueing) */
    uint64_t num_works;
    unsigned num_jobs; /* launches in flight */
    uint64_t size;     /* total bytes of these launches */
} core_link_t;

typedef enum core_link_way {
    CORE_LINK_OUT,
    CORE_LINK_IN,
    CORE_NUM_LINKS
} core_link_way_t;

void core_link_init(core_link_t *link);

/* Post a zeroed transfer. It is queued if it is long and the peer has another
 * GPU. */
void core_link_post(core_link_work_t *work, struct ucxpool_channel *channel,
                    core_link_way_t way, uint64_t size, core_link_go_cb_t go);

/* Report that the transfer is ready to launch. Returns true if it may launch
 * now. Otherwise `go` is called later. */
bool core_link_take(core_link_work_t *work);

/* Report that the transfer is no longer ready, or has been launched
 * completely. */
void core_link_leave(core_link_work_t *work);

/* Report that a launch of `size` bytes has begun, or has ended. */
void core_link_began(core_link_work_t *work, uint64_t size);
void core_link_ended(core_link_work_t *work, uint64_t size);

/* Returns true if the first transfer in the queue may launch now. Progress then
 * calls its `go`. */
bool core_link_has_work(const core_link_t *link);

void core_link_progress(core_link_t *link);

#endif
