/*
 * A peer that does not keep to the protocol: pool b of a pair, whose messages
 * are written by the test. Pool a is the victim, which only uses the library.
 */
#ifndef TESTS_HOSTILE_H
#define TESTS_HOSTILE_H

#include "core/request.h"
#include "pair.h"

#define HOSTILE_SIZE 300000u

typedef struct hostile {
    pair_t             pair;
    ucxpool_channel_t *victim;  /* a's channel: may be looked at, no more */
    ucxpool_channel_t *channel; /* b's: its ring is written by the test */
    ucxpool_request_t *recv;    /* a's, of HOSTILE_SIZE bytes, tag 1 */
    ucxpool_request_t *send;    /* likewise, tag 2 */
    uint8_t            target[HOSTILE_SIZE];
    uint8_t            source[HOSTILE_SIZE];
} hostile_t;

/* A pair on the `map` wire, a send and a receive of the victim under way. */
void hostile_init(hostile_t *hostile, const char *settings);
void hostile_cleanup(hostile_t *hostile);

/* Post the victim's send and receive. */
void hostile_post(hostile_t *hostile);

/* The victim's turn, until it has read all and has nothing more to do. */
void hostile_let_read(hostile_t *hostile);

/* Write one message of a type; the head is filled in. The victim reads when
 * the ring is full. */
void hostile_say(hostile_t *hostile, proto_type_t type, proto_fixed_t *fixed,
                 const void *data, size_t data_size);

/* Write a word at a place of the ring, counted since its beginning. */
void hostile_write_word(hostile_t *hostile, uint64_t place, uint64_t word);

/* A descriptor of one segment that the victim's receive takes. */
proto_desc_t hostile_desc(uint64_t message, uint64_t sequence);

/* Number of the victim's receive that has met a message, or of its send. */
uint64_t hostile_receive(const hostile_t *hostile, uint64_t message);
uint64_t hostile_send(const hostile_t *hostile);

/* Has the victim's channel ended? Releases what the victim's caller holds. */
bool hostile_is_over(hostile_t *hostile);

/* Is the victim unharmed: all requests ended, all blocks back? */
void hostile_check(hostile_t *hostile);

#endif
