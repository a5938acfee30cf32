/*
 * The connection beside a channel: the greeting's, which stays open once both
 * sides are proven. Nothing is said there, so that the two kernels can keep it
 * alive. They tell of a host or a link that is gone, also while UCX's own
 * connection waits for its data to be acknowledged; and never of a peer that is
 * busy or stopped, since its kernel answers.
 *
 * At its end a side says one word, and hangs up.
 */
#ifndef XFER_KEEPALIVE_H
#define XFER_KEEPALIVE_H

#include "xfer/source.h"

/* One byte; docs/protocol.md. */
typedef enum xfer_last_word {
    XFER_LAST_WORD_NONE   = 0, /* not sent: the process has ended            */
    XFER_LAST_WORD_CLOSED = 1,
    XFER_LAST_WORD_FAILED = 2,
    XFER_LAST_WORD_SPARE  = 3  /* it is not needed: the channel is on `map`  */
} xfer_last_word_t;

typedef struct xfer_keepalive {
    xfer_source_t    source;
    xfer_last_word_t heard;
    uint64_t         deadline; /* when that counts; BASE_CLOCK_FOREVER: never */
} xfer_keepalive_t;

void xfer_keepalive_init(xfer_keepalive_t *keepalive);

/* How soon, with that PEER_TIMEOUT, a host is noticed that is gone; UINT64_MAX:
 * that is left to UCX. */
uint64_t xfer_keepalive_notice(uint64_t timeout_ns);

/* Begin with a connected socket, which is ours from now on. Without it (-1, or
 * where it cannot be watched) UCX alone finds out what has gone. */
void xfer_keepalive_start(ucxpool_channel_t *channel, int fd);

bool xfer_keepalive_is_up(const ucxpool_channel_t *channel);

/* Say the word to who is at the other end of a connection. */
void xfer_keepalive_say(int fd, xfer_last_word_t word);

/* Say the word, if there is somebody to hear it, and hang up. */
void xfer_keepalive_end(ucxpool_channel_t *channel, xfer_last_word_t word);

/* End a channel whose peer has hung up, when what it sent before has had the
 * time to come. Returns how many channels have ended. */
unsigned xfer_keepalive_progress(ucxpool_channel_t *channel);
uint64_t xfer_keepalive_deadline(const ucxpool_channel_t *channel);

#endif
