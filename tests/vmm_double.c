#include "vmm_double.h"
#include "base/error.h"
#include "base/math.h"
#include "virtual_streams.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define broken(...) \
    do { \
        fprintf(stderr, "vmm double: " __VA_ARGS__); \
        fputc('\n', stderr); \
        abort(); \
    } while (0)

/* A range, a mapping or a chunk. Lists are sorted by the start and do not
 * overlap. */
typedef struct item {
    uint64_t    start; /* address, or the chunk's name */
    uint64_t    span;  /* number of addresses that belong to it, or 1 */
    size_t      size;
    mem_chunk_t chunk;        /* of a mapping: the mapped chunk */
    uint64_t    bytes;        /* of a chunk: number of its first byte */
    unsigned    num_mappings; /* of a chunk */
    bool        is_allowed;   /* of a mapping */
} item_t;

typedef struct items {
    item_t *items;
    size_t  num;
    size_t  max;
} items_t;

typedef struct vmm_double {
    mem_vmm_t          vmm;
    mem_vmm_t         *inner;
    virtual_streams_t *streams; /* NULL: inner's fences */
    pthread_mutex_t    lock;

    items_t  ranges;
    items_t  mappings;
    items_t  chunks; /* by name */
    uint64_t next_byte;
    uint64_t held;
    uint64_t mapped;
    uint64_t limit;
    size_t   num_fences;

    unsigned         counts[VMM_LAST];
    vmm_call_t       fail_call;
    unsigned         fail_at; /* 0: none */
    ucxpool_status_t fail_status;
    bool             has_failed;
} vmm_double_t;

static vmm_double_t *double_of(mem_vmm_t *vmm)
{
    return base_container_of(vmm, vmm_double_t, vmm);
}

static vmm_double_t *lock(mem_vmm_t *vmm)
{
    vmm_double_t *self = double_of(vmm);

    pthread_mutex_lock(&self->lock);
    return self;
}

static void unlock(vmm_double_t *self)
{
    pthread_mutex_unlock(&self->lock);
}

