#include <config.h>

#include "tools/shuffle/gpu_store.h"
#include "tools/shuffle/error.h"
#include "tools/shuffle/store.h"

#include <assert.h>
#include <stdlib.h>

/* One held, and others to be received into. */
#define VAULT_PLACES_MIN 4u
/* As many as the exchange has without a GPU. */
#define VAULT_IDLE_MAX 8u
#define VAULT_STAGES   2u

typedef struct gpu_store_stage {
    char       *memory;   /* pinned */
    incoming_t *incoming; /* whose message is on its way here, or NULL */
} gpu_store_stage_t;

struct gpu_store {
    device_t         *device;
    char             *memory; /* of the GPU */
    incoming_list_t   list;
    unsigned          num_reserved; /* places that are not for holding */
    incoming_t       *oldest;       /* of what is held */
    incoming_t      **end;
    gpu_store_stage_t stages[VAULT_STAGES];
    unsigned          turn;      /* stage of the oldest */
    uint64_t          num_bytes; /* held now */
    gpu_store_stats_t stats;
};

static size_t gpu_store_place_size(const batch_shape_t *shape)
{
    return store_round(batch_memory_size(shape));
}

size_t gpu_store_least_size(const batch_shape_t *shape)
{
    return VAULT_PLACES_MIN * gpu_store_place_size(shape);
}

/* --- making it ---------------------------------------------------------- */

/* Workers that use the same GPU, at most. */
static unsigned gpu_store_num_sharers(const gpu_store_params_t *params,
                                      const device_t           *device)
{
    unsigned count = device_count(device);

    return params->gpu >= 0 ? params->num_workers
                            : (params->num_workers + count - 1) / count;
}

/* Places for all of the input: more are of no use. Batches that are sent
 * before they are full are allowed for. */
static uint64_t gpu_store_useful_places(const gpu_store_params_t *params)
{
    const batch_shape_t *shape = params->shape;
    uint64_t             half  = shape->chunk_size * shape->max_chunks / 2 + 1;

    return params->num_bytes / half + 4 * (uint64_t)params->num_workers +
           VAULT_IDLE_MAX;
}

static int gpu_store_choose_places(const gpu_store_params_t *params,
                                   gpu_store_t *gpu_store, unsigned *num_p)
{
    uint64_t useful = gpu_store_useful_places(params);
    uint64_t num;
    size_t   size;
    size_t   share;

    if (device_free_size(gpu_store->device, &size) != 0) {
        return -1;
    }
    share = size / 2 / gpu_store_num_sharers(params, gpu_store->device);
    num   = (params->most != 0 ? params->most : share) /
          gpu_store_place_size(params->shape);
    num    = num > useful ? useful : num;
    *num_p = num > INT32_MAX ? INT32_MAX : (unsigned)num;
    return 0;
}

/* As much as there is, up to num places: what does not fit is written earlier.
 */
static int gpu_store_take_memory(gpu_store_t         *gpu_store,
                                 const batch_shape_t *shape, unsigned num)
{
    size_t place = gpu_store_place_size(shape);

    num = num < VAULT_PLACES_MIN ? VAULT_PLACES_MIN : num;
    while (device_alloc(gpu_store->device, num * place, &gpu_store->memory) !=
           0) {
        if (num == VAULT_PLACES_MIN) {
            return say_error("%s: use fewer workers (-w), or another GPU",
                             error_text());
        }
        num = num / 2 < VAULT_PLACES_MIN ? VAULT_PLACES_MIN : num / 2;
    }
    gpu_store->stats.size = num * place;
    return incoming_list_init(&gpu_store->list, shape, gpu_store->memory, num);
}

static int gpu_store_init(gpu_store_t              *gpu_store,
                          const gpu_store_params_t *params)
{
    size_t   place = gpu_store_place_size(params->shape);
    unsigned num;

    gpu_store->end = &gpu_store->oldest;
    if ((device_open(params->gpu, params->turn, &gpu_store->device) != 0) ||
        (gpu_store_choose_places(params, gpu_store, &num) != 0) ||
        (gpu_store_take_memory(gpu_store, params->shape, num) != 0)) {
        return -1;
    }
    for (unsigned i = 0; i < VAULT_STAGES; i++) {
        if (device_pin(gpu_store->device, place,
                       &gpu_store->stages[i].memory) != 0) {
            return -1;
        }
    }
    num                     = gpu_store->list.num / VAULT_PLACES_MIN;
    gpu_store->num_reserved = num > VAULT_IDLE_MAX ? VAULT_IDLE_MAX : num;
    gpu_store->stats.gpu    = device_number(gpu_store->device);
    return 0;
}

int gpu_store_create(const gpu_store_params_t *params,
                     gpu_store_t             **gpu_store_p)
{
    gpu_store_t *gpu_store = calloc(1, sizeof(*gpu_store));

    if (gpu_store == NULL) {
        return say_error("out of memory");
    }
    if (gpu_store_init(gpu_store, params) != 0) {
        gpu_store_destroy(gpu_store);
        return -1;
    }
    *gpu_store_p = gpu_store;
    return 0;
}

