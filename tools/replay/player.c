#include "replay/player.h"
#include "common/clock.h"
#include "replay/marks.h"

#include <sched.h>

char player_failed;

static int give_up(player_t *player)
{
    __atomic_store_n(&player->stage->is_over, true, __ATOMIC_RELAXED);
    player->code = -1;
    return -1;
}

/* The memory of an allocation, of another thread perhaps, which comes to it in
 * time; NULL: nobody will. */
static void *wait_for(const player_t *player, const trace_event_t *event)
{
    void **address_p = &player->stage->addresses[event->allocation];
    void  *address;

    while ((address = __atomic_load_n(address_p, __ATOMIC_ACQUIRE)) == NULL) {
        if (__atomic_load_n(&player->stage->is_over, __ATOMIC_RELAXED)) {
            return NULL;
        }
        sched_yield();
    }
    return address;
}

static inline int play_alloc(player_t *player, const trace_event_t *event,
                             play_mode_t mode)
{
    const play_t      *play    = player->stage->play;
    allocator_t       *to      = play->allocator;
    void              *stream  = play->device->streams[event->stream];
    uint64_t           size    = play->trace->sizes[event->allocation];
    void              *address = &player_failed;
    allocator_answer_t answer;
    uint64_t           start;

    start  = mode == PLAY_TIMED ? clock_now() : 0;
    answer = to->kind->alloc(to, size, stream, &address);
    if (mode == PLAY_TIMED) {
        times_add(&player->allocs, clock_now() - start);
    }
    if (answer == ALLOCATOR_FULL) {
        player->num_failures++;
        address = &player_failed;
    }
    if ((answer == ALLOCATOR_BROKEN) ||
        ((mode == PLAY_STRICT) && (answer == ALLOCATOR_FULL))) {
        return give_up(player);
    }
    if ((mode == PLAY_MARKED) && (answer == ALLOCATOR_OK) &&
        (marks_write(play->device, address, size,
                     player_mark(event->allocation), stream) != 0)) {
        return give_up(player);
    }
    if ((mode == PLAY_SAMPLED) && (answer == ALLOCATOR_OK)) {
        player->stage->live += size;
    }
    __atomic_store_n(&player->stage->addresses[event->allocation], address,
                     __ATOMIC_RELEASE);
    return 0;
}

static inline int play_free(player_t *player, const trace_event_t *event,
                            play_mode_t mode)
{
    const play_t *play    = player->stage->play;
    allocator_t  *to      = play->allocator;
    void         *stream  = play->device->streams[event->stream];
    uint64_t      size    = play->trace->sizes[event->allocation];
    void         *address = wait_for(player, event);
    uint64_t      start;

    if (address == NULL) {
        return give_up(player);
    }
    player->stage->addresses[event->allocation] = NULL;
    if (address == &player_failed) {
        return 0;
    }
    if ((mode == PLAY_MARKED) &&
        (marks_check(play->device, address, size,
                     player_mark(event->allocation), stream) != 0)) {
        return give_up(player);
    }
    if (mode == PLAY_SAMPLED) {
        player->stage->live -= size;
    }
    start = mode == PLAY_TIMED ? clock_now() : 0;
    if (to->kind->free(to, address, size, stream) != ALLOCATOR_OK) {
        return give_up(player);
    }
    if (mode == PLAY_TIMED) {
        times_add(&player->frees, clock_now() - start);
    }
    return 0;
}

static void sample(const player_t *player, size_t event)
{
    const stage_t *stage = player->stage;
    const trace_t *trace = stage->play->trace;
    allocator_t   *from  = stage->play->allocator;

    if ((event % curve_step(trace->num_events) == 0) ||
        (event == trace->peak_event) || (event + 1 == trace->num_events)) {
        curve_add(stage->curve, (curve_point_t){event, stage->live,
                                                from->kind->reserved(from)});
    }
}

static inline __attribute__((always_inline)) int play_events(player_t   *player,
                                                             play_mode_t mode)
{
    const trace_event_t *events = player->stage->play->trace->events;

    for (size_t i = player->begin; i < player->end; i++) {
        size_t index = player->order == NULL ? i : player->order[i];
        const trace_event_t *event = &events[index];

        if ((event->is_free ? play_free(player, event, mode)
                            : play_alloc(player, event, mode)) != 0) {
            return -1;
        }
        if (mode == PLAY_SAMPLED) {
            sample(player, index);
        }
    }
    return 0;
}

/* The loop is made for each mode, so that one does not cost another time. */
int player_run(player_t *player, play_mode_t mode)
{
    switch (mode) {
    case PLAY_TIMED:
        return play_events(player, PLAY_TIMED);
    case PLAY_SAMPLED:
        return play_events(player, PLAY_SAMPLED);
    case PLAY_MARKED:
        return play_events(player, PLAY_MARKED);
    case PLAY_STRICT:
        return play_events(player, PLAY_STRICT);
    default:
        return play_events(player, PLAY_PLAIN);
    }
}
