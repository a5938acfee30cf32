/*
 * What a call answers.
 *
 * Every function that can fail returns a ucxpool_status_t: 0 is success,
 * UCXPOOL_INPROGRESS (1) means "not yet", a negative value is an error.
 * ucxpool_status_string() names the value; ucxpool_error_detail() tells what
 * failed, on what, and what to change.
 *
 * NULL where a handle or a place for the answer belongs, and the function's
 * text does not allow it, is answered by UCXPOOL_ERR_INVALID_PARAM. A function
 * that returns a count returns 0 then, a query fills in zeros and, where there
 * is one, that status, and others do nothing; the detail names the parameter.
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
    UCXPOOL_ERR_NO_MEMORY     = -2,  /* the system gave no memory */
    UCXPOOL_ERR_NO_BLOCKS     = -3,  /* no (or too few) blocks free */
    UCXPOOL_ERR_UNSUPPORTED   = -4,  /* not possible with this build or UCX */
    UCXPOOL_ERR_IO            = -5,  /* the operating system or UCX failed */
    UCXPOOL_ERR_CANCELED      = -6,  /* ended by cancel, here or by the peer */
    UCXPOOL_ERR_TIMED_OUT     = -7,  /* the deadline passed */
    UCXPOOL_ERR_PEER_LOST     = -8,  /* the peer died or cannot be reached */
    UCXPOOL_ERR_REFUSED       = -9,  /* the peer said no; the detail has why */
    UCXPOOL_ERR_TRUNCATED     = -10, /* the message is longer than its target */
    UCXPOOL_ERR_NO_MESSAGE    = -11, /* nothing that matches has arrived */
    UCXPOOL_ERR_BUSY          = -12, /* events are pending: progress first */
    UCXPOOL_ERR_PERMISSION    = -13, /* not allowed, or the secret is wrong */
    UCXPOOL_ERR_PROTOCOL      = -14, /* the peer speaks another version, or
                                        nonsense */
    UCXPOOL_ERR_CHECKSUM       = -15, /* bytes changed on the way */
    UCXPOOL_ERR_ADDRESS_IN_USE = -16, /* the port is taken */
    UCXPOOL_ERR_CLOSED         = -17, /* the channel or pool is closed */
    UCXPOOL_ERR_LIMIT          = -18  /* over a limit of ours or the peer's */
} ucxpool_status_t;

/*
 * The name of a status in plain words, for example "peer lost".
 * Never NULL; the string is static.
 */
const char *ucxpool_status_string(ucxpool_status_t status);

/*
 * The last error of the calling thread in one sentence: what failed, on what,
 * and what to change. Never NULL; "" when nothing failed yet.
 *
 * The string belongs to the library and is valid until the next call into it
 * from the same thread. A request that failed carries its own sentence, see
 * ucxpool_request_query(); ucxpool_request_wait() makes it the thread's. What a
 * call returns is logged at level info, so it is the caller's to tell; what
 * nobody is returned is a warning in the log.
 */
const char *ucxpool_error_detail(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
