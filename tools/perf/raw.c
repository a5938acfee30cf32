#include "perf/raw.h"
#include "perf/error.h"

#include <stdlib.h>

static bool is_registered(side_t side)
{
    return (side.way == WAY_AM_MEMH) || (side.way == WAY_TAG_MEMH) ||
           side_is_rma(side);
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

/* Memory that UCX registers once, before anything is sent. In host memory UCX
 * chooses what it is, a GPU's is given. */
static int register_memory(raw_t *raw, const end_params_t *params,
                           void **arena_p)
{
    size_t size =
        buffers_arena_size(&params->work, side_is_scattered(params->side));

    if (memory_is_on_gpu(raw->memory) &&
        (memory_alloc(raw->memory, size, &raw->arena) != 0)) {
        return -1;
    }
    *arena_p = raw->arena;
    return lane_memory_create(raw->lane, size, &raw->memh, arena_p);
}

static const end_ops_t *ops_of(side_t side)
{
    if (side_is_rma(side)) {
        return &raw_rma_ops;
    }
    return way_is_am(side.way) ? &raw_am_ops : &raw_tag_ops;
}

int raw_create(lane_t *lane, const end_params_t *params, control_t *control,
               end_t **end_p)
{
    uint32_t way   = params->side.way;
    void    *arena = NULL;
    raw_t   *raw   = calloc(1, sizeof(*raw));

    if (raw == NULL) {
        return perf_error("out of memory for a side");
    }
    end_init(&raw->end, ops_of(params->side), params);
    raw->lane   = lane;
    raw->memory = params->memory;
    if (is_registered(params->side) &&
        (register_memory(raw, params, &arena) != 0)) {
        goto err_destroy;
    }
    if (end_init_buffers(&raw->end, params, arena) != 0) {
        goto err_destroy;
    }
    if (way_is_am(way) && (create_headers(raw) != 0)) {
        goto err_destroy;
    }
    if ((way == WAY_IOV) && (create_iov(raw) != 0)) {
        goto err_destroy;
    }
    if (side_is_rma(params->side) && (raw_rma_connect(raw, control) != 0)) {
        goto err_destroy;
    }
    *end_p = &raw->end;
    return 0;

err_destroy:
    raw_destroy(&raw->end);
    return -1;
}
