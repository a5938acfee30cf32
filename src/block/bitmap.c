#include "block/bitmap.h"
#include "base/error.h"
#include "base/math.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#define WORD_BITS 64u
#define ALL_BITS  UINT64_MAX

/*
 * How often a run that another thread broke while it was being taken is looked
 * for again, before the bits are taken one by one.
 */
#define MAX_RUN_ATTEMPTS 4

struct block_bitmap {
    uint32_t          num_words;
    uint32_t          num_summaries;
    _Atomic uint64_t *summaries; /* after the words */
    _Atomic uint64_t  words[];
};

static unsigned lowest_index(uint64_t word)
{
    return (unsigned)__builtin_ctzll(word);
}

/* The lowest `num` set bits of a word; all of them when it has fewer. */
static uint64_t lowest_bits(uint64_t word, size_t num)
{
    uint64_t rest = word;

    if (num >= WORD_BITS) {
        return word;
    }
    for (; (num > 0) && (rest != 0); num--) {
        rest &= rest - 1;
    }
    return word ^ rest;
}

/* Bits [first, first + num) of a word, num being 1 to 64. */
static uint64_t range_bits(uint32_t first, uint32_t num)
{
    return (ALL_BITS >> (WORD_BITS - num)) << first;
}

static void set_first(_Atomic uint64_t *words, uint32_t num_bits)
{
    for (; num_bits >= WORD_BITS; num_bits -= WORD_BITS) {
        atomic_init(words++, ALL_BITS);
    }
    if (num_bits > 0) {
        atomic_init(words, range_bits(0, num_bits));
    }
}

ucxpool_status_t block_bitmap_create(uint32_t         num_bits,
                                     block_bitmap_t **bitmap_p)
{
    uint32_t        last_bit      = base_max(num_bits, 1) - 1;
    uint32_t        num_words     = last_bit / WORD_BITS + 1;
    uint32_t        num_summaries = (num_words - 1) / WORD_BITS + 1;
    block_bitmap_t *bitmap;

    bitmap = calloc(1, sizeof(*bitmap) + ((size_t)num_words + num_summaries) *
                                             sizeof(bitmap->words[0]));
    if (bitmap == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for the map of %u blocks", num_bits);
    }

    bitmap->num_words     = num_words;
    bitmap->num_summaries = num_summaries;
    bitmap->summaries     = bitmap->words + num_words;
    set_first(bitmap->words, num_bits);
    set_first(bitmap->summaries, (num_bits == 0) ? 0 : num_words);
    *bitmap_p = bitmap;
    return UCXPOOL_OK;
}

void block_bitmap_destroy(block_bitmap_t *bitmap)
{
    free(bitmap);
}

/*
 * The word was changed before its summary bit is, here and in clear_summary(),
 * and every one of these steps is sequentially consistent. So whichever thread
 * touches the summary bit last has seen the word as the other left it.
 */
static void set_summary(block_bitmap_t *bitmap, uint32_t word)
{
    atomic_fetch_or(&bitmap->summaries[word / WORD_BITS],
                    (uint64_t)1 << (word % WORD_BITS));
}

static void clear_summary(block_bitmap_t *bitmap, uint32_t word)
{
    atomic_fetch_and(&bitmap->summaries[word / WORD_BITS],
                     ~((uint64_t)1 << (word % WORD_BITS)));
    if (atomic_load(&bitmap->words[word]) != 0) {
        set_summary(bitmap, word);
    }
}

/* Clear bits of a word. Returns what the word was: bits that were clear
 * already are another thread's. */
static uint64_t take_bits(block_bitmap_t *bitmap, uint32_t word, uint64_t bits)
{
    uint64_t before = atomic_fetch_and(&bitmap->words[word], ~bits);

    if ((before != 0) && ((before & ~bits) == 0)) {
        clear_summary(bitmap, word);
    }
    return before;
}

static void give_bits(block_bitmap_t *bitmap, uint32_t word, uint64_t bits)
{
    uint64_t before = atomic_fetch_or(&bitmap->words[word], bits);

    assert((before & bits) == 0);
    if (before == 0) {
        set_summary(bitmap, word);
    }
}

void block_bitmap_give(block_bitmap_t *bitmap, uint32_t index)
{
    give_bits(bitmap, index / WORD_BITS, (uint64_t)1 << (index % WORD_BITS));
}

/* Take at most max of the lowest bits of a word; returns how many. */
static size_t take_from_word(block_bitmap_t *bitmap, uint32_t word, size_t max,
                             uint32_t *indices)
{
    uint64_t bits =
        atomic_load_explicit(&bitmap->words[word], memory_order_relaxed);
    size_t num = 0;

    while ((bits != 0) && (num < max)) {
        uint64_t wanted = lowest_bits(bits, max - num);
        uint64_t before = take_bits(bitmap, word, wanted);
        uint64_t taken  = before & wanted;

        for (; taken != 0; taken &= taken - 1) {
            indices[num++] = word * WORD_BITS + lowest_index(taken);
        }
        bits = before & ~wanted;
    }
    return num;
}

