#include "perf/side.h"

#include <stdio.h>
#include <string.h>

static const char *const way_names[WAY_LAST] = {
    [WAY_AM_EACH]           = "am-each",
    [WAY_AM]                = "am",
    [WAY_AM_MEMH]           = "am-memh",
    [WAY_TAG_EACH]          = "tag-each",
    [WAY_TAG]               = "tag",
    [WAY_TAG_MEMH]          = "tag-memh",
    [WAY_IOV]               = "iov",
    [WAY_GET_EACH]          = "get-each",
    [WAY_GET]               = "get",
    [WAY_PUT_EACH]          = "put-each",
    [WAY_PUT]               = "put",
    [WAY_COPY_EACH]         = "copy-each",
    [WAY_COPY]              = "copy",
    [WAY_POOL]              = "pool",
    [WAY_POOL_PIECES]       = "pool-pieces",
    [WAY_POOL_EVEN]         = "pool-even",
    [WAY_POOL_EACH]         = "pool-each",
    [WAY_POOL_EVENT]        = "pool-event",
    [WAY_POOL_WAIT]         = "pool-wait",
    [WAY_POOL_COMM]         = "pool-comm",
    [WAY_POOL_COMM_SEND]    = "pool-comm-send",
    [WAY_POOL_COMM_RECV]    = "pool-comm-recv",
    [WAY_POOL_READ]         = "pool-read",
    [WAY_POOL_READ_ASLEEP]  = "pool-read-asleep",
    [WAY_POOL_WRITE]        = "pool-write",
    [WAY_POOL_WRITE_ASLEEP] = "pool-write-asleep",
    [WAY_BLOCK]             = "block",
};

static const struct {
    const char *name;
    const char *title;
} modes[MODE_LAST] = {
    [MODE_PEER] = {"peer", "raw UCX with failure handling"},
    [MODE_NONE] = {"none", "raw UCX without failure handling"},
    [MODE_COPY] = {"copy", "copies of the GPU"},
    [MODE_AUTO] = {"auto", "the pool"},
    [MODE_MAP]  = {"map", "the pool, map wire"},
    [MODE_UCX]  = {"ucx", "the pool, ucx wire"},
};

const char *side_name(side_t side, char name[SIDE_NAME_SIZE])
{
    if ((side.way == WAY_BLOCK) || side_is_copy(side)) {
        snprintf(name, SIDE_NAME_SIZE, "%s", way_names[side.way]);
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

bool side_is_pieces(side_t side)
{
    return side.way == WAY_POOL_PIECES;
}

bool side_is_even(side_t side)
{
    return side_is_pieces(side) || (side.way == WAY_POOL_EVEN);
}

bool side_is_copy(side_t side)
{
    return (side.way == WAY_COPY_EACH) || (side.way == WAY_COPY);
}

bool side_is_raw(side_t side)
{
    return side.way < WAY_COPY_EACH;
}

bool side_is_rma(side_t side)
{
    return (side.way >= WAY_GET_EACH) && (side.way <= WAY_PUT);
}

bool side_is_one_sided(side_t side)
{
    return side_is_rma(side) ||
           ((side.way >= WAY_POOL_READ) && (side.way <= WAY_POOL_WRITE_ASLEEP));
}

bool side_is_read(side_t side)
{
    return (side.way == WAY_GET_EACH) || (side.way == WAY_GET) ||
           (side.way == WAY_POOL_READ) || (side.way == WAY_POOL_READ_ASLEEP);
}

bool side_is_asleep(side_t side)
{
    return (side.way == WAY_POOL_READ_ASLEEP) ||
           (side.way == WAY_POOL_WRITE_ASLEEP);
}

bool side_goes_both_ways(side_t side)
{
    return !side_is_rma(side) && !side_is_asleep(side);
}

side_group_t side_group(side_t side)
{
    switch (side.way) {
    case WAY_AM_EACH:
    case WAY_TAG_EACH:
    case WAY_GET_EACH:
    case WAY_PUT_EACH:
        return SIDE_EACH;
    case WAY_IOV:
        return SIDE_LIST;
    case WAY_COPY_EACH:
        return SIDE_COPY_EACH;
    case WAY_COPY:
        return SIDE_COPY;
    default:
        return side_is_pool(side) ? SIDE_POOL : SIDE_WHOLE;
    }
}

bool side_is_scattered(side_t side)
{
    side_group_t group = side_group(side);

    return (group != SIDE_WHOLE) && (group != SIDE_COPY);
}

work_t side_work(side_t side, const work_t *work)
{
    side_group_t group = side_group(side);
    work_t       part  = *work;

    if (work_is_on_gpu(work) && (part.count > SIDE_MAX_CALLS) &&
        ((group == SIDE_EACH) || (group == SIDE_COPY_EACH))) {
        part.count = SIDE_MAX_CALLS;
    }
    return part;
}

bool side_is_sane(side_t side)
{
    if ((side.way >= WAY_LAST) || (side.mode >= MODE_LAST)) {
        return false;
    }
    if (side_is_pool(side)) {
        return side.mode >= MODE_AUTO;
    }
    return side_is_copy(side) == (side.mode == MODE_COPY) &&
           (side.mode < MODE_AUTO);
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
