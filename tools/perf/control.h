/*
 * The control connection between the two processes, for commands and results.
 * It is never used while the clock is running.
 *
 * The connection is a socket between forked processes (pair.c), or a channel
 * between two hosts (remote.c). Both implement the same functions.
 */
#ifndef PERF_CONTROL_H
#define PERF_CONTROL_H

#include <stdbool.h>
#include <stddef.h>

/* Size of the longest control message. A UCX worker address has a few hundred
 * bytes, or a few thousand on a machine with many networks. */
#define CONTROL_MAX 65536u

typedef struct control {
    int (*send)(struct control *control, const void *data, size_t length);
    /* Wait for a message and copy up to `size` bytes of it. Returns 1 after a
     * message, 0 if none arrived in time, or -1 after printing an error. */
    int (*poll)(struct control *control, int timeout_ms, void *data,
                size_t size, size_t *length_p);
    /* Close the connection and release it. status: -1 if the run failed, 0
     * otherwise. Returns -1 if it failed or the other process failed. */
    int (*end)(struct control *control, int status);
    bool is_remote; /* the other process is on another host */
    /* Called while waiting, because operations of the last batch may need
     * progress by this process. */
    void (*idle)(void *arg);
    void *idle_arg;
} control_t;

int control_send(control_t *control, const void *data, size_t length);

/* Wait for the next message; it must have exactly `length` bytes. */
int control_recv(control_t *control, void *data, size_t length);

/* The same, but call idle() repeatedly while waiting. */
int control_recv_while(control_t *control, void (*idle)(void *arg), void *arg,
                       void *data, size_t length);

/* Send `mine` and receive `theirs`, of the same length. Both sides call this
 * function. */
int control_swap(control_t *control, const void *mine, void *theirs,
                 size_t length);

/*
 * The same as control_swap(), for messages of any length.
 *
 * theirs_p [out]  The message, from malloc(); NULL after an error.
 */
int control_exchange(control_t *control, const void *mine, size_t length,
                     void **theirs_p, size_t *theirs_length_p);

#endif