void gpu_store_destroy(gpu_store_t *gpu_store)
{
    if (gpu_store == NULL) {
        return;
    }
    incoming_list_cleanup(&gpu_store->list);
    /* After a failure something may be on its way to a stage. */
    if (gpu_store->device != NULL) {
        device_wait_out(gpu_store->device);
    }
    for (unsigned i = 0; i < VAULT_STAGES; i++) {
        if (gpu_store->stages[i].memory != NULL) {
            device_unpin(gpu_store->device, gpu_store->stages[i].memory);
        }
    }
    if (gpu_store->memory != NULL) {
        device_free(gpu_store->device, gpu_store->memory);
    }
    device_close(gpu_store->device);
    free(gpu_store);
}

device_t *gpu_store_device(gpu_store_t *gpu_store)
{
    return gpu_store->device;
}

incoming_list_t *gpu_store_list(gpu_store_t *gpu_store)
{
    return &gpu_store->list;
}

/* --- holding ------------------------------------------------------------ */

void gpu_store_hold(gpu_store_t *gpu_store, incoming_t *incoming)
{
    assert(!incoming_is_large(incoming));
    incoming->next  = NULL;
    *gpu_store->end = incoming;
    gpu_store->end  = &incoming->next;
    gpu_store->num_bytes += incoming->length;
    gpu_store->stats.held += incoming->length;
    if (gpu_store->num_bytes > gpu_store->stats.held_max) {
        gpu_store->stats.held_max = gpu_store->num_bytes;
    }
}

/* As if it had been received: its segments one after the other. */
int gpu_store_hold_batch(gpu_store_t *gpu_store, batch_t *batch)
{
    incoming_t              *incoming = incoming_list_get(&gpu_store->list);
    const ucxpool_segment_t *segments;
    size_t                   num = batch_segments(batch, &segments);
    char                    *target;

    if (incoming_prepare(incoming, batch->target, batch_message_size(batch),
                         batch->num_chunks, &target) != 0) {
        goto err_give;
    }
    for (size_t i = 0; i < num; i++) {
        if ((segments[i].length > 0) &&
            (device_copy_in(gpu_store->device, target, segments[i].address,
                            segments[i].length) != 0)) {
            goto err_give;
        }
        target += segments[i].length;
    }
    if (device_wait_in(gpu_store->device) != 0) {
        goto err_give;
    }
    gpu_store_hold(gpu_store, incoming);
    return 0;

err_give:
    incoming_list_put(&gpu_store->list, incoming);
    return -1;
}

bool gpu_store_is_full(const gpu_store_t *gpu_store)
{
    return (gpu_store->oldest != NULL) &&
           (gpu_store->list.num_idle < gpu_store->num_reserved);
}

size_t gpu_store_oldest_size(const gpu_store_t *gpu_store)
{
    return gpu_store->oldest->length;
}

/* --- bringing out ------------------------------------------------------- */

/* Start to bring the oldest out, unless it is on its way. */
static int gpu_store_start(gpu_store_t *gpu_store, gpu_store_stage_t *stage)
{
    if ((stage->incoming != NULL) || (gpu_store->oldest == NULL)) {
        return 0;
    }
    stage->incoming = gpu_store->oldest;
    return device_copy_out(gpu_store->device, stage->memory,
                           stage->incoming->buffer, stage->incoming->length);
}

static void gpu_store_drop_oldest(gpu_store_t *gpu_store)
{
    incoming_t *incoming = gpu_store->oldest;

    gpu_store->num_bytes -= incoming->length;
    gpu_store->oldest = incoming->next;
    if (gpu_store->oldest == NULL) {
        gpu_store->end = &gpu_store->oldest;
    }
}

int gpu_store_bring(gpu_store_t *gpu_store, incoming_t **incoming_p)
{
    gpu_store_stage_t *stage    = &gpu_store->stages[gpu_store->turn];
    incoming_t        *incoming = gpu_store->oldest;

    if (incoming == NULL) {
        return 0;
    }
    if ((gpu_store_start(gpu_store, stage) != 0) ||
        (device_wait_out(gpu_store->device) != 0)) {
        return -1;
    }
    stage->incoming = NULL;
    gpu_store_drop_oldest(gpu_store);
    gpu_store->turn = (gpu_store->turn + 1) % VAULT_STAGES;
    if ((gpu_store_start(gpu_store, &gpu_store->stages[gpu_store->turn]) !=
         0) ||
        (incoming_parse(incoming, stage->memory) != 0)) {
        return -1;
    }
    *incoming_p = incoming;
    return 1;
}

void gpu_store_stats_get(const gpu_store_t *gpu_store,
                         gpu_store_stats_t *stats_p)
{
    *stats_p = gpu_store->stats;
}
