/*
 * The public functions that create and destroy pools, and the public functions
 * for blocks, buffers, waiting and memory domains.
 */
#include <ucxpool/private.h>
#include <ucxpool/ucxpool.h>

#include "api/api.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/trace.h"
#include "core/memory.h"
#include "core/pool.h"
#include "heap/heap.h"
#include "mem/system.h"
#include "pool/pool.h"
#include "ucx/context.h"
#include "ucx/reg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ucxpool_status_t read_config(ucxpool_t              *pool,
                                    const ucxpool_params_t *params)
{
    bool             is_given = params->field_mask & UCXPOOL_PARAM_FIELD_CONFIG;
    ucxpool_status_t status =
        api_config_values(is_given ? params->config : NULL, &pool->config);

    if (status != UCXPOOL_OK) {
        return status;
    }
    base_secret_get(pool->config.secret);
    return base_config_check(&pool->config);
}

static int init_condition(ucxpool_t *pool)
{
    pthread_condattr_t attributes;
    int                error;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    error = pthread_cond_init(&pool->wakeup.leader_woke, &attributes);
    pthread_condattr_destroy(&attributes);
    return error;
}

static ucxpool_status_t init_locks(ucxpool_t *pool)
{
    int error = pthread_mutex_init(&pool->wakeup.leader_lock, NULL);

    if (error != 0) {
        return base_error_errno(error, "cannot create a lock for the pool");
    }
    error = init_condition(pool);
    if (error != 0) {
        pthread_mutex_destroy(&pool->wakeup.leader_lock);
        return base_error_errno(
            error, "cannot create a condition variable for the pool");
    }
    pthread_mutex_init(&pool->domains.lock, NULL);
    base_list_init(&pool->domains.list);
    return UCXPOOL_OK;
}

static void cleanup_locks(ucxpool_t *pool)
{
    pthread_mutex_destroy(&pool->domains.lock);
    pthread_cond_destroy(&pool->wakeup.leader_woke);
    pthread_mutex_destroy(&pool->wakeup.leader_lock);
}

static ucxpool_status_t init_context(ucxpool_t              *pool,
                                     const ucxpool_params_t *params)
{
    uint64_t             fields = params->field_mask;
    char                 devices[UCX_DEVICES_SIZE];
    ucx_context_params_t context = {
        .devices         = devices,
        .for_gpu         = core_memory_kind(params) == UCXPOOL_MEMORY_CUDA,
        .has_rdma        = mem_has_rdma_device(),
        .peer_timeout_ns = pool->config.peer_timeout_ns,
    };

    if (fields & UCXPOOL_PARAM_FIELD_CONTEXT) {
        context.context = params->context;
    }
    if (fields & UCXPOOL_PARAM_FIELD_WORKER) {
        context.worker = params->worker;
    }
    ucx_tune_local_devices(devices, sizeof(devices));
    pool->needs_registration = context.has_rdma;
    return ucx_context_init(&pool->ucx, &context);
}

/* Initialize the layers from the bottom up. On failure, undo this in reverse
 * order. */
static ucxpool_status_t init(ucxpool_t *pool, const ucxpool_params_t *params)
{
    ucxpool_status_t status = init_context(pool, params);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = core_memory_init(pool, params);
    if (status != UCXPOOL_OK) {
        goto err_cleanup_ucx;
    }
    status = pool_init(pool);
    if (status != UCXPOOL_OK) {
        goto err_cleanup_memory;
    }
    return UCXPOOL_OK;

err_cleanup_memory:
    core_memory_deregister(pool);
    core_memory_cleanup(pool);
err_cleanup_ucx:
    ucx_context_destroy_worker(&pool->ucx, pool->name);
    ucx_context_cleanup(&pool->ucx);
    return status;
}

/* Check that the pointers named in field_mask are not NULL, and that a worker
 * comes with its context. */
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
                              "field_mask names %s, but this pointer is NULL",
                              pointers[i].name);
        }
    }
    if ((params->field_mask & UCXPOOL_PARAM_FIELD_WORKER) &&
        !(params->field_mask & UCXPOOL_PARAM_FIELD_CONTEXT)) {
        return base_error(
            UCXPOOL_ERR_INVALID_PARAM,
            "field_mask names a worker without its context: also pass context");
    }
    return UCXPOOL_OK;
}