/* Index of the first one that starts after it. */
static size_t index_behind(const items_t *items, uint64_t start)
{
    size_t low = 0, high = items->num, middle;

    while (low < high) {
        middle = (low + high) / 2;
        if (items->items[middle].start <= start) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The one that contains a byte; NULL: none. */
static item_t *item_of(const items_t *items, uint64_t at)
{
    size_t  index = index_behind(items, at);
    item_t *item;

    if (index == 0) {
        return NULL;
    }
    item = &items->items[index - 1];
    return at - item->start < item->span ? item : NULL;
}

static void item_add(items_t *items, item_t item)
{
    size_t  index = index_behind(items, item.start);
    item_t *place;

    if (items->num == items->max) {
        items->max   = 2 * items->max + 16;
        items->items = realloc(items->items, items->max * sizeof(item));
        if (items->items == NULL) {
            broken("no memory");
        }
    }
    place = &items->items[index];
    memmove(place + 1, place, (items->num - index) * sizeof(item));
    *place = item;
    items->num++;
}

static void item_remove(items_t *items, item_t *item)
{
    size_t index = (size_t)(item - items->items);

    items->num--;
    memmove(item, item + 1, (items->num - index) * sizeof(*item));
}

static uint64_t number_of(const void *address)
{
    return (uint64_t)(uintptr_t)address;
}

/* Is anything at these addresses? */
static bool has_items(const items_t *items, uint64_t start, size_t size)
{
    size_t index = index_behind(items, start);

    return (item_of(items, start) != NULL) ||
           ((index < items->num) && (items->items[index].start < start + size));
}

/* The chunk, which must exist and have this size. */
static item_t *chunk_get(const vmm_double_t *self, mem_chunk_t chunk,
                         size_t size, const char *what)
{
    item_t *item = item_of(&self->chunks, chunk);

    if (item == NULL) {
        broken("%s: there is no chunk %" PRIu64, what, chunk);
    }
    if (item->size != size) {
        broken("%s: chunk %" PRIu64 " has %zu bytes, not %zu", what, chunk,
               item->size, size);
    }
    return item;
}

/* Count the call; must it fail? */
static bool is_due(vmm_double_t *self, vmm_call_t call)
{
    unsigned n = ++self->counts[call];

    if (call >= VMM_CAN_FAIL) {
        return false;
    }
    if (self->fail_call == VMM_LAST) {
        n = 0;
        for (unsigned i = 0; i < VMM_CAN_FAIL; i++) {
            n += self->counts[i];
        }
    } else if (self->fail_call != call) {
        return false;
    }
    if ((self->fail_at == 0) || (n != self->fail_at)) {
        return false;
    }
    self->has_failed = true;
    return true;
}

static ucxpool_status_t fail(vmm_double_t *self, const char *what)
{
    return base_error(self->fail_status, "%s: the double makes it fail", what);
}

static void double_destroy(mem_vmm_t *vmm)
{
    vmm_double_t *self = double_of(vmm);

    if ((self->ranges.num != 0) || (self->mappings.num != 0) ||
        (self->chunks.num != 0) || (self->num_fences != 0)) {
        broken("destroy: %zu ranges, %zu mappings, %zu chunks and %zu fences "
               "are left",
               self->ranges.num, self->mappings.num, self->chunks.num,
               self->num_fences);
    }
    if (self->streams != NULL) {
        virtual_streams_destroy(self->streams);
    }
    self->inner->calls->destroy(self->inner);
    free(self->ranges.items);
    free(self->mappings.items);
    free(self->chunks.items);
    pthread_mutex_destroy(&self->lock);
    free(self);
}

static ucxpool_status_t reserve(vmm_double_t *self, size_t size,
                                size_t alignment, void **address_p)
{
    ucxpool_status_t status;

    if ((size == 0) || (size % MEM_VMM_PAGE_SIZE != 0) ||
        !base_is_pow2(alignment)) {
        broken("reserve: %zu bytes at a multiple of %zu", size, alignment);
    }
    if (is_due(self, VMM_RESERVE)) {
        return fail(self, "reserve");
    }
    status =
        self->inner->calls->reserve(self->inner, size, alignment, address_p);
    if (status == UCXPOOL_OK) {
        item_add(&self->ranges, (item_t){.start = number_of(*address_p),
                                         .span  = size,
                                         .size  = size});
    }
    return status;
}

static ucxpool_status_t double_reserve(mem_vmm_t *vmm, size_t size,
                                       size_t alignment, void **address_p)
{
    vmm_double_t    *self   = lock(vmm);
    ucxpool_status_t status = reserve(self, size, alignment, address_p);

    unlock(self);
    return status;
}

static void double_release(mem_vmm_t *vmm, void *address, size_t size)
{
    vmm_double_t *self  = lock(vmm);
    item_t       *range = item_of(&self->ranges, number_of(address));

    is_due(self, VMM_RELEASE);
    if ((range == NULL) || (range->start != number_of(address)) ||
        (range->size != size)) {
        broken("release: %zu bytes at %p were not reserved", size, address);
    }
    if (has_items(&self->mappings, range->start, size)) {
        broken("release: there are mappings in %zu bytes at %p", size, address);
    }
    self->inner->calls->release(self->inner, address, size);
    item_remove(&self->ranges, range);
    unlock(self);
}

static ucxpool_status_t chunk_create(vmm_double_t *self, size_t size,
                                     mem_chunk_t *chunk_p)
{
    ucxpool_status_t status;

    if ((size == 0) || (size % MEM_VMM_PAGE_SIZE != 0)) {
        broken("chunk_create: %zu bytes", size);
    }
    if (is_due(self, VMM_CHUNK_CREATE)) {
        return fail(self, "chunk_create");
    }
    if (size > self->limit - self->held) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "chunk_create: the double has %" PRIu64 " bytes, and "
                          "%" PRIu64 " are held",
                          self->limit, self->held);
    }
    status = self->inner->calls->chunk_create(self->inner, size, chunk_p);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if ((*chunk_p == 0) || (item_of(&self->chunks, *chunk_p) != NULL)) {
        broken("chunk_create: another chunk is %" PRIu64, *chunk_p);
    }
    item_add(&self->chunks, (item_t){.start = *chunk_p,
                                     .span  = 1,
                                     .size  = size,
                                     .bytes = self->next_byte});
    self->next_byte += size;
    self->held += size;
    return UCXPOOL_OK;
}

