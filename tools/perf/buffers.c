#include "perf/buffers.h"
#include "common/system.h"
#include "common/error.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#define PAGE 4096u

/* The byte that fills a target before a message arrives. */
#define POISON 0xa5u

/* --- memory --------------------------------------------------------------- */

int memory_init(memory_t *memory, int device, bool is_pageable)
{
    memset(memory, 0, sizeof(*memory));
    memory->device      = device;
    memory->is_pageable = is_pageable;
    return device == WORK_HOST ? 0 : gpu_open(&memory->gpu, device);
}

void memory_cleanup(memory_t *memory)
{
    gpu_host_free(&memory->gpu, memory->mirror);
    gpu_close(&memory->gpu);
    memset(memory, 0, sizeof(*memory));
}

int memory_alloc(memory_t *memory, size_t size, void **address_p)
{
    void *address;

    if (memory_is_on_gpu(memory)) {
        return gpu_alloc(&memory->gpu, size, address_p) == 0
                   ? 0
                   : tool_error("not enough GPU memory: lower -s, -n or -O");
    }
    address = mmap(NULL, size, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (address == MAP_FAILED) {
        return tool_error(
            "cannot allocate %zu bytes of buffers (%s): lower -s, -n or -O",
            size, strerror(errno));
    }
    *address_p = address;
    return 0;
}

void memory_free(memory_t *memory, void *address, size_t size)
{
    if (memory_is_on_gpu(memory)) {
        gpu_free(&memory->gpu, address);
    } else if (address != NULL) {
        munmap(address, size);
    }
}

void *memory_list_alloc(memory_t *memory, size_t num, size_t size)
{
    void *list = NULL;

    if (!memory_is_on_gpu(memory)) {
        return tool_calloc(num, size);
    }
    return gpu_host_alloc(&memory->gpu, num * size, &list) == 0 ? list : NULL;
}

void memory_list_free(memory_t *memory, void *list)
{
    if (list == NULL) {
        return;
    }
    if (memory_is_on_gpu(memory)) {
        gpu_host_free(&memory->gpu, list);
    } else {
        free(list);
    }
}

static int poison(memory_t *memory, void *address, size_t size)
{
    if (!memory_is_on_gpu(memory)) {
        memset(address, POISON, size);
        return 0;
    }
    return gpu_fill(&memory->gpu, address, POISON, size);
}

/* Make the mirror large enough. Pinning is slow, so the mirror is kept. */
static int grow_mirror(memory_t *memory, size_t size)
{
    if (size <= memory->mirror_size) {
        return 0;
    }
    gpu_host_free(&memory->gpu, memory->mirror);
    memory->mirror      = NULL;
    memory->mirror_size = 0;
    if (gpu_host_alloc(&memory->gpu, size, &memory->mirror) != 0) {
        return -1;
    }
    memory->mirror_size = size;
    return 0;
}

/* Make memory accessible as host memory, until the next call. is_read: the
 * caller reads the bytes; otherwise the caller overwrites them and calls
 * store(). */
static int look(memory_t *memory, void *address, size_t size, bool is_read,
                void **host_p)
{
    if (!memory_is_on_gpu(memory)) {
        *host_p = address;
        return 0;
    }
    if (grow_mirror(memory, size) != 0) {
        return -1;
    }
    *host_p = memory->mirror;
    return is_read ? gpu_copy(&memory->gpu, memory->mirror, address, size) : 0;
}

int memory_put(memory_t *memory, void *address, const void *source, size_t size)
{
    if (!memory_is_on_gpu(memory)) {
        memcpy(address, source, size);
        return 0;
    }
    return gpu_copy(&memory->gpu, address, source, size);
}

static int store(memory_t *memory, void *address, size_t size)
{
    return memory_is_on_gpu(memory)
               ? memory_put(memory, address, memory->mirror, size)
               : 0;
}

/* --- pseudo-random bytes -------------------------------------------------- */

/* A stream of pseudo-random words. The same seed gives the same stream. */
typedef struct pattern {
    uint64_t state;
} pattern_t;

static pattern_t pattern_of(uint64_t seed)
{
    return (pattern_t){seed | 1};
}

/* Next word of the generator xorshift64* (Marsaglia 2003, Vigna 2014). */
static uint64_t next_word(pattern_t *pattern)
{
    pattern->state ^= pattern->state >> 12;
    pattern->state ^= pattern->state << 25;
    pattern->state ^= pattern->state >> 27;
    return pattern->state * UINT64_C(0x2545f4914f6cdd1d);
}

/* Fill memory with the next words. Of the last word, only some bytes may be
 * used. */
static void pattern_fill(pattern_t *pattern, void *memory, size_t length)
{
    char    *bytes = memory;
    uint64_t word;

    for (; length >= sizeof(word); length -= sizeof(word)) {
        word = next_word(pattern);
        memcpy(bytes, &word, sizeof(word));
        bytes += sizeof(word);
    }
    if (length != 0) {
        word = next_word(pattern);
        memcpy(bytes, &word, length);
    }
}

/* Returns the offset of the first byte that differs from the stream, or
 * `length` if all are equal. */
static size_t pattern_compare(pattern_t *pattern, const void *memory,
                              size_t length)
{
    const uint8_t *bytes = memory;
    uint8_t        expected[4096];

    for (size_t i = 0; i < length; i += sizeof(expected)) {
        size_t part = length - i;

        part = part < sizeof(expected) ? part : sizeof(expected);
        pattern_fill(pattern, expected, part);
        if (memcmp(expected, bytes + i, part) != 0) {
            size_t k = 0;

            while (expected[k] == bytes[i + k]) {
                k++;
            }
            return i + k;
        }
    }
    return length;
}

uint64_t buffers_seed(void)
{
    uint64_t seed;

    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed)) {
        seed = clock_now() * UINT64_C(0x9e3779b97f4a7c15);
    }
    return seed;
}

