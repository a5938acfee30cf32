#include "core/ring.h"

#include "base/error.h"
#include "base/math.h"

#include <string.h>
#include <unistd.h>

/* Each entry begins with one of these and is padded to their size. */
typedef struct entry_head {
    uint32_t fixed_size; /* SKIP: the rest of the ring is empty */
    uint32_t data_size;
    uint64_t reserved;
} entry_head_t;

#define SKIP UINT32_MAX

static_assert(sizeof(entry_head_t) == 16, "entries stay aligned");
static_assert((CORE_RING_SIZE & (CORE_RING_SIZE - 1)) == 0, "a power of two");
static_assert(sizeof(proto_fixed_t) + PROTO_DATA_MAX +
                      2 * sizeof(entry_head_t) <=
                  CORE_RING_SIZE / 4,
              "an entry always fits, wherever the ring stands");

static uint64_t entry_size(uint64_t fixed_size, uint64_t data_size)
{
    return base_align_up(sizeof(entry_head_t) + fixed_size + data_size,
                         sizeof(entry_head_t));
}

ucxpool_status_t core_ring_init(core_ring_t *ring)
{
    void *address;
    int   fd;

    memset(ring, 0, sizeof(*ring));
    ring->fd = -1;
    ucxpool_status_t status =
        ipc_create("ucxpool:ring", sizeof(core_ring_page_t), &fd, &address);
    if (status != UCXPOOL_OK) {
        return status;
    }
    ring->mine = address;
    ring->fd   = fd;
    return UCXPOOL_OK;
}

void core_ring_cleanup(core_ring_t *ring)
{
    if (ring->theirs != NULL) {
        ipc_unmap(ring->theirs, sizeof(*ring->theirs));
        ring->theirs = NULL;
    }
    if (ring->mine != NULL) {
        ipc_unmap(ring->mine, sizeof(*ring->mine));
        close(ring->fd);
        ring->mine = NULL;
        ring->fd   = -1;
    }
}

void core_ring_attach(core_ring_t *ring, const void *theirs)
{
    ring->theirs = theirs;
}

/* Bytes that may be written now. A tail beyond the head is the peer's lie; the
 * difference then is huge, and no room is left. */
static uint64_t room(core_ring_t *ring, uint64_t needed)
{
    uint64_t used = ring->head - ring->tail_seen;

    if ((used > CORE_RING_SIZE) || (CORE_RING_SIZE - used < needed)) {
        ring->tail_seen =
            __atomic_load_n(&ring->theirs->tail, __ATOMIC_ACQUIRE);
        used = ring->head - ring->tail_seen;
    }
    return (used > CORE_RING_SIZE) ? 0 : CORE_RING_SIZE - used;
}

bool core_ring_reserve(core_ring_t *ring, size_t fixed_size, size_t data_size,
                       void **fixed_p, void **data_p)
{
    uint64_t      size   = entry_size(fixed_size, data_size);
    uint64_t      at     = ring->head % CORE_RING_SIZE;
    uint64_t      to_end = CORE_RING_SIZE - at;
    uint64_t      skip   = (to_end < size) ? to_end : 0;
    entry_head_t *head;

    if (room(ring, skip + size) < skip + size) {
        return false;
    }
    if (skip != 0) {
        head             = (entry_head_t *)(ring->mine->entries + at);
        head->fixed_size = SKIP;
        at               = 0;
    }
    head             = (entry_head_t *)(ring->mine->entries + at);
    head->fixed_size = (uint32_t)fixed_size;
    head->data_size  = (uint32_t)data_size;
    ring->reserved   = skip + size;
    *fixed_p         = head + 1;
    *data_p          = (uint8_t *)(head + 1) + fixed_size;
    return true;
}

/*
 * A sleeper stores `sleeping` and then looks at head and tail; a writer stores
 * head or tail and then looks at `sleeping`. All of these are sequentially
 * consistent, so that one of the two sees the other.
 */
void core_ring_commit(core_ring_t *ring)
{
    ring->head += ring->reserved;
    ring->reserved = 0;
    __atomic_store_n(&ring->mine->head, ring->head, __ATOMIC_SEQ_CST);
}

bool core_ring_has_input(const core_ring_t *ring)
{
    return __atomic_load_n(&ring->theirs->head, __ATOMIC_SEQ_CST) != ring->tail;
}

