/*
 * Rings carry the control messages of the `map` wire through shared memory.
 *
 * Each side of a channel has one sealed memfd, which the peer maps for reading.
 * No process writes to the memory of another:
 *
 *     mine (I write, the peer reads)        theirs (the opposite)
 *     +----------------------------+        +----------------------------+
 *     | sleeping                   |        | sleeping                   |
 *     | tail: bytes I have read    |        | tail: bytes they have read |
 *     | revoked[]                  |        | revoked[]                  |
 *     | copying, withdrawn         |        | copying, withdrawn         |
 *     | ring of entries            | -----> |                            |
 *     +----------------------------+        +----------------------------+
 *
 * An entry begins at a cache line, with a word. The word is 0 until the entry
 * is complete, so a short message needs only one line to be transferred between
 * CPUs. The word after the last entry is 0. It is cleared before the word of
 * the last entry is written:
 *
 *     | word, entry ... | word, entry ... | 0             0       read entries
 *     ^ theirs->tail                      ^ head          ^ cleared
 *
 *     head - theirs->tail < ring size, and head < cleared, always
 *
 * A wrong number in the peer's page can harm only the peer.
 *
 * `sleeping` is a counter that is odd while the owner sleeps or is about to
 * sleep. A writer that reads a new odd value sends the message DOORBELL, once
 * for each value.
 *
 * Revocation: if the receiver itself reads the data of a message, the message
 * has a word in revoked[]. To end such a send early, the sender writes the
 * message's number to this word, and only then returns the memory to the
 * caller. The receiver copies a fragment and then checks the word: if the word
 * has the number, the data may have been overwritten since the send ended, and
 * the receive does not complete.
 *
 * Withdrawal: the owner of a window ends the importer's access without the
 * importer's help. The importer sets `copying` before each step of a copy.
 * Then it compares the owner's `withdrawn` with the number of REVOKE messages
 * that it has read. The owner increments `withdrawn` for each REVOKE message
 * that it sends, and then reads `copying`:
 *
 *     importer                           owner
 *     copying = 1                        withdrawn += 1
 *     withdrawn == number read?          copying == 0?
 *       yes: copy                          yes: the memory is free
 *     copying = 0
 *
 * Each side writes its word before it reads the other's, so at least one of
 * them sees the other's write.
 */
#ifndef CORE_RING_H
#define CORE_RING_H

#include "core/proto.h"

/* Size of the entries in bytes; a power of two. */
#define CORE_RING_SIZE (256u * 1024u)

/* Each word has its own cache line, so that a write to one word does not slow
 * down the readers of others. */
#define CORE_RING_LINE __attribute__((aligned(64)))

/* Words are accessed only with atomic builtins. */
typedef struct core_ring_page {
    uint32_t sleeping  CORE_RING_LINE;
    uint64_t tail      CORE_RING_LINE;
    uint64_t           revoked[PROTO_SENDS_MAX] CORE_RING_LINE;
    uint32_t copying   CORE_RING_LINE;
    uint64_t withdrawn CORE_RING_LINE;
    uint8_t            entries[CORE_RING_SIZE] __attribute__((aligned(4096)));
} core_ring_page_t;

typedef struct core_ring {
    core_ring_page_t       *mine;
    const core_ring_page_t *theirs;  /* NULL until attached */
    int                     fd;      /* of `mine` */
    uint64_t                head;    /* bytes written */
    uint64_t                cleared; /* all words up to here are 0 */
    uint64_t                skipped; /* bytes skipped before the entry being
                                        written */
    uint64_t reserved;               /* size of the entry being written */
    uint64_t word;                   /* first word of the entry being written */
    uint64_t tail;                   /* bytes read */
    uint64_t quarter;                /* quarter of the ring in which the tail
                                        was when core_ring_consume() last
                                        returned true */
    uint64_t entry_size;             /* of the entry being read */
    uint64_t tail_seen;              /* the last value of the peer's tail */
    uint64_t slept_at;               /* `tail` when this side last announced a
                                        sleep */
    uint32_t rung;                   /* value of the peer's `sleeping` when this
                                        side last sent DOORBELL */
} core_ring_t;

/* A message in the peer's ring. The memory belongs to the peer and may change
 * during reads: copy first, then check. */
typedef struct core_ring_entry {
    const void *fixed;
    size_t      fixed_size;
    const void *data;
    size_t      data_size;
} core_ring_entry_t;

ucxpool_status_t core_ring_init(core_ring_t *ring);
void             core_ring_cleanup(core_ring_t *ring);

/* Attach the peer's control memory, which has been mapped. core_ring_cleanup()
 * unmaps it. */
void core_ring_attach(core_ring_t *ring, const void *theirs);

/*
 * Reserve room for one message. Returns false if the ring is full. The caller
 * fills both parts, and then calls core_ring_commit() or core_ring_publish().
 */
bool core_ring_reserve(core_ring_t *ring, size_t fixed_size, size_t data_size,
                       void **fixed_p, void **data_p);
void core_ring_commit(core_ring_t *ring);

/* Like core_ring_commit(), but faster. The peer can read the message at once.
 * The caller must execute a sequentially consistent fence before it calls
 * core_ring_needs_doorbell(). */
void core_ring_publish(core_ring_t *ring);

/*
 * Get the next message from the peer.
 *
 * UCXPOOL_OK            *entry_p is valid until core_ring_consume()
 * UCXPOOL_INPROGRESS    no message has arrived
 * UCXPOOL_ERR_PROTOCOL  the peer's ring is corrupt
 */
ucxpool_status_t core_ring_peek(core_ring_t *ring, core_ring_entry_t *entry_p);

/*
 * Release the message that core_ring_peek() returned. Returns true if a quarter
 * of the ring has become free since this function last returned true. A peer
 * that sleeps until there is room must then be woken. A peer sleeps for room
 * only if less than a quarter of the ring is free, so it is always woken before
 * the ring has been drained.
 */
bool core_ring_consume(core_ring_t *ring);

/* Returns true if there is a message to read. */
bool core_ring_has_input(const core_ring_t *ring);

/* Publish that this side is about to sleep, or that it is awake. */
void core_ring_sleep(core_ring_t *ring);
void core_ring_awake(core_ring_t *ring);

/* Returns true if this side has read a message since it last called
 * core_ring_sleep(). */
bool core_ring_was_read_since_sleep(const core_ring_t *ring);

/* Returns true if the peer must be woken, once for each of its sleeps. Call
 * this after core_ring_commit(), after core_ring_publish() and a fence, and
 * after core_ring_consume() has returned true. */
bool core_ring_needs_doorbell(core_ring_t *ring);

/* Revoke a message, or check whether the peer has revoked it. word: index of
 * the message in revoked[]. An index from a peer may have any value.
 * core_ring_revoke() does nothing if the channel has no ring. */
void core_ring_revoke(core_ring_t *ring, unsigned word, uint64_t message);
bool core_ring_is_revoked(const core_ring_t *ring, unsigned word,
                          uint64_t message);

/* Owner of a window: count a REVOKE that is being sent. Does nothing if the
 * channel has no ring. */
void core_ring_withdraw(core_ring_t *ring);

/* Owner: returns true if the peer is in a step of a copy that began before the
 * last REVOKE. */
bool core_ring_peer_copies(const core_ring_t *ring);

/* Importer: begin a step of a copy. Returns false if the owner has sent more
 * than num_read REVOKE messages; no step may begin then. */
bool core_ring_begin_copy(core_ring_t *ring, uint64_t num_read);
void core_ring_end_copy(core_ring_t *ring);

#endif
