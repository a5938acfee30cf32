/*
 * Fuzz target: the page that a peer on the same host shares with us, and may
 * change while we read it. The input is a script. Each step begins with a byte
 * that selects the peer's action. Its head is its next write position in the
 * ring.
 */
#include "fuzz.h"

#include "base/log.h"
#include "base/math.h"
#include "core/ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum step {
    STEP_ENTRY, /* write an entry at its head: sizes, then bytes */
    STEP_SKIP,  /* skip to the ring's start, and write an entry at its head */
    STEP_HEAD,  /* move its head by 64 times a signed 16-bit number */
    STEP_LAP,   /* write the first word of an entry of the previous lap */
    STEP_TAIL, /* set its read position: a 16-bit number subtracted from written
                */
    STEP_SLEEP, /* set its count of sleeps */
    STEP_WORD,  /* write 4 bytes anywhere: a 16-bit index, times 4 */
    NUM_STEPS
} step_t;

typedef struct script {
    const uint8_t *data;
    size_t         size;
} script_t;

#define LINE UINT64_C(64)

static core_ring_page_t *theirs;
static uint64_t          head; /* the peer's */
static unsigned          num_read;

static uint32_t take(script_t *script, size_t size)
{
    uint32_t value = 0;

    size = base_min(size, script->size);
    memcpy(&value, script->data, size);
    script->data += size;
    script->size -= size;
    return value;
}

static void put_word(uint64_t place, uint64_t word)
{
    memcpy(theirs->entries + place % CORE_RING_SIZE, &word, sizeof(word));
}

static uint64_t lap_of(uint64_t place)
{
    return (uint32_t)(place / CORE_RING_SIZE + 1);
}

/* An entry's first word: its sizes, and the lap of the ring. */
static void write_word(uint64_t place, uint32_t fixed_size, uint32_t data_size)
{
    put_word(place,
             fixed_size | (uint64_t)data_size << 16 | lap_of(place) << 32);
}

/* The sizes may contradict the content, but the entry stays within the ring. No
 * data of the previous lap follows it, as real writers ensure. */
static void write_entry(script_t *script)
{
    uint64_t at         = head % CORE_RING_SIZE + sizeof(uint64_t);
    uint32_t fixed_size = take(script, 2);
    uint32_t data_size  = take(script, 2);
    size_t   length = base_min(script->size, (size_t)fixed_size + data_size);

    write_word(head, fixed_size, data_size);
    length = base_min(length, CORE_RING_SIZE - at);
    memcpy(theirs->entries + at, script->data, length);
    script->data += length;
    script->size -= length;
    head += base_align_up(sizeof(uint64_t) + (uint64_t)fixed_size + data_size,
                          LINE);
    put_word(head, 0);
}

/* The entry after the skip is written first. */
static void write_skip(script_t *script)
{
    uint64_t place = head;

    head += CORE_RING_SIZE - head % CORE_RING_SIZE;
    write_entry(script);
    write_word(place, UINT16_MAX, 0);
}

static void take_step(script_t *script, const core_ring_t *ring)
{
    uint32_t place;

    switch ((step_t)(take(script, 1) % NUM_STEPS)) {
    case STEP_ENTRY:
        write_entry(script);
        break;
    case STEP_SKIP:
        write_skip(script);
        break;
    case STEP_HEAD:
        head += (uint64_t)(int16_t)take(script, 2) * LINE;
        break;
    case STEP_LAP:
        put_word(head, sizeof(proto_head_t) | (lap_of(head) - 1) << 32);
        break;
    case STEP_TAIL:
        theirs->tail = ring->head - take(script, 2);
        break;
    case STEP_SLEEP:
        theirs->sleeping = take(script, 4);
        break;
    default:
        place = take(script, 2) * 4 % CORE_RING_SIZE;
        memset(theirs->entries + place, (int)take(script, 1), 4);
    }
}

/* Read all entries, as the inbox does. false: the peer's error is detected. */
static bool read_entries(core_ring_t *ring)
{
    const uint8_t    *begin = theirs->entries;
    const uint8_t    *end   = theirs->entries + CORE_RING_SIZE;
    core_ring_entry_t entry;
    proto_fixed_t     message;
    ucxpool_status_t  status;

    for (size_t i = 0; i < CORE_RING_SIZE / LINE + 1; i++) {
        status = core_ring_peek(ring, &entry);
        if (status == UCXPOOL_INPROGRESS) {
            return true;
        }
        if (status != UCXPOOL_OK) {
            CHECK(status == UCXPOOL_ERR_PROTOCOL);
            return false;
        }
        CHECK(((const uint8_t *)entry.fixed >= begin) &&
              ((const uint8_t *)entry.fixed + entry.fixed_size <= end));
        CHECK(((const uint8_t *)entry.data >= begin) &&
              ((const uint8_t *)entry.data + entry.data_size <= end));
        CHECK(entry.data_size <= PROTO_DATA_MAX);
        if (proto_parse(entry.fixed, entry.fixed_size, entry.data_size,
                        &message) != UCXPOOL_OK) {
            return false;
        }
        num_read++;
        (void)core_ring_consume(ring);
    }
    /* The peer does not write now, so the loop ends. */
    CHECK(!core_ring_has_input(ring));
    return true;
}

/* Our own entries stay within our ring, whatever the peer writes. */
static void write_answer(core_ring_t *ring, size_t data_size)
{
    const uint8_t *begin = ring->mine->entries;
    const uint8_t *end   = ring->mine->entries + CORE_RING_SIZE;
    void          *fixed, *bytes;

    if (!core_ring_reserve(ring, sizeof(proto_head_t), data_size, &fixed,
                           &bytes)) {
        return;
    }
    CHECK(((uint8_t *)fixed >= begin) && ((uint8_t *)bytes >= begin));
    CHECK((uint8_t *)bytes + data_size <= end);
    memset(fixed, 0, sizeof(proto_head_t));
    memset(bytes, 1, data_size);
    core_ring_commit(ring);
    (void)core_ring_needs_doorbell(ring);
}

/* A ring without shared memory. Nothing is unmapped. */
static void init(core_ring_t *ring)
{
    static core_ring_page_t *mine;

    if (mine == NULL) {
        mine   = aligned_alloc(4096, sizeof(*mine));
        theirs = aligned_alloc(4096, sizeof(*theirs));
        CHECK((mine != NULL) && (theirs != NULL));
        memset(mine, 0, sizeof(*mine));
        memset(theirs, 0, sizeof(*theirs));
    }
    memset(ring, 0, sizeof(*ring));
    ring->mine = mine;
    ring->fd   = -1;
    memset(mine->entries, 0, sizeof(mine->entries));
    memset(theirs, 0, sizeof(*theirs));
    head          = 0;
    num_read      = 0;
    ring->cleared = CORE_RING_SIZE;
    core_ring_attach(ring, theirs);
}

static char told[512];

const char *fuzz_told(void)
{
    return told;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    script_t    script = {data, size};
    core_ring_t ring;

    base_log_set_level(BASE_LOG_NONE);
    init(&ring);
    told[0] = '\0';
    while (script.size > 0) {
        take_step(&script, &ring);
        if (!read_entries(&ring)) {
            snprintf(told, sizeof(told), "%u entries, refused: %s", num_read,
                     ucxpool_error_detail());
            return 0;
        }
        write_answer(&ring, script.size % PROTO_DATA_MAX);
        (void)core_ring_is_revoked(&ring, (unsigned)script.size, script.size);
    }
    snprintf(told, sizeof(told), "%u entries", num_read);
    return 0;
}
