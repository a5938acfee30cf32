/*
 * Two connected pools in one process. The test progresses them, so that the
 * order of events does not depend on a scheduler.
 */
#ifndef TESTS_PAIR_H
#define TESTS_PAIR_H

#include <ucxpool/ucxpool.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct pair {
    ucxpool_t         *a;
    ucxpool_t         *b;
    ucxpool_channel_t *to_b; /* a's channel */
    ucxpool_channel_t *to_a; /* b's channel */
} pair_t;

/* A pool with only these settings ("KEY=value KEY=value"), if it can be
 * created. params has the other parameters; NULL: none. */
ucxpool_status_t pair_try_pool(const ucxpool_params_t *params,
                               const char *settings, ucxpool_t **pool_p);

/* "KEY=value KEY=value"; the pools are small by default. */
ucxpool_t *pair_pool(const char *settings);
/* On a GPU. */
ucxpool_t *pair_pool_on(int device, const char *settings);

void pair_init(pair_t *pair, const char *settings_a, const char *settings_b);
/* The same with an existing pool a; with both pools existing. */
void pair_join(pair_t *pair, const char *settings_b);
void pair_connect(pair_t *pair);
/* Create a channel from one pool to another, by its address. */
ucxpool_channel_t *pair_meet(ucxpool_t *from, ucxpool_t *to);
void               pair_cleanup(pair_t *pair);
/* Destroys the pool after waiting for importers as long as a loaded machine may
 * take, even if the pool's CLOSE_TIMEOUT is short. */
void pair_destroy_window(ucxpool_window_t *window);

/* Listen, and connect to a listener by one of the host's addresses. */
ucxpool_listener_t *pair_listen(ucxpool_t *pool, const char *where);
ucxpool_channel_t  *pair_call(ucxpool_t *pool, const char *host, uint16_t port);

ucxpool_channel_state_t pair_state(const ucxpool_channel_t *channel);
bool                    pair_is_open(const ucxpool_channel_t *channel);

/* One progress call for each. */
void pair_progress(pair_t *pair);

/* Progress until the condition holds; fails the test if it does not within ten
 * seconds, times CK_TIMEOUT_MULTIPLIER. */
#define pair_until(_pair, _condition) \
    do { \
        uint64_t until_ = pair_deadline(); \
        while (!(_condition)) { \
            pair_progress(_pair); \
            if (pair_is_late(until_)) { \
                ck_abort_msg("never: %s", #_condition); \
            } \
        } \
    } while (0)

/* That time in nanoseconds, and a deadline from now. */
uint64_t pair_patience(void);
uint64_t pair_deadline(void);
bool     pair_is_late(uint64_t deadline);

/* Arm the pool, like a loop that has handled all events. */
void pair_arm(ucxpool_t *pool);

/* Is the pool's event descriptor readable? */
bool pair_is_readable(ucxpool_t *pool);

/* Has the request ended? */
bool pair_ended(const ucxpool_request_t *request);

/* The status of the request. Fails the test if an error has no detail, or if
 * success has one. */
ucxpool_status_t pair_end_of(const ucxpool_request_t *request);

/* Progress until the request has ended, free it, and return its status. */
ucxpool_status_t pair_finish(pair_t *pair, ucxpool_request_t *request);

/* Send a message of this many random bytes from a to b; all must arrive. */
void pair_exchange(pair_t *pair, size_t length);

/* Is the channel on the `map` wire? Under valgrind it never is. */
bool pair_is_mapped(const pair_t *pair);

/* Does the kernel support pidfd_open()? Valgrind does not. */
bool pair_has_pidfd(void);

/* New random bytes; and initial bytes that no source contains. */
void pair_fill(void *bytes, size_t length);
void pair_poison(void *bytes, size_t length);

/* Is no block held or quarantined? */
bool pair_is_whole(ucxpool_t *pool);

/* Progress until this holds for both pools. */
void pair_check_blocks(pair_t *pair);

#endif