/* --- the arena ------------------------------------------------------------ */

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* Returns the distance from the start of one scattered buffer to the start of
 * the next. Both ends use the same layout, so there is room for misalignment at
 * either end. */
static size_t segment_stride(const work_t *work)
{
    return round_up(work->size + work->misaligned, WORK_LINE) + WORK_LINE;
}

static size_t slot_size(const work_t *work, bool is_scattered)
{
    if (!is_scattered || (work->count == 1)) {
        return round_up(work_bytes(work) + work->misaligned, PAGE);
    }
    return round_up(segment_stride(work) * work->count, PAGE);
}

size_t buffers_arena_size(const work_t *work, bool is_scattered)
{
    return slot_size(work, is_scattered) * work->outstanding *
           (work->echo ? 2 : 1);
}

/* Shuffle by the algorithm of Fisher and Yates. The order is the same in every
 * run. */
static void shuffle(ucxpool_segment_t *segments, size_t num_segments)
{
    pattern_t pattern = pattern_of(num_segments);

    for (size_t i = num_segments; i > 1; i--) {
        ucxpool_segment_t kept  = segments[i - 1];
        uint64_t          other = next_word(&pattern);

        segments[i - 1]     = segments[other % i];
        segments[other % i] = kept;
    }
}

/* Returns the start of a slot, or of a reply after the slots. */
static char *slot_start(const buffers_t *buffers, unsigned slot)
{
    return (char *)buffers->arena + slot * buffers->slot_size;
}

static void lay_out(buffers_t *buffers, const work_t *work)
{
    for (unsigned slot = 0; slot < buffers->num_slots; slot++) {
        ucxpool_segment_t *segments = buffers_segments(buffers, slot);
        char              *next = slot_start(buffers, slot) + buffers->shift;

        if (buffers->num_segments == 1) {
            segments[0].address = next;
            segments[0].length  = buffers->size;
            continue;
        }
        for (size_t i = 0; i < work->count; i++) {
            segments[i].address = next;
            segments[i].length  = work->size;
            next += segment_stride(work);
        }
        shuffle(segments, work->count);
    }
    for (size_t i = 0; i < buffers->num_slots * buffers->num_segments; i++) {
        buffers->addresses[i] = buffers->segments[i].address;
    }
}

int buffers_init(buffers_t *buffers, memory_t *memory, const work_t *work,
                 bool is_scattered, size_t shift, void *arena)
{
    size_t num_segments = is_scattered ? work->count : 1;
    size_t num          = work->outstanding * num_segments;

    *buffers = (buffers_t){
        .memory       = memory,
        .num_slots    = work->outstanding,
        .num_segments = num_segments,
        .size         = work_bytes(work),
        .slot_size    = slot_size(work, is_scattered),
        .shift        = shift,
        .is_echo      = work->echo != 0,
        .arena        = arena,
        .arena_size   = buffers_arena_size(work, is_scattered),
    };
    buffers->segments =
        memory_list_alloc(memory, num, sizeof(*buffers->segments));
    if (buffers->segments != NULL) {
        buffers->addresses =
            memory_list_alloc(memory, num, sizeof(*buffers->addresses));
    }
    if ((buffers->addresses != NULL) && (arena == NULL)) {
        buffers->own_arena =
            memory_alloc(memory, buffers->arena_size, &buffers->arena) == 0;
    }
    if ((buffers->addresses == NULL) || (buffers->arena == NULL)) {
        buffers_cleanup(buffers);
        return -1;
    }
    lay_out(buffers, work);
    return 0;
}

