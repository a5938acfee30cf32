/*
 * The control connection between the two processes: commands and results. Never
 * used while the clock is running.
 *
 * It is a socket between forked processes, or a channel between two hosts. Both
 * implement the same two functions.
 */
#ifndef PERF_CONTROL_H
#define PERF_CONTROL_H

#include <stddef.h>

/* Size of the longest control message (UCX worker addresses have some hundred
 * bytes; on a machine with many networks some thousand). */
#define CONTROL_MAX 65536u

typedef struct control {
    int (*send)(struct control *control, const void *data, size_t length);
    /* Returns 1 after a message, and copies up to size bytes of it; 0 if none
     * came in time; -1 after an error was printed. */
    int (*poll)(struct control *control, int timeout_ms, void *data,
                size_t size, size_t *length_p);
    void *connection; /* argument of the two functions; NULL: not two hosts */
    int   fd;         /* argument of the two functions */
    /* Called while waiting: operations of the last batch may need our
     * progress. */
    void (*idle)(void *arg);
    void *idle_arg;
} control_t;

/* Over one end of a SOCK_SEQPACKET pair. */
void control_init_socket(control_t *control, int fd);

int control_send(control_t *control, const void *data, size_t length);

/* Wait for the next message; it must have exactly `length` bytes. */
int control_recv(control_t *control, void *data, size_t length);

/* The same while idle() is called again and again. */
int control_recv_while(control_t *control, void (*idle)(void *arg), void *arg,
                       void *data, size_t length);

/* Both sides call this: sends mine and receives theirs, of the same length. */
int control_swap(control_t *control, const void *mine, void *theirs,
                 size_t length);

/*
 * The same for messages of any length.
 *
 * theirs_p [out]  From malloc(); NULL after an error.
 */
int control_exchange(control_t *control, const void *mine, size_t length,
                     void **theirs_p, size_t *theirs_length_p);

#endif
