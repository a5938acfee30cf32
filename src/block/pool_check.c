#include "base/error.h"
#include "block/pool_inside.h"

static const char *const share_names[] = {"send", "receive", "user"};

static ucxpool_status_t check_share(const block_pool_t *pool,
                                    ucxpool_share_t     share,
                                    const uint32_t     *num_in_state)
{
    ucxpool_share_stats_t stats;
    uint32_t              held        = num_in_state[BLOCK_HELD + share];
    uint32_t              quarantined = num_in_state[BLOCK_QUARANTINED + share];

    block_pool_stats(pool, share, &stats);
    if ((stats.held != held) || (stats.quarantined != quarantined) ||
        (stats.free + held + quarantined != stats.total)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "the %s share counts %llu free, %llu held and %llu "
                          "quarantined of %llu blocks, but %u are held and %u "
                          "quarantined",
                          share_names[share], (unsigned long long)stats.free,
                          (unsigned long long)stats.held,
                          (unsigned long long)stats.quarantined,
                          (unsigned long long)stats.total, held, quarantined);
    }
    return UCXPOOL_OK;
}

/* In how many ways a get can come to the block. */
static unsigned num_ways(const block_pool_t *pool, uint32_t index)
{
    unsigned num = block_pool_has_bit(pool, index);

    for (int i = 0; i < UCXPOOL_SHARE_LAST; i++) {
        num += block_pool_has_at_hand(pool, (ucxpool_share_t)i, index);
    }
    return num;
}

static ucxpool_status_t check_block(const block_pool_t *pool, uint32_t index,
                                    unsigned *state_p)
{
    unsigned state = block_pool_state(pool, index);
    unsigned ways  = num_ways(pool, index);

    if (state >= BLOCK_LAST) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "block %u is in state %u, which there is not", index,
                          state);
    }
    if (ways != (state == BLOCK_FREE)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "block %u is in state %u, but is there to be taken "
                          "%u times",
                          index, state, ways);
    }
    *state_p = state;
    return UCXPOOL_OK;
}

ucxpool_status_t block_pool_check(const block_pool_t *pool)
{
    uint32_t         num_in_state[BLOCK_LAST] = {0};
    uint64_t         num_bits                 = 0;
    unsigned         state                    = 0;
    ucxpool_status_t status                   = UCXPOOL_OK;

    for (uint32_t i = 0; i < block_pool_num_blocks(pool); i++) {
        status = check_block(pool, i, &state);
        if (status != UCXPOOL_OK) {
            return status;
        }
        num_in_state[state]++;
        num_bits += block_pool_has_bit(pool, i);
    }
    if (block_pool_num_bits(pool) != num_bits) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "there are free bits past the last of %u blocks",
                          block_pool_num_blocks(pool));
    }
    for (int i = 0; (i < UCXPOOL_SHARE_LAST) && (status == UCXPOOL_OK); i++) {
        status = check_share(pool, (ucxpool_share_t)i, num_in_state);
    }
    return status;
}