static ucxpool_status_t double_chunk_create(mem_vmm_t *vmm, size_t size,
                                            mem_chunk_t *chunk_p)
{
    vmm_double_t    *self   = lock(vmm);
    ucxpool_status_t status = chunk_create(self, size, chunk_p);

    unlock(self);
    return status;
}

static void double_chunk_destroy(mem_vmm_t *vmm, mem_chunk_t chunk, size_t size)
{
    vmm_double_t *self = lock(vmm);
    item_t       *item = chunk_get(self, chunk, size, "chunk_destroy");

    is_due(self, VMM_CHUNK_DESTROY);
    if (item->num_mappings != 0) {
        broken("chunk_destroy: chunk %" PRIu64 " is mapped at %u places", chunk,
               item->num_mappings);
    }
    self->inner->calls->chunk_destroy(self->inner, chunk, size);
    self->held -= size;
    item_remove(&self->chunks, item);
    unlock(self);
}

/* On host memory, access to the range stays forbidden until it is allowed. */
static void rights_set(const vmm_double_t *self, void *address, size_t size,
                       int rights)
{
    if (self->inner->is_host && (mprotect(address, size, rights) != 0)) {
        broken("mprotect of %zu bytes at %p", size, address);
    }
}

static ucxpool_status_t map(vmm_double_t *self, void *address,
                            mem_chunk_t chunk, size_t size)
{
    item_t          *item  = chunk_get(self, chunk, size, "map");
    uint64_t         start = number_of(address);
    const item_t    *range = item_of(&self->ranges, start);
    ucxpool_status_t status;

    if ((range == NULL) || (size > range->start + range->size - start) ||
        (start % MEM_VMM_PAGE_SIZE != 0)) {
        broken("map: %zu bytes at %p are not reserved", size, address);
    }
    if (has_items(&self->mappings, start, size)) {
        broken("map: something is mapped in %zu bytes at %p", size, address);
    }
    if (is_due(self, VMM_MAP)) {
        return fail(self, "map");
    }
    status = self->inner->calls->map(self->inner, address, chunk, size);
    if (status == UCXPOOL_OK) {
        rights_set(self, address, size, PROT_NONE);
        item->num_mappings++;
        self->mapped += size;
        item_add(&self->mappings, (item_t){.start = start,
                                           .span  = size,
                                           .size  = size,
                                           .chunk = chunk});
    }
    return status;
}

static ucxpool_status_t double_map(mem_vmm_t *vmm, void *address,
                                   mem_chunk_t chunk, size_t size)
{
    vmm_double_t    *self   = lock(vmm);
    ucxpool_status_t status = map(self, address, chunk, size);

    unlock(self);
    return status;
}

/* The adjacent mappings from there on; the range must consist of whole ones. */
static item_t *mappings_get(const vmm_double_t *self, void *address,
                            size_t size, size_t *num_p, const char *what)
{
    uint64_t start = number_of(address);
    uint64_t end   = start + size;
    item_t  *first = item_of(&self->mappings, start);
    item_t  *item  = first;
    uint64_t at    = start;

    while ((at < end) && (item != NULL) && (item->start == at)) {
        at += item->size;
        item++;
        if (item == self->mappings.items + self->mappings.num) {
            break;
        }
    }
    if ((first == NULL) || (size == 0) || (at != end)) {
        broken("%s: %zu bytes at %p are not whole mappings", what, size,
               address);
    }
    *num_p = (size_t)(item - first);
    return first;
}

