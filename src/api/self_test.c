/*
 * The self-test: sends a message through each region to a second pool in this
 * process, and compares every byte.
 */
#include "base/clock.h"
#include "base/error.h"
#include "core/memory.h"
#include "core/pool.h"
#include "core/remote.h"

#include <ucxpool/ucxpool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

/* The two pools, and the connection between them. */
typedef struct loop {
    ucxpool_t         *near;
    ucxpool_t         *far;
    ucxpool_channel_t *out; /* channel of near */
    ucxpool_channel_t *in;  /* channel of far */
    size_t             length;
    uint8_t           *source;
    uint8_t           *target;
} loop_t;

static ucxpool_status_t set_size(ucxpool_config_t *config, const char *key,
                                 size_t size)
{
    char text[32];

    snprintf(text, sizeof(text), "%zu", size);
    return ucxpool_config_modify(config, key, text);
}

/* Create the second pool. It is small, has the same block size, and uses UCX if
 * the settings of the first pool allow this. */
static ucxpool_status_t create_far(loop_t *loop)
{
    const base_config_t *near   = &loop->near->config;
    ucxpool_params_t     params = {.field_mask = UCXPOOL_PARAM_FIELD_CONFIG |
                                                 UCXPOOL_PARAM_FIELD_NAME,
                                   .name = "self-test"};
    ucxpool_config_t    *config;
    ucxpool_status_t     status;

    status = ucxpool_config_read(&config);
    if (status != UCXPOOL_OK) {
        return status;
    }
    params.config = config;
    status        = set_size(config, "BLOCK_SIZE", near->block_size);
    if (status == UCXPOOL_OK) {
        status = set_size(config, "REGION_SIZE", near->block_size);
    }
    if (status == UCXPOOL_OK) {
        status = set_size(config, "COMM_SIZE", 4 * near->block_size);
    }
    /* Creating a pool sets the log level of the process: keep the current
     * one. */
    if (status == UCXPOOL_OK) {
        status = ucxpool_config_modify(
            config, "LOG_LEVEL", base_log_level_name(base_log_get_level()));
    }
    if ((status == UCXPOOL_OK) && (near->wire != BASE_WIRE_MAP)) {
        status = ucxpool_config_modify(config, "WIRE", "ucx");
    }
    if (status == UCXPOOL_OK) {
        status = ucxpool_create(&params, &loop->far);
    }
    ucxpool_config_release(config);
    return status;
}

static ucxpool_status_t connect_to(ucxpool_t *from, ucxpool_t *to,
                                   ucxpool_channel_t **channel_p)
{
    ucxpool_channel_params_t params = {
        .field_mask = UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS |
                      UCXPOOL_CHANNEL_PARAM_FIELD_NAME,
        .name = "self-test",
    };
    core_blob_t     *address;
    ucxpool_status_t status;

    core_lock(to);
    status = core_blob_create(to, 0, &address, &params.address_length);
    core_unlock(to);
    if (status != UCXPOOL_OK) {
        return status;
    }
    params.address = address;
    status         = ucxpool_channel_create(from, &params, channel_p);
    ucxpool_address_release(address);
    return status;
}

static bool has_ended(ucxpool_request_t *request)
{
    return ucxpool_request_test(request) != UCXPOOL_INPROGRESS;
}

/* Returns a request that has failed, or NULL if neither has failed. */
static ucxpool_request_t *find_failed(ucxpool_request_t *send,
                                      ucxpool_request_t *recv)
{
    if (ucxpool_request_test(send) < 0) {
        return send;
    }
    return (ucxpool_request_test(recv) < 0) ? recv : NULL;
}

/* Progress both pools until both requests have ended: only then may the caller
 * use the buffers. If a request fails, or at the deadline, cancels both
 * requests. */
static ucxpool_status_t finish(loop_t *loop, ucxpool_request_t *send,
                               ucxpool_request_t *recv)
{
    uint64_t           deadline    = base_clock_deadline(10 * SECOND);
    bool               is_canceled = false;
    ucxpool_request_t *failed      = NULL;

    while (!has_ended(send) || !has_ended(recv)) {
        ucxpool_progress(loop->near);
        ucxpool_progress(loop->far);
        if (is_canceled) {
            continue;
        }
        failed = find_failed(send, recv);
        if ((failed != NULL) || (base_clock_now() >= deadline)) {
            is_canceled = true;
            ucxpool_request_cancel(send);
            ucxpool_request_cancel(recv);
        }
    }
    if (failed != NULL) {
        return ucxpool_request_wait(failed, 0); /* returns its error */
    }
    failed = find_failed(send, recv);
    if (is_canceled && (failed != NULL)) {
        return base_error(UCXPOOL_ERR_TIMED_OUT,
                          "the self-test's message did not arrive");
    }
    return (failed != NULL) ? ucxpool_request_wait(failed, 0) : UCXPOOL_OK;
}

