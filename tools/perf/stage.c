#include "perf/stage.h"
#include "common/system.h"
#include "common/error.h"

#include <stdio.h>
#include <string.h>
#include <ucp/api/ucp.h>

/* The part of the free memory that buffers may use. The pool and UCX need the
 * rest. */
#define MEMORY_SHARE 0.9

/* Sent from each process to the other, about its GPU. */
typedef struct gpu_info {
    uint32_t is_ucx_for_gpu;
    char     gpu[JOB_GPU_SIZE];
} gpu_info_t;

static int create_pool_end(stage_t *stage, const job_t *job, unsigned index,
                           const end_params_t *params, char *missing,
                           end_t **end_p)
{
    uint32_t      mode = params->side.mode;
    pool_lane_t **lane = &stage->pool_lanes[mode];

    if ((*lane == NULL) &&
        (pool_lane_create(mode, job, params->is_sender, stage->control, missing,
                          lane) != 0)) {
        return -1;
    }
    return pool_end_create(*lane, params, stage->control, stage->missing[index],
                           end_p);
}

static int create_raw_end(stage_t *stage, unsigned index,
                          const end_params_t *params, end_t **end_p)
{
    uint32_t     mode = params->side.mode;
    raw_lane_t **lane = &stage->raw_lanes[mode];

    if (stage->missing[index][0] != '\0') {
        return 0;
    }
    if ((*lane == NULL) &&
        (raw_lane_create(mode, memory_is_on_gpu(&stage->memory), stage->control,
                         lane) != 0)) {
        return -1;
    }
    return raw_end_create(*lane, params, stage->control, end_p);
}

static int create_end(stage_t *stage, const job_t *job, unsigned index,
                      bool is_sender, char *missing, end_t **end_p)
{
    side_t       side   = job->sides[index];
    end_params_t params = {
        .side      = side,
        .work      = side_work(side, &job->work),
        .is_sender = is_sender,
        .memory    = &stage->memory,
    };

    if (side_is(side, IS_POOL)) {
        return create_pool_end(stage, job, index, &params, missing, end_p);
    }
    return create_raw_end(stage, index, &params, end_p);
}

static void destroy_end(end_t **end)
{
    if (*end != NULL) {
        (*end)->ops->destroy(*end);
        *end = NULL;
    }
}

/* Create the end for one direction, or the ends for both. If one of two is
 * missing, the other is destroyed. */
static int create_ends(stage_t *stage, const job_t *job, unsigned index,
                       bool is_sender, char *missing)
{
    end_t **ends = stage->ends[index];
    int status   = create_end(stage, job, index, is_sender, missing, &ends[0]);

    if ((status != 0) || !job->work.both || (ends[0] == NULL)) {
        return status;
    }
    status = create_end(stage, job, index, !is_sender, missing, &ends[1]);
    if (ends[1] == NULL) {
        destroy_end(&ends[0]);
    }
    return status;
}

/* Record why raw UCX is missing, if it is. */
static void note_missing_ucx(stage_t *stage, const job_t *job,
                             const gpu_info_t infos[2])
{
    for (unsigned i = 0; i < job->num_sides; i++) {
        if (side_is(job->sides[i], IS_RAW) &&
            !(infos[0].is_ucx_for_gpu && infos[1].is_ucx_for_gpu)) {
            snprintf(stage->missing[i], sizeof(stage->missing[i]),
                     "UCX %s does not support GPU memory%s",
                     ucp_get_version_string(),
                     infos[0].is_ucx_for_gpu == infos[1].is_ucx_for_gpu
                         ? ""
                         : ", or the other process's UCX does not");
        }
    }
}

