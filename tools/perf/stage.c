#include "perf/stage.h"
#include "perf/raw.h"

#include <string.h>

/* All that the sides of one mode want of their pool, at the end that wants
 * more: both ends have pools of one size. */
static size_t comm_size(const job_t *job, uint32_t mode)
{
    size_t sender   = 0;
    size_t receiver = 0;

    for (unsigned i = 0; i < job->num_sides; i++) {
        if (job->sides[i].mode == mode) {
            sender   += pool_end_comm_size(job->sides[i], &job->work, true);
            receiver += pool_end_comm_size(job->sides[i], &job->work, false);
        }
    }
    return sender > receiver ? sender : receiver;
}

static int create_pool_end(stage_t *stage, const job_t *job, unsigned index,
                           bool is_sender, char *missing)
{
    side_t        side = job->sides[index];
    pool_lane_t **lane = &stage->pool_lanes[side.mode];

    if ((*lane == NULL) &&
        (pool_lane_create(side.mode, comm_size(job, side.mode), stage->control,
                          missing, lane) != 0)) {
        return -1;
    }
    return pool_end_create(*lane, side, &job->work, is_sender,
                           &stage->ends[index]);
}

static int create_raw_end(stage_t *stage, const job_t *job, unsigned index,
                          bool is_sender)
{
    side_t   side = job->sides[index];
    lane_t **lane = &stage->lanes[side.mode];

    if ((*lane == NULL) && (lane_create(side.mode, stage->control, lane) !=
                            0)) {
        return -1;
    }
    return raw_create(*lane, side, &job->work, is_sender, &stage->ends[index]);
}

int stage_init(stage_t *stage, const job_t *job, control_t *control,
               bool is_sender, char *missing)
{
    int status = 0;

    memset(stage, 0, sizeof(*stage));
    stage->control   = control;
    stage->num_sides = job->num_sides;
    for (unsigned i = 0; (i < job->num_sides) && (status == 0); i++) {
        status = side_is_pool(job->sides[i])
                     ? create_pool_end(stage, job, i, is_sender, missing)
                     : create_raw_end(stage, job, i, is_sender);
    }
    if (status != 0) {
        stage_cleanup(stage);
    }
    return status;
}

static void idle(void *arg)
{
    end_t *end = arg;

    end->ops->progress(end);
}

end_t *stage_enter(stage_t *stage, unsigned side)
{
    end_t *end = stage->ends[side];

    stage->control->idle     = idle;
    stage->control->idle_arg = end;
    return end;
}

void stage_mark(stage_t *stage)
{
    for (unsigned mode = 0; mode < MODE_LAST; mode++) {
        if (stage->pool_lanes[mode] != NULL) {
            pool_lane_mark(stage->pool_lanes[mode]);
        }
    }
}

void stage_describe(const stage_t *stage, job_side_t *side)
{
    if (stage->pool_lanes[side->side.mode] != NULL) {
        pool_lane_describe(stage->pool_lanes[side->side.mode], side);
    }
}

void stage_cleanup(stage_t *stage)
{
    stage->control->idle = NULL;
    for (unsigned i = 0; i < stage->num_sides; i++) {
        if (stage->ends[i] != NULL) {
            stage->ends[i]->ops->destroy(stage->ends[i]);
        }
    }
    for (unsigned mode = 0; mode < MODE_LAST; mode++) {
        lane_destroy(stage->lanes[mode]);
        pool_lane_destroy(stage->pool_lanes[mode]);
    }
    memset(stage, 0, sizeof(*stage));
}
