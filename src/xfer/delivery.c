#include "xfer/delivery.h"

#include "base/error.h"
#include "xfer/recv.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct xfer_delivery {
    base_list_t        link;  /* free, or the pool's arrivals */
    bool               waits; /* not being copied */
    ucxpool_request_t *request;
    ucxpool_channel_t *channel; /* a reference */
    proto_data_t       data;
    uint8_t           *copy_of_bytes; /* NULL: not needed */
    const uint8_t     *bytes;         /* what is left */
    bool               are_far;
    uint64_t           offset; /* in the stream */
    uint64_t           length;
    copy_job_t         copy;
    xfer_delivery_cb_t done;
    void              *arg;
} arrival_t;

static arrival_t *arrival_get(ucxpool_request_t *request)
{
    ucxpool_t *pool = request->pool;
    arrival_t *arrival;

    if (!base_list_is_empty(&pool->free.deliveries)) {
        arrival = base_list_head(&pool->free.deliveries, arrival_t, link);
        base_list_del(&arrival->link);
    } else {
        arrival = core_alloc(pool, sizeof(*arrival));
        if (arrival == NULL) {
            return NULL;
        }
        base_list_init(&arrival->link);
    }
    arrival->copy_of_bytes = NULL;
    arrival->copy.job      = NULL;
    arrival->request       = request;
    arrival->channel       = request->channel;
    core_channel_get(arrival->channel);
    request->recv.pending++;
    request->recv.landings++;
    base_list_add_tail(&pool->requests.deliveries, &arrival->link);
    return arrival;
}

static void arrival_put(arrival_t *arrival)
{
    ucxpool_request_t *request = arrival->request;

    request->recv.pending--;
    request->recv.landings--;
    free(arrival->copy_of_bytes);
    base_list_del(&arrival->link);
    base_list_add_tail(&request->pool->free.deliveries, &arrival->link);
    core_channel_put(arrival->channel);
}

static bool is_wanted(const ucxpool_request_t *request)
{
    return (request->recv.failing == UCXPOOL_OK) &&
           !core_request_has_ended(request);
}

static void finish(arrival_t *arrival, ucxpool_status_t status)
{
    ucxpool_request_t *request = arrival->request;

    if (!is_wanted(request)) {
        status = UCXPOOL_ERR_CANCELED;
    } else if (status != UCXPOOL_OK) {
        xfer_recv_stop(request, status, ucxpool_error_detail());
    }
    arrival->done(request, &arrival->data, status, arrival->arg);
    arrival_put(arrival);
    xfer_recv_let_go(request);
}

static void copied(copy_job_t *copy, ucxpool_status_t status);

/* The next launch, unless it has to wait. */
static bool launch(arrival_t *arrival)
{
    ucxpool_request_t *request = arrival->request;
    const copy_work_t  work    = {
            .plan              = &request->data.plan,
            .offset            = arrival->offset,
            .length            = arrival->length,
            .block             = arrival->bytes,
            .has_far_block     = arrival->are_far,
            .has_host_block    = arrival->copy_of_bytes != NULL,
            .has_host_segments = request->stream.has_host_segments,
    };
    bool             goes_back = work.offset < request->data.plan.at.offset;
    uint64_t         covered   = 0;
    ucxpool_status_t status;

    if (request->stream.mark != NULL) {
        return false;
    }
    assert(is_wanted(request));
    arrival->copy.done = copied;
    status = copy_engine_start(request->pool->engine, &arrival->copy, &work,
                               &covered);
    if (status == UCXPOOL_ERR_BUSY) {
        return false;
    }
    request->recv.restarts += goes_back ? 1 : 0;
    arrival->waits = false;
    if (status != UCXPOOL_INPROGRESS) {
        finish(arrival, status);
        return true;
    }
    request->recv.in_place++;
    arrival->bytes += covered;
    arrival->offset += covered;
    arrival->length -= covered;
    return true;
}

static void copied(copy_job_t *copy, ucxpool_status_t status)
{
    arrival_t *arrival = base_container_of(copy, arrival_t, copy);

    arrival->request->recv.in_place--;
    if ((status == UCXPOOL_OK) && (arrival->length != 0) &&
        is_wanted(arrival->request)) {
        arrival->waits = true;
        launch(arrival);
        return;
    }
    finish(arrival, status);
}

