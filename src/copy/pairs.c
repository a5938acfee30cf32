/*
 * Segments are taken four at a time as vectors {address, length, address,
 * length}. Each pass is compiled twice: with what every processor of the kind
 * has, and for AVX2, where there is such a thing.
 */
#include "copy/pairs.h"

#include "base/math.h"

#include <assert.h>

/* Two segments; aligned as one is. */
typedef uint64_t pairs_t __attribute__((vector_size(32)));
typedef uint64_t pairs_here_t
    __attribute__((vector_size(32), aligned(8), may_alias));

static_assert(2 * sizeof(ucxpool_segment_t) == sizeof(pairs_t),
              "a segment is a pair of 64 bits each");

/* Segments that are looked at together: without a branch for each. */
#define STEP 8u

/* Segments that lie so far ahead are asked for: the processor itself looks no
 * farther than the end of a page. */
#define AHEAD 192u

#define HIGHEST_BIT (UINT64_C(1) << 63)

/* No sum of shorter ones overflows, however many there are. */
#define SHORT_LENGTH (UINT64_C(1) << 40)
#define MAX_SUMMED   ((size_t)1 << 22)

#define INLINE static inline __attribute__((always_inline))

/* What may be read of segment n, and the one behind it. */
#define PAIRS(segments, n) (*(const pairs_here_t *)&(segments)[n])

/* Four addresses, from number n on. */
#define ADDRESSES(addresses, n) (*(const pairs_here_t *)&(addresses)[n])

INLINE void prefetch(const ucxpool_segment_t *segment)
{
    __builtin_prefetch(segment + AHEAD);
    __builtin_prefetch(segment + AHEAD + 4);
}

INLINE size_t alike(const ucxpool_segment_t *segments, size_t num_segments,
                    uint64_t length)
{
    const pairs_t same = {0, length, 0, length};
    const pairs_t one  = {1, 0, 1, 0};
    size_t        n    = 0;

    for (; n + STEP <= num_segments; n += STEP) {
        pairs_t differs = {0};

        prefetch(&segments[n]);
        /* Of addresses only NULL turns to one with the highest bit. */
        for (size_t i = n; i < n + STEP; i += 2) {
            differs |= (PAIRS(segments, i) - one) ^ same;
        }
        if ((((differs[0] | differs[2]) & HIGHEST_BIT) | differs[1] |
             differs[3]) != 0) {
            break;
        }
    }
    while ((n < num_segments) && (segments[n].length == length) &&
           (segments[n].address != NULL)) {
        n++;
    }
    return n;
}

INLINE size_t addresses_of(const ucxpool_segment_t *segments,
                           size_t num_segments, uint64_t length,
                           uint64_t *addresses)
{
    size_t n = 0;

    for (; n + STEP <= num_segments; n += STEP) {
        pairs_t differs = {0};

        prefetch(&segments[n]);
        for (size_t i = n; i < n + STEP; i += 4) {
            pairs_t a = PAIRS(segments, i);
            pairs_t b = PAIRS(segments, i + 2);

            *(pairs_here_t *)&addresses[i] = (pairs_t){a[0], a[2], b[0], b[2]};
            differs |= (pairs_t){a[1], a[3], b[1], b[3]} ^ length;
        }
        if ((differs[0] | differs[1] | differs[2] | differs[3]) != 0) {
            break;
        }
    }
    while ((n < num_segments) && (segments[n].length == length)) {
        addresses[n] = (uintptr_t)segments[n].address;
        n++;
    }
    return n;
}

INLINE bool sum_of(const ucxpool_segment_t *segments, size_t num_segments,
                   uint64_t *sum_p)
{
    const pairs_t one  = {1, 0, 1, 0};
    pairs_t       sum  = {0};
    pairs_t       any  = {0}; /* of addresses less 1, and of lengths */
    uint64_t      rest = 0;
    size_t        n    = 0;

    for (; n + STEP <= num_segments; n += STEP) {
        prefetch(&segments[n]);
        for (size_t i = n; i < n + STEP; i += 2) {
            sum += PAIRS(segments, i);
            any |= PAIRS(segments, i) - one;
        }
    }
    for (; n < num_segments; n++) {
        rest += segments[n].length;
        any[0] |= (uintptr_t)segments[n].address - 1;
        any[1] |= segments[n].length;
    }
    *sum_p = sum[1] + sum[3] + rest;
    return (((any[0] | any[2]) & HIGHEST_BIT) == 0) &&
           ((any[1] | any[3]) < SHORT_LENGTH);
}

