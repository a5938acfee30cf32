/*
 * Jobs and their results. They are copied between processes, because both run
 * the same program.
 *
 *     work     transfers that every side does in the same way
 *     side     a way to transfer a message, in a mode
 *     job      work that several sides do in turn, for several rounds
 *     result   the times of a job
 *
 *     round 0    A B C
 *     round 1    B C A
 *     round 2    C A B ...
 *
 * Each side's batch in a round is one sample. Ratios are computed per round, so
 * that a temporary slowdown of the machine affects both sides of a ratio.
 */
#ifndef PERF_JOB_H
#define PERF_JOB_H

#include <stdbool.h>
#include <stdint.h>

/* --- work ----------------------------------------------------------------- */

#define WORK_MAX_OUTSTANDING 64u

/* Messages in flight, by default. */
#define JOB_OUTSTANDING 2u

/* Limits of the memory that a peer on another host may make us allocate. */
#define WORK_MAX_BUFFERS ((uint64_t)1 << 24)
#define WORK_MAX_BYTES   ((uint64_t)1 << 36)

/* Size of a cache line. Buffers start at a line boundary, unless they are
 * misaligned. */
#define WORK_LINE 64u

/* The device number that stands for host memory. */
#define WORK_HOST (-1)

#define WORK_DEVICE_SIZE 32

enum { WORK_PAGEABLE_SEND = 1u << 0, WORK_PAGEABLE_RECV = 1u << 1 };

/*
 * A message has `count` buffers of `size` bytes. A batch is a number of
 * messages, at most `outstanding` in flight. The clock runs at the sender, from
 * the first post of a batch until the receiver's reply to the last message has
 * arrived. The receiver replies, in the same way, once all bytes of a message
 * are in its own buffers. A read or a write of a window has no reply: it ends
 * when it completes at the sender.
 */
typedef struct work {
    uint64_t size;        /* size of a buffer, 1 or more */
    uint64_t count;       /* buffers of a message, 1 or more */
    uint32_t outstanding; /* messages in flight, 1 or more */
    uint32_t echo;        /* the reply is the whole message, not a word */
    uint32_t misaligned;  /* offset of the sender's scattered buffers from the
                             start of a cache line */
    uint32_t both;        /* as many messages go in the other direction */
    uint32_t pageable;    /* WORK_PAGEABLE_: the processes whose buffers are in
                             host memory that the GPU cannot access */
    uint32_t untold;      /* the pool is not told the kind of memory */
    int32_t  devices[2];  /* the GPU in which the buffers of the sender and of
                             the receiver lie; WORK_HOST: host memory */
    char device_text[WORK_DEVICE_SIZE]; /* --device; "" for host memory */
} work_t;

/* Returns the length in bytes of a message. */
static inline uint64_t work_bytes(const work_t *work)
{
    return work->size * work->count;
}

static inline bool work_is_on_gpu(const work_t *work)
{
    return (work->devices[0] != WORK_HOST) || (work->devices[1] != WORK_HOST);
}

/*
 * Set the devices: "cuda" and "cuda:1" for one GPU that both processes use,
 * "cuda:0,1" for one GPU each, "cuda:0,host" or "cuda:host,0" for a GPU and
 * host memory. Pageable: "send", "recv" or "both". Parsing returns -1, without
 * printing an error, if the text is none of these.
 */
int         work_parse_devices(const char *text, work_t *work);
int         work_parse_pageable(const char *text, uint32_t *pageable_p);
const char *work_pageable(uint32_t pageable);

/* --- side ----------------------------------------------------------------- */

typedef enum side_way {
    WAY_NONE,
    /* raw UCX */
    WAY_AM_EACH,  /* one active message per buffer */
    WAY_AM,       /* one active message, contiguous memory */
    WAY_AM_MEMH,  /* the same with a memory handle on both sides */
    WAY_TAG_EACH, /* one tag message per buffer */
    WAY_TAG,      /* one tag message, contiguous memory */
    WAY_TAG_MEMH, /* the same with a memory handle on both sides */
    WAY_IOV,      /* one tag message, UCP_DATATYPE_IOV on both sides */
    WAY_GET_EACH, /* one get per buffer of the receiver, and a flush */
    WAY_GET,      /* one get, contiguous memory */
    WAY_PUT_EACH, /* one put per buffer of the receiver, and a flush */
    WAY_PUT,      /* one put, contiguous memory */
    /* the pool */
    WAY_POOL,        /* any memory on both sides */
    WAY_POOL_PIECES, /* the same, with ucxpool_data_pieces() */
    WAY_POOL_EVEN, /* WAY_POOL with the hint that all buffers have one length */
    WAY_POOL_EACH, /* one message per buffer */
    WAY_POOL_BATCH,       /* the same, posted in batches */
    WAY_POOL_WAIT,        /* both sides sleep in ucxpool_wait() */
    WAY_POOL_COMM,        /* ucxpool_comm_alloc() memory on both sides */
    WAY_POOL_READ,        /* the sender reads from the receiver's window */
    WAY_POOL_READ_ASLEEP, /* and the receiver makes no progress calls */
    WAY_POOL_WRITE,       /* the sender writes to the receiver's window */
    WAY_POOL_WRITE_ASLEEP,
    WAY_LAST
} side_way_t;

