#include "perf/job.h"
#include "common/error.h"
#include "gpu/gpu.h"
#include "perf/test.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* --- work ----------------------------------------------------------------- */

static bool devices_are_sane(const int32_t devices[2])
{
    return (devices[0] >= WORK_HOST) && (devices[0] <= GPU_MAX) &&
           (devices[1] >= WORK_HOST) && (devices[1] <= GPU_MAX);
}

/* Returns true if no product overflows and all values are plausible. */
static bool work_is_sane(const work_t *work)
{
    return (work->size >= 1) && (work->size <= WORK_MAX_BYTES) &&
           (work->count >= 1) && (work->count <= WORK_MAX_BUFFERS) &&
           (work->size <= WORK_MAX_BYTES / work->count) &&
           (work->outstanding >= 1) &&
           (work->outstanding <= WORK_MAX_OUTSTANDING) &&
           (work->size * work->count <= WORK_MAX_BYTES / work->outstanding) &&
           (work->misaligned < WORK_LINE) && devices_are_sane(work->devices) &&
           (work->pageable <= (WORK_PAGEABLE_SEND | WORK_PAGEABLE_RECV)) &&
           ((work->pageable == 0) || work_is_on_gpu(work));
}

static bool parse_device(const char *text, int32_t *device_p)
{
    char extra;

    *device_p = WORK_HOST;
    return (strcmp(text, "host") == 0) ||
           (isdigit((unsigned char)text[0]) &&
            (sscanf(text, "%4d%c", device_p, &extra) == 1) &&
            (*device_p <= GPU_MAX));
}

int work_parse_devices(const char *text, work_t *work)
{
    char    first[8], second[8], extra;
    int32_t found[2];

    if (gpu_parse(text, &found[0]) == 0) {
        found[1] = found[0];
    } else if ((sscanf(text, "cuda:%7[^,],%7[^,]%c", first, second, &extra) !=
                2) ||
               !parse_device(first, &found[0]) ||
               !parse_device(second, &found[1]) ||
               ((found[0] == WORK_HOST) && (found[1] == WORK_HOST))) {
        return -1;
    }
    memcpy(work->devices, found, sizeof(found));
    snprintf(work->device_text, sizeof(work->device_text), "%s",
             strcmp(text, "cuda") == 0 ? "cuda:0" : text);
    return 0;
}

static const char *const pageable_names[] = {"", "send", "recv", "both"};

const char *work_pageable(uint32_t pageable)
{
    return pageable_names[pageable];
}

int work_parse_pageable(const char *text, uint32_t *pageable_p)
{
    for (uint32_t i = 1; i < 4; i++) {
        if (strcmp(text, pageable_names[i]) == 0) {
            *pageable_p = i;
            return 0;
        }
    }
    return -1;
}

/* --- side ----------------------------------------------------------------- */

/* clang-format off */
#define RMA  (IS_RAW | IS_RMA | IS_REGISTERED | IS_ONE_SIDED)
#define HERE (IS_POOL | IS_ONE_SIDED)

static const struct {
    const char *name;
    unsigned    is;
} ways[WAY_LAST] = {
    [WAY_AM_EACH]           = {"am-each", IS_RAW | IS_AM | IS_EACH},
    [WAY_AM]                = {"am", IS_RAW | IS_AM | IS_WHOLE},
    [WAY_AM_MEMH]           = {"am-memh",
                               IS_RAW | IS_AM | IS_WHOLE | IS_REGISTERED},
    [WAY_TAG_EACH]          = {"tag-each", IS_RAW | IS_EACH},
    [WAY_TAG]               = {"tag", IS_RAW | IS_WHOLE},
    [WAY_TAG_MEMH]          = {"tag-memh", IS_RAW | IS_WHOLE | IS_REGISTERED},
    [WAY_IOV]               = {"iov", IS_RAW},
    [WAY_GET_EACH]          = {"get-each", RMA | IS_EACH | IS_READ},
    [WAY_GET]               = {"get", RMA | IS_WHOLE | IS_READ},
    [WAY_PUT_EACH]          = {"put-each", RMA | IS_EACH},
    [WAY_PUT]               = {"put", RMA | IS_WHOLE},
    [WAY_POOL]              = {"pool", IS_POOL},
    [WAY_POOL_PIECES]       = {"pool-pieces", IS_POOL | IS_PIECES},
    [WAY_POOL_EVEN]         = {"pool-even", IS_POOL},
    [WAY_POOL_EACH]         = {"pool-each", IS_POOL},
    [WAY_POOL_BATCH]        = {"pool-batch", IS_POOL | IS_BATCH},
    [WAY_POOL_WAIT]         = {"pool-wait", IS_POOL},
    [WAY_POOL_COMM]         = {"pool-comm", IS_POOL | IS_COMM},
    [WAY_POOL_READ]         = {"pool-read", HERE | IS_READ},
    [WAY_POOL_READ_ASLEEP]  = {"pool-read-asleep", HERE | IS_READ | IS_ASLEEP},
    [WAY_POOL_WRITE]        = {"pool-write", HERE},
    [WAY_POOL_WRITE_ASLEEP] = {"pool-write-asleep", HERE | IS_ASLEEP},
};

