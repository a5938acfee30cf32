#include <config.h>

#include "tools/shuffle/vault.h"
#include "tools/shuffle/complaint.h"
#include "tools/shuffle/store.h"

#include <assert.h>
#include <stdlib.h>

/* One held, and others to be received into. */
#define VAULT_PLACES_MIN 4u
/* As many as the exchange has without a GPU. */
#define VAULT_IDLE_MAX 8u
#define VAULT_STAGES   2u

typedef struct vault_stage {
    char      *memory;  /* pinned */
    arrival_t *arrival; /* whose message is on its way here, or NULL */
} vault_stage_t;

struct vault {
    device_t     *device;
    char         *memory; /* of the GPU */
    shelf_t       shelf;
    unsigned      num_reserved; /* places that are not for holding */
    arrival_t    *oldest;       /* of what is held */
    arrival_t   **end;
    vault_stage_t stages[VAULT_STAGES];
    unsigned      turn;      /* stage of the oldest */
    uint64_t      num_bytes; /* held now */
    vault_stats_t stats;
};

static size_t vault_place_size(const batch_shape_t *shape)
{
    return store_round(batch_memory_size(shape));
}

size_t vault_least_size(const batch_shape_t *shape)
{
    return VAULT_PLACES_MIN * vault_place_size(shape);
}

/* --- making it ---------------------------------------------------------- */

/* Workers that use the same GPU, at most. */
static unsigned vault_num_sharers(const vault_params_t *params,
                                  const device_t       *device)
{
    unsigned count = device_count(device);

    return params->gpu >= 0 ? params->num_workers
                            : (params->num_workers + count - 1) / count;
}

/* Places for all of the input: more are of no use. Batches that are sent
 * before they are full are allowed for. */
static uint64_t vault_useful_places(const vault_params_t *params)
{
    const batch_shape_t *shape = params->shape;
    uint64_t             half  = shape->chunk_size * shape->max_chunks / 2 + 1;

    return params->num_bytes / half + 4 * (uint64_t)params->num_workers +
           VAULT_IDLE_MAX;
}

static int vault_choose_places(const vault_params_t *params, vault_t *vault,
                               unsigned *num_p)
{
    uint64_t useful = vault_useful_places(params);
    uint64_t num;
    size_t   size;
    size_t   share;

    if (device_free_size(vault->device, &size) != 0) {
        return -1;
    }
    share = size / 2 / vault_num_sharers(params, vault->device);
    num   = (params->most != 0 ? params->most : share) /
          vault_place_size(params->shape);
    num    = num > useful ? useful : num;
    *num_p = num > INT32_MAX ? INT32_MAX : (unsigned)num;
    return 0;
}

/* As much as there is, up to num places: what does not fit is written earlier.
 */
static int vault_take_memory(vault_t *vault, const batch_shape_t *shape,
                             unsigned num)
{
    size_t place = vault_place_size(shape);

    num = num < VAULT_PLACES_MIN ? VAULT_PLACES_MIN : num;
    while (device_alloc(vault->device, num * place, &vault->memory) != 0) {
        if (num == VAULT_PLACES_MIN) {
            return complain("%s: use fewer workers (-w), or another GPU",
                            complaint_text());
        }
        num = num / 2 < VAULT_PLACES_MIN ? VAULT_PLACES_MIN : num / 2;
    }
    vault->stats.size = num * place;
    return shelf_init(&vault->shelf, shape, vault->memory, num);
}

static int vault_init(vault_t *vault, const vault_params_t *params)
{
    size_t   place = vault_place_size(params->shape);
    unsigned num;

    vault->end = &vault->oldest;
    if ((device_open(params->gpu, params->turn, &vault->device) != 0) ||
        (vault_choose_places(params, vault, &num) != 0) ||
        (vault_take_memory(vault, params->shape, num) != 0)) {
        return -1;
    }
    for (unsigned i = 0; i < VAULT_STAGES; i++) {
        if (device_pin(vault->device, place, &vault->stages[i].memory) != 0) {
            return -1;
        }
    }
    num                 = vault->shelf.num / VAULT_PLACES_MIN;
    vault->num_reserved = num > VAULT_IDLE_MAX ? VAULT_IDLE_MAX : num;
    vault->stats.gpu    = device_number(vault->device);
    return 0;
}

