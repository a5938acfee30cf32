/*
 * The input of the copy kernel: a list of pieces of memory, and tiles. One
 * thread block copies one tile. This header is included by C and by the kernel
 * (kernel.cu).
 *
 * One side of a launch is a list of pieces anywhere in memory. The other side
 * is the stream: contiguous memory, or a few contiguous ranges, such as blocks.
 * A gather copies from the list to the stream, a scatter from the stream to the
 * list. Alternatively, both sides are pieces anywhere in memory, in pairs of
 * equal length.
 *
 *     list      [  0  ][        1        ][ 2 ][      3      ]
 *     tiles     |       0       |       1       |     2      |
 *     stream    [ 0 | 1 ~~~~~~~~~~~~~~~~~~~~~~| 2 | 3 ~~~~~~~~~]
 *
 * If all pieces have the same length, the kernel computes the tiles. Otherwise
 * it reads a list of tiles.
 *
 * A gather zeroes the padding between pieces, so that old data does not leak to
 * the reader of the stream. A tile may begin in the middle of a piece, but not
 * in padding. The list is in pinned host memory. The kernel reads it over PCIe.
 * It reads an entry once for each tile that needs the entry, so compact forms
 * of the list are faster.
 */
#ifndef COPY_TILES_H
#define COPY_TILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pieces begin at multiples of this number in the stream, except with
 * COPY_EXACT. */
#define COPY_UNIT 16

/* The largest tile of a launch whose stream is behind a link. */
#define COPY_TILE_MAX ((uint64_t)512 << 10)

/* The number of threads of a thread block, and of list entries that a thread
 * block processes at a time. */
#define COPY_THREADS 256

/* COPY_LATE is the fault of a launch whose flag was not written in time; the
 * launch copied nothing or only a part. COPY_PATIENCE is the maximum wait in
 * cycles, about 100 us. */
#define COPY_LATE     UINT32_MAX
#define COPY_PATIENCE 200000u

/* Any other fault of a launch is the number, from 1 on, of an entry that was
 * skipped. With COPY_BEYOND, the entry's offset exceeds the limit. With
 * COPY_OTHER, the entry's length differs from the length of the list's pieces.
 * With neither flag, the entry's address is NULL. */
#define COPY_BEYOND (UINT32_C(1) << 31)
#define COPY_OTHER  (UINT32_C(1) << 30)

/* The form of the entries of a list. */
typedef enum copy_form {
    /* No list, but one piece: its address replaces the address of the list. */
    COPY_ONE,
    /* 8 bytes: an address. All pieces have the same length. */
    COPY_UNIFORM,
    /* 16 bytes: copy_segment_t, the layout of the caller's segments. */
    COPY_SEGMENTS,
    /* Like COPY_SEGMENTS, for segments that all have the same length. */
    COPY_EVEN_SEGMENTS,
    /* 16 bytes: copy_exact_t, which has an offset in the stream. Gaps between
     * entries are not changed; add a piece of zeros to clear a gap. */
    COPY_EXACT,
    /* 24 bytes: copy_pair_t, which has the addresses of both sides. There is no
     * stream. */
    COPY_PAIRS,
    /* 16 bytes: copy_even_pair_t. Like COPY_PAIRS, for equal-length pieces. */
    COPY_EVEN_PAIRS,
    /* 8 bytes: an address. Like COPY_EVEN_PAIRS, with two lists: the second
     * list has the offsets of the other sides from the stream's address. */
    COPY_EVEN_PLACES
} copy_form_t;

typedef struct copy_segment {
    uint64_t address;
    uint64_t length;
} copy_segment_t;

typedef struct copy_exact {
    /* 0: the piece is padding. A gather zeroes it, a scatter skips it. */
    uint64_t address;
    uint32_t length;
    uint32_t offset; /* in the stream */
} copy_exact_t;

typedef struct copy_pair {
    uint64_t address;
    /* address on the other side; used instead of a position in the stream */
    uint64_t other;
    uint64_t length;
} copy_pair_t;

typedef struct copy_even_pair {
    uint64_t address;
    uint64_t other;
} copy_even_pair_t;

typedef struct copy_tile {
    /* Address of the tile's first byte in the stream or, for a pair, on the
     * other side. With several pieces: the stream's address for COPY_EXACT, 0
     * for COPY_PAIRS. */
    uint64_t stream;
    /* Offset of the tile's first byte in its first piece. With only one piece:
     * the address of this byte, so that the kernel does not read the list. */
    uint64_t origin;
    uint32_t first; /* index of the first piece */
    uint32_t count; /* pieces, including those of length 0 */
    uint32_t size;  /* bytes of the stream, including padding */
    /* Bytes of padding at the end of a tile with only one piece. With more
     * pieces, the kernel computes the padding from their lengths. */
    uint32_t padding;
} copy_tile_t;

/* The arguments of one launch. */
typedef struct copy_list {
    copy_form_t     form;
    const void     *entries;
    uint32_t        num_entries;
    uint32_t        length;  /* of each piece, if all are equal; never 0 */
    uint64_t        stream;  /* address of the stream */
    const uint64_t *offsets; /* used only for COPY_EVEN_PLACES */
    uint64_t        limit;   /* largest valid offset in `offsets` */
    /* The last piece is also padded. Not used for COPY_EXACT, pairs and
     * places. */
    bool is_padded;
    /* The stream is accessed over a link, whose bandwidth limits the copy. */
    bool is_far;
} copy_table_t;

#ifdef __CUDA__
#define COPY_BOTH __attribute__((device)) __attribute__((host))
#else
#define COPY_BOTH
#endif

/* Returns true if all pieces of this form have the same length, so that the
 * kernel computes the tiles. */
COPY_BOTH static inline bool copy_is_even(copy_form_t form)
{
    return (form == COPY_ONE) || (form == COPY_UNIFORM) ||
           (form == COPY_EVEN_SEGMENTS) || (form >= COPY_EVEN_PAIRS);
}

/* Returns the bytes of the stream from the start of a piece to the start of the
 * next one; pairs have no padding. */
COPY_BOTH static inline uint32_t copy_even_stride(copy_form_t form,
                                                  uint32_t    length)
{
    return (form >= COPY_EVEN_PAIRS)
               ? length
               : (length + COPY_UNIT - 1) & ~(uint32_t)(COPY_UNIT - 1);
}

/*
 * Computes tile number `index` of a list of equal-length pieces, which take
 * `size` bytes of the stream. The tile's origin is always an offset, even with
 * only one piece.
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

/* Returns the size of a list of equal-length pieces in the stream, in bytes. */
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
 * Returns the number of bytes of the stream per tile, a multiple of 512. With
 * this size, a launch for `stream_size` bytes uses all multiprocessors of the
 * device. If the stream is behind a link (is_far), the launch uses only as many
 * multiprocessors as are needed to saturate the link. The other multiprocessors
 * are left for copies that do not use a link.
 */
uint32_t copy_tile_size(uint64_t stream_size, unsigned num_processors,
                        bool is_far);

/*
 * Cut a list of different lengths into tiles of tile_size bytes of the stream,
 * a multiple of COPY_UNIT and at most 1 MiB. Writes at most max_tiles tiles.
 * Returns the number of tiles that the list needs. With max_tiles 0, this
 * function only counts.
 */
size_t copy_tiles_cut(const copy_table_t *list, uint32_t tile_size,
                      copy_tile_t *tiles, size_t max_tiles);

#ifdef __cplusplus
}
#endif

#endif
