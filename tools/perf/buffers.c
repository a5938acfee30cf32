#include "perf/buffers.h"
#include "perf/error.h"
#include "perf/pattern.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CACHE_LINE 64u
#define PAGE       4096u

/* Bytes of a reply that is only a word. */
#define REPLY_WORD 8u

static size_t round_up(size_t n, size_t unit)
{
    return (n + unit - 1) / unit * unit;
}

/* From the start of one scattered buffer to that of its neighbour. */
static size_t scattered_stride(const work_t *work)
{
    return round_up(work->size, CACHE_LINE) + CACHE_LINE;
}

static size_t slot_stride(const work_t *work, bool scattered)
{
    if (scattered && (work->count > 1)) {
        return round_up(scattered_stride(work) * work->count, PAGE);
    }
    return round_up(work_bytes(work), PAGE);
}

size_t buffers_arena_size(const work_t *work, bool scattered)
{
    return slot_stride(work, scattered) * work->outstanding;
}

/* Fisher and Yates. The order is the same in every run. */
static void shuffle(ucxpool_segment_t *segments, size_t num_segments)
{
    pattern_t pattern;

    pattern_init(&pattern, num_segments);
    for (size_t i = num_segments; i > 1; i--) {
        ucxpool_segment_t kept = segments[i - 1];
        uint64_t          other;

        pattern_fill(&pattern, &other, sizeof(other));
        segments[i - 1]     = segments[other % i];
        segments[other % i] = kept;
    }
}

static void lay_out(buffers_t *buffers, const work_t *work, bool scattered)
{
    size_t stride = slot_stride(work, scattered);

    for (unsigned slot = 0; slot < buffers->num_slots; slot++) {
        ucxpool_segment_t *segments = buffers_segments(buffers, slot);
        char              *start    = (char *)buffers->arena + slot * stride;

        if (buffers->num_segments == 1) {
            segments[0].address = start;
            segments[0].length  = work_bytes(work);
            continue;
        }
        for (size_t i = 0; i < work->count; i++) {
            segments[i].address = start + i * scattered_stride(work);
            segments[i].length  = work->size;
        }
        shuffle(segments, work->count);
    }
}

static int arena_create(buffers_t *buffers)
{
    buffers->arena = mmap(NULL, buffers->arena_size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (buffers->arena == MAP_FAILED) {
        buffers->arena = NULL;
        return perf_error("no memory for %zu bytes of buffers (%s): lower -s, "
                          "-n or -O",
                          buffers->arena_size, strerror(errno));
    }
    buffers->own_arena = true;
    return 0;
}

int buffers_init(buffers_t *buffers, const work_t *work, bool scattered,
                 void *arena)
{
    memset(buffers, 0, sizeof(*buffers));
    buffers->num_slots    = work->outstanding;
    buffers->num_segments = scattered ? work->count : 1;
    buffers->arena        = arena;
    buffers->arena_size   = buffers_arena_size(work, scattered);
    buffers->reply_size   = work->echo ? work_bytes(work) : REPLY_WORD;
    buffers->segments     = calloc(buffers->num_slots * buffers->num_segments,
                                   sizeof(*buffers->segments));
    buffers->replies      = calloc(buffers->num_slots, buffers->reply_size);
    if ((buffers->segments == NULL) || (buffers->replies == NULL)) {
        buffers_cleanup(buffers);
        return perf_error("out of memory for the list of buffers: lower -n");
    }
    if ((arena == NULL) && (arena_create(buffers) != 0)) {
        buffers_cleanup(buffers);
        return -1;
    }
    lay_out(buffers, work, scattered);
    return 0;
}

void buffers_cleanup(buffers_t *buffers)
{
    if (buffers->own_arena) {
        munmap(buffers->arena, buffers->arena_size);
    }
    free(buffers->segments);
    free(buffers->replies);
    memset(buffers, 0, sizeof(*buffers));
}

void buffers_poison(buffers_t *buffers)
{
    memset(buffers->arena, 0xa5, buffers->arena_size);
    memset(buffers->replies, 0x5a, buffers->num_slots * buffers->reply_size);
}

void buffers_fill(buffers_t *buffers, uint64_t seed)
{
    pattern_t pattern;

    for (unsigned slot = 0; slot < buffers->num_slots; slot++) {
        ucxpool_segment_t *segments = buffers_segments(buffers, slot);

        pattern_init(&pattern, seed + slot * 2);
        for (size_t i = 0; i < buffers->num_segments; i++) {
            pattern_fill(&pattern, segments[i].address, segments[i].length);
        }
    }
}

int buffers_verify(const buffers_t *buffers, uint64_t seed, char *text,
                   size_t text_size)
{
    pattern_t pattern;
    size_t    length;

    for (unsigned slot = 0; slot < buffers->num_slots; slot++) {
        ucxpool_segment_t *segments = buffers_segments(buffers, slot);

        pattern_init(&pattern, seed + slot * 2);
        for (size_t i = 0; i < buffers->num_segments; i++) {
            length = pattern_compare(&pattern, segments[i].address,
                                     segments[i].length);
            if (length != segments[i].length) {
                snprintf(text, text_size,
                         "message %u, buffer %zu differs from byte %zu on",
                         slot, i, length);
                return -1;
            }
        }
    }
    return 0;
}

int buffers_verify_replies(const buffers_t *buffers, uint64_t seed, char *text,
                           size_t text_size)
{
    pattern_t pattern;
    size_t    length;

    for (unsigned slot = 0; slot < buffers->num_slots; slot++) {
        pattern_init(&pattern, seed + slot * 2);
        length = pattern_compare(&pattern, buffers_reply(buffers, slot),
                                 buffers->reply_size);
        if (length != buffers->reply_size) {
            snprintf(text, text_size, "reply %u differs from byte %zu on", slot,
                     length);
            return -1;
        }
    }
    return 0;
}