/* The numbers of pools without a name: bit N - 1 is set while a pool has number
 * N. Atomic. */
static uint64_t used_numbers;

/* Returns the lowest free number. If 64 pools have numbers, the next ones get
 * numbers that are not used again. */
static unsigned take_number(ucxpool_t *pool)
{
    static unsigned num_others; /* atomic */
    uint64_t        used = __atomic_load_n(&used_numbers, __ATOMIC_RELAXED);

    do {
        pool->number_bit = ~used & (used + 1);
    } while (!__atomic_compare_exchange_n(&used_numbers, &used,
                                          used | pool->number_bit, false,
                                          __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return (pool->number_bit != 0)
               ? (unsigned)__builtin_ctzll(pool->number_bit) + 1
               : 64 + __atomic_add_fetch(&num_others, 1, __ATOMIC_RELAXED);
}

static void set_name(ucxpool_t *pool, const ucxpool_params_t *params)
{
    unsigned number;

    if (params->field_mask & UCXPOOL_PARAM_FIELD_NAME) {
        snprintf(pool->name, sizeof(pool->name), "%s", params->name);
        return;
    }
    number = take_number(pool);
    if (number == 1) {
        strcpy(pool->name, "ucxpool");
    } else {
        snprintf(pool->name, sizeof(pool->name), "ucxpool-%u", number);
    }
}

/* Free the pool and release its number. */
static void free_pool(ucxpool_t *pool)
{
    __atomic_fetch_and(&used_numbers, ~pool->number_bit, __ATOMIC_RELAXED);
    base_secret_put(pool->config.secret);
    free(pool);
}

ucxpool_status_t ucxpool_create(const ucxpool_params_t *params,
                                ucxpool_t             **pool_p)
{
    static const ucxpool_params_t defaults = {0};
    ucxpool_t                    *pool;
    ucxpool_status_t              status;

    if (base_missing(pool_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    base_trace_init();
    pool = calloc(1, sizeof(*pool));
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
    set_name(pool, params);
    status = read_config(pool, params);
    if (status != UCXPOOL_OK) {
        goto err_free_pool;
    }
    base_log_set_level((base_log_level_t)pool->config.log_level);
    status = init_locks(pool);
    if (status != UCXPOOL_OK) {
        goto err_free_pool;
    }
    status = init(pool, params);
    if (status != UCXPOOL_OK) {
        goto err_cleanup_locks;
    }
    *pool_p = pool;
    return UCXPOOL_OK;

err_cleanup_locks:
    cleanup_locks(pool);
err_free_pool:
    free_pool(pool);
    return status;
}

static void finish_destroy(ucxpool_t *pool)
{
    ucx_context_destroy_worker(&pool->ucx, pool->name);
    pool_cleanup(pool);
    core_memory_deregister(pool);
    ucx_context_cleanup(&pool->ucx);
    heap_destroy(pool->heap);
    core_memory_cleanup(pool);
    cleanup_locks(pool);
    free_pool(pool);
}

bool ucxpool_is_foreign(const ucxpool_t *pool)
{
    return (pool != NULL) && pool->wakeup.child.is_foreign;
}

static void destroy(ucxpool_t *pool)
{
    if (ucxpool_is_foreign(pool)) {
        base_info("%s: a forked child does not destroy its parent's pool",
                  pool->name);
        return;
    }
    pool_shutdown(pool);
    /* The protection domains belong to the caller, which may close them
     * next. */
    api_verbs_close(pool);
    if (!pool->ucx.own_worker && (pool->num_operations != 0)) {
        /* Operations on the caller's endpoints end only when the caller closes
         * the endpoints. Until then, UCX uses the pool's memory. */
        base_info("%s: UCX still has %u operations in flight; the pool's "
                  "memory is freed when they end",
                  pool->name, pool->num_operations);
        pool->finish = finish_destroy;
        return;
    }
    finish_destroy(pool);
}

static ucxpool_attr_t describe(const ucxpool_t *pool)
{
    const mem_regions_t *regions = &pool->memory.regions;
    bool                 is_cuda = regions->cuda != NULL;

    return (ucxpool_attr_t){
        .name         = pool->name,
        .memory_kind  = is_cuda ? UCXPOOL_MEMORY_CUDA : UCXPOOL_MEMORY_HOST,
        .device       = is_cuda ? regions->cuda->ordinal : -1,
        .block_size   = block_pool_block_size(pool->memory.blocks),
        .region_size  = regions->region_size,
        .num_regions  = regions->num_regions,
        .degraded_to  = pool->stats.degraded_to,
        .degraded_why = pool->stats.degraded_why,
    };
}

void ucxpool_query(const ucxpool_t *pool, ucxpool_attr_t *attr_p,
                   size_t attr_size)
{
    ucxpool_attr_t attr = {.name = "", .device = -1, .degraded_why = ""};

    if (base_missing(attr_p)) {
        return;
    }
    if (!base_missing(pool)) {
        attr = describe(pool);
    }
    base_output(attr_p, attr_size, &attr, sizeof(attr));
}

void ucxpool_destroy(ucxpool_t *pool)
{
    if (pool != NULL) {
        base_error_do_at(BASE_LOG_WARN, destroy(pool));
    }
}

static void fill_block(ucxpool_t *pool, uint32_t index, ucxpool_block_t *block)
{
    mem_piece_t where;

    block_pool_locate(pool->memory.blocks, index, &where);
    *block = (ucxpool_block_t){
        .address       = block_pool_address(pool->memory.blocks, index),
        .size          = block_pool_block_size(pool->memory.blocks),
        .memh          = pool->memory.regions.regions[where.region].memh,
        .region        = where.region,
        .index         = index,
        .region_offset = where.offset,
    };
}

/* Log the error only at level trace, because callers retry often. */
static ucxpool_status_t too_few_blocks(size_t num_blocks)
{
    base_log_level_t level = base_error_log_at(BASE_LOG_TRACE);

    base_error(UCXPOOL_ERR_NO_BLOCKS,
               "the user share has fewer free blocks than %zu: put blocks, "
               "raise UCXPOOL_COMM_SIZE, or lower UCXPOOL_SEND_SHARE and "
               "UCXPOOL_RECV_SHARE",
               num_blocks);
    base_error_log_at(level);
    return UCXPOOL_ERR_NO_BLOCKS;
}

ucxpool_status_t ucxpool_block_get(ucxpool_t *pool, ucxpool_block_t *block_p)
{
    uint32_t         index;
    ucxpool_status_t status;

    if (base_missing(pool) || base_missing(block_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = block_pool_get(pool->memory.blocks, BLOCK_SHARE_USER, &index);
    if (status != UCXPOOL_OK) {
        return too_few_blocks(1);
    }
    fill_block(pool, index, block_p);
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_block_get_n(ucxpool_t *pool, size_t num_blocks,
                                     ucxpool_block_t *blocks)
{
    uint32_t         indices[64];
    size_t           count;
    ucxpool_status_t status;

    if (base_missing(pool) || base_missing(blocks)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    if (num_blocks == 0) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "cannot get 0 blocks: pass 1 or more");
    }
    status =
        block_pool_reserve(pool->memory.blocks, BLOCK_SHARE_USER, num_blocks);
    if (status != UCXPOOL_OK) {
        return too_few_blocks(num_blocks);
    }
    for (size_t first = 0; first < num_blocks; first += count) {
        count = base_min(num_blocks - first, (size_t)64);
        block_pool_take(pool->memory.blocks, BLOCK_SHARE_USER, count, indices);
        for (size_t i = 0; i < count; i++) {
            fill_block(pool, indices[i], &blocks[first + i]);
        }
    }
    return UCXPOOL_OK;
}

static bool is_own_block(const ucxpool_t *pool, const ucxpool_block_t *block)
{
    block_pool_t *blocks = pool->memory.blocks;

    return (block->index < block_pool_num_blocks(blocks)) &&
           (block->address == block_pool_address(blocks, block->index)) &&
           !block_comm_has_block(pool->memory.comm, block->index);
}

static ucxpool_status_t put_block(ucxpool_t *pool, const ucxpool_block_t *block)
{
    if (!is_own_block(pool, block) ||
        !block_pool_try_put(pool->memory.blocks, BLOCK_SHARE_USER,
                            block->index)) {
        return base_error(
            UCXPOOL_ERR_INVALID_PARAM,
            "cannot put block %u at %p into pool %s: ucxpool_block_get() has "
            "not taken it from this pool, or it was put already",
            block->index, block->address, pool->name);
    }
    return UCXPOOL_OK;
}

void ucxpool_block_put(ucxpool_t *pool, const ucxpool_block_t *block)
{
    if (!base_missing(pool) && (block != NULL)) {
        base_error_do_at(BASE_LOG_WARN, (void)put_block(pool, block));
    }
}

ucxpool_status_t ucxpool_comm_alloc(ucxpool_t *pool, size_t length,
                                    void **address_p)
{
    if (base_missing(pool) || base_missing(address_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return block_comm_alloc(pool->memory.comm, length, address_p);
}

void ucxpool_comm_free(ucxpool_t *pool, void *address)
{
    base_log_level_t level = base_error_log_at(BASE_LOG_WARN);

    if ((address != NULL) && !base_missing(pool)) {
        (void)block_comm_free(pool->memory.comm, address);
    }
    base_error_log_at(level);
}

ucxpool_status_t ucxpool_event_fd(ucxpool_t *pool, int *fd_p)
{
    if (base_missing(pool) || base_missing(fd_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    if (!pool_can_sleep(pool)) {
        return base_error(
            UCXPOOL_ERR_UNSUPPORTED,
            "the borrowed UCX context was created without UCP_FEATURE_WAKEUP");
    }
    *fd_p = pool->wakeup.epoll_fd;
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_wait(ucxpool_t *pool, uint64_t timeout_ns)
{
    static const pool_goal_t any = {.is_reached = NULL};

    if (base_missing(pool)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    return pool_wait(pool, &any, base_clock_deadline(timeout_ns));
}

ucxpool_status_t ucxpool_check(ucxpool_t *pool)
{
    ucxpool_status_t status;

    if (base_missing(pool)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = block_pool_check(pool->memory.blocks);
    if ((status == UCXPOOL_OK) && (pool->memory.pinned_blocks != NULL)) {
        status = block_pool_check(pool->memory.pinned_blocks);
    }
    if ((status == UCXPOOL_OK) && (pool->heap != NULL)) {
        status = heap_check(pool->heap);
    }
    return status;
}

/* --- the memory domains of the UCX context -------------------------------- */

static uint32_t flags_of(const ucx_domain_t *domain, bool is_needed)
{
    return (domain->is_known ? UCXPOOL_DOMAIN_KNOWN : 0u) |
           (domain->is_network ? UCXPOOL_DOMAIN_NETWORK : 0u) |
           (domain->registers ? UCXPOOL_DOMAIN_REGISTERS : 0u) |
           (domain->needs_keys ? UCXPOOL_DOMAIN_NEEDS_KEYS : 0u) |
           (is_needed ? UCXPOOL_DOMAIN_NEEDED : 0u);
}

static uint32_t count_regions(const mem_regions_t *regions, uint64_t bit)
{
    uint32_t count = 0;

    for (unsigned i = 0; i < regions->num_regions; i++) {
        count += (regions->regions[i].domains & bit) != 0;
    }
    return count;
}

size_t ucxpool_domains_query(ucxpool_t *pool, ucxpool_domain_t *domains,
                             size_t max_domains)
{
    const mem_regions_t *regions;
    const ucx_domains_t *all;

    if (base_missing(pool) || ((max_domains != 0) && base_missing(domains))) {
        return 0;
    }
    regions = core_memory_registered(pool);
    all     = regions->domains;
    if (all == NULL) {
        return 0; /* a pool without blocks */
    }
    for (unsigned i = 0; (i < all->num) && (i < max_domains); i++) {
        const ucx_domain_t *domain = &all->domains[i];
        uint64_t            bit    = UINT64_C(1) << i;

        memset(&domains[i], 0, sizeof(domains[i]));
        strcpy(domains[i].name, domain->name);
        strcpy(domains[i].component, domain->component);
        domains[i].flags       = flags_of(domain, (all->needed & bit) != 0);
        domains[i].num_regions = count_regions(regions, bit);
    }
    return all->num;
}
