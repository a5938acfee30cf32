#include "replay/play.h"
#include "common/clock.h"
#include "replay/error.h"
#include "replay/marks.h"
#include "replay/player.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The players of a round; the first one has the events that are not timed. */
typedef struct band {
    stage_t           stage;
    player_t         *players;
    size_t          **orders; /* of each player; NULL where there is one only */
    unsigned          num;
    pthread_barrier_t barrier;
} band_t;

typedef struct seat {
    band_t   *band;
    player_t *player;
} seat_t;

/* Which events each thread has. */
static int deal(band_t *band, const trace_t *trace)
{
    size_t *counts = calloc(band->num, sizeof(*counts));
    int     code   = counts == NULL ? -1 : 0;

    for (size_t i = trace->first_timed; (code == 0) && (i < trace->num_events);
         i++) {
        counts[trace->events[i].thread]++;
    }
    for (unsigned k = 0; (code == 0) && (k < band->num); k++) {
        band->orders[k] = malloc((counts[k] + 1) * sizeof(size_t));
        code            = band->orders[k] == NULL ? -1 : 0;
    }
    for (size_t i = trace->first_timed; (code == 0) && (i < trace->num_events);
         i++) {
        player_t *player = &band->players[trace->events[i].thread];

        band->orders[trace->events[i].thread][player->end++] = i;
    }
    for (unsigned k = 0; (code == 0) && (k < band->num); k++) {
        band->players[k].order = band->orders[k];
    }
    free(counts);
    return code == 0 ? 0 : replay_error("out of memory");
}

static int make_room_for_times(band_t *band)
{
    for (unsigned k = 0; k < band->num; k++) {
        player_t *player = &band->players[k];
        size_t    num    = player->end - player->begin;

        if ((times_init(&player->allocs, num) != 0) ||
            (times_init(&player->frees, num) != 0)) {
            return -1;
        }
    }
    return 0;
}

static int band_init(band_t *band, const play_t *play, play_mode_t mode,
                     curve_t *curve)
{
    const trace_t *trace = play->trace;

    memset(band, 0, sizeof(*band));
    band->num =
        play->has_threads && (mode != PLAY_SAMPLED) ? trace->num_threads : 1;
    band->stage = (stage_t){.play = play, .mode = mode, .curve = curve};
    band->stage.addresses = calloc(trace->num_allocations, sizeof(void *));
    band->players         = calloc(band->num, sizeof(*band->players));
    band->orders          = calloc(band->num, sizeof(*band->orders));
    if ((band->stage.addresses == NULL) || (band->players == NULL) ||
        (band->orders == NULL)) {
        return replay_error("out of memory");
    }
    for (unsigned k = 0; k < band->num; k++) {
        band->players[k].stage = &band->stage;
    }
    if (band->num > 1) {
        if (deal(band, trace) != 0) {
            return -1;
        }
    } else {
        band->players[0].begin = trace->first_timed;
        band->players[0].end   = trace->num_events;
    }
    return mode == PLAY_TIMED ? make_room_for_times(band) : 0;
}

static void band_cleanup(band_t *band)
{
    for (unsigned k = 0; k < band->num; k++) {
        if (band->orders != NULL) {
            free(band->orders[k]);
        }
        if (band->players != NULL) {
            times_cleanup(&band->players[k].allocs);
            times_cleanup(&band->players[k].frees);
        }
    }
    free(band->orders);
    free(band->players);
    free(band->stage.addresses);
}

/* What comes before the first timed event, in the order of the trace. */
static int prepare(band_t *band)
{
    play_mode_t mode   = band->stage.mode;
    player_t    player = {
           .stage = &band->stage,
           .end   = band->stage.play->trace->first_timed,
    };

    player_run(&player, mode == PLAY_TIMED ? PLAY_PLAIN : mode);
    band->players[0].num_failures = player.num_failures;
    return player.code;
}

static void *run_player(void *arg)
{
    seat_t   *seat   = arg;
    player_t *player = seat->player;
    stage_t  *stage  = player->stage;

    if (device_enter(stage->play->device) != 0) {
        player->code = -1;
        __atomic_store_n(&stage->is_over, true, __ATOMIC_RELAXED);
    }
    pthread_barrier_wait(&seat->band->barrier);
    player->start_ns = clock_now();
    if (player->code == 0) {
        player_run(player, stage->mode);
    }
    player->end_ns = clock_now();
    return NULL;
}

