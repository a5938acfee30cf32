#include <config.h>

#include "framework/framework.h"

#include <ucxpool/config.h>
#include <ucxpool/private.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define NUM_PLACES (UCXPOOL_FRAMEWORK_MAX_DEVICES + 1)

/* The pools of the host and of the devices, in this order. Written under the
 * lock. */
static _Atomic(ucxpool_t *) pools[NUM_PLACES];
static pthread_mutex_t      lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t       once = PTHREAD_ONCE_INIT;

/*
 * In a forked child: forget the parent's pools. The child must not use or even
 * destroy them. The lock is initialized again, because a thread that does not
 * exist in the child may hold it. A pool that was being created during the fork
 * is leaked in the child. The lock protects only pools[], whose elements are
 * atomic, so a fork cannot leave them inconsistent.
 *
 * The fork does not wait for the lock. The lock is held while a pool is
 * created, and cuInit() may fork during this time to load a kernel module.
 */
static void in_child(void)
{
    for (size_t i = 0; i < NUM_PLACES; i++) {
        atomic_store(&pools[i], NULL);
    }
    pthread_mutex_init(&lock, NULL);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

/* Returns the slot of the device's pool, or NULL if the device is invalid. */
static _Atomic(ucxpool_t *) *place_of(int device)
{
    if ((device < UCXPOOL_FRAMEWORK_HOST) ||
        (device >= UCXPOOL_FRAMEWORK_MAX_DEVICES)) {
        return NULL;
    }
    return &pools[device - UCXPOOL_FRAMEWORK_HOST];
}

static ucxpool_status_t no_such_device(int device)
{
    return ucxpool_error_set(
        UCXPOOL_ERR_INVALID_PARAM,
        "invalid device %d: devices are 0 to %d, and %d is the host", device,
        UCXPOOL_FRAMEWORK_MAX_DEVICES - 1, UCXPOOL_FRAMEWORK_HOST);
}

ucxpool_t *framework_pools_find(int device)
{
    _Atomic(ucxpool_t *) *place = place_of(device);

    return place == NULL ? NULL
                         : atomic_load_explicit(place, memory_order_acquire);
}

static bool is_set(const char *key)
{
    char name[64];

    snprintf(name, sizeof(name), "UCXPOOL_%s", key);
    return getenv(name) != NULL;
}

/* Change settings for frameworks, unless the environment sets them. Blocks are
 * used only for messages, and most of these pools transfer none. */
static ucxpool_status_t modify(ucxpool_config_t *config)
{
    ucxpool_status_t status = UCXPOOL_OK;

    if (!is_set("COMM_SIZE") && !is_set("BLOCK_SIZE") &&
        !is_set("REGION_SIZE")) {
        status = ucxpool_config_modify(config, "COMM_SIZE", "8m");
    }
    if ((status == UCXPOOL_OK) && !is_set("HEAP_ALIGNMENT")) {
        status = ucxpool_config_modify(config, "HEAP_ALIGNMENT", "512");
    }
    return status;
}

static ucxpool_status_t create(int device, ucxpool_t **pool_p)
{
    char             name[32];
    ucxpool_params_t params = {
        .field_mask = UCXPOOL_PARAM_FIELD_CONFIG | UCXPOOL_PARAM_FIELD_NAME |
                      UCXPOOL_PARAM_FIELD_MEMORY_KIND,
        .memory_kind = UCXPOOL_MEMORY_HOST,
        .name        = name,
    };
    ucxpool_config_t *config;
    ucxpool_status_t  status;

    snprintf(name, sizeof(name), "host");
    if (device != UCXPOOL_FRAMEWORK_HOST) {
        snprintf(name, sizeof(name), "gpu%d", device);
        params.field_mask |= UCXPOOL_PARAM_FIELD_DEVICE;
        params.memory_kind = UCXPOOL_MEMORY_CUDA;
        params.device      = device;
    }
    status = ucxpool_config_read(&config);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = modify(config);
    if (status == UCXPOOL_OK) {
        params.config = config;
        status        = ucxpool_create(&params, pool_p);
    }
    ucxpool_config_release(config);
    return status;
}

ucxpool_status_t ucxpool_framework_pool(int device, ucxpool_t **pool_p)
{
    _Atomic(ucxpool_t *) *place  = place_of(device);
    ucxpool_status_t      status = UCXPOOL_OK;
    ucxpool_t            *pool;

    if (pool_p == NULL) {
        return ucxpool_error_set(UCXPOOL_ERR_INVALID_PARAM,
                                 "%s(): pool_p is NULL", __func__);
    }
    if (place == NULL) {
        return no_such_device(device);
    }
    pool = atomic_load_explicit(place, memory_order_acquire);
    if (pool == NULL) {
        pthread_once(&once, watch_forks);
        pthread_mutex_lock(&lock);
        pool = atomic_load(place);
        if (pool == NULL) {
            status = create(device, &pool);
        }
        if (status == UCXPOOL_OK) {
            atomic_store(place, pool);
        }
        pthread_mutex_unlock(&lock);
    }
    if (status == UCXPOOL_OK) {
        *pool_p = pool;
    }
    return status;
}

ucxpool_status_t ucxpool_framework_set_pool(int device, ucxpool_t *pool)
{
    _Atomic(ucxpool_t *) *place  = place_of(device);
    ucxpool_status_t      status = UCXPOOL_OK;
    ucxpool_t            *present;

    if (place == NULL) {
        return no_such_device(device);
    }
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    present = atomic_load(place);
    if ((pool != NULL) && (present != NULL) && (present != pool)) {
        status =
            ucxpool_error_set(UCXPOOL_ERR_BUSY,
                              "device %d already has a pool, which may be in "
                              "use: set the pool before the first allocation",
                              device);
    } else {
        atomic_store(place, pool);
    }
    pthread_mutex_unlock(&lock);
    return status;
}
