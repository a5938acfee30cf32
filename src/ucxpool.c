/*
 * Ties the layers: create, destroy, and the functions on memory.
 */
#include <ucxpool/ucxpool.h>

#include "base/error.h"
#include "base/log.h"
#include "mem/reg_ucx.h"
#include "xfer/pool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((size_t)1024 * 1024)

/* What UCXPOOL_COMM_SIZE=auto means: 500 MiB, less where memory is small. */
static size_t auto_comm_size(size_t block_size)
{
    size_t memory = (size_t)sysconf(_SC_PHYS_PAGES) *
                    (size_t)sysconf(_SC_PAGESIZE);
    size_t size = base_min(500 * MIB, memory / 32);

    return base_max(size & ~(block_size - 1), 4 * block_size);
}

/* Few regions make few registrations; one that is too large may not be had. */
static size_t auto_region_size(size_t comm_size, size_t block_size)
{
    size_t size = base_max(64 * MIB, block_size);

    return base_min(size, base_align_up(comm_size, block_size));
}

static ucxpool_status_t create_memory(ucxpool_t *pool,
                                      ucxpool_memory_kind_t kind)
{
    base_config_t *config = &pool->config;
    size_t         num_regions;

    if (config->block_size == BASE_SIZE_AUTO) {
        config->block_size = 4 * MIB;
    }
    if (config->comm_size == BASE_SIZE_AUTO) {
        config->comm_size = auto_comm_size(config->block_size);
    }
    if (config->comm_size > SIZE_MAX / 4) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "UCXPOOL_COMM_SIZE is without limit: give a size, "
                          "for example 500m");
    }
    if (config->region_size == BASE_SIZE_AUTO) {
        config->region_size = auto_region_size(config->comm_size,
                                               config->block_size);
    }
    num_regions = config->comm_size / config->region_size;
    if (num_regions == 0) {
        num_regions = 1;
    }
    if (num_regions > UINT16_MAX) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "UCXPOOL_COMM_SIZE=%zu is %zu regions of "
                          "UCXPOOL_REGION_SIZE=%zu: make regions larger",
                          config->comm_size, num_regions, config->region_size);
    }
    return mem_regions_init(&pool->regions, kind, (unsigned)num_regions,
                            config->region_size, (int)config->huge_pages);
}

static ucxpool_status_t create_blocks(ucxpool_t *pool)
{
    block_pool_params_t params = {
        .regions    = &pool->regions,
        .block_size = pool->config.block_size,
        .send_share = pool->config.send_share,
        .recv_share = pool->config.recv_share,
    };
    ucxpool_status_t status = block_pool_create(&params, &pool->blocks);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = block_comm_create(pool->blocks, &pool->comm);
    if (status != UCXPOOL_OK) {
        block_pool_destroy(pool->blocks);
    }
    return status;
}

static ucxpool_status_t read_config(ucxpool_t *pool,
                                    const ucxpool_params_t *params)
{
    ucxpool_config_t *config;
    ucxpool_status_t  status;

    if (params->field_mask & UCXPOOL_PARAM_FIELD_CONFIG) {
        pool->config = *base_config_values(params->config);
        return base_config_check(&pool->config);
    }
    status = ucxpool_config_read(&config);
    if (status != UCXPOOL_OK) {
        return status;
    }
    pool->config = *base_config_values(config);
    ucxpool_config_release(config);
    return base_config_check(&pool->config);
}

static int init_condition(ucxpool_t *pool)
{
    pthread_condattr_t attributes;
    int                error;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    error = pthread_cond_init(&pool->leader_woke, &attributes);
    pthread_condattr_destroy(&attributes);
    return error;
}