static const struct {
    const char *name;
    const char *title;
    unsigned    is; /* of the ways that have this mode */
} modes[MODE_LAST] = {
    [MODE_PEER] = {"peer", "raw UCX with failure handling", IS_RAW},
    [MODE_NONE] = {"none", "raw UCX without failure handling", IS_RAW},
    [MODE_AUTO] = {"auto", "the pool", IS_POOL},
    [MODE_MAP]  = {"map", "the pool, map wire", IS_POOL},
    [MODE_UCX]  = {"ucx", "the pool, ucx wire", IS_POOL},
};
/* clang-format on */

const char *side_name(side_t side)
{
    static char names[WAY_LAST][MODE_LAST][SIDE_NAME_SIZE];
    char       *name = names[side.way][side.mode];

    snprintf(name, SIDE_NAME_SIZE, "%s/%s", ways[side.way].name,
             modes[side.mode].name);
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

bool side_is(side_t side, unsigned what)
{
    return (ways[side.way].is & what) != 0;
}

bool side_is_scattered(side_t side)
{
    return !side_is(side, IS_WHOLE);
}

work_t side_work(side_t side, const work_t *work)
{
    work_t part = *work;

    if (work_is_on_gpu(work) && side_is(side, IS_EACH) &&
        (part.count > SIDE_MAX_CALLS)) {
        part.count = SIDE_MAX_CALLS;
    }
    return part;
}

static bool side_is_sane(side_t side)
{
    return (side.way > WAY_NONE) && (side.way < WAY_LAST) &&
           (side.mode < MODE_LAST) && side_is(side, modes[side.mode].is);
}

int side_parse(const char *name, side_t *side_p)
{
    side_t side;

    for (side.way = 1; side.way < WAY_LAST; side.way++) {
        for (side.mode = 0; side.mode < MODE_LAST; side.mode++) {
            if (side_is_sane(side) && (strcmp(side_name(side), name) == 0)) {
                *side_p = side;
                return 0;
            }
        }
    }
    return -1;
}

/* --- job ------------------------------------------------------------------ */

static int check_side(const job_t *job, side_t side)
{
    const work_t *work = &job->work;

    if (!side_is_sane(side)) {
        return tool_error("there is no such side; --list prints all");
    }
    if (work->echo && (side_is(side, IS_ONE_SIDED) ||
                       (side_is(side, IS_RAW) && !side_is(side, IS_AM)))) {
        return tool_error("--sides: %s needs messages of the pool or active "
                          "messages, because the reply has the same bytes",
                          job->test);
    }
    if (side_is(side, IS_RMA | IS_ASLEEP) && work->both) {
        return tool_error("--sides: of reads and writes, only pool-read and "
                          "pool-write transfer data in both directions");
    }
    if (side_is(side, IS_RMA) && work_is_on_gpu(work)) {
        return tool_error(
            "--sides: get and put use host memory: omit --device");
    }
    return 0;
}

int job_check(const job_t *job)
{
    if ((memchr(job->test, '\0', sizeof(job->test)) == NULL) ||
        (test_find(job->test) == NULL) || (job->num_sides == 0) ||
        (job->num_sides > JOB_MAX_SIDES) ||
        (job->work.echo && job->work.both)) {
        return tool_error("there is no such test; --list prints all");
    }
    if (job->work.echo && (job->work.count != 1)) {
        return tool_error("%s sends one buffer in each direction: omit -n",
                          job->test);
    }
    for (unsigned i = 0; i < job->num_sides; i++) {
        if (check_side(job, job->sides[i]) != 0) {
            return -1;
        }
    }
    return work_is_sane(&job->work)
               ? 0
               : tool_error("-s, -n and -O together need too much memory: "
                            "lower one of them");
}