static ucxpool_status_t allow(vmm_double_t *self, void *address, size_t size)
{
    size_t           num;
    item_t          *items = mappings_get(self, address, size, &num, "allow");
    ucxpool_status_t status;

    if (is_due(self, VMM_ALLOW)) {
        return fail(self, "allow");
    }
    status = self->inner->calls->allow(self->inner, address, size);
    if (status == UCXPOOL_OK) {
        rights_set(self, address, size, PROT_READ | PROT_WRITE);
        for (size_t i = 0; i < num; i++) {
            items[i].is_allowed = true;
        }
    }
    return status;
}

static ucxpool_status_t double_allow(mem_vmm_t *vmm, void *address, size_t size)
{
    vmm_double_t    *self   = lock(vmm);
    ucxpool_status_t status = allow(self, address, size);

    unlock(self);
    return status;
}

static ucxpool_status_t unmap(vmm_double_t *self, void *address, size_t size)
{
    size_t           num;
    item_t          *items = mappings_get(self, address, size, &num, "unmap");
    ucxpool_status_t status;

    if ((self->streams != NULL) &&
        virtual_streams_may_use(self->streams, address, size)) {
        broken("unmap: work may be running in %zu bytes at %p", size, address);
    }
    if (is_due(self, VMM_UNMAP)) {
        return fail(self, "unmap");
    }
    status = self->inner->calls->unmap(self->inner, address, size);
    if (status != UCXPOOL_OK) {
        return status;
    }
    for (size_t i = 0; i < num; i++) {
        chunk_get(self, items->chunk, items->size, "unmap")->num_mappings--;
        item_remove(&self->mappings, items);
    }
    self->mapped -= size;
    return UCXPOOL_OK;
}

static ucxpool_status_t double_unmap(mem_vmm_t *vmm, void *address, size_t size)
{
    vmm_double_t    *self   = lock(vmm);
    ucxpool_status_t status = unmap(self, address, size);

    unlock(self);
    return status;
}

/* A fence belongs to a stream or to inner. */
static virtual_fence_t *virtual_of(mem_fence_t *fence)
{
    return (virtual_fence_t *)(void *)fence;
}

static void need_streams(const vmm_double_t *self, const char *what)
{
    if (self->vmm.is_host) {
        broken("%s: host memory has no streams", what);
    }
}

static ucxpool_status_t fence_set(vmm_double_t *self, void *stream,
                                  mem_fence_t **fence_p)
{
    ucxpool_status_t status = UCXPOOL_OK;

    need_streams(self, "fence_set");
    if (is_due(self, VMM_FENCE_SET)) {
        return fail(self, "fence_set");
    }
    if (self->streams == NULL) {
        status = self->inner->calls->fence_set(self->inner, stream, fence_p);
    } else {
        *fence_p =
            (mem_fence_t *)(void *)virtual_fence_set(self->streams, stream);
    }
    if (status == UCXPOOL_OK) {
        self->num_fences++;
    }
    return status;
}

static ucxpool_status_t double_fence_set(mem_vmm_t *vmm, void *stream,
                                         mem_fence_t **fence_p)
{
    vmm_double_t    *self   = lock(vmm);
    ucxpool_status_t status = fence_set(self, stream, fence_p);

    unlock(self);
    return status;
}

static bool double_fence_is_reached(mem_vmm_t *vmm, mem_fence_t *fence)
{
    vmm_double_t *self = lock(vmm);
    bool          is_reached;

    need_streams(self, "fence_is_reached");
    if (is_due(self, VMM_FENCE_IS_REACHED)) {
        is_reached = false;
    } else if (self->streams == NULL) {
        is_reached = self->inner->calls->fence_is_reached(self->inner, fence);
    } else {
        is_reached = virtual_fence_is_reached(self->streams, virtual_of(fence));
    }
    unlock(self);
    return is_reached;
}