static ucxpool_status_t init_lock(ucxpool_t *pool)
{
    pthread_mutexattr_t attributes;
    int                 error;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    error = pthread_mutex_init(&pool->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    if (error != 0) {
        return base_error_errno(error, "no lock");
    }
    error = init_condition(pool);
    if (error != 0) {
        pthread_mutex_destroy(&pool->lock);
        return base_error_errno(error, "no condition variable");
    }
    return UCXPOOL_OK;
}

static void cleanup_lock(ucxpool_t *pool)
{
    pthread_cond_destroy(&pool->leader_woke);
    pthread_mutex_destroy(&pool->lock);
}

/* The stack of layers, from the bottom; undone from the top on failure. */
static ucxpool_status_t init(ucxpool_t *pool, const ucxpool_params_t *params)
{
    uint64_t         fields = params->field_mask;
    ucxpool_status_t status;

    status = xfer_pool_init_ucx(
        pool, (fields & UCXPOOL_PARAM_FIELD_CONTEXT) ? params->context : NULL,
        (fields & UCXPOOL_PARAM_FIELD_WORKER) ? params->worker : NULL);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = create_memory(pool, (fields & UCXPOOL_PARAM_FIELD_MEMORY_KIND)
                                     ? params->memory_kind
                                     : UCXPOOL_MEMORY_HOST);
    if (status != UCXPOOL_OK) {
        goto err_cleanup_ucx;
    }
    status = mem_reg_ucx_regions(&pool->regions, pool->context);
    if (status != UCXPOOL_OK) {
        goto err_cleanup_regions;
    }
    pool->stats.registrations = pool->regions.num_regions;
    status                    = create_blocks(pool);
    if (status != UCXPOOL_OK) {
        goto err_deregister;
    }
    status = xfer_pool_init(pool);
    if (status != UCXPOOL_OK) {
        goto err_destroy_blocks;
    }
    return UCXPOOL_OK;

err_destroy_blocks:
    block_comm_destroy(pool->comm);
    block_pool_destroy(pool->blocks);
err_deregister:
    mem_dereg_ucx_regions(&pool->regions, pool->context);
err_cleanup_regions:
    mem_regions_cleanup(&pool->regions);
err_cleanup_ucx:
    xfer_pool_cleanup_ucx(pool);
    return status;
}

/* What is given must be there. */
static ucxpool_status_t check_params(const ucxpool_params_t *params)
{
    const struct {
        uint64_t    field;
        const void *value;
        const char *name;
    } pointers[] = {
        {UCXPOOL_PARAM_FIELD_CONFIG, params->config, "config"},
        {UCXPOOL_PARAM_FIELD_CONTEXT, params->context, "context"},
        {UCXPOOL_PARAM_FIELD_WORKER, params->worker, "worker"},
        {UCXPOOL_PARAM_FIELD_NAME, params->name, "name"},
    };

    for (size_t i = 0; i < sizeof(pointers) / sizeof(pointers[0]); i++) {
        if ((params->field_mask & pointers[i].field) &&
            (pointers[i].value == NULL)) {
            return base_error(UCXPOOL_ERR_INVALID_PARAM,
                              "field_mask names %s, but it is NULL",
                              pointers[i].name);
        }
    }
    if ((params->field_mask & UCXPOOL_PARAM_FIELD_WORKER) &&
        !(params->field_mask & UCXPOOL_PARAM_FIELD_CONTEXT)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "a worker was given without its context");
    }
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_create(const ucxpool_params_t *params,
                                ucxpool_t             **pool_p)
{
    static const ucxpool_params_t defaults = {0};
    ucxpool_t                    *pool     = calloc(1, sizeof(*pool));
    ucxpool_status_t              status;

    if (pool == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a pool");
    }
    if (params == NULL) {
        params = &defaults;
    }
    status = check_params(params);
    if (status != UCXPOOL_OK) {
        goto err_free_pool;
    }
    snprintf(pool->name, sizeof(pool->name), "%s",
             (params->field_mask & UCXPOOL_PARAM_FIELD_NAME) ? params->name
                                                             : "ucxpool");
    status = read_config(pool, params);
    if (status != UCXPOOL_OK) {
        goto err_free_pool;
    }
    base_log_set_level((base_log_level_t)pool->config.log_level);
    status = init_lock(pool);
    if (status != UCXPOOL_OK) {
        goto err_free_pool;
    }
    status = init(pool, params);
    if (status != UCXPOOL_OK) {
        goto err_cleanup_lock;
    }
    *pool_p = pool;
    return UCXPOOL_OK;

err_cleanup_lock:
    cleanup_lock(pool);
err_free_pool:
    free(pool);
    return status;
}

static void finish_destroy(ucxpool_t *pool)
{
    xfer_pool_cleanup(pool);
    block_comm_destroy(pool->comm);
    block_pool_destroy(pool->blocks);
    mem_dereg_ucx_regions(&pool->regions, pool->context);
    xfer_pool_cleanup_ucx(pool);
    mem_regions_cleanup(&pool->regions);
    cleanup_lock(pool);
    free(pool);
}

void ucxpool_destroy(ucxpool_t *pool)
{
    if (pool == NULL) {
        return;
    }
    xfer_pool_shutdown(pool);
    if (!pool->own_worker && (pool->num_operations != 0)) {
        /* Only the caller can end what goes over its endpoints: it does so when
         * it closes them. Until then UCX uses our memory. */
        base_info("%s: UCX still has %u operations; its memory is freed when "
                  "they end",
                  pool->name, pool->num_operations);
        pool->finish = finish_destroy;
        return;
    }
    finish_destroy(pool);
}

/* What a caller is told of a block. */
static void fill_block(ucxpool_t *pool, uint32_t index, ucxpool_block_t *block)
{
    mem_piece_t where;

    block_pool_locate(pool->blocks, index, &where);
    block->address       = block_pool_address(pool->blocks, index);
    block->size          = block_pool_block_size(pool->blocks);
    block->memh          = pool->regions.regions[where.region].memh;
    block->region        = where.region;
    block->index         = index;
    block->region_offset = where.offset;
}

ucxpool_status_t ucxpool_block_get(ucxpool_t *pool, ucxpool_block_t *block_p)
{
    uint32_t         index;
    ucxpool_status_t status;

    status = block_pool_get(pool->blocks, UCXPOOL_SHARE_USER, &index);
    if (status == UCXPOOL_OK) {
        fill_block(pool, index, block_p);
    }
    return status; /* too common to be logged */
}

ucxpool_status_t ucxpool_block_get_n(ucxpool_t *pool, size_t num_blocks,
                                     ucxpool_block_t *blocks)
{
    uint32_t         indices[64];
    size_t           count;
    ucxpool_status_t status;

    if (num_blocks == 0) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM, "0 blocks were asked for");
    }
    status = block_pool_reserve(pool->blocks, UCXPOOL_SHARE_USER, num_blocks);
    if (status != UCXPOOL_OK) {
        return status;
    }
    for (size_t first = 0; first < num_blocks; first += count) {
        count = base_min(num_blocks - first, (size_t)64);
        block_pool_take(pool->blocks, UCXPOOL_SHARE_USER, count, indices);
        for (size_t i = 0; i < count; i++) {
            fill_block(pool, indices[i], &blocks[first + i]);
        }
    }
    return UCXPOOL_OK;
}

void ucxpool_block_put(ucxpool_t *pool, const ucxpool_block_t *block)
{
    if (block_comm_has_block(pool->comm, block->index) ||
        !block_pool_try_put(pool->blocks, UCXPOOL_SHARE_USER, block->index)) {
        (void)base_error(UCXPOOL_ERR_INVALID_PARAM,
                         "block %u was put back, but is not one that "
                         "ucxpool_block_get() gave out",
                         block->index);
    }
}

ucxpool_status_t ucxpool_comm_alloc(ucxpool_t *pool, size_t length,
                                    void **address_p)
{
    return block_comm_alloc(pool->comm, length, address_p);
}

void ucxpool_comm_free(ucxpool_t *pool, void *address)
{
    if (address != NULL) {
        (void)block_comm_free(pool->comm, address);
    }
}

ucxpool_status_t ucxpool_check(ucxpool_t *pool)
{
    return block_pool_check(pool->blocks);
}
