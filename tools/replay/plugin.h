/*
 * Allocators of somebody else, in shared libraries: what man/ucxpool_replay.1
 * documents.
 */
#ifndef REPLAY_PLUGIN_H
#define REPLAY_PLUGIN_H

#include "replay/allocator.h"

#include <sys/types.h>

#define PLUGIN_NAME_SIZE 16 /* with the zero */
#define PLUGIN_MAX       8

typedef struct plugin {
    allocator_kind_t kind; /* comes first: this is what a player has of it */
    char             name[PLUGIN_NAME_SIZE];
    const char      *path;
    void            *library;
    /* Shapes of PyTorch's CUDAPluggableAllocator. */
    void *(*alloc)(ssize_t size, int device, void *stream);
    void (*free)(void *address, ssize_t size, int device, void *stream);
    /* These may be NULL. */
    int (*init)(int device, size_t capacity);
    void (*end)(void);
    size_t (*reserved)(void);
} plugin_t;

/*
 * Take the name and the path from "NAME=FILE", or "FILE", which is called
 * plugin. The text stays the caller's and must stay.
 *
 * Returns 0, or -1 where that is no name.
 */
int plugin_name(plugin_t *plugin, const char *text);

/* Load it; it stays for ever. Returns 0, or -1 after having said why. */
int plugin_load(plugin_t *plugin);

#endif