static size_t take_by_summary(block_bitmap_t *bitmap, size_t max,
                              uint32_t *indices)
{
    size_t num = 0;

    for (uint32_t i = 0; (i < bitmap->num_summaries) && (num < max); i++) {
        uint64_t words =
            atomic_load_explicit(&bitmap->summaries[i], memory_order_relaxed);

        for (; (words != 0) && (num < max); words &= words - 1) {
            num += take_from_word(bitmap, i * WORD_BITS + lowest_index(words),
                                  max - num, indices + num);
        }
    }
    return num;
}

static size_t take_by_words(block_bitmap_t *bitmap, size_t max,
                            uint32_t *indices)
{
    size_t num = 0;

    for (uint32_t i = 0; (i < bitmap->num_words) && (num < max); i++) {
        num += take_from_word(bitmap, i, max - num, indices + num);
    }
    return num;
}

/* The bits of a word that start num set bits side by side in it. */
static uint64_t run_starts(uint64_t bits, size_t num)
{
    size_t length = 1; /* a set bit starts as many */

    if (num > WORD_BITS) {
        return 0;
    }
    while (length < num) {
        size_t more = base_min(length, num - length);

        bits &= bits >> more;
        length += more;
    }
    return bits;
}

/* Lowest start of num set bits side by side, as far as one look can tell. */
static bool find_run(const block_bitmap_t *bitmap, size_t num,
                     uint32_t *start_p)
{
    size_t carried = 0; /* set bits up to the start of the word */

    for (uint32_t i = 0; i < bitmap->num_words; i++) {
        uint64_t bits =
            atomic_load_explicit(&bitmap->words[i], memory_order_relaxed);
        bool     is_all = bits == ALL_BITS;
        unsigned low    = is_all ? WORD_BITS : lowest_index(~bits);
        uint64_t starts;

        if (bits == 0) {
            carried = 0;
            continue;
        }
        if (carried + low >= num) {
            *start_p = i * WORD_BITS - (uint32_t)carried;
            return true;
        }
        starts = run_starts(bits, num);
        if (starts != 0) {
            *start_p = i * WORD_BITS + lowest_index(starts);
            return true;
        }
        carried =
            is_all ? carried + WORD_BITS : (unsigned)__builtin_clzll(~bits);
    }
    return false;
}

/* The part of [start, end) that lies in the word of start. Moves start past
 * it. */
static uint64_t next_part(uint32_t *start, uint32_t end, uint32_t *word_p)
{
    uint32_t first = *start % WORD_BITS;
    uint32_t num   = base_min(WORD_BITS - first, end - *start);

    *word_p = *start / WORD_BITS;
    *start += num;
    return range_bits(first, num);
}

static void give_run(block_bitmap_t *bitmap, uint32_t start, uint32_t end)
{
    uint32_t word;

    while (start < end) {
        uint64_t bits = next_part(&start, end, &word);

        give_bits(bitmap, word, bits);
    }
}

/* Take all of [start, end), or nothing when another thread has some of it. */
static bool take_run_at(block_bitmap_t *bitmap, uint32_t start, uint32_t end)
{
    uint32_t next = start;
    uint32_t word;

    while (next < end) {
        uint32_t here  = next;
        uint64_t bits  = next_part(&next, end, &word);
        uint64_t taken = take_bits(bitmap, word, bits) & bits;

        if (taken != bits) {
            if (taken != 0) {
                give_bits(bitmap, word, taken);
            }
            give_run(bitmap, start, here);
            return false;
        }
    }
    return true;
}

static bool take_run(block_bitmap_t *bitmap, size_t num, uint32_t *indices)
{
    uint32_t start;

    for (int i = 0; i < MAX_RUN_ATTEMPTS; i++) {
        if (!find_run(bitmap, num, &start)) {
            return false;
        }
        if (take_run_at(bitmap, start, start + (uint32_t)num)) {
            for (size_t j = 0; j < num; j++) {
                indices[j] = start + (uint32_t)j;
            }
            return true;
        }
    }
    return false;
}

void block_bitmap_take(block_bitmap_t *bitmap, size_t num, uint32_t *indices)
{
    size_t taken = 0;

    if ((num > 1) && take_run(bitmap, num, indices)) {
        return;
    }
    for (;;) {
        taken += take_by_summary(bitmap, num - taken, indices + taken);
        if (taken == num) {
            return;
        }
        taken += take_by_words(bitmap, num - taken, indices + taken);
        if (taken == num) {
            return;
        }
    }
}

bool block_bitmap_test(const block_bitmap_t *bitmap, uint32_t index)
{
    return (atomic_load(&bitmap->words[index / WORD_BITS]) >>
            (index % WORD_BITS)) &
           1;
}

uint64_t block_bitmap_count(const block_bitmap_t *bitmap)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < bitmap->num_words; i++) {
        count += (unsigned)__builtin_popcountll(atomic_load(&bitmap->words[i]));
    }
    return count;
}
