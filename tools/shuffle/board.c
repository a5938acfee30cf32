#include <config.h>

#include "tools/shuffle/board.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

board_place_t *board_create(unsigned num_workers)
{
    board_place_t *board =
        mmap(NULL, num_workers * sizeof(*board), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (board == MAP_FAILED) {
        complain("cannot get memory to share with %u workers: %s", num_workers,
                 strerror(errno));
        return NULL;
    }
    return board;
}

void board_destroy(board_place_t *board, unsigned num_workers)
{
    munmap(board, num_workers * sizeof(*board));
}
