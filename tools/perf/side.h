/*
 * A side of a comparison: a way to move a message, in a mode.
 *
 *     am-each/peer    one active message per buffer, failure handling on
 *     tag-memh/none   a tag message from and to registered memory, without it
 *     copy            the GPU's copy engine, nothing else
 *     pool/map        the pool, over its map wire
 */
#ifndef PERF_SIDE_H
#define PERF_SIDE_H

#include "perf/work.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum way {
    /* raw UCX */
    WAY_AM_EACH,  /* one active message per buffer */
    WAY_AM,       /* one active message, contiguous memory */
    WAY_AM_MEMH,  /* the same with a memory handle on both sides */
    WAY_TAG_EACH, /* one tag message per buffer */
    WAY_TAG,      /* one tag message, contiguous memory */
    WAY_TAG_MEMH, /* the same with a memory handle on both sides */
    WAY_IOV,      /* one tag message, UCP_DATATYPE_IOV on both sides */
    WAY_GET_EACH, /* one get per buffer of the receiver's, and a flush */
    WAY_GET,      /* one get, contiguous memory */
    WAY_PUT_EACH, /* one put per buffer of the receiver's, and a flush */
    WAY_PUT,      /* one put, contiguous memory */
    /* cuMemcpyAsync() into the receiver's memory, by its CUDA IPC handle */
    WAY_COPY_EACH, /* once per buffer */
    WAY_COPY,      /* once, contiguous memory: the link's limit */
    /* the pool */
    WAY_POOL,           /* any memory on both sides */
    WAY_POOL_PIECES,    /* the same as ucxpool_data_pieces():
                           buffers of one length */
    WAY_POOL_EVEN,      /* WAY_POOL, told that the buffers have one length */
    WAY_POOL_EACH,      /* one message per buffer */
    WAY_POOL_EVENT,     /* WAY_POOL; both sides sleep on the event descriptor */
    WAY_POOL_WAIT,      /* the same in ucxpool_wait() */
    WAY_POOL_COMM,      /* ucxpool_comm_alloc() memory on both sides */
    WAY_POOL_COMM_SEND, /* at the sender only */
    WAY_POOL_COMM_RECV, /* at the receiver only */
    WAY_POOL_READ,      /* the sender reads from the receiver's window */
    WAY_POOL_READ_ASLEEP,  /* and the receiver does not progress meanwhile */
    WAY_POOL_WRITE,        /* the sender writes to the receiver's window */
    WAY_POOL_WRITE_ASLEEP, /* and the receiver does not progress meanwhile */
    WAY_BLOCK,             /* ucxpool_block_get() and _put(), nothing is sent */
    WAY_LAST
} side_way_t;

typedef enum mode {
    MODE_PEER, /* raw UCX, failure handling on (UCP_ERR_HANDLING_MODE_PEER) */
    MODE_NONE, /* raw UCX, failure handling off */
    MODE_COPY, /* copies of the GPU, of which there is one mode */
    MODE_AUTO, /* the pool, over the wire that it chooses */
    MODE_MAP,  /* the pool, over the map wire */
    MODE_UCX,  /* the pool, over the ucx wire */
    MODE_LAST
} side_mode_t;

typedef struct side {
    uint32_t way;  /* side_way_t */
    uint32_t mode; /* side_mode_t */
} side_t;

/* Bytes of the longest name, its final 0 included. */
#define SIDE_NAME_SIZE 32

const char *side_name(side_t side, char name[SIDE_NAME_SIZE]);

/* The name of a mode in words, for readers of a table. */
const char *side_mode_title(uint32_t mode);

const char *side_mode_name(uint32_t mode);

/* Read a name; -1 (nothing said) when it is none. */
int side_parse(const char *name, side_t *side_p);

bool side_is_pool(side_t side);
bool side_is_pieces(side_t side);

/* Does it need buffers of one length? */
bool side_is_even(side_t side);
bool side_is_raw(side_t side);
bool side_is_copy(side_t side);

/* Does the sender do all of it, with memory of the receiver's? And do the bytes
 * come to the sender then? */
bool side_is_one_sided(side_t side);
bool side_is_read(side_t side);

/* Does the receiver not progress while the sender reads or writes? */
bool side_is_asleep(side_t side);

/* Gets and puts of raw UCX. */
bool side_is_rma(side_t side);

/* Can both processes do the same at one time? */
bool side_goes_both_ways(side_t side);

/* Sides that do the same thing by other means: of a group and mode, the fastest
 * is what the pool is compared with. */
typedef enum side_group {
    SIDE_EACH,      /* one message, get or put per buffer */
    SIDE_LIST,      /* one message of a list */
    SIDE_WHOLE,     /* one of contiguous memory */
    SIDE_COPY_EACH, /* one copy per buffer */
    SIDE_COPY,      /* one copy of contiguous memory */
    SIDE_POOL,
    SIDE_GROUP_LAST
} side_group_t;

side_group_t side_group(side_t side);

/* Does it send scattered buffers? */
bool side_is_scattered(side_t side);

/*
 * The part of a work that a side does. With many small buffers in a GPU's
 * memory a call for each of them takes seconds, so that such a side moves the
 * first SIDE_MAX_CALLS of a message; its times are told for a whole one.
 */
work_t side_work(side_t side, const work_t *work);

#define SIDE_MAX_CALLS 16384u

bool side_is_sane(side_t side);

#endif
