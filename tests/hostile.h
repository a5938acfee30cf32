/*
 * A peer that breaks the protocol: pool b of a pair, whose messages the test
 * writes. Pool a is the victim, which only uses the library.
 */
#ifndef TESTS_HOSTILE_H
#define TESTS_HOSTILE_H

#include "core/request.h"
#include "pair.h"

#define HOSTILE_SIZE 300000u

typedef struct hostile {
    pair_t             pair;
    ucxpool_channel_t *victim;  /* a's channel, read-only */
    ucxpool_channel_t *channel; /* b's; the test writes its ring */
    ucxpool_request_t *recv;    /* a's, of HOSTILE_SIZE bytes, tag 1 */
    ucxpool_request_t *send;    /* a's, with tag 2 */
    uint8_t            target[HOSTILE_SIZE];
    uint8_t            source[HOSTILE_SIZE];
} hostile_t;

/* A pair on the `map` wire, with a send and a receive of the victim in
 * flight. */
void hostile_init(hostile_t *hostile, const char *settings);
void hostile_cleanup(hostile_t *hostile);

/* Post the victim's send and receive. */
void hostile_post(hostile_t *hostile);

/* Progress the victim until it has read everything and is idle. */
void hostile_let_read(hostile_t *hostile);

/* Write one message of a type; fills in the header. If the ring is full,
 * progresses the victim. */
void hostile_say(hostile_t *hostile, proto_type_t type, proto_fixed_t *fixed,
                 const void *data, size_t data_size);

/* Write a word at a position of the ring, counted from its beginning. */
void hostile_write_word(hostile_t *hostile, uint64_t place, uint64_t word);

/* A descriptor of one segment that the victim's receive matches. */
proto_desc_t hostile_desc(uint64_t message, uint64_t sequence);

/* Number of the victim's receive that has matched a message, or of its send. */
uint64_t hostile_receive(const hostile_t *hostile, uint64_t message);
uint64_t hostile_send(const hostile_t *hostile);

/* Has the victim's channel ended? Releases the requests of the victim's
 * caller. */
bool hostile_is_over(hostile_t *hostile);

/* Is the victim unharmed: all requests ended, all blocks free? */
void hostile_check(hostile_t *hostile);

#endif