static ucxpool_status_t double_fence_wait(mem_vmm_t *vmm, mem_fence_t *fence,
                                          void *stream)
{
    vmm_double_t    *self   = lock(vmm);
    ucxpool_status_t status = UCXPOOL_OK;

    need_streams(self, "fence_wait");
    if (is_due(self, VMM_FENCE_WAIT)) {
        status = fail(self, "fence_wait");
    } else if (self->streams == NULL) {
        status = self->inner->calls->fence_wait(self->inner, fence, stream);
    } else {
        virtual_fence_wait(self->streams, virtual_of(fence), stream);
    }
    unlock(self);
    return status;
}

/* Waits without the lock where other threads must continue. */
static ucxpool_status_t double_fence_sync(mem_vmm_t *vmm, mem_fence_t *fence)
{
    vmm_double_t    *self   = lock(vmm);
    ucxpool_status_t status = UCXPOOL_OK;

    need_streams(self, "fence_sync");
    if (is_due(self, VMM_FENCE_SYNC)) {
        status = fail(self, "fence_sync");
    } else if (self->streams == NULL) {
        unlock(self);
        return self->inner->calls->fence_sync(self->inner, fence);
    } else {
        virtual_fence_sync(self->streams, virtual_of(fence));
    }
    unlock(self);
    return status;
}

static void double_fence_put(mem_vmm_t *vmm, mem_fence_t *fence)
{
    vmm_double_t *self = lock(vmm);

    need_streams(self, "fence_put");
    is_due(self, VMM_FENCE_PUT);
    if (self->num_fences == 0) {
        broken("fence_put: no fence is set");
    }
    self->num_fences--;
    if (self->streams == NULL) {
        self->inner->calls->fence_put(self->inner, fence);
    } else {
        virtual_fence_put(self->streams, virtual_of(fence));
    }
    unlock(self);
}

static ucxpool_status_t double_sizes(mem_vmm_t *vmm, uint64_t *total_p,
                                     uint64_t *free_p)
{
    vmm_double_t    *self = lock(vmm);
    uint64_t         total, free_size;
    ucxpool_status_t status;

    if (is_due(self, VMM_SIZES)) {
        status = fail(self, "sizes");
    } else {
        status = self->inner->calls->sizes(self->inner, &total, &free_size);
    }
    if (status == UCXPOOL_OK) {
        *total_p = base_min(total, self->limit);
        *free_p  = base_min(free_size, self->limit - self->held);
    }
    unlock(self);
    return status;
}

static const mem_vmm_calls_t double_calls = {
    .destroy          = double_destroy,
    .reserve          = double_reserve,
    .release          = double_release,
    .chunk_create     = double_chunk_create,
    .chunk_destroy    = double_chunk_destroy,
    .map              = double_map,
    .allow            = double_allow,
    .unmap            = double_unmap,
    .fence_set        = double_fence_set,
    .fence_is_reached = double_fence_is_reached,
    .fence_wait       = double_fence_wait,
    .fence_sync       = double_fence_sync,
    .fence_put        = double_fence_put,
    .sizes            = double_sizes,
};

mem_vmm_t *vmm_double_create(mem_vmm_t *inner, bool has_streams)
{
    vmm_double_t *self = calloc(1, sizeof(*self));

    if ((self == NULL) || (pthread_mutex_init(&self->lock, NULL) != 0)) {
        broken("no memory");
    }
    if (has_streams) {
        if (!inner->is_host) {
            broken("there are streams already");
        }
        self->streams = virtual_streams_create();
    }
    self->vmm.calls   = &double_calls;
    self->vmm.is_host = inner->is_host && !has_streams;
    self->inner       = inner;
    self->limit       = UINT64_MAX;
    self->fail_call   = VMM_LAST;
    return &self->vmm;
}

mem_vmm_t *vmm_double_create_host(bool has_streams)
{
    mem_vmm_t *inner;

    if (mem_vmm_create_host(&inner) != UCXPOOL_OK) {
        broken("no host memory");
    }
    return vmm_double_create(inner, has_streams);
}