typedef enum side_mode {
    MODE_PEER, /* raw UCX, failure handling on (UCP_ERR_HANDLING_MODE_PEER) */
    MODE_NONE, /* raw UCX, failure handling off */
    MODE_AUTO, /* the pool, over the wire that it chooses */
    MODE_MAP,  /* the pool, over the map wire */
    MODE_UCX,  /* the pool, over the ucx wire */
    MODE_LAST
} side_mode_t;

typedef struct side {
    uint32_t way;  /* side_way_t */
    uint32_t mode; /* side_mode_t */
} side_t;

/* Properties of a way. */
enum {
    IS_RAW        = 1u << 0, /* raw UCX */
    IS_AM         = 1u << 1, /* uses active messages */
    IS_RMA        = 1u << 2, /* uses gets and puts */
    IS_REGISTERED = 1u << 3, /* with a memory handle */
    IS_POOL       = 1u << 4,
    IS_PIECES     = 1u << 5,
    IS_ONE_SIDED  = 1u << 6, /* the sender reads or writes the receiver's
                                memory by itself */
    IS_READ   = 1u << 7,     /* the sender receives the bytes */
    IS_ASLEEP = 1u << 8,     /* the receiver makes no progress calls */
    IS_COMM   = 1u << 9,     /* the memory belongs to the pool */
    IS_BATCH  = 1u << 10,    /* posts several operations in a call */
    /* Each pool side is compared with the fastest IS_EACH side, the fastest
     * IS_WHOLE side, and the fastest other side, in each mode. */
    IS_EACH  = 1u << 11, /* one message, get or put per buffer */
    IS_WHOLE = 1u << 12  /* one message, get or put of contiguous
                            memory */
};

/* Returns true if the side has any of these properties. */
bool side_is(side_t side, unsigned what);

/* Returns true if the side sends scattered buffers. */
bool side_is_scattered(side_t side);

/*
 * Returns the part of a work that a side does. With many small buffers in GPU
 * memory, one call per buffer would take seconds. Such a side transfers the
 * first SIDE_MAX_CALLS buffers of a message, and its times are scaled to all of
 * them.
 */
work_t side_work(side_t side, const work_t *work);

#define SIDE_MAX_CALLS 16384u

/* Size of the longest name, including the final 0. */
#define SIDE_NAME_SIZE 32

/* Convert a valid side from and to its name, for example "am-each/peer".
 * Parsing returns -1, without printing an error, if there is no such name. */
const char *side_name(side_t side);
int         side_parse(const char *name, side_t *side_p);

/* Return the name of a mode, and its description for readers of a table. */
const char *side_mode_name(uint32_t mode);
const char *side_mode_title(uint32_t mode);

/* --- job ------------------------------------------------------------------ */

#define JOB_MAX_SIDES    12
#define JOB_NAME_SIZE    16
#define JOB_MISSING_SIZE 200 /* why a job cannot be done */
#define JOB_REASON_SIZE  120 /* the reason for a property */
#define JOB_GPU_SIZE     64

typedef struct job {
    char     test[JOB_NAME_SIZE];
    work_t   work;
    uint32_t num_sides;
    uint32_t max_rounds;
    uint32_t may_miss;      /* report a missing feature without failing */
    uint32_t has_own_sides; /* sides from --sides instead of the test's */
    uint64_t time_ns;       /* start no new round after this time */
    side_t   sides[JOB_MAX_SIDES];
} job_t;

/* Check that the job can be done. If not, prints the reason and returns -1. */
int job_check(const job_t *job);

/* --- result --------------------------------------------------------------- */

typedef struct quantiles {
    double median;
    double p05;
    double p95;
} quantiles_t;

/* The result of one side. */
typedef struct job_side {
    side_t      side;
    quantiles_t times;    /* seconds for one message */
    double      trip_p50; /* seconds from post to reply of single messages */
    double      trip_p99;
    char     missing[JOB_REASON_SIZE]; /* reason why it cannot be done, or "" */
    char     wire[8];                  /* wire that a pool's side used */
    char     wire_reason[JOB_REASON_SIZE];
    uint64_t registrations; /* memory registrations after the start */
    char     way[12];       /* way that a read or write used */
    char     way_reason[JOB_REASON_SIZE];
} job_side_t;

/* A ratio: how many times as fast the pool is as another side; for round trips,
 * how many times as long it takes. */
typedef struct job_ratio {
    uint32_t    pool; /* indices of sides */
    uint32_t    raw;
    bool        is_best; /* raw is the fastest of its group and mode */
    quantiles_t values;
} job_ratio_t;

typedef struct job_result {
    job_t      job;
    char       missing[JOB_MISSING_SIZE]; /* why nothing was done, or "" */
    uint32_t   num_rounds;
    uint32_t   num_ratios;
    char       gpus[2][JOB_GPU_SIZE]; /* GPUs of sender and receiver; or "" */
    job_side_t sides[JOB_MAX_SIDES];
    /* The ratios of the first side, then those of the side with pieces. */
    job_ratio_t ratios[2 * JOB_MAX_SIDES];
} job_result_t;

#endif
