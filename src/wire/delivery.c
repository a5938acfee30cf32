#include "wire/wire.h"

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/error.h"

#include <stdlib.h>
#include <string.h>

typedef struct wire_delivery {
    base_list_t        link;  /* in the pool's free list, or its deliveries */
    bool               waits; /* has no launch in flight */
    ucxpool_request_t *request;
    ucxpool_channel_t *channel; /* holds a reference */
    proto_data_t       data;
    uint8_t           *copy_of_bytes; /* NULL: none is needed */
    const uint8_t     *bytes;         /* bytes not yet covered by a launch */
    bool               are_far;
    bool               are_unpinned;
    uint64_t           offset; /* of `bytes` in the stream */
    uint64_t           length;
    copy_flag_t        flag; /* no word: the bytes are complete */
    bool               is_flag_on_host;
    bool               gpu_may_wait;
    uint64_t late_since; /* end of the first launch that did not see the flag;
                            0: none */
    uint64_t   next_launch; /* time before which it is not launched */
    uint64_t   covered;     /* number of bytes that the last launch copies */
    copy_job_t copy;
    wire_delivery_cb_t done;
    void              *arg;
    base_range_t       range; /* profiler range of the launch in flight */
} delivery_t;

static delivery_t *delivery_get(ucxpool_request_t *request)
{
    ucxpool_t  *pool = request->pool;
    delivery_t *delivery =
        base_list_pop(&pool->wire->free_deliveries, delivery_t, link);

    if (delivery == NULL) {
        delivery = core_alloc(pool, sizeof(*delivery));
        if (delivery == NULL) {
            return NULL;
        }
        base_list_init(&delivery->link);
    }
    delivery->copy_of_bytes = NULL;
    delivery->copy.job      = NULL;
    delivery->late_since    = 0;
    delivery->next_launch   = 0;
    delivery->range.is_open = false;
    delivery->request       = request;
    delivery->channel       = request->channel;
    core_channel_get(delivery->channel);
    request->recv->pending++;
    request->recv->rndvs++;
    base_list_add_tail(&pool->wire->deliveries, &delivery->link);
    return delivery;
}

static void delivery_put(delivery_t *delivery)
{
    ucxpool_request_t *request = delivery->request;

    request->recv->pending--;
    request->recv->rndvs--;
    free(delivery->copy_of_bytes);
    delivery->copy_of_bytes = NULL;
    base_list_move(&request->pool->wire->free_deliveries, &delivery->link);
    core_channel_put(delivery->channel);
}

static bool is_wanted(const ucxpool_request_t *request)
{
    return (request->recv->failing == UCXPOOL_OK) &&
           !core_request_has_ended(request);
}

static void finish(delivery_t *delivery, ucxpool_status_t status)
{
    ucxpool_request_t *request = delivery->request;

    if (!is_wanted(request)) {
        status = UCXPOOL_ERR_CANCELED;
    } else if (status != UCXPOOL_OK) {
        wire_recv_stop(request, status, ucxpool_error_detail());
    }
    delivery->done(request, &delivery->data, status, delivery->arg);
    delivery_put(delivery);
    wire_recv_release(request);
}

static void copied(copy_job_t *copy, ucxpool_status_t status);

static bool is_set(const copy_flag_t *flag)
{
    return __atomic_load_n(flag->word, __ATOMIC_ACQUIRE) == flag->number;
}

/* Returns true if the launch may start now. Drops the flag if the CPU sees that
 * it is set. */
static bool may_launch(delivery_t *delivery)
{
    if ((delivery->flag.word != NULL) && delivery->is_flag_on_host &&
        is_set(&delivery->flag)) {
        delivery->flag.word = NULL;
    }
    return (delivery->flag.word == NULL) ||
           (delivery->gpu_may_wait &&
            (base_clock_now() >= delivery->next_launch));
}

