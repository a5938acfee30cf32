/*
 * A lane: raw UCX between the two processes in one mode. One context, one
 * worker, one endpoint; all ways of that mode share it, one at a time.
 */
#ifndef PERF_LANE_H
#define PERF_LANE_H

#include "perf/control.h"
#include "perf/end.h"

#include <ucp/api/ucp.h>

/* What comes before the data of an active message. */
typedef struct lane_header {
    uint32_t slot;
    uint32_t index; /* of the buffer in the message */
} lane_header_t;

struct lane;

/* What takes the active messages of a lane. */
typedef struct lane_handlers {
    ucs_status_t (*data)(struct lane *lane, const lane_header_t *header,
                         void *data, size_t length,
                         const ucp_am_recv_param_t *param);
    ucs_status_t (*reply)(struct lane *lane, unsigned slot, void *data,
                          size_t length, const ucp_am_recv_param_t *param);
} lane_handlers_t;

typedef struct lane {
    const lane_handlers_t *handlers;
    uint32_t               mode;        /* MODE_PEER or MODE_NONE */
    ucs_memory_type_t      memory_type; /* of all buffers */
    ucp_context_h          context;
    ucp_worker_h           worker;
    ucp_ep_h               ep;
    end_t                 *sender;   /* the end that answers are for */
    end_t                 *receiver; /* the end that messages are for */
    bool                   closing;  /* errors are no news any more */
    bool                   failed;
    /* Headers of replies: UCX 1.13 reads them until the send has ended. */
    lane_header_t reply_headers[WORK_MAX_OUTSTANDING];
} lane_t;

/* Create a lane and connect it; both processes call this. */
int lane_create(uint32_t mode, bool is_on_gpu, const lane_handlers_t *handlers,
                control_t *control, lane_t **lane_p);

/* Close in good order: both processes call this. */
void lane_destroy(lane_t *lane);

/* Memory from ucp_mem_map().
 * address_p [inout]  What is registered; NULL: UCX allocates as it likes. */
int  lane_memory_create(lane_t *lane, size_t length, ucp_mem_h *memh_p,
                        void **address_p);
void lane_memory_destroy(lane_t *lane, ucp_mem_h memh);

/*
 * What the ways share. post: what a UCX call with a slot as user data returned.
 * It counts as pending until it ends; an error is said, and -1 returned.
 */
int  lane_post(lane_t *lane, end_slot_t *slot, ucs_status_ptr_t post);
void lane_send_done(void *request, ucs_status_t status, void *user_data);
void lane_fail(end_t *end, ucs_status_t status, const char *what);

/* From now on what arrives is for this end, until there is another of its kind;
 * and not any more. */
void lane_enter(lane_t *lane, end_t *end);
void lane_leave(lane_t *lane, const end_t *end);

/* The same for any way: the answer by an active message, and progress. */
int  lane_reply(lane_t *lane, end_t *end, unsigned slot);
void lane_progress(lane_t *lane, end_t *end);

/* Handler of answers. */
ucs_status_t lane_reply_arrived(lane_t *lane, unsigned slot, void *data,
                                size_t                     length,
                                const ucp_am_recv_param_t *param);

/* Does the UCX at hand know of a GPU's memory? Else it would take a GPU's
 * pointers for host memory. -1: UCX does not start, which was said. */
int lane_is_for_gpu(bool *is_for_gpu_p);

enum { LANE_AM_DATA = 1, LANE_AM_REPLY = 2 };

#endif
