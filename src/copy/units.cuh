/*
 * Loads and stores of 16-byte units in GPU memory for the copy kernel. Units
 * may be unaligned or partial.
 */
#ifndef MEM_COPY_UNITS_CUH
#define MEM_COPY_UNITS_CUH

#include "copy/tiles.h"

#define DEVICE \
    __attribute__((device)) static inline __attribute__((always_inline))
#define UNIT COPY_UNIT

struct words4 {
    uint32_t w[4];
};

/* Loads bypass the L1 cache, which is not coherent with writes of other
 * devices. Only bytes at the ends of pieces are read twice. */
DEVICE words4 load16(uint64_t address)
{
    words4 v;

    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.w[0]), "=r"(v.w[1]), "=r"(v.w[2]), "=r"(v.w[3])
                 : "l"(address));
    return v;
}

DEVICE uint32_t load4(uint64_t address)
{
    uint32_t v;

    asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(v) : "l"(address));
    return v;
}

/* Load a word; later loads see all data that was written before this word. */
DEVICE uint32_t load4_acquire(uint64_t address)
{
    uint32_t v;

    asm volatile("ld.acquire.sys.global.u32 %0, [%1];"
                 : "=r"(v)
                 : "l"(address)
                 : "memory");
    return v;
}

/* Store a word; a reader of this word sees all data that this thread block
 * stored before a barrier before it. */
DEVICE void store4_release(uint64_t address, uint32_t v)
{
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(address), "r"(v)
                 : "memory");
}

/* Returns the cycle counter of this multiprocessor. */
DEVICE uint64_t clock_now()
{
    uint64_t v;

    asm volatile("mov.u64 %0, %%clock64;" : "=l"(v));
    return v;
}

DEVICE uint32_t load1(uint64_t address)
{
    uint32_t v;

    asm volatile("ld.global.cg.u8 %0, [%1];" : "=r"(v) : "l"(address));
    return v;
}

/* Read an entry with one load, because host memory is not cached. */
DEVICE uint64_t load_entry(const uint64_t *entry)
{
    uint64_t v;

    asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(v) : "l"(entry));
    return v;
}

DEVICE void load_entry(const uint64_t *entry, uint64_t *first_p,
                       uint64_t *second_p)
{
    asm volatile("ld.global.cg.v2.u64 {%0, %1}, [%2];"
                 : "=l"(*first_p), "=l"(*second_p)
                 : "l"(entry));
}

DEVICE void store16(uint64_t address, words4 v)
{
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address),
                 "r"(v.w[0]), "r"(v.w[1]), "r"(v.w[2]), "r"(v.w[3])
                 : "memory");
}

DEVICE void store4(uint64_t address, uint32_t v)
{
    asm volatile("st.global.u32 [%0], %1;" ::"l"(address), "r"(v) : "memory");
}

DEVICE void store1(uint64_t address, uint32_t v)
{
    asm volatile("st.global.u8 [%0], %1;" ::"l"(address), "r"(v) : "memory");
}

/* Returns four bytes of two words, from byte bits / 8 on. */
DEVICE uint32_t funnel(uint32_t low, uint32_t high, uint32_t bits)
{
    uint32_t v;

    asm("shf.r.wrap.b32 %0, %1, %2, %3;"
        : "=r"(v)
        : "r"(low), "r"(high), "r"(bits));
    return v;
}

/* Load the word at an aligned address; only its bytes in [first, last) are
 * read. */
DEVICE uint32_t load_word(uint64_t address, uint64_t first, uint64_t last)
{
    uint32_t v = 0;

    if ((address >= first) && (address + 4 <= last)) {
        return load4(address);
    }
    for (uint32_t i = 0; i < 4; i++) {
        if ((address + i >= first) && (address + i < last)) {
            v |= load1(address + i) << (8 * i);
        }
    }
    return v;
}

/* Selects five of eight words, from word `skip` on. */
DEVICE void select_words(words4 low, words4 high, uint32_t skip, uint32_t *v)
{
    bool     two = skip & 2;
    bool     one = skip & 1;
    uint32_t half[6] = {two ? low.w[2] : low.w[0],  two ? low.w[3] : low.w[1],
                        two ? high.w[0] : low.w[2], two ? high.w[1] : low.w[3],
                        two ? high.w[2] : high.w[0],
                        two ? high.w[3] : high.w[1]};

    for (int i = 0; i < 5; i++) {
        v[i] = one ? half[i + 1] : half[i];
    }
}

/* Load 16 bytes from any address. Only bytes in [first, last) are read; the
 * others are 0. */
DEVICE words4 load_unit(uint64_t address, uint64_t first, uint64_t last)
{
    uint64_t base = address & ~(uint64_t)(UNIT - 1);
    uint32_t offset = address & (UNIT - 1);
    uint32_t v[5];
    words4   unit;

    if ((offset == 0) && (base >= first) && (base + UNIT <= last)) {
        return load16(base);
    }
    if ((base >= first) && (base + 2 * UNIT <= last)) {
        select_words(load16(base), load16(base + UNIT), offset / 4, v);
    } else {
        for (int i = 0; i < 5; i++) {
            v[i] = load_word((address & ~(uint64_t)3) + 4 * i, first, last);
        }
    }
    for (int i = 0; i < 4; i++) {
        unit.w[i] = funnel(v[i], v[i + 1], 8 * (offset % 4));
    }
    return unit;
}

/* Store bytes [first, last) of a unit. */
DEVICE void store_part(uint64_t address, words4 unit, uint32_t first,
                       uint32_t last)
{
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t at = 4 * i;

        if ((at >= first) && (at + 4 <= last)) {
            store4(address + at, unit.w[i]);
            continue;
        }
        for (uint32_t j = 0; j < 4; j++) {
            if ((at + j >= first) && (at + j < last)) {
                store1(address + at + j, unit.w[i] >> (8 * j));
            }
        }
    }
}

#endif