/* From when the first began until the last had ended. */
static uint64_t span_of(const band_t *band)
{
    uint64_t start = UINT64_MAX, end = 0;

    for (unsigned k = 0; k < band->num; k++) {
        const player_t *player = &band->players[k];

        start = player->start_ns < start ? player->start_ns : start;
        end   = player->end_ns > end ? player->end_ns : end;
    }
    return end - start;
}

/* All at once, from a meeting at the barrier on. */
static int run_threads(band_t *band, uint64_t *ns_p)
{
    pthread_t *threads = calloc(band->num, sizeof(*threads));
    seat_t    *seats   = calloc(band->num, sizeof(*seats));

    if ((threads == NULL) || (seats == NULL)) {
        free(threads);
        free(seats);
        return replay_error("out of memory");
    }
    pthread_barrier_init(&band->barrier, NULL, band->num);
    for (unsigned k = 0; k < band->num; k++) {
        seats[k] = (seat_t){band, &band->players[k]};
        if (pthread_create(&threads[k], NULL, run_player, &seats[k]) != 0) {
            /* Those that are there wait for ever. */
            replay_error("the system gives no %u threads", band->num);
            exit(1);
        }
    }
    for (unsigned k = 0; k < band->num; k++) {
        pthread_join(threads[k], NULL);
    }
    *ns_p = span_of(band);
    pthread_barrier_destroy(&band->barrier);
    free(threads);
    free(seats);
    return 0;
}

static int run(band_t *band, uint64_t *ns_p)
{
    uint64_t start;

    if (band->num > 1) {
        return run_threads(band, ns_p);
    }
    start = clock_now();
    player_run(&band->players[0], band->stage.mode);
    *ns_p = clock_now() - start;
    return 0;
}

static int free_one(const band_t *band, size_t allocation, void *address)
{
    const play_t *play   = band->stage.play;
    allocator_t  *to     = play->allocator;
    void         *stream = play->device->streams[0];

    if ((band->stage.mode == PLAY_MARKED) &&
        (marks_check(play->device, address, play->trace->sizes[allocation],
                     player_mark(allocation), stream) != 0)) {
        return -1;
    }
    return to->kind->free(to, address, play->trace->sizes[allocation],
                          stream) == ALLOCATOR_OK
               ? 0
               : -1;
}

static int free_left(const band_t *band)
{
    const trace_t *trace = band->stage.play->trace;

    for (size_t i = 0; i < trace->num_allocations; i++) {
        void *address = band->stage.addresses[i];

        if ((address != NULL) && (address != &player_failed) &&
            (free_one(band, i, address) != 0)) {
            return -1;
        }
    }
    return device_settle(band->stage.play->device);
}

static int collect(const band_t *band, play_mode_t mode,
                   play_result_t *result_p)
{
    size_t num_allocs = 0, num_frees = 0;
    int    code = 0;

    result_p->num_failures = 0;
    for (unsigned k = 0; k < band->num; k++) {
        const player_t *player = &band->players[k];

        result_p->num_failures += player->num_failures;
        num_allocs += player->allocs.num;
        num_frees += player->frees.num;
        code = player->code != 0 ? -1 : code;
    }
    if ((mode != PLAY_TIMED) || (code != 0)) {
        return code;
    }
    if ((times_init(&result_p->allocs, num_allocs) != 0) ||
        (times_init(&result_p->frees, num_frees) != 0)) {
        return -1;
    }
    for (unsigned k = 0; k < band->num; k++) {
        times_append(&result_p->allocs, &band->players[k].allocs);
        times_append(&result_p->frees, &band->players[k].frees);
    }
    return 0;
}

int play_round(const play_t *play, play_mode_t mode, curve_t *curve,
               play_result_t *result_p)
{
    band_t band;
    int    code;

    code = band_init(&band, play, mode, curve);
    if (code == 0) {
        code = prepare(&band);
        if (code == 0) {
            code = run(&band, &result_p->ns);
        }
        if (code == 0) {
            code = collect(&band, mode, result_p);
        } else {
            result_p->num_failures = band.players[0].num_failures;
        }
        /* That there is not enough memory is an answer, not an error. */
        if ((mode == PLAY_STRICT) && (result_p->num_failures > 0)) {
            code = 0;
        }
        if (code == 0) {
            code = free_left(&band);
        }
    }
    band_cleanup(&band);
    return code;
}