bool core_ring_is_crowded(const core_ring_t *ring)
{
    uint64_t head = __atomic_load_n(&ring->theirs->head, __ATOMIC_SEQ_CST);

    return head - ring->tail > CORE_RING_SIZE / 2;
}

static ucxpool_status_t corrupt(const char *what, uint64_t value)
{
    return base_error(UCXPOOL_ERR_PROTOCOL,
                      "the peer's ring holds nonsense (%s %llu)", what,
                      (unsigned long long)value);
}

/* Read the entry at the tail, of which `available` bytes are there. */
static ucxpool_status_t read_entry(core_ring_t *ring, uint64_t available,
                                   core_ring_entry_t *entry_p)
{
    uint64_t       at = ring->tail % CORE_RING_SIZE;
    uint64_t       size;
    const uint8_t *base = ring->theirs->entries + at;
    entry_head_t   head;

    memcpy(&head, base, sizeof(head));
    if ((head.fixed_size > sizeof(proto_fixed_t)) ||
        (head.data_size > PROTO_DATA_MAX)) {
        return corrupt("entry of", head.fixed_size);
    }
    size = entry_size(head.fixed_size, head.data_size);
    if ((size > available) || (size > CORE_RING_SIZE - at)) {
        return corrupt("entry over its end, of", size);
    }
    ring->entry_size    = size;
    entry_p->fixed      = base + sizeof(head);
    entry_p->fixed_size = head.fixed_size;
    entry_p->data       = base + sizeof(head) + head.fixed_size;
    entry_p->data_size  = head.data_size;
    return UCXPOOL_OK;
}

ucxpool_status_t core_ring_peek(core_ring_t *ring, core_ring_entry_t *entry_p)
{
    uint64_t available = ring->head_seen - ring->tail;
    uint64_t at        = ring->tail % CORE_RING_SIZE;
    uint32_t first;

    if (available == 0) {
        ring->head_seen =
            __atomic_load_n(&ring->theirs->head, __ATOMIC_ACQUIRE);
        available = ring->head_seen - ring->tail;
        if (available == 0) {
            return UCXPOOL_INPROGRESS;
        }
    }
    if ((available > CORE_RING_SIZE) || (available < sizeof(entry_head_t)) ||
        (available % sizeof(entry_head_t) != 0)) {
        return corrupt("head ahead by", available);
    }
    memcpy(&first, ring->theirs->entries + at, sizeof(first));
    if (first == SKIP) {
        if (available <= CORE_RING_SIZE - at) {
            return corrupt("a skip to", ring->head_seen);
        }
        available -= CORE_RING_SIZE - at;
        ring->tail += CORE_RING_SIZE - at;
    }
    return read_entry(ring, available, entry_p);
}

void core_ring_consume(core_ring_t *ring)
{
    ring->tail += ring->entry_size;
    __atomic_store_n(&ring->mine->tail, ring->tail, __ATOMIC_SEQ_CST);
}

void core_ring_sleep(core_ring_t *ring)
{
    uint32_t value = __atomic_load_n(&ring->mine->sleeping, __ATOMIC_RELAXED);

    __atomic_store_n(&ring->mine->sleeping, value | 1u, __ATOMIC_SEQ_CST);
}

void core_ring_awake(core_ring_t *ring)
{
    uint32_t value = __atomic_load_n(&ring->mine->sleeping, __ATOMIC_RELAXED);

    __atomic_store_n(&ring->mine->sleeping, value + (value & 1u),
                     __ATOMIC_RELAXED);
}

bool core_ring_needs_doorbell(core_ring_t *ring)
{
    uint32_t value = __atomic_load_n(&ring->theirs->sleeping, __ATOMIC_SEQ_CST);

    if (((value & 1u) == 0) || (value == ring->rung)) {
        return false;
    }
    ring->rung = value;
    return true;
}

void core_ring_revoke(core_ring_t *ring, uint64_t message)
{
    /* An exchange, because the caller's writes to its memory must come after
     * it. */
    (void)__atomic_exchange_n(&ring->mine->revoked[message % PROTO_SENDS_MAX],
                              message, __ATOMIC_SEQ_CST);
}

bool core_ring_is_revoked(const core_ring_t *ring, uint64_t message)
{
    /* The bytes were read before this load. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&ring->theirs->revoked[message % PROTO_SENDS_MAX],
                           __ATOMIC_RELAXED) == message;
}
