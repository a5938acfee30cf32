#include "perf/side.h"

#include <stdio.h>
#include <string.h>

static const char *const way_names[WAY_LAST] = {
    [WAY_AM_EACH]        = "am-each",
    [WAY_AM]             = "am",
    [WAY_AM_MEMH]        = "am-memh",
    [WAY_TAG]            = "tag",
    [WAY_TAG_MEMH]       = "tag-memh",
    [WAY_IOV]            = "iov",
    [WAY_POOL]           = "pool",
    [WAY_POOL_COMM]      = "pool-comm",
    [WAY_POOL_COMM_SEND] = "pool-comm-send",
    [WAY_POOL_COMM_RECV] = "pool-comm-recv",
    [WAY_BLOCK]          = "block",
};

static const struct {
    const char *name;
    const char *title;
} modes[MODE_LAST] = {
    [MODE_PEER] = {"peer", "raw UCX with failure handling"},
    [MODE_NONE] = {"none", "raw UCX without failure handling"},
    [MODE_AUTO] = {"auto", "the pool"},
    [MODE_MAP]  = {"map", "the pool, map wire"},
    [MODE_UCX]  = {"ucx", "the pool, ucx wire"},
};

const char *side_name(side_t side, char name[SIDE_NAME_SIZE])
{
    if (side.way == WAY_BLOCK) {
        snprintf(name, SIDE_NAME_SIZE, "%s", way_names[WAY_BLOCK]);
    } else {
        snprintf(name, SIDE_NAME_SIZE, "%s/%s", way_names[side.way],
                 modes[side.mode].name);
    }
    return name;
}

const char *side_mode_title(uint32_t mode)
{
    return modes[mode].title;
}

const char *side_mode_name(uint32_t mode)
{
    return modes[mode].name;
}

bool side_is_pool(side_t side)
{
    return side.way >= WAY_POOL;
}

bool side_is_sane(side_t side)
{
    if ((side.way >= WAY_LAST) || (side.mode >= MODE_LAST)) {
        return false;
    }
    return side_is_pool(side) == (side.mode >= MODE_AUTO);
}

int side_parse(const char *name, side_t *side_p)
{
    char   known[SIDE_NAME_SIZE];
    side_t side;

    for (side.way = 0; side.way < WAY_LAST; side.way++) {
        for (side.mode = 0; side.mode < MODE_LAST; side.mode++) {
            if (side_is_sane(side) && (side.way != WAY_BLOCK) &&
                (strcmp(side_name(side, known), name) == 0)) {
                *side_p = side;
                return 0;
            }
        }
    }
    return -1;
}
