#include "block/split.h"
#include "base/error.h"
#include "base/math.h"

#include <string.h>

static ucxpool_status_t count_blocks(const block_pool_params_t *params,
                                     uint32_t                  *num_blocks_p)
{
    const mem_regions_t *regions = params->regions;
    size_t               num;

    if ((params->block_size == 0) ||
        (regions->region_size % params->block_size != 0)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "REGION_SIZE (%zu bytes) is not a multiple of "
                          "BLOCK_SIZE (%zu bytes)",
                          regions->region_size, params->block_size);
    }
    if (!base_mul(regions->region_size / params->block_size,
                  (size_t)regions->num_regions, &num) ||
        (num > BLOCK_MAX_BLOCKS)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "more than %u blocks: lower COMM_SIZE or raise "
                          "BLOCK_SIZE (%zu bytes)",
                          BLOCK_MAX_BLOCKS, params->block_size);
    }
    if (num < 2) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%zu block(s) of BLOCK_SIZE (%zu bytes), but sending "
                          "and receiving need one each: raise COMM_SIZE or "
                          "lower BLOCK_SIZE",
                          num, params->block_size);
    }
    if ((params->send_share > 100) ||
        (params->recv_share > 100 - params->send_share)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "SEND_SHARE (%u) and RECV_SHARE (%u) make more than "
                          "100 percent",
                          params->send_share, params->recv_share);
    }
    *num_blocks_p = (uint32_t)num;
    return UCXPOOL_OK;
}

/* Percentages, rounded down, but no share below its minimum; what is left by
 * rounding is the user's, or the senders' where the user has no share. */
static void split(const block_pool_params_t *params, uint32_t num_blocks,
                  uint32_t *totals)
{
    uint64_t blocks   = num_blocks;
    bool     has_user = params->send_share + params->recv_share < 100;
    uint32_t min_user = (has_user && (num_blocks > 2)) ? 1 : 0;
    uint32_t send     = (uint32_t)(blocks * params->send_share / 100);
    uint32_t recv     = (uint32_t)(blocks * params->recv_share / 100);

    send = base_max(send, 1);
    recv = base_max(recv, 1);
    while (send + recv > num_blocks - min_user) {
        uint32_t *larger = (send > recv) ? &send : &recv;

        *larger -= 1;
    }
    if (!has_user) {
        send = num_blocks - recv;
    }
    totals[UCXPOOL_SHARE_SEND] = send;
    totals[UCXPOOL_SHARE_RECV] = recv;
    totals[UCXPOOL_SHARE_USER] = num_blocks - send - recv;
}

ucxpool_status_t block_split(const block_pool_params_t *params,
                             uint32_t                  *totals)
{
    uint32_t         num_blocks = 0;
    ucxpool_status_t status     = UCXPOOL_OK;

    if (params->regions->num_regions == 0) {
        memset(totals, 0, UCXPOOL_SHARE_LAST * sizeof(totals[0]));
        return UCXPOOL_OK;
    }
    status = count_blocks(params, &num_blocks);
    if (status == UCXPOOL_OK) {
        split(params, num_blocks, totals);
    }
    return status;
}
