/* The simulation of a classic pool. */
#include "replay/allocator.h"
#include "replay/best_fit.h"
#include "replay/error.h"

#include <pthread.h>
#include <stdlib.h>

/* More than any machine has. */
#define NO_LIMIT (UINT64_C(1) << 48)

typedef struct best_fit_allocator {
    allocator_t     super;
    pthread_mutex_t mutex; /* as such pools have one */
    best_fit_t     *pool;
} best_fit_allocator_t;

static int create(const allocator_kind_t *kind, device_t *device,
                  uint64_t capacity, allocator_t **allocator_p)
{
    best_fit_allocator_t *self = calloc(1, sizeof(*self));

    if (self == NULL) {
        return replay_error("out of memory");
    }
    self->super.kind   = kind;
    self->super.device = device;
    self->pool         = best_fit_create(capacity == 0 ? NO_LIMIT : capacity);
    if (self->pool == NULL) {
        free(self);
        return replay_error("out of memory");
    }
    pthread_mutex_init(&self->mutex, NULL);
    *allocator_p = &self->super;
    return 0;
}

static void destroy(allocator_t *allocator)
{
    best_fit_allocator_t *self = (best_fit_allocator_t *)allocator;

    best_fit_destroy(self->pool);
    pthread_mutex_destroy(&self->mutex);
    free(self);
}

static allocator_answer_t take(allocator_t *allocator, size_t size,
                               void *stream, void **address_p)
{
    best_fit_allocator_t *self  = (best_fit_allocator_t *)allocator;
    best_fit_block_t     *block = NULL;
    int                   code;

    (void)stream;
    pthread_mutex_lock(&self->mutex);
    code = best_fit_alloc(self->pool, size, &block);
    pthread_mutex_unlock(&self->mutex);
    *address_p = block;
    if (code < 0) {
        replay_error("out of memory");
        return ALLOCATOR_BROKEN;
    }
    return code == 0 ? ALLOCATOR_OK : ALLOCATOR_FULL;
}

static allocator_answer_t give(allocator_t *allocator, void *address,
                               size_t size, void *stream)
{
    best_fit_allocator_t *self = (best_fit_allocator_t *)allocator;

    (void)size;
    (void)stream;
    pthread_mutex_lock(&self->mutex);
    best_fit_free(self->pool, address);
    pthread_mutex_unlock(&self->mutex);
    return ALLOCATOR_OK;
}

static uint64_t reserved(allocator_t *allocator)
{
    best_fit_allocator_t *self = (best_fit_allocator_t *)allocator;
    uint64_t              top;

    pthread_mutex_lock(&self->mutex);
    top = best_fit_top(self->pool);
    pthread_mutex_unlock(&self->mutex);
    return top;
}

const allocator_kind_t allocator_best_fit = {
    .name          = "bestfit",
    .doc           = "a classic best-fit pool over one arena, in simulation: "
                     "no memory, no streams",
    .is_simulated  = true,
    .create        = create,
    .destroy       = destroy,
    .alloc         = take,
    .free          = give,
    .reserved      = reserved,
    .peak_reserved = reserved,
};