/* Start the next launch. Returns false if it must wait. */
static bool launch(delivery_t *delivery)
{
    ucxpool_request_t *request   = delivery->request;
    bool               goes_back = delivery->offset < request->plan->at.offset;
    uint64_t           covered   = 0;
    copy_work_t        work;
    ucxpool_status_t   status;

    if ((request->stream.marker != NULL) || !may_launch(delivery)) {
        return false;
    }
    assert(is_wanted(request));
    work = (copy_work_t){
        .plan          = request->plan,
        .offset        = delivery->offset,
        .length        = delivery->length,
        .block         = delivery->bytes,
        .has_far_block = delivery->are_far,
        .is_pushed     = delivery->data.flags & PROTO_DATA_PUSHED,
        .flag          = delivery->flag,
        .has_host_block =
            (delivery->copy_of_bytes != NULL) || delivery->are_unpinned,
        .has_host_segments = request->has_host_segments,
        .has_gpu_segments  = request->has_gpu_segments,
    };
    delivery->copy.done = copied;
    status = copy_engine_start(request->pool->engine, &delivery->copy, &work,
                               &covered);
    if (status == UCXPOOL_ERR_BUSY) {
        return false;
    }
    request->recv->restarts += goes_back ? 1 : 0;
    delivery->waits = false;
    if (status != UCXPOOL_INPROGRESS) {
        finish(delivery, status);
        return true;
    }
    base_range_begin(&delivery->range, BASE_RANGE_SCATTER, covered);
    request->recv->in_place++;
    delivery->covered = covered;
    delivery->bytes += covered;
    delivery->offset += covered;
    delivery->length -= covered;
    return true;
}

/* The maximum time between two launches that wait for the same flag. */
#define PAUSE_MAX UINT64_C(1000000)

/* The kernel found that the bytes had not arrived yet: retry in a later round
 * of progress, after the other deliveries. The first retry is immediate, for a
 * sender that is only a little late. Each later one waits for half of the time
 * since then, so few launches are made for a sender that is very late. */
static void launch_again(delivery_t *delivery)
{
    uint64_t now = base_clock_now();

    if (delivery->late_since == 0) {
        delivery->late_since = now;
    }
    delivery->next_launch =
        now + base_min((now - delivery->late_since) / 2, PAUSE_MAX);
    delivery->bytes -= delivery->covered;
    delivery->offset -= delivery->covered;
    delivery->length += delivery->covered;
    delivery->waits = true;
    base_list_move(&delivery->request->pool->wire->deliveries, &delivery->link);
}

static void copied(copy_job_t *copy, ucxpool_status_t status)
{
    delivery_t *delivery = base_container_of(copy, delivery_t, copy);

    base_range_end(&delivery->range);
    delivery->request->recv->in_place--;
    if ((status == UCXPOOL_ERR_BUSY) && is_wanted(delivery->request)) {
        launch_again(delivery);
        return;
    }
    if ((status == UCXPOOL_OK) && (delivery->length != 0) &&
        is_wanted(delivery->request)) {
        delivery->flag.word = NULL; /* it is set for all bytes */
        delivery->waits     = true;
        launch(delivery);
        return;
    }
    finish(delivery, status);
}

static bool take_bytes(delivery_t                   *delivery,
                       const wire_delivery_params_t *params)
{
    delivery->bytes = params->bytes;
    if (!params->must_copy) {
        return true;
    }
    delivery->copy_of_bytes =
        core_alloc(delivery->request->pool, params->data->length);
    if (delivery->copy_of_bytes == NULL) {
        return false;
    }
    memcpy(delivery->copy_of_bytes, params->bytes, params->data->length);
    delivery->bytes = delivery->copy_of_bytes;
    return true;
}

/* Returns true if another delivery of the same request is queued. If this
 * delivery overtook it, the plan would be walked twice. */
static bool is_queued_behind(const delivery_t *delivery)
{
    delivery_t *other;

    base_list_find(other, &delivery->request->pool->wire->deliveries,
                   delivery_t, link,
                   (other != delivery) && other->waits &&
                       (other->request == delivery->request));
    return other != NULL;
}

