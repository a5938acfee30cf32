#include "perf/raw.h"
#include "perf/error.h"

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

    if (raw->lane->active == end) {
        raw->lane->active = NULL;
    }
    buffers_cleanup(&end->buffers);
    if (raw->memh != NULL) {
        lane_memory_destroy(raw->lane, raw->memh);
    }
    free(raw->headers);
    free(raw->iov);
    free(raw);
}

static bool way_is_scattered(uint32_t way)
{
    return (way == WAY_AM_EACH) || (way == WAY_IOV);
}

static bool way_is_registered(uint32_t way)
{
    return (way == WAY_AM_MEMH) || (way == WAY_TAG_MEMH);
}

static bool way_is_am(uint32_t way)
{
    return (way == WAY_AM_EACH) || (way == WAY_AM) || (way == WAY_AM_MEMH);
}

static int create_headers(raw_t *raw)
{
    const buffers_t *buffers = &raw->end.buffers;

    raw->headers = calloc(buffers->num_slots * buffers->num_segments,
                          sizeof(*raw->headers));
    if (raw->headers == NULL) {
        return perf_error("out of memory for headers: lower -n");
    }
    for (unsigned slot = 0; slot < buffers->num_slots; slot++) {
        for (size_t i = 0; i < buffers->num_segments; i++) {
            lane_header_t *header =
                &raw->headers[slot * buffers->num_segments + i];

            header->slot  = slot;
            header->index = (uint32_t)i;
        }
    }
    return 0;
}

static int create_iov(raw_t *raw)
{
    const buffers_t *buffers = &raw->end.buffers;
    size_t           num     = buffers->num_slots * buffers->num_segments;

    raw->iov = calloc(num, sizeof(*raw->iov));
    if (raw->iov == NULL) {
        return perf_error("out of memory for a list of buffers: lower -n");
    }
    for (size_t i = 0; i < num; i++) {
        raw->iov[i].buffer = buffers->segments[i].address;
        raw->iov[i].length = buffers->segments[i].length;
    }
    return 0;
}

int raw_create(lane_t *lane, side_t side, const work_t *work, bool is_sender,
               end_t **end_p)
{
    bool   scattered = way_is_scattered(side.way);
    void  *arena     = NULL;
    raw_t *raw       = calloc(1, sizeof(*raw));

    if (raw == NULL) {
        return perf_error("out of memory for a side");
    }
    end_init(&raw->end, way_is_am(side.way) ? &raw_am_ops : &raw_tag_ops, side,
             work, is_sender);
    raw->lane = lane;
    if (way_is_registered(side.way) &&
        (lane_memory_create(lane, buffers_arena_size(work, scattered),
                            &raw->memh, &arena) != 0)) {
        goto err_destroy;
    }
    if (buffers_init(&raw->end.buffers, work, scattered, arena) != 0) {
        goto err_destroy;
    }
    if (way_is_am(side.way) && (create_headers(raw) != 0)) {
        goto err_destroy;
    }
    if ((side.way == WAY_IOV) && (create_iov(raw) != 0)) {
        goto err_destroy;
    }
    *end_p = &raw->end;
    return 0;

err_destroy:
    raw_destroy(&raw->end);
    return -1;
}
