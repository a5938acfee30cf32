/*
 * One thread that plays its part of a trace; for play.c.
 */
#ifndef REPLAY_PLAYER_H
#define REPLAY_PLAYER_H

#include "replay/play.h"

/* What the players of a round share. */
typedef struct stage {
    const play_t *play;
    play_mode_t   mode;
    curve_t      *curve;
    /* Of each allocation: NULL, its memory, or player_failed. */
    void   **addresses;
    uint64_t live;    /* bytes; PLAY_SAMPLED */
    bool     is_over; /* somebody gave up */
} stage_t;

/* In the place of the address of an allocation that failed. */
extern char player_failed;

typedef struct player {
    stage_t      *stage;
    const size_t *order; /* indices of its events; NULL: all from begin on */
    size_t        begin;
    size_t        end;
    times_t       allocs;
    times_t       frees;
    uint64_t      num_failures;
    uint64_t      start_ns; /* when it began and came to its end */
    uint64_t      end_ns;
    int           code;
} player_t;

/* A word that belongs to an allocation. */
static inline uint64_t player_mark(size_t allocation)
{
    return (allocation + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Play the events from begin to end. Returns player->code. */
int player_run(player_t *player, play_mode_t mode);

#endif