void buffers_cleanup(buffers_t *buffers)
{
    if (buffers->own_arena) {
        memory_free(buffers->memory, buffers->arena, buffers->arena_size);
    }
    memory_list_free(buffers->memory, buffers->segments);
    memory_list_free(buffers->memory, buffers->addresses);
    memset(buffers, 0, sizeof(*buffers));
}

void *buffers_reply(buffers_t *buffers, unsigned slot)
{
    if (!buffers->is_echo) {
        return &buffers->words[slot];
    }
    return slot_start(buffers, buffers->num_slots + slot);
}

size_t buffers_reply_size(const buffers_t *buffers)
{
    return buffers->is_echo ? buffers->size : sizeof(buffers->words[0]);
}

int buffers_poison(buffers_t *buffers)
{
    memset(buffers->words, 0x5a, sizeof(buffers->words));
    return poison(buffers->memory, buffers->arena, buffers->arena_size);
}

/* --- comparison ----------------------------------------------------------- */

/* Returns the place of a slot's address in the host memory of look(). */
static char *seen(const buffers_t *buffers, unsigned slot, void *host,
                  const void *address)
{
    return (char *)host + ((const char *)address - slot_start(buffers, slot));
}

static int fill_slot(buffers_t *buffers, unsigned slot, uint64_t seed)
{
    ucxpool_segment_t *segments = buffers_segments(buffers, slot);
    char              *start    = slot_start(buffers, slot);
    void              *host;
    pattern_t          pattern = pattern_of(seed + slot * 2);

    if (look(buffers->memory, start, buffers->slot_size, false, &host) != 0) {
        return -1;
    }
    for (size_t i = 0; i < buffers->num_segments; i++) {
        pattern_fill(&pattern, seen(buffers, slot, host, segments[i].address),
                     segments[i].length);
    }
    return store(buffers->memory, start, buffers->slot_size);
}

int buffers_fill(buffers_t *buffers, uint64_t seed)
{
    for (unsigned slot = 0; slot < buffers->num_slots; slot++) {
        if (fill_slot(buffers, slot, seed) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Returns true if the bytes between a scattered buffer and the next one are
 * unchanged. */
static bool gap_is_whole(const char *end)
{
    for (size_t i = 0; i < WORK_LINE; i++) {
        if ((unsigned char)end[i] != POISON) {
            return false;
        }
    }
    return true;
}

/* Compare the bytes of a slot, or of the reply that repeats them. host: these
 * bytes. */
static int verify_slot(buffers_t *buffers, unsigned slot, const char *noun,
                       void *host, uint64_t seed, const char *side)
{
    ucxpool_segment_t *segments = buffers_segments(buffers, slot);
    pattern_t          pattern  = pattern_of(seed + slot * 2);
    size_t             length;

    for (size_t i = 0; i < buffers->num_segments; i++) {
        const char *at = seen(buffers, slot, host, segments[i].address);

        length = pattern_compare(&pattern, at, segments[i].length);
        if (length != segments[i].length) {
            return tool_error("%s transferred wrong bytes: %s %u, buffer %zu "
                              "differs from byte %zu on",
                              side, noun, slot, i, length);
        }
        if ((buffers->num_segments != 1) && !gap_is_whole(at + length)) {
            return tool_error("%s transferred wrong bytes: %s %u: bytes behind "
                              "buffer %zu were overwritten",
                              side, noun, slot, i);
        }
    }
    return 0;
}

int buffers_verify(buffers_t *buffers, uint64_t seed, bool of_replies,
                   const char *side)
{
    const char *noun  = of_replies ? "reply" : "message";
    unsigned    first = of_replies ? buffers->num_slots : 0;

    for (unsigned slot = 0; slot < buffers->num_slots; slot++) {
        void *host;

        if ((look(buffers->memory, slot_start(buffers, first + slot),
                  buffers->slot_size, true, &host) != 0) ||
            (verify_slot(buffers, slot, noun, host, seed, side) != 0)) {
            return -1;
        }
    }
    return 0;
}