int vault_create(const vault_params_t *params, vault_t **vault_p)
{
    vault_t *vault = calloc(1, sizeof(*vault));

    if (vault == NULL) {
        return complain("out of memory");
    }
    if (vault_init(vault, params) != 0) {
        vault_destroy(vault);
        return -1;
    }
    *vault_p = vault;
    return 0;
}

void vault_destroy(vault_t *vault)
{
    if (vault == NULL) {
        return;
    }
    shelf_cleanup(&vault->shelf);
    /* After a failure something may be on its way to a stage. */
    if (vault->device != NULL) {
        device_wait_out(vault->device);
    }
    for (unsigned i = 0; i < VAULT_STAGES; i++) {
        if (vault->stages[i].memory != NULL) {
            device_unpin(vault->device, vault->stages[i].memory);
        }
    }
    if (vault->memory != NULL) {
        device_free(vault->device, vault->memory);
    }
    device_close(vault->device);
    free(vault);
}

device_t *vault_device(vault_t *vault)
{
    return vault->device;
}

shelf_t *vault_shelf(vault_t *vault)
{
    return &vault->shelf;
}

/* --- holding ------------------------------------------------------------ */

void vault_hold(vault_t *vault, arrival_t *arrival)
{
    assert(!arrival_is_large(arrival));
    arrival->next = NULL;
    *vault->end   = arrival;
    vault->end    = &arrival->next;
    vault->num_bytes += arrival->length;
    vault->stats.held += arrival->length;
    if (vault->num_bytes > vault->stats.held_max) {
        vault->stats.held_max = vault->num_bytes;
    }
}

/* As if it had been received: its segments one after the other. */
int vault_hold_batch(vault_t *vault, batch_t *batch)
{
    arrival_t               *arrival = shelf_take(&vault->shelf);
    const ucxpool_segment_t *segments;
    size_t                   num = batch_segments(batch, &segments);
    char                    *target;

    if (arrival_prepare(arrival, batch->target, batch_message_size(batch),
                        batch->num_chunks, &target) != 0) {
        goto err_give;
    }
    for (size_t i = 0; i < num; i++) {
        if ((segments[i].length > 0) &&
            (device_copy_in(vault->device, target, segments[i].address,
                            segments[i].length) != 0)) {
            goto err_give;
        }
        target += segments[i].length;
    }
    if (device_wait_in(vault->device) != 0) {
        goto err_give;
    }
    vault_hold(vault, arrival);
    return 0;

err_give:
    shelf_give(&vault->shelf, arrival);
    return -1;
}

bool vault_is_full(const vault_t *vault)
{
    return (vault->oldest != NULL) &&
           (vault->shelf.num_idle < vault->num_reserved);
}

size_t vault_oldest_size(const vault_t *vault)
{
    return vault->oldest->length;
}

/* --- bringing out ------------------------------------------------------- */

/* Start to bring the oldest out, unless it is on its way. */
static int vault_start(vault_t *vault, vault_stage_t *stage)
{
    if ((stage->arrival != NULL) || (vault->oldest == NULL)) {
        return 0;
    }
    stage->arrival = vault->oldest;
    return device_copy_out(vault->device, stage->memory, stage->arrival->buffer,
                           stage->arrival->length);
}

static void vault_drop_oldest(vault_t *vault)
{
    arrival_t *arrival = vault->oldest;

    vault->num_bytes -= arrival->length;
    vault->oldest = arrival->next;
    if (vault->oldest == NULL) {
        vault->end = &vault->oldest;
    }
}

int vault_bring(vault_t *vault, arrival_t **arrival_p)
{
    vault_stage_t *stage   = &vault->stages[vault->turn];
    arrival_t     *arrival = vault->oldest;

    if (arrival == NULL) {
        return 0;
    }
    if ((vault_start(vault, stage) != 0) ||
        (device_wait_out(vault->device) != 0)) {
        return -1;
    }
    stage->arrival = NULL;
    vault_drop_oldest(vault);
    vault->turn = (vault->turn + 1) % VAULT_STAGES;
    if ((vault_start(vault, &vault->stages[vault->turn]) != 0) ||
        (arrival_parse(arrival, stage->memory) != 0)) {
        return -1;
    }
    *arrival_p = arrival;
    return 1;
}

void vault_stats_get(const vault_t *vault, vault_stats_t *stats_p)
{
    *stats_p = vault->stats;
}
