/*
 * The board: memory that the main process shares with its workers. Each worker
 * writes only to its own place, and says so by a byte on its socket.
 */
#ifndef SHUFFLE_BOARD_H
#define SHUFFLE_BOARD_H

#include "tools/shuffle/complaint.h"
#include "tools/shuffle/result.h"
#include "tools/shuffle/worker.h"

#define BOARD_ADDRESS_SIZE 16384u

typedef struct board_place {
    progress_t progress;
    size_t     address_length;
    char       address[BOARD_ADDRESS_SIZE]; /* of the worker's pool */
    result_t   result;
    char       complaint[COMPLAINT_SIZE];
    bool       is_consequence; /* of another worker's end */
} board_place_t;

/* What is said on the sockets. */
typedef enum board_word {
    BOARD_READY  = 'r', /* worker: the address is there */
    BOARD_DONE   = 'd', /* worker: the result is there */
    BOARD_FAILED = 'f', /* worker: the complaint is there; I wait */
    BOARD_GO     = 'g', /* main: all addresses are there */
    BOARD_LEAVE  = 'l', /* main: all are done, end */
    BOARD_ABORT  = 'a'  /* main: something went wrong, end */
} board_word_t;

/* NULL with a complaint. Zeroed. */
board_place_t *board_create(unsigned num_workers);
void           board_destroy(board_place_t *board, unsigned num_workers);

#endif
