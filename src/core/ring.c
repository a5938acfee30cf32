#include "core/ring.h"

#include "base/error.h"
#include "base/math.h"
#include "ipc/file.h"

#include <string.h>
#include <unistd.h>

/* Size of a cache line; each entry begins at one. */
#define LINE 64u

/* Words are cleared in advance, while no process waits. If fewer than AHEAD_MIN
 * bytes after the head have cleared words, the words of up to AHEAD_MAX bytes
 * are cleared. This CPU then owns these cache lines when it writes the next
 * entries. */
#define AHEAD_MIN (4u * LINE)
#define AHEAD_MAX (8u * LINE)

/* The start of an entry: one word, which is 0 until the entry is complete. */
typedef struct entry_head {
    uint16_t fixed_size; /* SKIP: the rest of the ring is unused */
    uint16_t data_size;
    uint32_t lap; /* starts at 1, so that a word is never 0 */
} entry_head_t;

#define SKIP UINT16_MAX

static_assert(sizeof(entry_head_t) == sizeof(uint64_t),
              "an entry's head must be one word");
static_assert((CORE_RING_SIZE & (CORE_RING_SIZE - 1)) == 0,
              "the size must be a power of two");
static_assert(sizeof(proto_fixed_t) + PROTO_DATA_MAX + 2 * LINE <=
                  CORE_RING_SIZE / 8,
              "an entry must fit at each position of the ring");
static_assert((sizeof(proto_fixed_t) < SKIP) && (PROTO_DATA_MAX < UINT16_MAX),
              "the sizes must fit in their fields");

static uint64_t entry_size(uint64_t fixed_size, uint64_t data_size)
{
    return base_align_up(sizeof(entry_head_t) + fixed_size + data_size, LINE);
}

/* Returns the word of an entry at a position. Positions count all bytes ever
 * written, and do not wrap at the end of the ring. */
static uint64_t word_of(uint64_t place, size_t fixed_size, size_t data_size)
{
    entry_head_t head = {
        .fixed_size = (uint16_t)fixed_size,
        .data_size  = (uint16_t)data_size,
        .lap        = (uint32_t)(place / CORE_RING_SIZE + 1),
    };
    uint64_t word;

    memcpy(&word, &head, sizeof(word));
    return word;
}

static uint64_t *word_at(core_ring_page_t *page, uint64_t place)
{
    return (uint64_t *)(void *)(page->entries + place % CORE_RING_SIZE);
}

static void store_word(uint64_t *word, uint64_t value, int order)
{
    if (order == __ATOMIC_SEQ_CST) {
        __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
    } else {
        __atomic_store_n(word, value, __ATOMIC_RELEASE);
    }
}

static uint64_t load_word(const core_ring_page_t *page, uint64_t place,
                          int order)
{
    const void *word = page->entries + place % CORE_RING_SIZE;

    return (order == __ATOMIC_SEQ_CST)
               ? __atomic_load_n((const uint64_t *)word, __ATOMIC_SEQ_CST)
               : __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE);
}

