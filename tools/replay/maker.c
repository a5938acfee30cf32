#include "replay/maker.h"
#include "replay/error.h"

#include <stdlib.h>
#include <string.h>

void maker_init(maker_t *maker, trace_t *trace, uint64_t thread,
                uint64_t stream)
{
    int thread_number = trace_thread(trace, thread);
    int stream_number = trace_stream(trace, stream);

    memset(maker, 0, sizeof(*maker));
    maker->trace  = trace;
    maker->thread = (unsigned)thread_number;
    maker->stream = (unsigned)stream_number;
    if ((thread_number < 0) || (stream_number < 0)) {
        replay_error("too many threads or streams");
        maker->has_failed = true;
    }
}

static void make_room(maker_t *maker)
{
    size_t    room = maker->room == 0 ? 256 : 2 * maker->room;
    uint32_t *live;

    if (maker->num_live < maker->room) {
        return;
    }
    live = realloc(maker->live, room * sizeof(*live));
    if (live == NULL) {
        replay_error("out of memory for %zu live allocations", room);
        maker->has_failed = true;
        return;
    }
    maker->live = live;
    maker->room = room;
}

void maker_alloc(maker_t *maker, uint64_t size)
{
    uint32_t allocation;

    make_room(maker);
    if (maker->has_failed) {
        return;
    }
    if (trace_alloc(maker->trace, maker->thread, maker->stream, size,
                    &allocation) != 0) {
        maker->has_failed = true;
        return;
    }
    maker->live[maker->num_live++] = allocation;
    maker->live_bytes += size;
}

void maker_free(maker_t *maker, size_t index)
{
    uint32_t allocation;

    if (maker->has_failed) {
        return;
    }
    allocation         = maker->live[index];
    maker->live[index] = maker->live[--maker->num_live];
    maker->live_bytes -= maker->trace->sizes[allocation];
    if (trace_free(maker->trace, maker->thread, maker->stream, allocation) !=
        0) {
        maker->has_failed = true;
    }
}

int maker_cleanup(maker_t *maker)
{
    free(maker->live);
    return maker->has_failed ? -1 : 0;
}