static bool take_bytes(arrival_t *arrival, const xfer_delivery_params_t *params)
{
    arrival->bytes = params->bytes;
    if (!params->must_copy) {
        return true;
    }
    arrival->copy_of_bytes =
        core_alloc(arrival->request->pool, params->data->length);
    if (arrival->copy_of_bytes == NULL) {
        return false;
    }
    memcpy(arrival->copy_of_bytes, params->bytes, params->data->length);
    arrival->bytes = arrival->copy_of_bytes;
    return true;
}

/* Does one of the same request wait? To overtake it would cost two walks of the
 * plan. */
static bool is_behind_another(const arrival_t *arrival)
{
    arrival_t *other;

    base_list_for_each(other, &arrival->request->pool->requests.deliveries,
                       arrival_t, link) {
        if ((other != arrival) && other->waits &&
            (other->request == arrival->request)) {
            return true;
        }
    }
    return false;
}

/* By the GPU, as soon as it can. */
static void deliver_later(ucxpool_request_t            *request,
                          const xfer_delivery_params_t *params)
{
    arrival_t *arrival = arrival_get(request);

    if ((arrival == NULL) || !take_bytes(arrival, params)) {
        if (arrival != NULL) {
            arrival_put(arrival);
        }
        params->done(request, params->data, UCXPOOL_ERR_CANCELED, params->arg);
        xfer_recv_stop(request, UCXPOOL_ERR_NO_MEMORY,
                       "the receiver has no memory");
        return;
    }
    arrival->data    = *params->data;
    arrival->offset  = params->data->offset;
    arrival->length  = params->data->length;
    arrival->are_far = params->are_far;
    arrival->done    = params->done;
    arrival->arg     = params->arg;
    arrival->waits   = true;
    if (!is_behind_another(arrival)) {
        launch(arrival);
    }
}

static void deliver_now(ucxpool_request_t            *request,
                        const xfer_delivery_params_t *params)
{
    bool is_intact = xfer_recv_scatter(request, params->data, params->bytes);

    params->done(request, params->data,
                 is_intact ? UCXPOOL_OK : UCXPOOL_ERR_CHECKSUM, params->arg);
}

/* A GPU reads its own blocks and those of its peers; what only the processor
 * has, it can as well put where it belongs. */
static bool is_for_gpu(const ucxpool_request_t      *request,
                       const xfer_delivery_params_t *params)
{
    return params->must_copy ? request->stream.has_gpu_segments
                             : copy_engine_is_launched(request->pool->engine);
}

void xfer_deliver(ucxpool_request_t            *request,
                  const xfer_delivery_params_t *params)
{
    if (is_for_gpu(request, params)) {
        deliver_later(request, params);
    } else {
        deliver_now(request, params);
    }
}

void xfer_delivery_forget(ucxpool_request_t *request)
{
    arrival_t *arrival;
    arrival_t *next;

    base_list_for_each_safe(arrival, next, &request->pool->requests.deliveries,
                            arrival_t, link) {
        if ((arrival->request == request) && arrival->waits) {
            arrival->done(request, &arrival->data, UCXPOOL_ERR_CANCELED,
                          arrival->arg);
            arrival_put(arrival);
        }
    }
}

unsigned xfer_delivery_progress(ucxpool_t *pool)
{
    arrival_t *arrival;

    base_list_for_each(arrival, &pool->requests.deliveries, arrival_t, link) {
        if (arrival->waits && launch(arrival)) {
            /* One that fails ends its request, and other arrivals with it: the
             * list is another one then. */
            return 1;
        }
    }
    return 0;
}

void xfer_delivery_destroy_all(ucxpool_t *pool)
{
    arrival_t *arrival;

    base_list_splice_tail(&pool->free.deliveries, &pool->requests.deliveries);
    while (!base_list_is_empty(&pool->free.deliveries)) {
        arrival = base_list_head(&pool->free.deliveries, arrival_t, link);
        base_list_del(&arrival->link);
        free(arrival);
    }
}
