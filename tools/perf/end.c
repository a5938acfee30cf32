#include "perf/end.h"

#include <string.h>

void end_init(end_t *end, const end_ops_t *ops, side_t side, const work_t *work,
              bool is_sender)
{
    memset(end, 0, sizeof(*end));
    end->ops       = ops;
    end->side      = side;
    end->work      = *work;
    end->is_sender = is_sender;
    for (unsigned slot = 0; slot < work->outstanding; slot++) {
        end->slots[slot].end = end;
    }
}
