/*
 * Shared memory: what that the main process shares with its workers. Each
 * worker writes only to its own place, and says so by a byte on its socket.
 */
#ifndef SHUFFLE_SHARED_H
#define SHUFFLE_SHARED_H

#include "tools/shuffle/error.h"
#include "tools/shuffle/result.h"
#include "tools/shuffle/worker.h"

#define SHARED_ADDRESS_SIZE 16384u

typedef struct shared_place {
    progress_t progress;
    size_t     address_length;
    char       address[SHARED_ADDRESS_SIZE]; /* of the worker's pool */
    result_t   result;
    char       error[ERROR_SIZE];
    bool       is_consequence; /* of another worker's end */
} shared_place_t;

/* What is said on the sockets. */
typedef enum shared_word {
    SHARED_READY  = 'r', /* worker: the address is there */
    SHARED_DONE   = 'd', /* worker: the result is there */
    SHARED_FAILED = 'f', /* worker: the error is there; I wait */
    SHARED_GO     = 'g', /* main: all addresses are there */
    SHARED_LEAVE  = 'l', /* main: all are done, end */
    SHARED_ABORT  = 'a'  /* main: something went wrong, end */
} shared_word_t;

/* NULL with an error. Zeroed. */
shared_place_t *shared_create(unsigned num_workers);
void            shared_destroy(shared_place_t *shared, unsigned num_workers);

#endif