ucxpool_status_t core_ring_init(core_ring_t *ring)
{
    void *address;
    int   fd;

    memset(ring, 0, sizeof(*ring));
    ring->fd = -1;
    ucxpool_status_t status =
        ipc_create("ring", sizeof(core_ring_page_t), &fd, &address);
    if (status != UCXPOOL_OK) {
        return status;
    }
    ring->mine    = address;
    ring->fd      = fd;
    ring->cleared = CORE_RING_SIZE; /* new memory is zero */
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

/* Returns the number of bytes that may be written now. If the peer's tail is
 * invalid (beyond the head), the difference is huge, and there is no room. */
static uint64_t room(core_ring_t *ring, uint64_t needed)
{
    uint64_t used = ring->head - ring->tail_seen;

    if ((used > CORE_RING_SIZE) || (CORE_RING_SIZE - used < needed)) {
        ring->tail_seen =
            __atomic_load_n(&ring->theirs->tail, __ATOMIC_SEQ_CST);
        used = ring->head - ring->tail_seen;
    }
    return (used > CORE_RING_SIZE) ? 0 : CORE_RING_SIZE - used;
}

bool core_ring_reserve(core_ring_t *ring, size_t fixed_size, size_t data_size,
                       void **fixed_p, void **data_p)
{
    uint64_t size   = entry_size(fixed_size, data_size);
    uint64_t to_end = CORE_RING_SIZE - ring->head % CORE_RING_SIZE;
    uint64_t skip   = (to_end < size) ? to_end : 0;
    uint64_t needed = skip + size + LINE; /* with the line of the next word */
    uint8_t *entry;

    if (room(ring, needed) < needed) {
        return false;
    }
    ring->skipped  = skip;
    ring->reserved = size;
    ring->word     = word_of(ring->head + skip, fixed_size, data_size);
    entry          = (uint8_t *)word_at(ring->mine, ring->head + skip);
    *fixed_p       = entry + sizeof(entry_head_t);
    *data_p        = entry + sizeof(entry_head_t) + fixed_size;
    return true;
}

/* Clear all words from `begin` to `end` that have not been cleared before. */
static void clear_words(core_ring_t *ring, uint64_t begin, uint64_t end)
{
    ring->cleared = base_max(ring->cleared, begin);
    for (; ring->cleared < end; ring->cleared += LINE) {
        __atomic_store_n(word_at(ring->mine, ring->cleared), 0,
                         __ATOMIC_RELAXED);
    }
}

/* Write the word of the entry with this memory order. */
static void commit(core_ring_t *ring, int order)
{
    uint64_t  begin = ring->head;
    uint64_t  end   = begin + ring->skipped + ring->reserved;
    uint64_t *word  = word_at(ring->mine, begin);

    clear_words(ring, end, end + LINE);
    if (ring->skipped == 0) {
        store_word(word, ring->word, order);
    } else {
        store_word(word_at(ring->mine, begin + ring->skipped), ring->word,
                   __ATOMIC_RELEASE);
        store_word(word, word_of(begin, SKIP, 0), order);
    }
    ring->head = end;
    if (ring->cleared < end + AHEAD_MIN) {
        (void)room(ring, AHEAD_MAX); /* update tail_seen */
        clear_words(
            ring, end,
            base_min(end + AHEAD_MAX, ring->tail_seen + CORE_RING_SIZE));
    }
}

/*
 * A sleeping side stores `sleeping`, and then reads the next word and the tail.
 * A writer stores the word or the tail, and then reads `sleeping`. All of these
 * are sequentially consistent, so that one of the two sees the other's store.
 * After core_ring_publish(), the caller's fence orders the store of the word
 * before the read of `sleeping`.
 */
void core_ring_commit(core_ring_t *ring)
{
    commit(ring, __ATOMIC_SEQ_CST);
}

void core_ring_publish(core_ring_t *ring)
{
    commit(ring, __ATOMIC_RELEASE);
}

bool core_ring_has_input(const core_ring_t *ring)
{
    return load_word(ring->theirs, ring->tail, __ATOMIC_SEQ_CST) != 0;
}

static ucxpool_status_t corrupt(const char *what, uint64_t value)
{
    return base_error(UCXPOOL_ERR_PROTOCOL,
                      "the peer's ring is corrupt (%s %llu)", what,
                      (unsigned long long)value);
}

/* Parse the entry at the tail, which has this word. */
static ucxpool_status_t read_entry(core_ring_t *ring, uint64_t word,
                                   core_ring_entry_t *entry_p)
{
    uint64_t       at   = ring->tail % CORE_RING_SIZE;
    const uint8_t *base = ring->theirs->entries + at;
    uint64_t       size;
    entry_head_t   head;

    memcpy(&head, &word, sizeof(head));
    if ((word_of(ring->tail, head.fixed_size, head.data_size) != word) ||
        (head.fixed_size > sizeof(proto_fixed_t)) ||
        (head.data_size > PROTO_DATA_MAX)) {
        return corrupt("an entry with the invalid word", word);
    }
    size = entry_size(head.fixed_size, head.data_size);
    if (size > CORE_RING_SIZE - at) {
        return corrupt("an entry beyond the end of the ring, with size", size);
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
    uint64_t word = load_word(ring->theirs, ring->tail, __ATOMIC_ACQUIRE);

    if (word == 0) {
        return UCXPOOL_INPROGRESS;
    }
    if (word == word_of(ring->tail, SKIP, 0)) {
        ring->tail += CORE_RING_SIZE - ring->tail % CORE_RING_SIZE;
        word = load_word(ring->theirs, ring->tail, __ATOMIC_ACQUIRE);
    }
    return read_entry(ring, word, entry_p);
}

bool core_ring_consume(core_ring_t *ring)
{
    uint64_t quarter;

    ring->tail += ring->entry_size;
    quarter = ring->tail / (CORE_RING_SIZE / 4);
    if (quarter == ring->quarter) {
        __atomic_store_n(&ring->mine->tail, ring->tail, __ATOMIC_RELEASE);
        return false;
    }
    ring->quarter = quarter;
    __atomic_store_n(&ring->mine->tail, ring->tail, __ATOMIC_SEQ_CST);
    return true;
}

void core_ring_sleep(core_ring_t *ring)
{
    uint32_t value = __atomic_load_n(&ring->mine->sleeping, __ATOMIC_RELAXED);

    ring->slept_at = ring->tail;
    __atomic_store_n(&ring->mine->sleeping, value | 1u, __ATOMIC_SEQ_CST);
}

bool core_ring_was_read_since_sleep(const core_ring_t *ring)
{
    return ring->tail != ring->slept_at;
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

void core_ring_revoke(core_ring_t *ring, unsigned word, uint64_t message)
{
    /* Use an exchange, because the caller's later writes to its memory must not
     * be reordered before this store. */
    if (ring->mine != NULL) {
        (void)__atomic_exchange_n(&ring->mine->revoked[word % PROTO_SENDS_MAX],
                                  message, __ATOMIC_SEQ_CST);
    }
}

bool core_ring_is_revoked(const core_ring_t *ring, unsigned word,
                          uint64_t message)
{
    /* Order the reads of the data before this load. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&ring->theirs->revoked[word % PROTO_SENDS_MAX],
                           __ATOMIC_RELAXED) == message;
}

void core_ring_withdraw(core_ring_t *ring)
{
    if (ring->mine != NULL) {
        (void)__atomic_add_fetch(&ring->mine->withdrawn, 1, __ATOMIC_SEQ_CST);
    }
}

bool core_ring_peer_copies(const core_ring_t *ring)
{
    return __atomic_load_n(&ring->theirs->copying, __ATOMIC_SEQ_CST) != 0;
}

bool core_ring_begin_copy(core_ring_t *ring, uint64_t num_read)
{
    __atomic_store_n(&ring->mine->copying, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&ring->theirs->withdrawn, __ATOMIC_SEQ_CST) ==
        num_read) {
        return true;
    }
    core_ring_end_copy(ring);
    return false;
}

void core_ring_end_copy(core_ring_t *ring)
{
    __atomic_store_n(&ring->mine->copying, 0, __ATOMIC_RELEASE);
}