static void deliver_later(ucxpool_request_t            *request,
                          const wire_delivery_params_t *params, bool is_for_gpu)
{
    delivery_t *delivery = delivery_get(request);

    if ((delivery == NULL) || !take_bytes(delivery, params)) {
        if (delivery != NULL) {
            delivery_put(delivery);
        }
        params->done(request, params->data, UCXPOOL_ERR_CANCELED, params->arg);
        wire_recv_stop(request, UCXPOOL_ERR_NO_MEMORY,
                       "the receiver has no memory");
        return;
    }
    delivery->data            = *params->data;
    delivery->offset          = params->data->offset;
    delivery->length          = params->data->length;
    delivery->are_far         = params->are_far;
    delivery->are_unpinned    = params->are_unpinned;
    delivery->flag            = params->flag;
    delivery->is_flag_on_host = params->is_flag_on_host;
    delivery->gpu_may_wait =
        !params->is_flag_on_host || (is_for_gpu && params->gpu_may_wait);
    delivery->done  = params->done;
    delivery->arg   = params->arg;
    delivery->waits = true;
    if (!is_queued_behind(delivery)) {
        launch(delivery);
    }
}

/* Copy the bytes with the CPU. Returns false, and copies nothing, if the
 * checksum is wrong. */
static bool scatter(ucxpool_request_t *request, const proto_data_t *data,
                    const void *bytes)
{
    if ((data->flags & PROTO_DATA_CHECKSUM) &&
        (base_crc32c(0, bytes, data->length) != data->checksum)) {
        return false;
    }
    request->recv->restarts += (data->offset < request->plan->at.offset);
    copy_scatter(request->plan, data->offset, data->length, bytes);
    return true;
}

static void deliver_now(ucxpool_request_t            *request,
                        const wire_delivery_params_t *params)
{
    base_range_t range = {.is_open = false};
    bool         is_intact;

    base_range_begin(&range, BASE_RANGE_SCATTER, params->data->length);
    is_intact = scatter(request, params->data, params->bytes);
    base_range_end(&range);
    params->done(request, params->data,
                 is_intact ? UCXPOOL_OK : UCXPOOL_ERR_CHECKSUM, params->arg);
}

/* Returns true if the GPU must copy the bytes. The GPU can read its own blocks
 * and those of its peers. Bytes that must be copied during the call are copied
 * by the CPU, unless the target is on a GPU. */
static bool is_for_gpu(const ucxpool_request_t      *request,
                       const wire_delivery_params_t *params)
{
    return request->has_gpu_segments ||
           (request->has_host_segments && !params->must_copy);
}

void wire_deliver(ucxpool_request_t            *request,
                  const wire_delivery_params_t *params)
{
    bool by_gpu = is_for_gpu(request, params);

    if (by_gpu || (params->is_flag_on_host && !is_set(&params->flag))) {
        deliver_later(request, params, by_gpu);
    } else {
        deliver_now(request, params);
    }
}

void wire_delivery_forget(ucxpool_request_t *request)
{
    delivery_t *delivery;
    delivery_t *next;

    base_list_for_each_safe(delivery, next, &request->pool->wire->deliveries,
                            delivery_t, link) {
        if ((delivery->request == request) && delivery->waits) {
            delivery->done(request, &delivery->data, UCXPOOL_ERR_CANCELED,
                           delivery->arg);
            delivery_put(delivery);
        }
    }
}

unsigned wire_delivery_progress(ucxpool_t *pool)
{
    delivery_t *delivery;

    base_list_for_each(delivery, &pool->wire->deliveries, delivery_t, link) {
        if (delivery->waits && launch(delivery)) {
            /* Stop here, because the list may have changed: a failed launch
             * ends its request, which also ends other deliveries. */
            return 1;
        }
    }
    return 0;
}

uint64_t wire_delivery_deadline(const ucxpool_t *pool)
{
    uint64_t    moment = BASE_CLOCK_FOREVER;
    delivery_t *delivery;

    base_list_for_each(delivery, &pool->wire->deliveries, delivery_t, link) {
        moment = base_min(
            moment, delivery->is_flag_on_host ? 0 : delivery->next_launch);
    }
    return (moment == BASE_CLOCK_FOREVER)
               ? moment
               : base_max(moment, base_clock_deadline(COPY_LOOK_NS));
}

void wire_delivery_destroy_all(ucxpool_t *pool)
{
    delivery_t *delivery;

    base_list_splice_tail(&pool->wire->free_deliveries,
                          &pool->wire->deliveries);
    while ((delivery = base_list_pop(&pool->wire->free_deliveries, delivery_t,
                                     link)) != NULL) {
        base_range_end(&delivery->range);
        free(delivery->copy_of_bytes);
        free(delivery);
    }
}
