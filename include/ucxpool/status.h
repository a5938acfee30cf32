/*
 * Status codes and error details.
 *
 * Every function that can fail returns a ucxpool_status_t: 0 means success,
 * UCXPOOL_INPROGRESS (1) means "not yet", and a negative value means an error.
 * ucxpool_status_string() names the value. ucxpool_error_detail() says what
 * failed, on which object, and what to change.
 *
 * A handle or an output pointer must not be NULL unless the documentation of
 * the function allows it. If such a parameter is NULL, the function returns
 * UCXPOOL_ERR_INVALID_PARAM, and the error detail names the parameter.
 * Functions without a status behave as follows: a function that returns a count
 * returns 0. A query clears its struct and sets the struct's status field, if
 * it has one. Other functions do nothing.
 */
#ifndef UCXPOOL_STATUS_H
#define UCXPOOL_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef enum ucxpool_status {
    UCXPOOL_OK                = 0,
    UCXPOOL_INPROGRESS        = 1,   /* not finished; call again later */
    UCXPOOL_ERR_INVALID_PARAM = -1,  /* an argument or a setting is wrong */
    UCXPOOL_ERR_NO_MEMORY     = -2,  /* out of memory */
    UCXPOOL_ERR_NO_BLOCKS     = -3,  /* no (or too few) blocks free */
    UCXPOOL_ERR_UNSUPPORTED   = -4,  /* not possible with this build or UCX */
    UCXPOOL_ERR_IO            = -5,  /* the operating system or UCX failed */
    UCXPOOL_ERR_CANCELED      = -6,  /* canceled here or by the peer */
    UCXPOOL_ERR_TIMED_OUT     = -7,  /* the deadline passed */
    UCXPOOL_ERR_PEER_LOST     = -8,  /* the peer died or cannot be reached */
    UCXPOOL_ERR_REFUSED       = -9,  /* the peer refused; see the detail */
    UCXPOOL_ERR_TRUNCATED     = -10, /* the message is longer than the buffer */
    UCXPOOL_ERR_NO_MESSAGE    = -11, /* no matching message has arrived */
    UCXPOOL_ERR_BUSY          = -12, /* work is pending: progress first */
    UCXPOOL_ERR_PERMISSION    = -13, /* not allowed, or the secret is wrong */
    UCXPOOL_ERR_PROTOCOL      = -14, /* the peer has a different protocol
                                        version, or sent an invalid message */
    UCXPOOL_ERR_CHECKSUM = -15,      /* the data was corrupted in transit, or
                                        its memory changed while it was sent */
    UCXPOOL_ERR_ADDRESS_IN_USE = -16, /* the port is in use */
    UCXPOOL_ERR_CLOSED         = -17, /* the channel or pool is closed */
    UCXPOOL_ERR_LIMIT          = -18  /* exceeds a limit here or at the peer */
} ucxpool_status_t;

/*
 * Returns the name of a status in plain words, for example "peer lost". Never
 * returns NULL. The string is static.
 */
const char *ucxpool_status_string(ucxpool_status_t status);

/*
 * Returns the last error of the calling thread in one sentence: what failed, on
 * which object, and what to change. Never returns NULL; returns "" if no call
 * has failed yet.
 *
 * The string belongs to the library and is valid until the next call into the
 * library from the same thread. A failed request has its own detail, which
 * ucxpool_request_query() returns. ucxpool_request_wait() also sets it as the
 * calling thread's last error. Errors that a call returns are logged at level
 * info. Errors that no caller can see are logged as warnings.
 */
const char *ucxpool_error_detail(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
