/*
 * What an allocator takes before the first run: bytes, or a part of the memory
 * that is free.
 */
#ifndef REPLAY_RESERVE_H
#define REPLAY_RESERVE_H

#include "replay/device.h"

typedef struct reserve {
    uint64_t bytes;   /* 0: see percent */
    unsigned percent; /* 0: nothing */
} reserve_t;

/* 512m, 70g, or 50%. Returns 0, or -1 (nothing said) where it is neither. */
int reserve_parse(const char *text, reserve_t *reserve_p);

/* In whole pages; 0 where nothing is to be taken. Returns 0, or -1 after having
 * said why. */
int reserve_bytes(const reserve_t *reserve, device_t *device,
                  uint64_t *bytes_p);

#endif
