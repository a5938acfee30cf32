#include <config.h>

#include "framework/framework.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define NUM_BUCKETS 1024
#define FIRST_ROOM  4
/* Addresses of allocations are multiples of this. */
#define ADDRESS_STEP 256

static framework_use_t *buckets[NUM_BUCKETS];
static pthread_mutex_t  uses_lock = PTHREAD_MUTEX_INITIALIZER;
/* The number of allocations in the table. While it is 0, a free takes no
 * lock. */
static atomic_size_t num_uses;
static atomic_bool   is_one_lost;

/* Returns the link that points to the use of an address, or the link where the
 * use would be added. */
static framework_use_t **find_use(const void *address)
{
    framework_use_t **link =
        &buckets[((uintptr_t)address / ADDRESS_STEP) % NUM_BUCKETS];

    while ((*link != NULL) && ((*link)->address != address)) {
        link = &(*link)->next;
    }
    return link;
}

static bool has_stream(const framework_use_t *use, const void *stream)
{
    for (size_t i = 0; i < use->num_streams; i++) {
        if (use->streams[i] == stream) {
            return true;
        }
    }
    return false;
}

/* Double the capacity of a use, or create the use. Returns NULL and changes
 * nothing if out of memory. */
static framework_use_t *lengthen(framework_use_t **link, void *address)
{
    framework_use_t *old  = *link;
    size_t           room = old == NULL ? FIRST_ROOM : 2 * old->room;
    framework_use_t *use;

    use = realloc(old, sizeof(*use) + room * sizeof(use->streams[0]));
    if (use == NULL) {
        return NULL;
    }
    if (old == NULL) {
        use->next        = NULL;
        use->address     = address;
        use->num_streams = 0;
        atomic_fetch_add(&num_uses, 1);
    }
    use->room = room;
    *link     = use;
    return use;
}

void framework_uses_add(void *address, void *stream)
{
    framework_use_t **link;
    framework_use_t  *use;

    pthread_mutex_lock(&uses_lock);
    link = find_use(address);
    use  = *link;
    if ((use == NULL) || !has_stream(use, stream)) {
        if ((use == NULL) || (use->num_streams == use->room)) {
            use = lengthen(link, address);
        }
        if (use == NULL) {
            atomic_store(&is_one_lost, true);
        } else {
            use->streams[use->num_streams++] = stream;
        }
    }
    pthread_mutex_unlock(&uses_lock);
}

bool framework_uses_take(const void *address, framework_use_t **use_p)
{
    framework_use_t **link;

    *use_p = NULL;
    if (atomic_load(&num_uses) != 0) {
        pthread_mutex_lock(&uses_lock);
        link   = find_use(address);
        *use_p = *link;
        if (*link != NULL) {
            *link = (*link)->next;
            atomic_fetch_sub(&num_uses, 1);
        }
        pthread_mutex_unlock(&uses_lock);
    }
    return !atomic_load(&is_one_lost);
}
