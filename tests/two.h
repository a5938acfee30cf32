/*
 * Two processes with one pool each, connected by address: the test's own
 * process and its child. For behavior that needs two processes: waking a
 * sleeping peer, and cleanup after the end of a peer.
 */
#ifndef TESTS_TWO_H
#define TESTS_TWO_H

#include <ucxpool/ucxpool.h>

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct two {
    bool               is_child;
    pid_t              child; /* in the parent */
    int                talk;  /* a socket to the other process */
    ucxpool_t         *pool;
    ucxpool_channel_t *channel;
} two_t;

/* Fork a child. Each side creates a pool with these settings, and a channel.
 * Returns in both processes when the channel is open. */
void two_init(two_t *two, const char *settings);
/* The same in two steps, for several children. They must be forked before this
 * process creates its first pool. */
void two_fork(two_t *two);
void two_connect(two_t *two, const char *settings);
/* Like two_init(), but each side first calls prepare(), which may modify the
 * process. */
void two_init_after(two_t *two, const char *settings, void (*prepare)(void));
/* The settings and the GPU of one side's pool; device -1: in host memory. */
typedef struct two_side {
    const char *settings;
    int         device;
} two_side_t;

/* The same with different pools in the parent and in the child. */
void two_init_on(two_t *two, two_side_t parents, two_side_t childs);

/* Exchange addresses of these pools with the other process, and create a
 * channel, which may not be open yet. */
ucxpool_channel_t *two_create_channel(two_t *two, ucxpool_t *pool);

/* Each side destroys its pool. The child exits, and the parent requires that it
 * succeeded. */
void two_cleanup(two_t *two);

/* Kill the child, and progress until it has ended. */
void two_kill(two_t *two);
/* Wait until all blocks of the pool are free, and check the pool. */
void two_await_blocks(two_t *two);
/* The same, and destroy the pool. The other process has been killed. */
void two_survive(two_t *two);

/* Send bytes to the other process, or wait for bytes without progress. */
void two_send(two_t *two, const void *bytes, size_t length);
void two_recv(two_t *two, void *bytes, size_t length);
/* two_say() sends a message to the other process. two_hear() progresses until a
 * message arrives. */
void two_say(two_t *two);
void two_hear(two_t *two);
/* Wait until both processes have made this call. */
void two_meet(two_t *two);

/* Wait until both processes have made this call and all blocks of both pools
 * are free. */
void two_settle(two_t *two);

/* Returns the pool's statistic with this name. */
uint64_t two_count(two_t *two, const char *name);
uint64_t two_count_of_channel(two_t *two, const char *name);
/* The operations in the histogram of this name. */
uint64_t two_count_of_histogram(two_t *two, const char *name);

/* Progress until the request has ended, release it, and return its status. */
ucxpool_status_t two_finish(two_t *two, ucxpool_request_t *request);
/* The same for several requests, which must succeed. */
void two_finish_all(two_t *two, ucxpool_request_t **requests, size_t num);
void two_progress(two_t *two, int rounds);

/* Export a window for reading and writing, and send its blob. Receive a blob
 * and import the window. */
void                     two_export(two_t *two, ucxpool_window_t *window);
ucxpool_remote_window_t *two_import(two_t *two);
/* Progress until the import has ended. */
ucxpool_remote_window_attr_t
two_import_ended(two_t *two, const ucxpool_remote_window_t *remote);

/* Returns true if a transfer that one side has canceled may end with this
 * status. The cancel may have been too late. */
bool two_is_early(ucxpool_status_t status);

/* Works in both processes: prints an error and exits if the condition does not
 * hold. */
#define two_check(_condition) \
    two_require((_condition), #_condition, __FILE__, __LINE__)

void two_require(bool holds, const char *what, const char *file, int line);

/* The same for UCXPOOL_OK. The error names the status. */
#define two_ok(_call) two_require_ok((_call), #_call, __FILE__, __LINE__)

void two_require_ok(ucxpool_status_t status, const char *what, const char *file,
                    int line);

#endif
