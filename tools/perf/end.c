#include "perf/end.h"

#include <string.h>

void end_init(end_t *end, const end_ops_t *ops, const end_params_t *params)
{
    memset(end, 0, sizeof(*end));
    end->ops       = ops;
    end->side      = params->side;
    end->work      = params->work;
    end->is_sender = params->is_sender;
    for (unsigned slot = 0; slot < end->work.outstanding; slot++) {
        end->slots[slot].end = end;
    }
}

int end_init_buffers(end_t *end, const end_params_t *params, void *arena)
{
    buffers_params_t buffers = {
        .memory       = params->memory,
        .work         = params->work,
        .is_sender    = params->is_sender,
        .is_scattered = side_is_scattered(params->side),
        .arena        = arena,
    };

    return buffers_init(&end->buffers, &buffers);
}