/* Exchange the GPUs of both processes, and determine which sides cannot run. */
static int exchange_gpus(stage_t *stage, const job_t *job, bool is_sender)
{
    gpu_info_t  infos[2]   = {0};
    gpu_info_t *mine       = &infos[is_sender ? 0 : 1];
    gpu_info_t *theirs     = &infos[is_sender ? 1 : 0];
    bool        is_for_gpu = false;
    bool        has_raw    = false;

    for (unsigned i = 0; i < job->num_sides; i++) {
        has_raw |= side_is(job->sides[i], IS_RAW);
    }
    if (has_raw && (raw_is_for_gpu(&is_for_gpu) != 0)) {
        return -1;
    }
    mine->is_ucx_for_gpu = is_for_gpu;
    snprintf(mine->gpu, sizeof(mine->gpu), "%s",
             (stage->memory.device == WORK_HOST) ? "host memory"
                                                 : stage->memory.gpu.name);
    if (control_swap(stage->control, mine, theirs, sizeof(*mine)) != 0) {
        return -1;
    }
    theirs->gpu[sizeof(theirs->gpu) - 1] = '\0';
    memcpy(stage->gpus[0], infos[0].gpu, JOB_GPU_SIZE);
    memcpy(stage->gpus[1], infos[1].gpu, JOB_GPU_SIZE);
    note_missing_ucx(stage, job, infos);
    return 0;
}

int stage_check_memory(const job_t *job, unsigned num_processes)
{
    const double gib   = 0x1p30;
    double       bytes = 0;
    uint64_t     left;

    for (unsigned i = 0; i < job->num_sides; i++) {
        work_t work = side_work(job->sides[i], &job->work);

        bytes +=
            (double)buffers_arena_size(&work, side_is_scattered(job->sides[i]));
    }
    bytes *= num_processes * (job->work.both ? 2.0 : 1.0);
    if (work_is_on_gpu(&job->work) ||
        (meminfo_get("MemAvailable", &left) != 0) ||
        (bytes <= MEMORY_SHARE * (double)left)) {
        return 0;
    }
    return tool_error(
        "the buffers of all sides need %.1f GiB, but %.1f GiB of memory are "
        "available: lower -s, -n or -O, or name fewer sides with --sides",
        bytes / gib, (double)left / gib);
}

int stage_init(stage_t *stage, const job_t *job, control_t *control,
               bool is_sender, char *missing)
{
    int status;

    if (stage_check_memory(job, 1) != 0) {
        return -1;
    }
    memset(stage, 0, sizeof(*stage));
    stage->control   = control;
    stage->num_sides = job->num_sides;
    status = memory_init(&stage->memory, job->work.devices[is_sender ? 0 : 1],
                         job->work.pageable & (is_sender ? WORK_PAGEABLE_SEND
                                                         : WORK_PAGEABLE_RECV));
    if ((status == 0) && work_is_on_gpu(&job->work)) {
        status = exchange_gpus(stage, job, is_sender);
    }
    for (unsigned i = 0; (i < job->num_sides) && (status == 0); i++) {
        status = create_ends(stage, job, i, is_sender, missing);
    }
    if (status != 0) {
        stage_cleanup(stage);
    }
    return status;
}

static void idle(void *arg)
{
    const stage_t *stage = arg;
    end_t *const  *ends  = stage->ends[stage->current];

    end_progress(ends[0], ends[1]);
}

end_t *stage_enter(stage_t *stage, unsigned side)
{
    stage->current           = side;
    stage->control->idle     = idle;
    stage->control->idle_arg = stage;
    return stage->ends[side][0];
}

void stage_describe(const stage_t *stage, unsigned index, job_side_t *side)
{
    memcpy(side->missing, stage->missing[index], sizeof(side->missing));
    if (stage->pool_lanes[side->side.mode] != NULL) {
        pool_describe(stage->pool_lanes[side->side.mode], stage->ends[index][0],
                      side);
    }
}

void stage_destroy_senders(stage_t *stage)
{
    stage->control->idle = NULL;
    for (unsigned i = 0; i < stage->num_sides; i++) {
        for (int k = 0; k < 2; k++) {
            end_t **end = &stage->ends[i][k];

            if ((*end != NULL) && (*end)->is_sender) {
                destroy_end(end);
            }
        }
    }
}

void stage_cleanup(stage_t *stage)
{
    stage->control->idle = NULL;
    for (unsigned i = 0; i < stage->num_sides; i++) {
        destroy_end(&stage->ends[i][1]);
        destroy_end(&stage->ends[i][0]);
    }
    for (unsigned mode = 0; mode < MODE_LAST; mode++) {
        raw_lane_destroy(stage->raw_lanes[mode]);
        pool_lane_destroy(stage->pool_lanes[mode]);
    }
    memory_cleanup(&stage->memory);
    memset(stage, 0, sizeof(*stage));
}
