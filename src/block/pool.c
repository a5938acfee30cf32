#include "block/pool.h"

#include "base/error.h"
#include "base/math.h"
#include "base/memcheck.h"
#include "block/budget.h"

#include <assert.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>

/* --- the free blocks ---------------------------------------------------------
 * The set of free blocks, as bits that are taken and put back without a lock.
 *
 *     words     0000 0000 0110 1111 ...    1: free
 *     summary   0    0    1    1    ...    1: that word has a bit set
 *
 * Bits are reserved before they are taken: the pool's counts ensure that no
 * more bits are requested than are set. Taking bits therefore cannot fail. A
 * take retries only if another thread has made progress.
 *
 * The summary is a hint. A thread changes a word and its summary bit in two
 * steps. Between the steps, the summary is wrong. A take that does not find
 * enough bits through the summary therefore searches all words.
 */

#define WORD_BITS 64u
#define ALL_BITS  UINT64_MAX

/*
 * Maximum number of attempts to take a run while other threads take parts of
 * it. After that, the bits are taken one by one.
 */
#define MAX_RUN_ATTEMPTS 4

typedef struct bitmap {
    uint32_t          num_words;
    uint32_t          num_summaries;
    _Atomic uint64_t *summaries; /* follow the words */
    _Atomic uint64_t  words[];
} bitmap_t;

static unsigned lowest_index(uint64_t word)
{
    return (unsigned)__builtin_ctzll(word);
}

/* Returns the lowest `num` set bits of a word, or all set bits if the word has
 * fewer. */
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

/* Returns the bits [first, first + num) of a word. num is 1 to 64. */
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

