/*
 * Rings: control messages of the `map` wire, through shared memory.
 *
 * Each side of a channel has one sealed memfd, which the peer maps for reading.
 * Nobody ever writes to the memory of another:
 *
 *     mine (I write, the peer reads)        theirs (the other way round)
 *     +----------------------------+        +----------------------------+
 *     | sleeping                   |        | sleeping                   |
 *     | tail: bytes I have read    |        | tail: how far they read me |
 *     | revoked[]                  |        | revoked[]                  |
 *     | copying, withdrawn         |        | copying, withdrawn         |
 *     | ring of entries            | -----> |                            |
 *     +----------------------------+        +----------------------------+
 *
 * An entry begins with a word, and with a cache line. The word is 0 until the
 * entry is complete, and tells that it is: so a short message is one line that
 * goes from one processor to the other. What follows the last entry is a word
 * that is 0, written before the entry's own:
 *
 *     | word, entry ... | word, entry ... | 0             0       what was read
 *     ^ theirs->tail                      ^ head          ^ cleared
 *
 *     head - theirs->tail < ring size, and head < cleared, always
 *
 * A number from the peer's page is believed only as far as it harms nobody but
 * the peer.
 *
 * Sleeping is a count that is odd while the owner sleeps or is about to; a
 * writer that sees a new odd value rings the doorbell (a message DOORBELL),
 * once for each value.
 *
 * Revocation: a message whose bytes the receiver reads by itself has a word of
 * revoked[]. Before its sender ends it early, it writes the message's number to
 * that word, and only then gives the memory back to the caller. The receiver
 * copies a fragment and then looks: if the number stands there, the bytes may
 * be newer than the message, and it does not complete.
 *
 * Withdrawal: the owner of a window takes it back without the importer's help.
 * The importer sets `copying` before each step of a copy, and then compares the
 * owner's `withdrawn` with the number of REVOKE messages that it has read. The
 * owner counts in `withdrawn` the REVOKE messages that it sends, and then reads
 * `copying`:
 *
 *     importer                           owner
 *     copying = 1                        withdrawn += 1
 *     withdrawn == number read?          copying == 0?
 *       yes: copy                          yes: the memory is free
 *     copying = 0
 *
 * Each side writes its word before it reads the other's, so at least one of
 * them sees the other.
 */
#ifndef CORE_RING_H
#define CORE_RING_H

#include "core/proto.h"
#include "ipc/share.h"

/* Bytes of entries; a power of two. */
#define CORE_RING_SIZE (256u * 1024u)

/* Each word in a cache line of its own: its writer is another than its
 * neighbour's reader. */
#define CORE_RING_LINE __attribute__((aligned(64)))

/* Words are read and written by atomic builtins only. */
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
    const core_ring_page_t *theirs;   /* NULL until attached */
    int                     fd;       /* of mine */
    uint64_t                head;     /* what I have written */
    uint64_t                cleared;  /* so far all words are 0 */
    uint64_t                skipped;  /* before the entry being written */
    uint64_t                reserved; /* bytes of it */
    uint64_t                word;     /* of it */
    uint64_t                tail;     /* what I have read */
    uint64_t                quarter;  /* of the ring: where the tail was when
                                         core_ring_consume() last told */
    uint64_t entry_size;              /* of the entry being read */
    uint64_t tail_seen;               /* of theirs */
    uint64_t slept_at;                /* tail when it was about to sleep */
    uint32_t rung;                    /* last value of sleeping answered */
} core_ring_t;

/* A message in the peer's ring. The memory is the peer's and may change under
 * the reader: copy, then check. */
typedef struct core_ring_entry {
    const void *fixed;
    size_t      fixed_size;
    const void *data;
    size_t      data_size;
} core_ring_entry_t;

ucxpool_status_t core_ring_init(core_ring_t *ring);
void             core_ring_cleanup(core_ring_t *ring);

/* The peer's control memory has been mapped; the ring unmaps it at the end. */
void core_ring_attach(core_ring_t *ring, const void *theirs);

/*
 * Room for one message. False when the ring is full. The caller fills both
 * parts and commits.
 */
bool core_ring_reserve(core_ring_t *ring, size_t fixed_size, size_t data_size,
                       void **fixed_p, void **data_p);
void core_ring_commit(core_ring_t *ring);

/*
 * The next message from the peer.
 *
 * UCXPOOL_OK            *entry_p is valid until core_ring_consume()
 * UCXPOOL_INPROGRESS    nothing has arrived
 * UCXPOOL_ERR_PROTOCOL  the peer's ring holds nonsense
 */
ucxpool_status_t core_ring_peek(core_ring_t *ring, core_ring_entry_t *entry_p);

/*
 * It has been read. True when a quarter of the ring has become free since the
 * last time: the peer, if it sleeps for want of room, has some now. It found
 * less than a quarter free, so it is told before all is read.
 */
bool core_ring_consume(core_ring_t *ring);

/* Is there something to read? */
bool core_ring_has_input(const core_ring_t *ring);

/* Tell the peer that this side is about to sleep, or awake. */
void core_ring_sleep(core_ring_t *ring);
void core_ring_awake(core_ring_t *ring);

/* Has anything been read since this side was about to sleep? */
bool core_ring_was_read_since_sleep(const core_ring_t *ring);

/* Must the peer be woken? True once for each of its sleeps. To be asked after
 * a commit, and after a consume that was true. */
bool core_ring_needs_doorbell(core_ring_t *ring);

/* word: which of revoked[] the message has. A peer's may be any number. Nothing
 * where the channel has no ring. */
void core_ring_revoke(core_ring_t *ring, unsigned word, uint64_t message);
bool core_ring_is_revoked(const core_ring_t *ring, unsigned word,
                          uint64_t message);

/* Owner of a window: count a REVOKE that is being sent. Nothing where the
 * channel has no ring. */
void core_ring_withdraw(core_ring_t *ring);

/* Owner: is the peer in a step of a copy that began before that? */
bool core_ring_peer_copies(const core_ring_t *ring);

/* Importer: begin a step of a copy. False where the owner has sent more REVOKE
 * messages than the num_read that have been read: no step may begin then. */
bool core_ring_begin_copy(core_ring_t *ring, uint64_t num_read);
void core_ring_end_copy(core_ring_t *ring);

#endif
