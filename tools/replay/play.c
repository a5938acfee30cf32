#include <config.h>

#include "replay/measure.h"
#include "common/system.h"
#include "common/error.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

typedef struct round round_t;

/* One thread and its part of the trace. */
typedef struct player {
    round_t  *round;
    size_t   *order; /* indices of its events */
    uint64_t *ns;    /* PLAY_TIMED: of each call; NOT_CALLED */
    size_t    num_events;
    uint64_t  num_failures;
    uint64_t  start_ns;
    uint64_t  end_ns;
    int       code;
} player_t;

struct round {
    const play_t *play;
    play_mode_t   mode;
    curve_t      *curve;
    void        **addresses; /* of each allocation; NULL: not live */
    size_t       *orders;    /* of all players, concatenated */
    uint64_t     *ns;
    player_t      first; /* untimed events, in the trace's order */
    player_t     *players;
    unsigned      num_players;
    uint64_t      live;        /* bytes; PLAY_SAMPLED */
    bool          has_stopped; /* a player gave up */

    pthread_barrier_t barrier;
};

#define NOT_CALLED UINT64_MAX

/* Its address stands for an allocation that failed. */
static char failed_allocation;

/* --- marks ---------------------------------------------------------------
 *
 * Each allocation has its own mark, a word. The mark is written to the start
 * and the end of the allocation, and once in 2 MiB. This detects two
 * allocations that share memory.
 */

#define MARK_STRIDE (UINT64_C(2) << 20)

