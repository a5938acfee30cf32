/*
 * The ways of raw UCX: ends over a lane.
 */
#ifndef PERF_RAW_H
#define PERF_RAW_H

#include "perf/lane.h"

typedef struct raw {
    end_t          end; /* first: an end_t * is a raw_t * */
    lane_t        *lane;
    memory_t      *memory;
    ucp_mem_h      memh;    /* NULL: memory of no registration */
    void          *arena;   /* of a GPU, that is registered; or NULL */
    lane_header_t *headers; /* of active messages, slot by slot */
    ucp_dt_iov_t  *iov;     /* slot by slot */
    /* Gets and puts: the other end's arena, and its key. */
    uint64_t   peer;
    ucp_rkey_h rkey;
} raw_t;

/* Create an end for a side of raw UCX. It borrows the lane. Both processes call
 * this. */
int raw_create(lane_t *lane, const end_params_t *params, control_t *control,
               end_t **end_p);

/* Where the other end's memory is, for gets and puts: both tell. */
int raw_rma_connect(raw_t *raw, control_t *control);

/* For lane_create(). */
extern const lane_handlers_t raw_handlers;

extern const end_ops_t raw_am_ops;
extern const end_ops_t raw_tag_ops;
extern const end_ops_t raw_rma_ops;

/* For the tables of functions above: raw_end.c. raw_reply: by active message.
 */
int  raw_reply(end_t *end, unsigned slot);
void raw_progress(end_t *end);
void raw_destroy(end_t *end);

#endif
