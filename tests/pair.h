/*
 * Two connected pools in one process. The test progresses them, so that the
 * order of events does not depend on a scheduler.
 */
#ifndef TESTS_PAIR_H
#define TESTS_PAIR_H

#include "core/stats.h"

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

/* Try to create a pool with only these settings ("KEY=value KEY=value"). params
 * has the other parameters; NULL: none. */
ucxpool_status_t pair_try_pool(const ucxpool_params_t *params,
                               const char *settings, ucxpool_t **pool_p);

/* Create a pool with these settings ("KEY=value KEY=value"). Pools are small by
 * default. */
ucxpool_t *pair_pool(const char *settings);
/* The same on a GPU. */
ucxpool_t *pair_pool_on(int device, const char *settings);

void pair_init(pair_t *pair, const char *settings_a, const char *settings_b);
/* Create the pools, and pair_keep(); then also connect them. */
void pair_pools(pair_t *pair, const char *settings_a, const char *settings_b);
void pair_begin(pair_t *pair, const char *settings_a, const char *settings_b);
/* The same as pair_init() if pool a exists; the same if both pools exist. */
void pair_join(pair_t *pair, const char *settings_b);
void pair_connect(pair_t *pair);
/* Create a channel from one pool to another, by its address. */
ucxpool_channel_t *pair_meet(ucxpool_t *from, ucxpool_t *to);
void               pair_cleanup(pair_t *pair);
/* Call pair_cleanup() at the end of the test, unless the test calls it. The
 * pair must not be a local variable. For one pair at a time. */
void pair_keep(pair_t *pair);
/* Destroy the window after waiting for importers as long as a loaded machine
 * may take, even if the pool's CLOSE_TIMEOUT is short. */
void pair_destroy_window(ucxpool_window_t *window);

/* Listen, and connect to a listener by one of the host's addresses. */
ucxpool_listener_t *pair_listen(ucxpool_t *pool, const char *where);
ucxpool_channel_t  *pair_call(ucxpool_t *pool, const char *host, uint16_t port);
/* Connect b to a's listener; accept the channel; or do both and wait until it
 * is open. */
void pair_call_a(pair_t *pair, const ucxpool_listener_t *listener,
                 const char *host);
void pair_accept(pair_t *pair, ucxpool_listener_t *listener);
void pair_meet_at(pair_t *pair, ucxpool_listener_t *listener, const char *host);

ucxpool_channel_attr_t  pair_attr(const ucxpool_channel_t *channel);
ucxpool_channel_state_t pair_state(const ucxpool_channel_t *channel);
bool                    pair_is_open(const ucxpool_channel_t *channel);
core_stats_t            pair_stats(ucxpool_t *pool);
/* The bytes that the pool has sent in any way. */
uint64_t pair_sent_bytes(ucxpool_t *pool);

/* Call progress once for each pool. */
void pair_progress(pair_t *pair);

/* Progress both pools until the condition holds. Fails the test if this takes
 * more than ten seconds times CK_TIMEOUT_MULTIPLIER. */
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

/* Return that time in nanoseconds, and a deadline at that time from now.
 * pair_is_late() also yields the CPU. */
uint64_t pair_patience(void);
uint64_t pair_deadline(void);
bool     pair_is_late(uint64_t deadline);

/* Arm the pool, as an event loop does after it has handled all events. */
void pair_arm(ucxpool_t *pool);

/* Returns true if the pool's event descriptor is readable. */
bool pair_is_readable(ucxpool_t *pool);

ucxpool_request_attr_t pair_request_attr(const ucxpool_request_t *request);

/* Returns true if the request has ended. */
bool pair_ended(const ucxpool_request_t *request);

/* Returns the status of the request. Fails the test if an error has no detail,
 * or if a success has a detail. */
ucxpool_status_t pair_end_of(const ucxpool_request_t *request);

/* Let the deadline of a request pass. For tests that expect another event
 * first: a busy machine may stop the process for seconds. */
void pair_expire(ucxpool_request_t *request);

/* Progress until the request has ended, free it, and return its status. */
ucxpool_status_t pair_finish(pair_t *pair, ucxpool_request_t *request);
/* The same, and require this error with this detail. */
void pair_finish_error(pair_t *pair, ucxpool_request_t *request,
                       ucxpool_status_t error, const char *detail);
/* The same for two requests, which must succeed. */
void pair_finish_both(pair_t *pair, ucxpool_request_t *one,
                      ucxpool_request_t *other);

/* Send bytes, or receive the next message of the channel with this tag. */
ucxpool_request_t *pair_send(ucxpool_channel_t *channel, const void *bytes,
                             size_t length, uint64_t tag);
ucxpool_request_t *pair_recv(ucxpool_t *pool, ucxpool_channel_t *channel,
                             void *bytes, size_t length, uint64_t tag);

/* Progress until pool b can probe a message with this tag. */
ucxpool_message_t *pair_probe(pair_t *pair, uint64_t tag);

/* Export a window for this access, and import it. The import may still be in
 * progress. */
ucxpool_remote_window_t *pair_import(ucxpool_channel_t *channel,
                                     ucxpool_window_t *window, unsigned access);
#define PAIR_READ_AND_WRITE (UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE)

/* Read or write these bytes of the window. */
ucxpool_request_t *pair_access(ucxpool_remote_window_t *remote, bool is_write,
                               uint64_t offset, void *bytes, size_t length);

ucxpool_window_attr_t pair_window_attr(const ucxpool_window_t *window);
ucxpool_remote_window_attr_t
pair_remote_attr(const ucxpool_remote_window_t *of);

/* Send a message of this many random bytes from a to b. These bytes must
 * arrive, and no more. */
void pair_exchange(pair_t *pair, size_t length);

/* Send a message from the pool to another pool, which is destroyed. */
void pair_send_from(ucxpool_t *pool);

/* Returns true if the channel uses the `map` wire, which is never the case
 * under valgrind. */
bool pair_is_mapped(const pair_t *pair);

/* Returns true if pidfd_open() works. Valgrind does not support it. */
bool pair_has_pidfd(void);

/* Fill memory with new random bytes; with those of a seed; with those that a
 * child or its parent sends in a round, known to both; or with bytes that these
 * never contain. */
void pair_fill(void *bytes, size_t length);
void pair_fill_with(void *bytes, size_t length, unsigned seed);
void pair_fill_of(void *bytes, size_t length, bool childs, unsigned round);
void pair_poison(void *bytes, size_t length);
/* Returns true if all these bytes are equal to `byte`. */
bool pair_is_all(const void *bytes, size_t length, uint8_t byte);

/* Use two pools once, connected over `map`, for TEST_SETTINGS(.before_fork).
 * Under valgrind, a process spends most of its time translating code, and a
 * child inherits the translations. UCX connects nothing here: UCX before 1.14
 * could keep its worker, and the children could then not use UCX
 * (docs/known-issues.md). Does nothing if valgrind does not run the program, or
 * if the tests do not fork. */
void pair_warm_up(void);

/* Returns true if no block of the pool is held or quarantined. */
bool pair_is_whole(ucxpool_t *pool);
/* The same, except that the caller may hold blocks, also as buffers. */
bool pair_is_settled(ucxpool_t *pool);

/* Progress until pair_is_whole() returns true for both pools. */
void pair_check_blocks(pair_t *pair);

#endif
