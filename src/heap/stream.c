#include <config.h>

#include "heap/stream.h"

#include "base/error.h"

#include <stdlib.h>

#define FIRST_CAPACITY 64

/* Open addressing, never more than half full. A table that has become too small
 * is kept, since somebody may be reading it. */
typedef struct heap_streams_table {
    struct heap_streams_table *smaller;
    size_t                     capacity;
    heap_stream_t             *entries[];
} heap_streams_table_t;

void heap_streams_init(heap_streams_t *streams, mem_vmm_t *vmm)
{
    *streams = (heap_streams_t){.vmm = vmm};
}

static void stream_destroy(mem_vmm_t *vmm, heap_stream_t *stream)
{
    if (stream->fence != NULL) {
        vmm->calls->fence_put(vmm, stream->fence);
    }
    heap_small_cleanup(&stream->small);
    free(stream);
}

void heap_streams_cleanup(heap_streams_t *streams)
{
    while (streams->all != NULL) {
        heap_stream_t *stream = streams->all;

        streams->all = stream->next;
        stream_destroy(streams->vmm, stream);
    }
    while (streams->table != NULL) {
        heap_streams_table_t *table = streams->table;

        streams->table = table->smaller;
        free(table);
    }
}

static size_t first_entry(const heap_streams_table_t *table, void *handle)
{
    /* Handles are addresses or small numbers. */
    return ((uintptr_t)handle * UINT64_C(0x9E3779B97F4A7C15) >> 32) &
           (table->capacity - 1);
}

heap_stream_t *heap_streams_find(const heap_streams_t *streams, void *handle)
{
    const heap_streams_table_t *table =
        __atomic_load_n(&streams->table, __ATOMIC_ACQUIRE);

    if (table == NULL) {
        return NULL;
    }
    for (size_t i = first_entry(table, handle);;
         i        = (i + 1) & (table->capacity - 1)) {
        heap_stream_t *stream =
            __atomic_load_n(&table->entries[i], __ATOMIC_ACQUIRE);

        if ((stream == NULL) || (stream->handle == handle)) {
            return stream;
        }
    }
}

static void enter(heap_streams_table_t *table, heap_stream_t *stream)
{
    size_t i = first_entry(table, stream->handle);

    while (table->entries[i] != NULL) {
        i = (i + 1) & (table->capacity - 1);
    }
    __atomic_store_n(&table->entries[i], stream, __ATOMIC_RELEASE);
}

/* Room for one more. */
static ucxpool_status_t prepare_table(heap_streams_t *streams)
{
    heap_streams_table_t *old = streams->table;
    size_t capacity = (old == NULL) ? FIRST_CAPACITY : 2 * old->capacity;
    heap_streams_table_t *table;

    if ((old != NULL) && (2 * (streams->count + 1) <= old->capacity)) {
        return UCXPOOL_OK;
    }
    table = calloc(1, sizeof(*table) + capacity * sizeof(table->entries[0]));
    if (table == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no host memory for the heap's table of %zu streams",
                          capacity);
    }
    table->smaller  = old;
    table->capacity = capacity;
    for (heap_stream_t *stream = streams->all; stream != NULL;
         stream                = stream->next) {
        enter(table, stream);
    }
    __atomic_store_n(&streams->table, table, __ATOMIC_RELEASE);
    return UCXPOOL_OK;
}

static ucxpool_status_t stream_create(const mem_vmm_t *vmm, void *handle,
                                      heap_stream_t **stream_p)
{
    heap_stream_t *stream = calloc(1, sizeof(*stream));

    if (stream == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no host memory for what the heap knows of a stream");
    }
    stream->handle = handle;
    stream->over   = vmm->is_host ? UINT64_MAX : 0;
    heap_index_init(&stream->index);
    heap_small_init(&stream->small);
    *stream_p = stream;
    return UCXPOOL_OK;
}

