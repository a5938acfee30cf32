#include "perf/stage.h"
#include "perf/raw.h"

#include <string.h>

static int create_end(stage_t *stage, const job_t *job, unsigned index,
                      bool is_sender)
{
    side_t side = job->sides[index];

    if ((stage->lanes[side.mode] == NULL) &&
        (lane_create(side.mode, stage->control, &stage->lanes[side.mode]) !=
         0)) {
        return -1;
    }
    return raw_create(stage->lanes[side.mode], side, &job->work, is_sender,
                      &stage->ends[index]);
}

int stage_init(stage_t *stage, const job_t *job, control_t *control,
               bool is_sender)
{
    memset(stage, 0, sizeof(*stage));
    stage->control   = control;
    stage->num_sides = job->num_sides;
    for (unsigned i = 0; i < job->num_sides; i++) {
        if (create_end(stage, job, i, is_sender) != 0) {
            stage_cleanup(stage);
            return -1;
        }
    }
    return 0;
}

static void idle(void *arg)
{
    end_t *end = arg;

    end->ops->progress(end);
}

end_t *stage_enter(stage_t *stage, unsigned side)
{
    stage->active            = stage->ends[side];
    stage->control->idle     = idle;
    stage->control->idle_arg = stage->active;
    return stage->active;
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
    }
    memset(stage, 0, sizeof(*stage));
}
