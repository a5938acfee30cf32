#include "mem/copy.h"

#include <string.h>

void mem_copy_list(const mem_copy_t *copies, size_t num_copies)
{
    for (size_t i = 0; i < num_copies; i++) {
        if (copies[i].length != 0) {
            memcpy(copies[i].target, copies[i].source, copies[i].length);
        }
    }
}
