/*
 * A peer that violates the protocol: pool b of a pair. The test writes the
 * messages of pool b. Pool a is the victim, which only uses the library.
 */
#ifndef TESTS_HOSTILE_H
#define TESTS_HOSTILE_H

#include "core/request.h"
#include "pair.h"

#define HOSTILE_SIZE 300000u

typedef struct hostile {
    pair_t             pair;
    ucxpool_channel_t *victim;  /* a's channel, read-only */
    ucxpool_channel_t *channel; /* b's channel; the test writes its ring */
    ucxpool_request_t *recv;    /* a's receive of HOSTILE_SIZE bytes, with tag
                                   1 */
    ucxpool_request_t *send;    /* a's send, with tag 2 */
    uint8_t            target[HOSTILE_SIZE];
    uint8_t            source[HOSTILE_SIZE];
    int                row; /* of the attack's table */
} hostile_t;

extern hostile_t hostile;

/* A pair on the `map` wire, with a send and a receive of the victim in
 * flight. */
void hostile_init(const char *settings);
void hostile_cleanup(void);

/* Post the victim's send and receive. */
void hostile_post(void);

/* Progress the victim until it has read all messages and is idle. */
void hostile_let_peer_read(void);

/* Write one message of a type, and fill in its header. If the ring is full,
 * progresses the victim. */
void hostile_post_message(proto_type_t type, proto_fixed_t *fixed,
                          const void *data, size_t data_size);

/* Write a word at a position of the ring, counted from its beginning. */
void hostile_write_word(uint64_t place, uint64_t word);

/* Returns a descriptor of a message of one segment, which the victim's receive
 * matches. */
proto_desc_t hostile_desc(uint64_t message, uint64_t sequence);

/* Return the number of the victim's receive that has matched a message, and the
 * number of the victim's send. */
uint64_t hostile_receive(uint64_t message);
uint64_t hostile_send(void);

/* Returns true if the victim's channel has ended. Also releases the requests of
 * the victim's caller. */
bool hostile_is_over(void);

/* Require that the victim is unharmed: all requests have ended, and all blocks
 * are free. */
void hostile_check(void);

#define NUM_ROWS(_rows) ((int)(sizeof(_rows) / sizeof((_rows)[0])))

/* A test of messages that are rejected, or ignored: a function, one for each
 * row of a table, or a list of calls. The file that uses these macros has the
 * functions check_rejected() and check_ignored(), which call the attack. */
#define ATTACK(_check, _name, _num) \
    static void _name(void); \
    TEST_EACH(_name, _num) \
    { \
        _check(_name, _i); \
    } \
    static void _name(void)
#define REJECTED(_name)            ATTACK(check_rejected, _name, 1)
#define REJECTED_EACH(_name, _num) ATTACK(check_rejected, _name, _num)
#define IGNORED(_name)             ATTACK(check_ignored, _name, 1)
#define REJECTED_CALLS(_name, ...) \
    REJECTED(_name) \
    { \
        (__VA_ARGS__); \
    } \
    struct test
#define IGNORED_CALLS(_name, ...) \
    IGNORED(_name) \
    { \
        (__VA_ARGS__); \
    } \
    struct test

#endif