/* Copies the addresses, too, unless `copies` is NULL. */
INLINE size_t present(void *const *addresses, size_t num_addresses,
                      uint64_t *copies)
{
    size_t n = 0;

    for (; n + 2 * STEP <= num_addresses; n += 2 * STEP) {
        pairs_t missing = {0};

        __builtin_prefetch(&addresses[n + 2 * AHEAD]);
        __builtin_prefetch(&addresses[n + 2 * AHEAD + STEP]);
        /* Only NULL has a highest bit that is got by taking away 1. */
        for (size_t i = n; i < n + 2 * STEP; i += 4) {
            pairs_t a = ADDRESSES(addresses, i);

            if (copies != NULL) {
                *(pairs_here_t *)&copies[i] = a;
            }
            missing |= (a - 1) & ~a;
        }
        if (((missing[0] | missing[1] | missing[2] | missing[3]) &
             HIGHEST_BIT) != 0) {
            break;
        }
    }
    for (; (n < num_addresses) && (addresses[n] != NULL); n++) {
        if (copies != NULL) {
            copies[n] = (uintptr_t)addresses[n];
        }
    }
    return n;
}

/* The passes, under a name of their own for a kind of processor. */
#define PASSES(kind, attributes) \
    attributes static size_t alike_##kind(const ucxpool_segment_t *segments, \
                                          size_t n, uint64_t length) \
    { \
        return alike(segments, n, length); \
    } \
    attributes static size_t addresses_##kind( \
        const ucxpool_segment_t *segments, size_t n, uint64_t length, \
        uint64_t *addresses) \
    { \
        return addresses_of(segments, n, length, addresses); \
    } \
    attributes static bool sum_##kind(const ucxpool_segment_t *segments, \
                                      size_t n, uint64_t *sum_p) \
    { \
        return sum_of(segments, n, sum_p); \
    } \
    attributes static size_t present_##kind(void *const *addresses, size_t n) \
    { \
        return present(addresses, n, NULL); \
    } \
    attributes static size_t copy_##kind(void *const *addresses, size_t n, \
                                         uint64_t *copies) \
    { \
        return present(addresses, n, copies); \
    }

PASSES(any, )
#if defined(__x86_64__)
PASSES(avx2, __attribute__((target("avx2"))))
#define HAS_AVX2() __builtin_cpu_supports("avx2")
#else
#define HAS_AVX2()     false
#define alike_avx2     alike_any
#define addresses_avx2 addresses_any
#define sum_avx2       sum_any
#define present_avx2   present_any
#define copy_avx2      copy_any
#endif

size_t copy_pairs_alike(const ucxpool_segment_t *segments, size_t num_segments,
                        uint64_t length)
{
    return HAS_AVX2() ? alike_avx2(segments, num_segments, length)
                      : alike_any(segments, num_segments, length);
}

size_t copy_pairs_addresses(const ucxpool_segment_t *segments,
                            size_t num_segments, uint64_t length,
                            uint64_t *addresses)
{
    return HAS_AVX2()
               ? addresses_avx2(segments, num_segments, length, addresses)
               : addresses_any(segments, num_segments, length, addresses);
}

bool copy_pairs_sum(const ucxpool_segment_t *segments, size_t num_segments,
                    uint64_t *sum_p)
{
    if (num_segments > MAX_SUMMED) {
        return false;
    }
    return HAS_AVX2() ? sum_avx2(segments, num_segments, sum_p)
                      : sum_any(segments, num_segments, sum_p);
}

size_t copy_pairs_present(void *const *addresses, size_t num_addresses)
{
    return HAS_AVX2() ? present_avx2(addresses, num_addresses)
                      : present_any(addresses, num_addresses);
}

size_t copy_pairs_copy(void *const *addresses, size_t num_addresses,
                       uint64_t *copies)
{
    return HAS_AVX2() ? copy_avx2(addresses, num_addresses, copies)
                      : copy_any(addresses, num_addresses, copies);
}