/* Create a bitmap in which all bits are set. num_bits must be at least 1. */
static ucxpool_status_t bitmap_create(uint32_t num_bits, bitmap_t **bitmap_p)
{
    uint32_t  last_bit      = base_max(num_bits, 1) - 1;
    uint32_t  num_words     = last_bit / WORD_BITS + 1;
    uint32_t  num_summaries = (num_words - 1) / WORD_BITS + 1;
    bitmap_t *bitmap;

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

static void bitmap_destroy(bitmap_t *bitmap)
{
    free(bitmap);
}

/*
 * Here and in clear_summary(), the word changes before its summary bit, and
 * each step is sequentially consistent. If two threads change a summary bit,
 * the thread that changes it last has therefore seen the other thread's change
 * of the word.
 */
static void set_summary(bitmap_t *bitmap, uint32_t word)
{
    atomic_fetch_or(&bitmap->summaries[word / WORD_BITS],
                    (uint64_t)1 << (word % WORD_BITS));
}

static void clear_summary(bitmap_t *bitmap, uint32_t word)
{
    atomic_fetch_and(&bitmap->summaries[word / WORD_BITS],
                     ~((uint64_t)1 << (word % WORD_BITS)));
    if (atomic_load(&bitmap->words[word]) != 0) {
        set_summary(bitmap, word);
    }
}

/* Clear bits of a word. Returns the previous value of the word. If a bit was
 * already clear, another thread has taken it. */
static uint64_t take_bits(bitmap_t *bitmap, uint32_t word, uint64_t bits)
{
    uint64_t before = atomic_fetch_and(&bitmap->words[word], ~bits);

    if ((before != 0) && ((before & ~bits) == 0)) {
        clear_summary(bitmap, word);
    }
    return before;
}

static void give_bits(bitmap_t *bitmap, uint32_t word, uint64_t bits)
{
    uint64_t before = atomic_fetch_or(&bitmap->words[word], bits);

    assert((before & bits) == 0);
    if (before == 0) {
        set_summary(bitmap, word);
    }
}

/* Set a bit that is clear. */
static void bitmap_give(bitmap_t *bitmap, uint32_t index)
{
    give_bits(bitmap, index / WORD_BITS, (uint64_t)1 << (index % WORD_BITS));
}

/* Take up to max of the lowest bits of a word. Returns the number of bits
 * taken. */
static size_t take_from_word(bitmap_t *bitmap, uint32_t word, size_t max,
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

static size_t take_by_summary(bitmap_t *bitmap, size_t max, uint32_t *indices)
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

static size_t take_by_words(bitmap_t *bitmap, size_t max, uint32_t *indices)
{
    size_t num = 0;

    for (uint32_t i = 0; (i < bitmap->num_words) && (num < max); i++) {
        num += take_from_word(bitmap, i, max - num, indices + num);
    }
    return num;
}

/* Returns the bits of a word that start a run of num set bits within the
 * word. */
static uint64_t run_starts(uint64_t bits, size_t num)
{
    size_t length = 1; /* each set bit starts a run this long */

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

/* Find the lowest start of a run of num set bits. Another thread may take a
 * part of the run at any time. */
static bool find_run(const bitmap_t *bitmap, size_t num, uint32_t *start_p)
{
    size_t carried = 0; /* length of the run that ends before the word */

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

/* Returns the part of [start, end) that is in the word of start. Advances
 * *start past that part. */
static uint64_t next_part(uint32_t *start, uint32_t end, uint32_t *word_p)
{
    uint32_t first = *start % WORD_BITS;
    uint32_t num   = base_min(WORD_BITS - first, end - *start);

    *word_p = *start / WORD_BITS;
    *start += num;
    return range_bits(first, num);
}

static void give_run(bitmap_t *bitmap, uint32_t start, uint32_t end)
{
    uint32_t word;

    while (start < end) {
        uint64_t bits = next_part(&start, end, &word);

        give_bits(bitmap, word, bits);
    }
}

/* Take all bits of [start, end), or none if some of them are already taken. */
static bool take_run_at(bitmap_t *bitmap, uint32_t start, uint32_t end)
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

static bool take_run(bitmap_t *bitmap, size_t num, uint32_t *indices)
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

/*
 * Clear num reserved bits and write their indices: the lowest run of num bits
 * if there is one, else the lowest bits.
 */
static void bitmap_take(bitmap_t *bitmap, size_t num, uint32_t *indices)
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

static bool bitmap_test(const bitmap_t *bitmap, uint32_t index)
{
    return (atomic_load(&bitmap->words[index / WORD_BITS]) >>
            (index % WORD_BITS)) &
           1;
}

/* Returns the number of set bits, including bits past the end, which must not
 * be set. */
static uint64_t bitmap_count(const bitmap_t *bitmap)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < bitmap->num_words; i++) {
        count += (unsigned)__builtin_popcountll(atomic_load(&bitmap->words[i]));
    }
    return count;
}

/* --- the pool ------------------------------------------------------------- */

/* State of a block: BLOCK_FREE, or one of the two other states plus the block's
 * share. */
#define BLOCK_FREE        0u
#define BLOCK_HELD        1u
#define BLOCK_QUARANTINED (BLOCK_HELD + BLOCK_SHARE_LAST)
#define BLOCK_LAST        (BLOCK_QUARANTINED + BLOCK_SHARE_LAST)

/*
 * The numbers of a share's free and quarantined blocks are in one atomic word,
 * so that readers always see both together. The remaining blocks are held. The
 * word also contains the block at hand: the index, plus 1, of the block in the
 * share's one-block cache, or 0 if the cache is empty. One step thus changes
 * the cache and the count.
 *
 *     bit    0         26           52            64
 *            | free    | quarantined | at hand + 1 |
 */
#define COUNT_BITS      26
#define HAND_BITS       (64 - 2 * COUNT_BITS)
#define COUNT_MASK      (((uint64_t)1 << COUNT_BITS) - 1)
#define ONE_FREE        ((uint64_t)1)
#define ONE_QUARANTINED ((uint64_t)1 << COUNT_BITS)
#define HAND_SHIFT      (2 * COUNT_BITS)
#define HAND_REST       (((uint64_t)1 << HAND_SHIFT) - 1)

/* Only blocks with an index below this number fit in the cache of a share. All
 * other free blocks are in the bitmap. */
#define MAX_AT_HAND (((uint32_t)1 << HAND_BITS) - 1)

static_assert(BLOCK_MAX_BLOCKS <= COUNT_MASK, "a count fits its bits");

typedef struct share_counts {
    alignas(BASE_CACHE_LINE) _Atomic uint64_t word;
    _Atomic uint32_t high_water;
    uint32_t         total;
} share_counts_t;

#define NO_BLOCK UINT32_MAX

struct block_pool {
    const mem_regions_t *regions;
    bitmap_t            *free_blocks;
    size_t               block_size;
    uint32_t             num_blocks;
    uint32_t             blocks_per_region;
    bool                 is_watched; /* a memory checker is active */
    share_counts_t       shares[BLOCK_SHARE_LAST];
    _Atomic uint8_t      states[];
};

static unsigned state_of(const block_pool_t *pool, uint32_t index)
{
    return atomic_load(&pool->states[index]);
}

static uint32_t num_free(uint64_t word)
{
    return (uint32_t)(word & COUNT_MASK);
}

static uint32_t num_quarantined(uint64_t word)
{
    return (uint32_t)((word >> COUNT_BITS) & COUNT_MASK);
}

static uint32_t index_at_hand(uint64_t word)
{
    return (uint32_t)(word >> HAND_SHIFT) - 1;
}

ucxpool_status_t block_pool_create(const block_pool_params_t *params,
                                   block_pool_t             **pool_p)
{
    uint32_t         totals[BLOCK_SHARE_LAST];
    uint32_t         num_blocks;
    block_pool_t    *pool;
    ucxpool_status_t status = block_split(params, totals);

    if (status != UCXPOOL_OK) {
        return status;
    }
    num_blocks = totals[BLOCK_SHARE_SEND] + totals[BLOCK_SHARE_RECV] +
                 totals[BLOCK_SHARE_USER];

    pool =
        aligned_alloc(BASE_CACHE_LINE, base_align_up(sizeof(*pool) + num_blocks,
                                                     BASE_CACHE_LINE));
    if (pool == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for the states of %u blocks", num_blocks);
    }
    status = bitmap_create(num_blocks, &pool->free_blocks);
    if (status != UCXPOOL_OK) {
        goto err_free_pool;
    }

    pool->regions    = params->regions;
    pool->block_size = params->block_size;
    pool->num_blocks = num_blocks;
    pool->is_watched = base_memcheck_is_on();
    pool->blocks_per_region =
        num_blocks / base_max(params->regions->num_regions, 1u);
    for (int i = 0; i < BLOCK_SHARE_LAST; i++) {
        pool->shares[i].total = totals[i];
        atomic_init(&pool->shares[i].word, totals[i] * ONE_FREE);
        atomic_init(&pool->shares[i].high_water, 0);
    }
    for (uint32_t i = 0; i < num_blocks; i++) {
        atomic_init(&pool->states[i], BLOCK_FREE);
    }
    base_memcheck_poison(params->regions->address,
                         num_blocks * params->block_size);
    *pool_p = pool;
    return UCXPOOL_OK;

err_free_pool:
    free(pool);
    return status;
}

void block_pool_destroy(block_pool_t *pool)
{
    if (pool == NULL) {
        return;
    }
    base_memcheck_unpoison(pool->regions->address,
                           pool->num_blocks * pool->block_size);
    bitmap_destroy(pool->free_blocks);
    free(pool);
}

/* Raise high_water to `used`. This keeps high_water >= total - free for every
 * value that free has had. */
static void raise_high_water(share_counts_t *share, uint32_t used)
{
    uint32_t seen =
        atomic_load_explicit(&share->high_water, memory_order_relaxed);

    while ((used > seen) && !atomic_compare_exchange_weak_explicit(
                                &share->high_water, &seen, used,
                                memory_order_relaxed, memory_order_relaxed)) {
    }
}

/*
 * Subtract num from the share's free blocks, or return false if there are
 * fewer. Also takes the share's cached block. *at_hand_p is NO_BLOCK if the
 * cache is empty.
 */
static bool reserve(share_counts_t *share, size_t num, uint32_t *at_hand_p)
{
    uint64_t word = atomic_load_explicit(&share->word, memory_order_relaxed);
    uint64_t rest;

    do {
        if (num_free(word) < num) {
            return false;
        }
        rest = (word & HAND_REST) - num * ONE_FREE;
    } while (!atomic_compare_exchange_weak_explicit(
        &share->word, &word, rest, memory_order_acquire, memory_order_relaxed));

    raise_high_water(share, share->total - num_free(rest));
    *at_hand_p = index_at_hand(word);
    return true;
}

/* Mark a block as held. Until now the block was free, and no other thread can
 * take it. */
static void hold(block_pool_t *pool, block_share_t share, uint32_t index)
{
    assert(state_of(pool, index) == BLOCK_FREE);
    atomic_store_explicit(&pool->states[index], (uint8_t)(BLOCK_HELD + share),
                          memory_order_relaxed);
    if (pool->is_watched) {
        base_memcheck_unpoison(block_pool_address(pool, index),
                               pool->block_size);
    }
}

ucxpool_status_t block_pool_get(block_pool_t *pool, block_share_t share,
                                uint32_t *index_p)
{
    uint32_t index;

    if (!reserve(&pool->shares[share], 1, &index)) {
        return UCXPOOL_ERR_NO_BLOCKS;
    }
    if (index == NO_BLOCK) {
        bitmap_take(pool->free_blocks, 1, &index);
    }
    hold(pool, share, index);
    *index_p = index;
    return UCXPOOL_OK;
}

ucxpool_status_t block_pool_reserve(block_pool_t *pool, block_share_t share,
                                    size_t num_blocks)
{
    uint32_t at_hand;

    if (!reserve(&pool->shares[share], num_blocks, &at_hand)) {
        return UCXPOOL_ERR_NO_BLOCKS;
    }
    /* Put the cached block into the bitmap, because it may be part of the
     * lowest run. */
    if (at_hand != NO_BLOCK) {
        bitmap_give(pool->free_blocks, at_hand);
    }
    return UCXPOOL_OK;
}

void block_pool_take(block_pool_t *pool, block_share_t share, size_t num_blocks,
                     uint32_t *indices)
{
    assert(num_blocks > 0);
    bitmap_take(pool->free_blocks, num_blocks, indices);
    for (size_t i = 0; i < num_blocks; i++) {
        hold(pool, share, indices[i]);
    }
}

ucxpool_status_t block_pool_get_n(block_pool_t *pool, block_share_t share,
                                  size_t num_blocks, uint32_t *indices)
{
    ucxpool_status_t status = block_pool_reserve(pool, share, num_blocks);

    if (status == UCXPOOL_OK) {
        block_pool_take(pool, share, num_blocks, indices);
    }
    return status;
}

/* Store a free block in the share's one-block cache and change the counts.
 * Returns false if the cache is full, or if the index does not fit in the
 * word. */
static bool put_at_hand(share_counts_t *share, uint32_t index, uint64_t counts)
{
    uint64_t word = atomic_load_explicit(&share->word, memory_order_relaxed);
    uint64_t hand = (uint64_t)(index + 1) << HAND_SHIFT;

    if (index >= MAX_AT_HAND) {
        return false;
    }
    do {
        if (index_at_hand(word) != NO_BLOCK) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(
        &share->word, &word, word + counts + hand, memory_order_release,
        memory_order_relaxed));
    return true;
}

/* Free a block. The caller has already set the state to free, as the next get
 * expects. Every block in the count must be cached or have its bit set, so the
 * count changes last. */
static void free_block(block_pool_t *pool, block_share_t share, uint32_t index,
                       uint64_t counts)
{
    block_pool_poison(pool, index);
    if (!put_at_hand(&pool->shares[share], index, counts)) {
        bitmap_give(pool->free_blocks, index);
        atomic_fetch_add_explicit(&pool->shares[share].word, counts,
                                  memory_order_release);
    }
}

/* Change the state of a block. No other thread can change it now, so no atomic
 * swap is needed. */
static void change_state(block_pool_t *pool, uint32_t index, unsigned from,
                         unsigned to)
{
    assert(index < pool->num_blocks);
    assert(atomic_load_explicit(&pool->states[index], memory_order_relaxed) ==
           from);
    atomic_store_explicit(&pool->states[index], (uint8_t)to,
                          memory_order_relaxed);
}

void block_pool_put(block_pool_t *pool, block_share_t share, uint32_t index)
{
    change_state(pool, index, BLOCK_HELD + share, BLOCK_FREE);
    free_block(pool, share, index, ONE_FREE);
}

bool block_pool_try_put(block_pool_t *pool, block_share_t share, uint32_t index)
{
    uint8_t held = (uint8_t)(BLOCK_HELD + share);

    if ((index >= pool->num_blocks) ||
        !atomic_compare_exchange_strong_explicit(
            &pool->states[index], &held, BLOCK_FREE, memory_order_relaxed,
            memory_order_relaxed)) {
        return false;
    }
    free_block(pool, share, index, ONE_FREE);
    return true;
}

void block_pool_quarantine(block_pool_t *pool, block_share_t share,
                           uint32_t index)
{
    change_state(pool, index, BLOCK_HELD + share, BLOCK_QUARANTINED + share);
    atomic_fetch_add_explicit(&pool->shares[share].word, ONE_QUARANTINED,
                              memory_order_relaxed);
}

void block_pool_release(block_pool_t *pool, block_share_t share, uint32_t index)
{
    change_state(pool, index, BLOCK_QUARANTINED + share, BLOCK_FREE);
    free_block(pool, share, index, ONE_FREE - ONE_QUARANTINED);
}

void block_pool_poison(const block_pool_t *pool, uint32_t index)
{
    if (pool->is_watched) {
        base_memcheck_poison(block_pool_address(pool, index), pool->block_size);
    }
}

const mem_regions_t *block_pool_regions(const block_pool_t *pool)
{
    return pool->regions;
}

size_t block_pool_block_size(const block_pool_t *pool)
{
    return pool->block_size;
}

uint32_t block_pool_num_blocks(const block_pool_t *pool)
{
    return pool->num_blocks;
}

void *block_pool_address(const block_pool_t *pool, uint32_t index)
{
    return (char *)pool->regions->address + index * pool->block_size;
}

void block_pool_locate(const block_pool_t *pool, uint32_t index,
                       mem_piece_t *piece_p)
{
    piece_p->region = index / pool->blocks_per_region;
    piece_p->offset = (index % pool->blocks_per_region) * pool->block_size;
    piece_p->length = pool->block_size;
}

void block_pool_stats(const block_pool_t *pool, block_share_t share,
                      block_stats_t *stats_p)
{
    const share_counts_t *from = &pool->shares[share];
    uint64_t              word = atomic_load(&from->word);
    uint32_t              used = from->total - num_free(word);

    stats_p->total       = from->total;
    stats_p->free        = num_free(word);
    stats_p->quarantined = num_quarantined(word);
    stats_p->held        = used - stats_p->quarantined;
    /* A get in another thread may have changed the count, but not raised
     * high_water yet. */
    stats_p->high_water = base_max(atomic_load(&from->high_water), used);
}

/* --- the check ------------------------------------------------------------ */

static const char *const share_names[] = {"send", "receive", "user"};

static ucxpool_status_t check_share(const block_pool_t *pool,
                                    block_share_t       share,
                                    const uint32_t     *num_in_state)
{
    block_stats_t stats;
    uint32_t      held        = num_in_state[BLOCK_HELD + share];
    uint32_t      quarantined = num_in_state[BLOCK_QUARANTINED + share];

    block_pool_stats(pool, share, &stats);
    if ((stats.held != held) || (stats.quarantined != quarantined) ||
        (stats.free + held + quarantined != stats.total)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "the %s share counts %llu free, %llu held and %llu "
                          "quarantined of %llu blocks, but %u are held and %u "
                          "quarantined",
                          share_names[share], (unsigned long long)stats.free,
                          (unsigned long long)stats.held,
                          (unsigned long long)stats.quarantined,
                          (unsigned long long)stats.total, held, quarantined);
    }
    return UCXPOOL_OK;
}

/* Returns the number of places where a get can find the block. A free block is
 * in exactly one place: in the bitmap, or in the cache of one share. */
static unsigned num_ways(const block_pool_t *pool, uint32_t index)
{
    unsigned num = bitmap_test(pool->free_blocks, index);

    for (int i = 0; i < BLOCK_SHARE_LAST; i++) {
        num += index_at_hand(atomic_load(&pool->shares[i].word)) == index;
    }
    return num;
}

static ucxpool_status_t check_block(const block_pool_t *pool, uint32_t index,
                                    unsigned *state_p)
{
    unsigned state = state_of(pool, index);
    unsigned ways  = num_ways(pool, index);

    if (state >= BLOCK_LAST) {
        return base_error(UCXPOOL_ERR_PROTOCOL, "block %u has invalid state %u",
                          index, state);
    }
    if (ways != (state == BLOCK_FREE)) {
        return base_error(
            UCXPOOL_ERR_PROTOCOL,
            "block %u is in state %u, but a get can find it in %u places",
            index, state, ways);
    }
    *state_p = state;
    return UCXPOOL_OK;
}

ucxpool_status_t block_pool_check(const block_pool_t *pool)
{
    uint32_t         num_in_state[BLOCK_LAST] = {0};
    uint64_t         num_bits                 = 0;
    unsigned         state                    = 0;
    ucxpool_status_t status                   = UCXPOOL_OK;

    for (uint32_t i = 0; i < pool->num_blocks; i++) {
        status = check_block(pool, i, &state);
        if (status != UCXPOOL_OK) {
            return status;
        }
        num_in_state[state]++;
        num_bits += bitmap_test(pool->free_blocks, i);
    }
    if (bitmap_count(pool->free_blocks) != num_bits) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "free bits are set after the last of %u blocks",
                          pool->num_blocks);
    }
    for (int i = 0; (i < BLOCK_SHARE_LAST) && (status == UCXPOOL_OK); i++) {
        status = check_share(pool, (block_share_t)i, num_in_state);
    }
    return status;
}
