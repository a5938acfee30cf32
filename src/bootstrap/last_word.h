/*
 * What is said over a connection of two proven peers by the side that hangs up.
 */
#ifndef BOOTSTRAP_LAST_WORD_H
#define BOOTSTRAP_LAST_WORD_H

/* One byte; docs/protocol.md. */
typedef enum xfer_last_word {
    XFER_LAST_WORD_NONE   = 0, /* not sent: the process has ended */
    XFER_LAST_WORD_CLOSED = 1,
    XFER_LAST_WORD_FAILED = 2,
    XFER_LAST_WORD_SPARE  = 3 /* it is not needed: the channel is on `map` */
} xfer_last_word_t;

/* Say it, unless the connection takes nothing. */
void xfer_last_word_say(int fd, xfer_last_word_t word);

#endif