static uint64_t mark_of(size_t allocation)
{
    return (allocation + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
}

static size_t word_size(uint64_t size)
{
    return size < sizeof(uint64_t) ? (size_t)size : sizeof(uint64_t);
}

/* Find the mark after one with `length` bytes; 0: find the first. Returns the
 * length of the mark, or 0 if there are no more. */
static size_t next_mark(uint64_t size, uint64_t *offset, size_t length)
{
    uint64_t end  = *offset + length;
    uint64_t last = size - word_size(size);

    if (length == 0) {
        *offset = 0;
    } else if (end == size) {
        return 0;
    } else {
        *offset += MARK_STRIDE;
        *offset = *offset < last ? *offset : last;
        *offset = *offset > end ? *offset : end;
    }
    return word_size(size - *offset);
}

static int copy_mark(device_t *device, void *target, const void *source,
                     size_t length, void *stream)
{
    CUresult result;

    if (device->ordinal == DEVICE_HOST) {
        memcpy(target, source, length);
        return 0;
    }
    result = device->gpu.driver.cuMemcpyAsync(
        gpu_address(target), gpu_address(source), length, stream);
    if (result == CUDA_SUCCESS) {
        result = device->gpu.driver.cuStreamSynchronize(stream);
    }
    return result == CUDA_SUCCESS
               ? 0
               : device_fail(device, result, "a mark cannot be copied");
}

static int write_marks(const play_t *play, void *address, size_t allocation,
                       void *stream)
{
    uint64_t size   = play->trace->sizes[allocation];
    uint64_t word   = mark_of(allocation);
    uint64_t offset = 0;
    size_t   length = 0;

    while ((length = next_mark(size, &offset, length)) != 0) {
        if (copy_mark(play->device, (char *)address + offset, &word, length,
                      stream) != 0) {
            return -1;
        }
    }
    return 0;
}

static int check_marks(const play_t *play, void *address, size_t allocation,
                       void *stream)
{
    uint64_t size   = play->trace->sizes[allocation];
    uint64_t word   = mark_of(allocation);
    uint64_t offset = 0;
    size_t   length = 0;

    while ((length = next_mark(size, &offset, length)) != 0) {
        uint64_t found = 0;

        if (copy_mark(play->device, &found, (char *)address + offset, length,
                      stream) != 0) {
            return -1;
        }
        if (memcmp(&found, &word, length) != 0) {
            return tool_error(
                "%llu bytes of memory at %p were overwritten while they were "
                "live, %llu bytes behind their begin",
                (unsigned long long)size, address, (unsigned long long)offset);
        }
    }
    return 0;
}

/* --- a player ------------------------------------------------------------ */

static int give_up(player_t *player)
{
    __atomic_store_n(&player->round->has_stopped, true, __ATOMIC_RELAXED);
    player->code = -1;
    return -1;
}

/* Wait for the address of an allocation that another thread may not have made
 * yet. Returns NULL if the round has ended. */
static void *wait_for(const player_t *player, uint32_t allocation)
{
    void **address_p = &player->round->addresses[allocation];
    void  *address;

    while ((address = __atomic_load_n(address_p, __ATOMIC_ACQUIRE)) == NULL) {
        if (__atomic_load_n(&player->round->has_stopped, __ATOMIC_RELAXED)) {
            return NULL;
        }
        sched_yield();
    }
    return address;
}

static inline int play_alloc(player_t *player, const trace_event_t *event,
                             uint64_t *ns, play_mode_t mode)
{
    const play_t      *play    = player->round->play;
    allocator_t       *to      = play->allocator;
    void              *stream  = play->device->streams[event->stream];
    uint64_t           size    = play->trace->sizes[event->allocation];
    void              *address = NULL;
    allocator_answer_t answer;
    uint64_t           start;

    start  = mode == PLAY_TIMED ? clock_now() : 0;
    answer = to->kind->alloc(to, size, stream, &address);
    if (mode == PLAY_TIMED) {
        *ns = clock_now() - start;
    }
    if (answer == ALLOCATOR_FULL) {
        player->num_failures++;
        address = &failed_allocation;
    }
    if ((answer == ALLOCATOR_BROKEN) ||
        ((mode == PLAY_STRICT) && (answer == ALLOCATOR_FULL))) {
        return give_up(player);
    }
    if ((mode == PLAY_MARKED) && (answer == ALLOCATOR_OK) &&
        (write_marks(play, address, event->allocation, stream) != 0)) {
        return give_up(player);
    }
    if ((mode == PLAY_SAMPLED) && (answer == ALLOCATOR_OK)) {
        player->round->live += size;
    }
    __atomic_store_n(&player->round->addresses[event->allocation], address,
                     __ATOMIC_RELEASE);
    return 0;
}

static inline int play_free(player_t *player, const trace_event_t *event,
                            uint64_t *ns, play_mode_t mode)
{
    const play_t *play    = player->round->play;
    allocator_t  *to      = play->allocator;
    void         *stream  = play->device->streams[event->stream];
    uint64_t      size    = play->trace->sizes[event->allocation];
    void         *address = wait_for(player, event->allocation);
    uint64_t      start;

    if (address == NULL) {
        return give_up(player);
    }
    player->round->addresses[event->allocation] = NULL;
    if (address == &failed_allocation) {
        if (mode == PLAY_TIMED) {
            *ns = NOT_CALLED;
        }
        return 0;
    }
    if ((mode == PLAY_MARKED) &&
        (check_marks(play, address, event->allocation, stream) != 0)) {
        return give_up(player);
    }
    if (mode == PLAY_SAMPLED) {
        player->round->live -= size;
    }
    start = mode == PLAY_TIMED ? clock_now() : 0;
    if (to->kind->free(to, address, size, stream) != ALLOCATOR_OK) {
        return give_up(player);
    }
    if (mode == PLAY_TIMED) {
        *ns = clock_now() - start;
    }
    return 0;
}

static void sample(const round_t *round, size_t event)
{
    const trace_t *trace = round->play->trace;
    allocator_t   *from  = round->play->allocator;
    curve_t       *curve = round->curve;
    uint64_t       reserved;

    if (((event % (trace->num_events / (CURVE_MAX_POINTS - 4) + 1) != 0) &&
         (event != trace->peak_event) && (event + 1 != trace->num_events)) ||
        (curve->num == CURVE_MAX_POINTS)) {
        return;
    }
    reserved    = from->kind->reserved(from);
    curve->peak = reserved > curve->peak ? reserved : curve->peak;
    curve->points[curve->num].event      = event;
    curve->points[curve->num].live       = round->live;
    curve->points[curve->num++].reserved = reserved;
}

static inline __attribute__((always_inline)) int play_events(player_t   *player,
                                                             play_mode_t mode)
{
    const trace_event_t *events = player->round->play->trace->events;

    for (size_t i = 0; i < player->num_events; i++) {
        const trace_event_t *event = &events[player->order[i]];
        uint64_t            *ns    = player->ns + i;

        if ((event->is_free ? play_free(player, event, ns, mode)
                            : play_alloc(player, event, ns, mode)) != 0) {
            return -1;
        }
        if (mode == PLAY_SAMPLED) {
            sample(player->round, player->order[i]);
        }
    }
    return 0;
}

/* Run a player. The loop is compiled separately for each mode, so that no mode
 * slows down another. */
static int run_player(player_t *player, play_mode_t mode)
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

/* --- a round ------------------------------------------------------------- */

static player_t *player_of(round_t *round, size_t event)
{
    const trace_t *trace = round->play->trace;

    if (event < trace->first_timed) {
        return &round->first;
    }
    return &round->players[round->num_players == 1
                               ? 0
                               : trace->events[event].thread];
}

/* Assign each event to its player. */
static void deal(round_t *round)
{
    size_t num_events = round->play->trace->num_events;
    size_t begin;

    for (size_t i = 0; i < num_events; i++) {
        player_of(round, i)->num_events++;
    }
    begin                   = round->first.num_events;
    round->first.order      = round->orders;
    round->first.ns         = round->ns;
    round->first.num_events = 0;
    for (unsigned k = 0; k < round->num_players; k++) {
        player_t *player = &round->players[k];

        player->round = round;
        player->order = round->orders + begin;
        player->ns    = round->ns + begin;
        begin += player->num_events;
        player->num_events = 0;
    }
    for (size_t i = 0; i < num_events; i++) {
        player_t *player = player_of(round, i);

        player->order[player->num_events++] = i;
    }
}

static void round_init(round_t *round, const play_t *play, play_mode_t mode,
                       curve_t *curve)
{
    const trace_t *trace = play->trace;

    *round             = (round_t){.play = play, .mode = mode, .curve = curve};
    round->first.round = round;
    round->num_players =
        play->has_threads && (mode != PLAY_SAMPLED) ? trace->num_threads : 1;
    round->addresses = tool_calloc(trace->num_allocations, sizeof(void *));
    round->orders    = tool_calloc(trace->num_events, sizeof(*round->orders));
    round->ns        = tool_calloc(trace->num_events, sizeof(*round->ns));
    round->players   = tool_calloc(round->num_players, sizeof(*round->players));
    deal(round);
}

static void round_cleanup(round_t *round)
{
    free(round->players);
    free(round->ns);
    free(round->orders);
    free(round->addresses);
}

static void *play_in_thread(void *arg)
{
    player_t *player = arg;
    round_t  *round  = player->round;

    if (device_enter(round->play->device) != 0) {
        give_up(player);
    }
    pthread_barrier_wait(&round->barrier);
    player->start_ns = clock_now();
    if (player->code == 0) {
        run_player(player, round->mode);
    }
    player->end_ns = clock_now();
    return NULL;
}

/* Run the threads, which start together at a barrier. */
static void run_threads(round_t *round)
{
    pthread_t *threads = tool_calloc(round->num_players, sizeof(*threads));

    pthread_barrier_init(&round->barrier, NULL, round->num_players);
    for (unsigned k = 0; k < round->num_players; k++) {
        if (pthread_create(&threads[k], NULL, play_in_thread,
                           &round->players[k]) != 0) {
            /* The other threads wait at the barrier forever. */
            tool_error("the system cannot start %u threads",
                       round->num_players);
            exit(1);
        }
    }
    for (unsigned k = 0; k < round->num_players; k++) {
        pthread_join(threads[k], NULL);
    }
    pthread_barrier_destroy(&round->barrier);
    free(threads);
}

static void run_all(round_t *round)
{
    player_t *player = &round->players[0];

    /* Events before the first timed event are not timed. */
    if (run_player(&round->first,
                   round->mode == PLAY_TIMED ? PLAY_PLAIN : round->mode) != 0) {
        return;
    }
    if (round->num_players > 1) {
        run_threads(round);
        return;
    }
    player->start_ns = clock_now();
    run_player(player, round->mode);
    player->end_ns = clock_now();
}

static void collect_times(const round_t *round, const player_t *player,
                          play_result_t *result)
{
    for (size_t i = 0; i < player->num_events; i++) {
        size_t event = player->order[i];

        if (player->ns[i] != NOT_CALLED) {
            samples_add(round->play->trace->events[event].is_free
                            ? &result->frees
                            : &result->allocs,
                        (double)player->ns[i]);
        }
    }
}

/* Collect the results of the players. Returns -1 if a player gave up. */
static int collect(const round_t *round, play_result_t *result)
{
    uint64_t start = UINT64_MAX, end = 0;
    int      code = round->first.code;

    result->num_failures = round->first.num_failures;
    for (unsigned k = 0; k < round->num_players; k++) {
        const player_t *player = &round->players[k];

        result->num_failures += player->num_failures;
        start = player->start_ns < start ? player->start_ns : start;
        end   = player->end_ns > end ? player->end_ns : end;
        code  = player->code != 0 ? -1 : code;
    }
    result->ns = end - start;
    if ((round->mode != PLAY_TIMED) || (code != 0)) {
        return code;
    }
    for (unsigned k = 0; k < round->num_players; k++) {
        collect_times(round, &round->players[k], result);
    }
    return 0;
}

static int free_left(const round_t *round)
{
    const play_t *play   = round->play;
    allocator_t  *to     = play->allocator;
    void         *stream = play->device->streams[0];

    for (size_t i = 0; i < play->trace->num_allocations; i++) {
        void *address = round->addresses[i];

        if ((address == NULL) || (address == &failed_allocation)) {
            continue;
        }
        if (((round->mode == PLAY_MARKED) &&
             (check_marks(play, address, i, stream) != 0)) ||
            (to->kind->free(to, address, play->trace->sizes[i], stream) !=
             ALLOCATOR_OK)) {
            return -1;
        }
    }
    return device_settle(play->device);
}

int play_round(const play_t *play, play_mode_t mode, curve_t *curve,
               play_result_t *result_p)
{
    round_t round;
    int     code;

    round_init(&round, play, mode, curve);
    run_all(&round);
    code = collect(&round, result_p);
    /* A failed allocation is a result of PLAY_STRICT, not an error. */
    if ((mode == PLAY_STRICT) && (result_p->num_failures > 0)) {
        code = 0;
    }
    if (code == 0) {
        code = free_left(&round);
    }
    round_cleanup(&round);
    return code;
}
