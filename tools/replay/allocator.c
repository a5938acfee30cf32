#include "replay/allocator.h"

#include <string.h>

const allocator_kind_t *const allocator_kinds[ALLOCATOR_NUM_KINDS] = {
    &allocator_heap, &allocator_cuda, &allocator_async, &allocator_best_fit};

const allocator_kind_t *allocator_find(const char *name)
{
    for (unsigned i = 0; i < ALLOCATOR_NUM_KINDS; i++) {
        if (strcmp(allocator_kinds[i]->name, name) == 0) {
            return allocator_kinds[i];
        }
    }
    return NULL;
}

void allocator_list(FILE *stream)
{
    for (unsigned i = 0; i < ALLOCATOR_NUM_KINDS; i++) {
        fprintf(stream, "  %-10s %s\n", allocator_kinds[i]->name,
                allocator_kinds[i]->doc);
    }
}
