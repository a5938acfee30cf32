#include "virtual_streams.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STREAMS 64

/* For each stream, the number of its operations that are known to precede. */
typedef struct vclock {
    unsigned long at[MAX_STREAMS];
} vclock_t;

/* An operation in a stream: work, or a wait for another stream. */
typedef struct operation {
    struct operation *next;
    void (*work)(void *arg); /* NULL: none */
    void         *arg;
    unsigned      other; /* stream to wait for, until it has ... */
    unsigned long until; /* ... completed this many operations; 0: no wait */
} operation_t;

typedef struct stream {
    void         *name;
    unsigned long num_posted;
    unsigned long num_done;
    vclock_t      clock; /* the operations that precede its next one */
    operation_t  *first;
    operation_t **end;
} stream_t;

/* Bytes used by the operation with this number. */
typedef struct use {
    struct use   *next;
    unsigned      stream;
    unsigned long number; /* from 1 */
    virtual_use_t bytes;
} use_t;

struct virtual_fence {
    unsigned      stream;
    unsigned long number; /* operations posted when it was set */
    vclock_t      clock;
};

struct virtual_streams {
    stream_t streams[MAX_STREAMS];
    unsigned num_streams;
    unsigned num_fences;
    use_t   *uses; /* whose end was not observed */
    vclock_t seen;
};

#define broken(...) \
    do { \
        fprintf(stderr, "virtual streams: " __VA_ARGS__); \
        fputc('\n', stderr); \
        abort(); \
    } while (0)

static void *allocate(size_t size)
{
    void *memory = calloc(1, size);

    if (memory == NULL) {
        broken("no memory");
    }
    return memory;
}

static void clock_join(vclock_t *clock, const vclock_t *other)
{
    for (unsigned i = 0; i < MAX_STREAMS; i++) {
        if (other->at[i] > clock->at[i]) {
            clock->at[i] = other->at[i];
        }
    }
}

static unsigned find_stream(virtual_streams_t *streams, void *name)
{
    stream_t *stream;
    unsigned  i;

    for (i = 0; i < streams->num_streams; i++) {
        if (streams->streams[i].name == name) {
            return i;
        }
    }
    if (i == MAX_STREAMS) {
        broken("more than %u streams", MAX_STREAMS);
    }
    stream       = &streams->streams[i];
    stream->name = name;
    stream->end  = &stream->first;
    streams->num_streams++;
    return i;
}

virtual_streams_t *virtual_streams_create(void)
{
    return allocate(sizeof(virtual_streams_t));
}

void virtual_streams_destroy(virtual_streams_t *streams)
{
    if (streams->num_fences != 0) {
        broken("%u fences have not been put", streams->num_fences);
    }
    for (unsigned i = 0; i < streams->num_streams; i++) {
        while (streams->streams[i].first != NULL) {
            operation_t *operation = streams->streams[i].first;

            streams->streams[i].first = operation->next;
            free(operation);
        }
    }
    while (streams->uses != NULL) {
        use_t *use = streams->uses;

        streams->uses = use->next;
        free(use);
    }
    free(streams);
}

/* Order stream `i`'s later operations after everything that was observed. */
static operation_t *append(virtual_streams_t *streams, unsigned i)
{
    stream_t    *stream    = &streams->streams[i];
    operation_t *operation = allocate(sizeof(*operation));

    *stream->end = operation;
    stream->end  = &operation->next;
    stream->num_posted++;
    clock_join(&stream->clock, &streams->seen);
    stream->clock.at[i] = stream->num_posted;
    return operation;
}

static bool contains(const virtual_use_t *outer, const virtual_use_t *inner)
{
    return (inner->start >= outer->start) &&
           (inner->start + inner->size <= outer->start + outer->size) &&
           (inner->address >= outer->address) &&
           (inner->address + inner->size <= outer->address + outer->size);
}

static bool overlaps(const virtual_use_t *a, const virtual_use_t *b)
{
    return (a->start < b->start + b->size) && (b->start < a->start + a->size);
}

/* Check the use by the last operation of a stream against all others. An
 * earlier use by the same stream that lies within it can be dropped. */
static void use_add(virtual_streams_t *streams, unsigned i,
                    const virtual_use_t *bytes)
{
    stream_t *stream = &streams->streams[i];
    use_t   **link   = &streams->uses;
    use_t    *use;

    while (*link != NULL) {
        use = *link;
        if (overlaps(&use->bytes, bytes) &&
            (use->number > stream->clock.at[use->stream])) {
            broken("%zu bytes at %p are used in stream %p, and may still be "
                   "used in stream %p at %p",
                   bytes->size, (const void *)bytes->address, stream->name,
                   streams->streams[use->stream].name,
                   (const void *)use->bytes.address);
        }
        if ((use->stream == i) && contains(bytes, &use->bytes)) {
            *link = use->next;
            free(use);
        } else {
            link = &use->next;
        }
    }
    use           = allocate(sizeof(*use));
    use->stream   = i;
    use->number   = stream->num_posted;
    use->bytes    = *bytes;
    use->next     = streams->uses;
    streams->uses = use;
}