static ucxpool_status_t pass_message(loop_t *loop, uint32_t region)
{
    ucxpool_request_t *send = NULL;
    ucxpool_request_t *recv = NULL;
    ucxpool_status_t   status;

    memset(loop->target, 0, loop->length);
    status = ucxpool_recv_buffer(loop->far, loop->in, loop->target,
                                 loop->length, region, UINT64_MAX, NULL, &recv);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = ucxpool_send_buffer(loop->out, loop->source, loop->length, region,
                                 NULL, &send);
    if (status == UCXPOOL_OK) {
        status = finish(loop, send, recv);
        ucxpool_request_release(send);
    }
    ucxpool_request_release(recv);
    if ((status == UCXPOOL_OK) &&
        (memcmp(loop->source, loop->target, loop->length) != 0)) {
        status =
            base_error(UCXPOOL_ERR_CHECKSUM,
                       "data sent from region %u arrived corrupted", region);
    }
    return status;
}

/* Blocks that the test holds, so that the next get returns the wanted block. */
typedef struct held {
    uint32_t      *blocks;
    block_share_t *shares;
    uint32_t       count;
} held_t;

/* Hold the lowest free block, taken from the first share that has a free block.
 * The share that packing needs comes last. */
static bool hold_next(block_pool_t *blocks, held_t *held)
{
    static const block_share_t order[] = {BLOCK_SHARE_USER, BLOCK_SHARE_RECV,
                                          BLOCK_SHARE_SEND};

    block_pool_clear_hands(blocks);
    for (unsigned i = 0; i < 3; i++) {
        if (block_pool_get(blocks, order[i], &held->blocks[held->count]) ==
            UCXPOOL_OK) {
            held->shares[held->count++] = order[i];
            return true;
        }
    }
    return false;
}

static void give_last(block_pool_t *blocks, held_t *held)
{
    held->count--;
    block_pool_put(blocks, held->shares[held->count],
                   held->blocks[held->count]);
    block_pool_clear_hands(blocks);
}

/* Send a message through each region. If no block is cached, a get returns the
 * lowest free block. So a send uses the first block of a region while the test
 * holds all blocks before it. */
static ucxpool_status_t pass_every_region(loop_t *loop)
{
    block_pool_t *blocks = loop->near->memory.blocks;
    uint32_t      total  = block_pool_num_blocks(blocks);
    held_t        held   = {
                 .blocks = calloc(total, sizeof(held.blocks[0])),
                 .shares = calloc(total, sizeof(held.shares[0])),
    };
    uint32_t         tested = 0;
    ucxpool_status_t status = UCXPOOL_OK;
    mem_piece_t      where;

    if ((held.blocks == NULL) || (held.shares == NULL)) {
        status = base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a self-test");
    }
    while ((status == UCXPOOL_OK) && (held.count < total) &&
           hold_next(blocks, &held)) {
        block_pool_locate(blocks, held.blocks[held.count - 1], &where);
        if (where.region < tested) {
            continue;
        }
        tested = where.region + 1;
        give_last(blocks, &held);
        status = pass_message(loop, where.region);
    }
    while (held.count > 0) {
        give_last(blocks, &held);
    }
    free(held.shares);
    free(held.blocks);
    return status;
}

static ucxpool_status_t run(loop_t *loop)
{
    ucxpool_status_t status = connect_to(loop->near, loop->far, &loop->out);

    if (status == UCXPOOL_OK) {
        status = connect_to(loop->far, loop->near, &loop->in);
    }
    for (size_t i = 0; i < loop->length; i++) {
        loop->source[i] = (uint8_t)(i * 131 + (i >> 8));
    }
    if (status == UCXPOOL_OK) {
        status = pass_every_region(loop);
    }
    return status;
}

ucxpool_status_t ucxpool_self_test(ucxpool_t *pool)
{
    loop_t           loop = {.near = pool};
    ucxpool_status_t status;

    if (base_missing(pool)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    status = core_memory_check(pool);
    if (status == UCXPOOL_OK) {
        status = create_far(&loop);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    /* The message must be too long for an eager message. */
    loop.length =
        base_max(pool->config.block_size, 2 * pool->config.eager_size);
    loop.source = malloc(loop.length);
    loop.target = malloc(loop.length);
    if ((loop.source == NULL) || (loop.target == NULL)) {
        status = base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a self-test");
    } else {
        status = run(&loop);
    }
    ucxpool_channel_close(loop.out);
    ucxpool_destroy(loop.far);
    free(loop.target);
    free(loop.source);
    return status;
}
