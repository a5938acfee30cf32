#include <config.h>

#include "tools/shuffle/shared.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

shared_place_t *shared_create(unsigned num_workers)
{
    shared_place_t *shared =
        mmap(NULL, num_workers * sizeof(*shared), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (shared == MAP_FAILED) {
        say_error("cannot get memory to share with %u workers: %s", num_workers,
                  strerror(errno));
        return NULL;
    }
    return shared;
}

void shared_destroy(shared_place_t *shared, unsigned num_workers)
{
    munmap(shared, num_workers * sizeof(*shared));
}