void vmm_double_fail(mem_vmm_t *vmm, vmm_call_t call, unsigned n,
                     ucxpool_status_t status)
{
    vmm_double_t *self = lock(vmm);

    memset(self->counts, 0, sizeof(self->counts));
    self->fail_call   = call;
    self->fail_at     = n;
    self->fail_status = status;
    self->has_failed  = false;
    unlock(self);
}

bool vmm_double_has_failed(mem_vmm_t *vmm)
{
    vmm_double_t *self       = lock(vmm);
    bool          has_failed = self->has_failed;

    unlock(self);
    return has_failed;
}

unsigned vmm_double_count(mem_vmm_t *vmm, vmm_call_t call)
{
    vmm_double_t *self  = lock(vmm);
    unsigned      count = 0;

    for (unsigned i = 0; i < VMM_LAST; i++) {
        if ((call == VMM_LAST) || (call == i)) {
            count += self->counts[i];
        }
    }
    unlock(self);
    return count;
}

void vmm_double_limit(mem_vmm_t *vmm, uint64_t size)
{
    vmm_double_t *self = lock(vmm);

    if (size < self->held) {
        broken("limit: %" PRIu64 " bytes are held already", self->held);
    }
    self->limit = size;
    unlock(self);
}

#define NUMBER(_type, _name, _value) \
    _type vmm_double_##_name(mem_vmm_t *vmm) \
    { \
        vmm_double_t *self  = lock(vmm); \
        _type         value = self->_value; \
        unlock(self); \
        return value; \
    }

NUMBER(uint64_t, held, held)
NUMBER(uint64_t, mapped, mapped)
NUMBER(size_t, num_mappings, mappings.num)

/* Number of the byte at an address. */
static uint64_t byte_at(const vmm_double_t *self, const void *address)
{
    const item_t *mapping = item_of(&self->mappings, number_of(address));

    if (mapping == NULL) {
        broken("nothing is mapped at %p", address);
    }
    return item_of(&self->chunks, mapping->chunk)->bytes +
           (number_of(address) - mapping->start);
}

/* The part of a range that lies in one mapping. */
static virtual_use_t use_at(const vmm_double_t *self, const char *address,
                            size_t size)
{
    const item_t *mapping = item_of(&self->mappings, number_of(address));
    uint64_t      rest;

    if ((mapping == NULL) || !mapping->is_allowed) {
        broken("post: %p is not mapped and allowed", (const void *)address);
    }
    rest = mapping->start + mapping->size - number_of(address);
    return (virtual_use_t){.start   = byte_at(self, address),
                           .address = address,
                           .size    = base_min(size, rest)};
}

void vmm_double_post(mem_vmm_t *vmm, void *stream, const void *address,
                     size_t size, void (*work)(void *arg), void *arg)
{
    vmm_double_t  *self     = lock(vmm);
    virtual_use_t *uses     = NULL;
    unsigned       num_uses = 0;
    const char    *at       = address;

    need_streams(self, "post");
    while (size > 0) {
        uses = realloc(uses, (num_uses + 1) * sizeof(*uses));
        if (uses == NULL) {
            broken("no memory");
        }
        uses[num_uses] = use_at(self, at, size);
        at += uses[num_uses].size;
        size -= uses[num_uses].size;
        num_uses++;
    }
    virtual_streams_post(self->streams, stream, uses, num_uses, work, arg);
    free(uses);
    unlock(self);
}

unsigned vmm_double_run(mem_vmm_t *vmm, void *stream, unsigned num)
{
    vmm_double_t *self     = lock(vmm);
    unsigned      num_done = virtual_streams_run(self->streams, stream, num);

    unlock(self);
    return num_done;
}

void vmm_double_run_all(mem_vmm_t *vmm)
{
    vmm_double_t *self = lock(vmm);

    virtual_streams_run_all(self->streams);
    unlock(self);
}

void vmm_double_sync(mem_vmm_t *vmm, void *stream)
{
    vmm_double_t *self = lock(vmm);

    virtual_streams_sync(self->streams, stream);
    unlock(self);
}
