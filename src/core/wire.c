#include "core/wire.h"

static block_pool_t *any_blocks(const ucxpool_t *pool)
{
    return pool->blocks;
}

const core_wire_t core_wire_none = {
    .id     = UCXPOOL_WIRE_NONE,
    .name   = "none",
    .blocks = any_blocks,
};
