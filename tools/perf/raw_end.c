/*
 * What the ways of raw UCX have in common.
 */
#include "perf/raw.h"

#include <stdlib.h>

int raw_reply(end_t *end, unsigned slot)
{
    return lane_reply(((raw_t *)end)->lane, end, slot);
}

void raw_progress(end_t *end)
{
    lane_progress(((raw_t *)end)->lane, end);
}

void raw_destroy(end_t *end)
{
    raw_t *raw = (raw_t *)end;

    lane_leave(raw->lane, end);
    if (raw->rkey != NULL) {
        ucp_rkey_destroy(raw->rkey);
    }
    buffers_cleanup(&end->buffers);
    if (raw->memh != NULL) {
        lane_memory_destroy(raw->lane, raw->memh);
    }
    memory_free(raw->memory, raw->arena, 0);
    free(raw->headers);
    free(raw->iov);
    free(raw);
}
