/*
 * What the copy kernel reads: a list of pieces of memory, and tiles, each the
 * share of one thread block. This header is read by C and by the kernel
 * (copy_kernel.cu).
 *
 * One side of a launch is a list of pieces anywhere in memory, the other the
 * stream: contiguous, or a few contiguous stretches (blocks, say). A gather
 * copies from the list to the stream, a scatter from the stream to the list. Or
 * both sides are pieces anywhere, in pairs of one length.
 *
 *     list      [  0  ][        1        ][ 2 ][      3      ]
 *     tiles     |       0       |       1       |     2      |
 *     stream    [ 0 | 1 ~~~~~~~~~~~~~~~~~~~~~~| 2 | 3 ~~~~~~~~~]
 *
 * Pieces of one length are cut by arithmetic, which the kernel does itself; of
 * others it reads a list of tiles.
 *
 * Padding between pieces is cleared by a gather: what the stream's memory held
 * before is no business of its reader. A tile may begin in the middle of a
 * piece, but not in padding. The list lies in pinned host memory, which the
 * kernel reads over PCIe, each entry once for each tile that needs it; so short
 * forms of it matter.
 */
#ifndef COPY_TILES_H
#define COPY_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pieces begin in the stream at multiples of this, but for COPY_EXACT. */
#define COPY_UNIT 16

/* Threads of a block; as many entries of a list are looked at together. */
#define COPY_THREADS 256

/* What a launch tells that has waited for a word in vain, and copied nothing,
 * or a part; and the cycles that it waits, about 100 us. */
#define COPY_LATE     UINT32_MAX
#define COPY_PATIENCE 200000u

/* A launch tells the number of an entry that it left out, from 1 on: it has no
 * address; or, with one of these bits, its offset is greater than the limit, or
 * its length is another than that of the list. */
#define COPY_BEYOND (UINT32_C(1) << 31)
#define COPY_OTHER  (UINT32_C(1) << 30)

/* How an entry of the list looks. */
typedef enum copy_form {
    /* There is no list, but one piece: its address is given in place of it. */
    COPY_ONE,
    /* 8 bytes: an address. All pieces have one length. */
    COPY_UNIFORM,
    /* 16 bytes: copy_segment_t, as a caller's segments are. */
    COPY_SEGMENTS,
    /* The same of segments that all have one length. */
    COPY_EVEN_SEGMENTS,
    /* 16 bytes: copy_exact_t. Each says where it lies in the stream. What
     * lies between two is left as it is: to clear it, add a piece of zeros. */
    COPY_EXACT,
    /* 24 bytes: copy_pair_t. There is no stream: each says where its other side
     * is. */
    COPY_PAIRS,
    /* 16 bytes: copy_even_pair_t. The same of pieces that have one length. */
    COPY_EVEN_PAIRS,
    /* 8 bytes: an address. The same, in two lists: the second one has the
     * offsets of the other sides from the stream's address. */
    COPY_EVEN_PLACES
} copy_form_t;

typedef struct copy_segment {
    uint64_t address;
    uint64_t length;
} copy_segment_t;

typedef struct copy_exact {
    uint64_t address; /* 0: zeros, which a scatter leaves out */
    uint32_t length;
    uint32_t offset; /* in the stream */
} copy_exact_t;

typedef struct copy_pair {
    uint64_t address;
    uint64_t other; /* in place of the stream */
    uint64_t length;
} copy_pair_t;

typedef struct copy_even_pair {
    uint64_t address;
    uint64_t other;
} copy_even_pair_t;

typedef struct copy_tile {
    /* Address of the tile's first byte in the stream, or its other side. Of
     * several pieces: with COPY_EXACT of the stream, with COPY_PAIRS 0. */
    uint64_t stream;
    /* The tile's first byte lies so far in its first piece. Where that is the
     * only piece: its address, so that the list need not be read. */
    uint64_t origin;
    uint32_t first; /* index of the first piece */
    uint32_t count; /* of pieces, those of length 0 included */
    uint32_t size;  /* bytes of the stream, with padding */
    /* So many of them, at the end, are padding, where there is only one piece.
     * Where there are more, the kernel finds it by their lengths. */
    uint32_t padding;
} copy_tile_t;

/* What one launch copies. */
typedef struct copy_list {
    copy_form_t     form;
    const void     *entries;
    uint32_t        num_entries;
    uint32_t        length;  /* of each piece, over 0, where they have one */
    uint64_t        stream;  /* its address */
    const uint64_t *offsets; /* of COPY_EVEN_PLACES */
    uint64_t        limit;   /* greater ones are left out, and told */
    /* Is there padding behind the last piece, as there is behind the others?
     * Not with COPY_EXACT, pairs and places. */
    bool is_padded;
    /* The stream lies behind a link, which is what takes the time. */
    bool is_far;
} copy_table_t;

#ifdef __CUDA__
#define COPY_BOTH __attribute__((device)) __attribute__((host))
#else
#define COPY_BOTH
#endif

/* Are the pieces of this form of one length, and cut by the kernel? */
COPY_BOTH static inline bool copy_is_even(copy_form_t form)
{
    return (form == COPY_ONE) || (form == COPY_UNIFORM) ||
           (form == COPY_EVEN_SEGMENTS) || (form >= COPY_EVEN_PAIRS);
}

/* Bytes of the stream from one such piece to the next; pairs have no padding.
 */
COPY_BOTH static inline uint32_t copy_even_stride(copy_form_t form,
                                                  uint32_t    length)
{
    return (form >= COPY_EVEN_PAIRS)
               ? length
               : (length + COPY_UNIT - 1) & ~(uint32_t)(COPY_UNIT - 1);
}

/*
 * Tile number `index` of pieces of one length, which take `size` bytes of the
 * stream in all. Its origin is an offset, however many pieces there are.
 */
COPY_BOTH static inline copy_tile_t
copy_tile_even(uint64_t stream, uint32_t size, uint32_t stride,
               uint32_t tile_size, uint32_t index)
{
    uint32_t    begin = index * tile_size;
    uint32_t    end   = (size - begin > tile_size) ? begin + tile_size : size;
    uint32_t    first = begin / stride;
    copy_tile_t tile;

    tile.stream  = stream + begin;
    tile.origin  = begin - first * stride;
    tile.first   = first;
    tile.count   = (end + stride - 1) / stride - first;
    tile.size    = end - begin;
    tile.padding = 0;
    return tile;
}

/* Bytes of the stream that such a list takes. */
static inline uint32_t copy_even_size(const copy_table_t *list)
{
    uint32_t stride = copy_even_stride(list->form, list->length);

    if (list->num_entries == 0) {
        return 0;
    }
    return (list->num_entries - 1) * stride +
           (list->is_padded ? stride : list->length);
}

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Bytes of the stream that one tile should have, so that a launch for so many
 * bytes keeps all multiprocessors of a device busy; or where the stream is far,
 * as few as keep a link busy, and leave the others to those who wait for
 * nothing: a multiple of 512.
 */
uint32_t copy_tile_size(uint64_t stream_size, unsigned num_processors,
                        bool is_far);

/*
 * Cut another list into tiles of tile_size bytes of the stream, a multiple of
 * COPY_UNIT and at most 1 MiB. Writes max_tiles at most; returns how many
 * the list takes, so with max_tiles 0 it only counts.
 */
size_t copy_tiles_cut(const copy_table_t *list, uint32_t tile_size,
                      copy_tile_t *tiles, size_t max_tiles);

#ifdef __cplusplus
}
#endif

#endif