ucxpool_status_t heap_streams_get(heap_streams_t *streams, void *handle,
                                  heap_stream_t **stream_p)
{
    heap_stream_t   *stream = heap_streams_find(streams, handle);
    ucxpool_status_t status;

    if (stream == NULL) {
        status = prepare_table(streams);
        if (status != UCXPOOL_OK) {
            return status;
        }
        status = stream_create(streams->vmm, handle, &stream);
        if (status != UCXPOOL_OK) {
            return status;
        }
        stream->next = streams->all;
        streams->all = stream;
        streams->count++;
        enter(streams->table, stream);
    }
    *stream_p = stream;
    return UCXPOOL_OK;
}

static void be_over(heap_stream_t *stream, uint64_t ticket)
{
    __atomic_store_n(&stream->over, ticket, __ATOMIC_RELEASE);
}

static void put_fence(heap_streams_t *streams, heap_stream_t *stream)
{
    if (stream->fence != NULL) {
        streams->vmm->calls->fence_put(streams->vmm, stream->fence);
        stream->fence = NULL;
    }
}

void heap_stream_look(heap_streams_t *streams, heap_stream_t *stream)
{
    if ((stream->fence != NULL) &&
        streams->vmm->calls->fence_is_reached(streams->vmm, stream->fence)) {
        be_over(stream, stream->covers);
        put_fence(streams, stream);
    }
}

/* A fence behind all tickets that there are now. */
static ucxpool_status_t set_fence(heap_streams_t *streams,
                                  heap_stream_t  *stream)
{
    uint64_t     tickets = __atomic_load_n(&stream->frees, __ATOMIC_RELAXED);
    mem_fence_t *fence;
    ucxpool_status_t status;

    if ((stream->fence != NULL) && (stream->covers == tickets)) {
        return UCXPOOL_OK;
    }
    status =
        streams->vmm->calls->fence_set(streams->vmm, stream->handle, &fence);
    if (status != UCXPOOL_OK) {
        return status;
    }
    put_fence(streams, stream);
    stream->fence  = fence;
    stream->covers = tickets;
    return UCXPOOL_OK;
}

static bool is_all_over(const heap_stream_t *stream)
{
    return heap_stream_is_over(
        stream, __atomic_load_n(&stream->frees, __ATOMIC_RELAXED));
}

void heap_stream_ask(heap_streams_t *streams, heap_stream_t *stream)
{
    heap_stream_look(streams, stream);
    if ((stream->fence == NULL) && !is_all_over(stream) &&
        (set_fence(streams, stream) == UCXPOOL_OK)) {
        heap_stream_look(streams, stream);
    }
}

ucxpool_status_t heap_stream_wait(heap_streams_t *streams,
                                  heap_stream_t *stream, heap_stream_t *user)
{
    ucxpool_status_t status;

    heap_stream_look(streams, stream);
    if ((user == stream) || is_all_over(stream)) {
        return UCXPOOL_OK;
    }
    status = set_fence(streams, stream);
    if (status == UCXPOOL_OK) {
        status = streams->vmm->calls->fence_wait(streams->vmm, stream->fence,
                                                 user->handle);
    }
    if (status == UCXPOOL_OK) {
        streams->num_waits++;
    }
    return status;
}

ucxpool_status_t heap_stream_sync(heap_streams_t *streams,
                                  heap_stream_t  *stream)
{
    ucxpool_status_t status;

    if (is_all_over(stream)) {
        return UCXPOOL_OK;
    }
    status = set_fence(streams, stream);
    if (status == UCXPOOL_OK) {
        status = streams->vmm->calls->fence_sync(streams->vmm, stream->fence);
    }
    if (status == UCXPOOL_OK) {
        be_over(stream, stream->covers);
        put_fence(streams, stream);
        streams->num_syncs++;
    }
    return status;
}

ucxpool_status_t heap_streams_sync(heap_streams_t *streams)
{
    for (heap_stream_t *stream = streams->all; stream != NULL;
         stream                = stream->next) {
        ucxpool_status_t status = heap_stream_sync(streams, stream);

        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    return UCXPOOL_OK;
}
