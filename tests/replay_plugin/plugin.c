/*
 * A plug-in for ucxpool_replay: malloc() with a limit. Wrong calls end the
 * program: a free with a size that differs from the allocation's, or a second
 * plugin_init() without a plugin_end().
 *
 * PLUGIN_FAILS=N  The N-th plugin_init() fails.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

#pragma GCC visibility push(default)
int                    plugin_init(int device, size_t capacity);
void                   plugin_end(void);
void                  *plugin_alloc(ssize_t size, int device, void *stream);
void   plugin_free(void *address, ssize_t size, int device, void *stream);
size_t plugin_reserved(void);
#pragma GCC visibility pop

typedef struct piece {
    size_t size;
    size_t unused; /* keeps the alignment of malloc() for the memory that
                      follows */
    char bytes[];
} piece_t;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static size_t          limit, used;
static bool            is_there;
static unsigned        num_inits;

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "plugin: %s\n", what);
        abort();
    }
}

int plugin_init(int device, size_t capacity)
{
    const char *text = getenv("PLUGIN_FAILS");

    require(!is_there, "made twice");
    require((device == 0) || (device == -1), "another device");
    if ((text != NULL) && (strtoul(text, NULL, 10) == ++num_inits)) {
        return 7;
    }
    is_there = true;
    limit    = capacity;
    return 0;
}

void plugin_end(void)
{
    require(is_there, "plugin_end() without plugin_init()");
    is_there = false;
    used     = 0;
}

void *plugin_alloc(ssize_t size, int device, void *stream)
{
    piece_t *piece = NULL;

    pthread_mutex_lock(&mutex);
    if ((limit == 0) || (used + (size_t)size <= limit)) {
        piece = malloc(sizeof(*piece) + (size_t)size);
        require(piece != NULL, "no memory");
        piece->size = (size_t)size;
        used += (size_t)size;
    }
    pthread_mutex_unlock(&mutex);
    return piece == NULL ? NULL : piece->bytes;
}

void plugin_free(void *address, ssize_t size, int device, void *stream)
{
    piece_t *piece =
        (piece_t *)(void *)((char *)address - offsetof(piece_t, bytes));

    pthread_mutex_lock(&mutex);
    require(piece->size == (size_t)size, "another size");
    used -= (size_t)size;
    free(piece);
    pthread_mutex_unlock(&mutex);
}

size_t plugin_reserved(void)
{
    size_t bytes;

    pthread_mutex_lock(&mutex);
    bytes = used;
    pthread_mutex_unlock(&mutex);
    return bytes;
}