void virtual_streams_post(virtual_streams_t *streams, void *stream,
                          const virtual_use_t *uses, unsigned num_uses,
                          void (*work)(void *arg), void      *arg)
{
    unsigned     i         = find_stream(streams, stream);
    operation_t *operation = append(streams, i);

    operation->work = work;
    operation->arg  = arg;
    for (unsigned use = 0; use < num_uses; use++) {
        use_add(streams, i, &uses[use]);
    }
}

static bool run_once(virtual_streams_t *streams, unsigned i)
{
    stream_t    *stream    = &streams->streams[i];
    operation_t *operation = stream->first;

    if ((operation == NULL) ||
        (operation->until > streams->streams[operation->other].num_done)) {
        return false;
    }
    stream->first = operation->next;
    if (stream->first == NULL) {
        stream->end = &stream->first;
    }
    if (operation->work != NULL) {
        operation->work(operation->arg);
    }
    free(operation);
    stream->num_done++;
    return true;
}

unsigned virtual_streams_run(virtual_streams_t *streams, void *stream,
                             unsigned num)
{
    unsigned i        = find_stream(streams, stream);
    unsigned num_done = 0;

    while ((num_done < num) && run_once(streams, i)) {
        num_done++;
    }
    return num_done;
}

/* A stream waits only for earlier operations, so this terminates. */
static void run_until(virtual_streams_t *streams, unsigned i,
                      unsigned long until)
{
    while (streams->streams[i].num_done < until) {
        const operation_t *operation = streams->streams[i].first;

        run_until(streams, operation->other, operation->until);
        run_once(streams, i);
    }
}

void virtual_streams_run_all(virtual_streams_t *streams)
{
    for (unsigned i = 0; i < streams->num_streams; i++) {
        run_until(streams, i, streams->streams[i].num_posted);
    }
}

/* The completion was observed: later operations are ordered after it. */
static void see(virtual_streams_t *streams, const vclock_t *clock)
{
    use_t **link = &streams->uses;

    clock_join(&streams->seen, clock);
    while (*link != NULL) {
        use_t *use = *link;

        if (use->number <= streams->seen.at[use->stream]) {
            *link = use->next;
            free(use);
        } else {
            link = &use->next;
        }
    }
}

void virtual_streams_sync(virtual_streams_t *streams, void *stream)
{
    unsigned i = find_stream(streams, stream);

    run_until(streams, i, streams->streams[i].num_posted);
    see(streams, &streams->streams[i].clock);
}

virtual_fence_t *virtual_fence_set(virtual_streams_t *streams, void *stream)
{
    virtual_fence_t *fence = allocate(sizeof(*fence));

    fence->stream = find_stream(streams, stream);
    fence->number = streams->streams[fence->stream].num_posted;
    fence->clock  = streams->streams[fence->stream].clock;
    streams->num_fences++;
    return fence;
}

bool virtual_fence_is_reached(virtual_streams_t *streams,
                              virtual_fence_t   *fence)
{
    if (streams->streams[fence->stream].num_done < fence->number) {
        return false;
    }
    see(streams, &fence->clock);
    return true;
}

void virtual_fence_wait(virtual_streams_t *streams, virtual_fence_t *fence,
                        void *stream)
{
    unsigned     i         = find_stream(streams, stream);
    operation_t *operation = append(streams, i);

    operation->other = fence->stream;
    operation->until = fence->number;
    clock_join(&streams->streams[i].clock, &fence->clock);
}

void virtual_fence_sync(virtual_streams_t *streams, virtual_fence_t *fence)
{
    run_until(streams, fence->stream, fence->number);
    see(streams, &fence->clock);
}

void virtual_fence_put(virtual_streams_t *streams, virtual_fence_t *fence)
{
    streams->num_fences--;
    free(fence);
}

bool virtual_streams_may_use(const virtual_streams_t *streams,
                             const void *address, size_t size)
{
    const char *start = address;

    for (const use_t *use = streams->uses; use != NULL; use = use->next) {
        if ((use->bytes.address < start + size) &&
            (start < use->bytes.address + use->bytes.size)) {
            return true;
        }
    }
    return false;
}
