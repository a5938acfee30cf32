/*
 * The copy kernel: gathers pieces of memory into a stream, or scatters a stream
 * to pieces, as described in copy/tiles.h. One launch copies a whole list, and
 * each thread block copies one tile.
 *
 * The unit of work is 16 aligned bytes of the target. A thread copies units,
 * and finds the piece of a unit by bisection in shared memory. So all threads
 * have equal work whether a tile holds one piece or 256. Every store writes 16
 * bytes except at the ends of a piece. Sources that are not aligned with
 * their targets are read as aligned words and shifted. The kernel reads nothing
 * outside a piece. It writes nothing outside a piece except, in a gather, zeros
 * to the padding after it.
 *
 * Written for clang without CUDA's headers: see scripts/make-ptx.
 */
#include "copy/units.cuh"

/* Shared variables have external linkage. LLVM 14 assumes that a barrier does
 * not change variables with internal linkage, and moves loads across the
 * barrier. */
#define SHARED __attribute__((shared))

/* The number of units that a thread has in flight. */
#define UNROLL 4
/* Thread blocks per multiprocessor; limits the number of registers. */
#define BLOCKS 4
#define WARPS  (COPY_THREADS / 32)

/* The pieces that are being copied, and the first unit of each. */
SHARED uint64_t ucxpool_copy_target[COPY_THREADS];
SHARED uint64_t ucxpool_copy_source[COPY_THREADS];
SHARED uint32_t ucxpool_copy_length[COPY_THREADS]; /* with padding */
SHARED uint32_t ucxpool_copy_data[COPY_THREADS];   /* without padding */
SHARED uint32_t ucxpool_copy_unit[COPY_THREADS];
SHARED uint32_t ucxpool_copy_sums[WARPS];
SHARED uint32_t ucxpool_copy_has_arrived;

DEVICE uint32_t thread_index()
{
    return __nvvm_read_ptx_sreg_tid_x();
}

DEVICE uint32_t smaller(uint32_t a, uint32_t b) { return (a < b) ? a : b; }

DEVICE void barrier() { asm volatile("bar.sync 0;" ::: "memory"); }

/* Returns the sum of v over the threads before this one; *total_p is the sum
 * over all threads. */
DEVICE uint32_t sum_before(uint32_t v, uint32_t *total_p)
{
    uint32_t lane = thread_index() % 32;
    uint32_t warp = thread_index() / 32;
    uint32_t sum = v;
    uint32_t before = 0;
    uint32_t total = 0;

    for (uint32_t distance = 1; distance < 32; distance *= 2) {
        uint32_t other = __nvvm_shfl_sync_up_i32(~0u, sum, distance, 0);

        sum += (lane >= distance) ? other : 0;
    }
    if (lane == 31) {
        ucxpool_copy_sums[warp] = sum;
    }
    barrier();
    for (uint32_t i = 0; i < WARPS; i++) {
        before += (i < warp) ? ucxpool_copy_sums[i] : 0;
        total += ucxpool_copy_sums[i];
    }
    *total_p = total;
    return before + sum - v;
}

/* Returns the piece of a unit: the last piece that begins at or before the
 * unit. */
DEVICE uint32_t find_piece(uint32_t unit, uint32_t num_pieces, uint32_t step)
{
    uint32_t i = 0;

    for (; step > 0; step /= 2) {
        if ((i + step < num_pieces) && (ucxpool_copy_unit[i + step] <= unit)) {
            i += step;
        }
    }
    return i;
}

/* A unit in flight. */
struct flight {
    words4   bytes;
    uint64_t target;
    uint32_t first; /* bytes [first, last) are stored */
    uint32_t last;
};

DEVICE flight load_flight(uint32_t unit, uint32_t i)
{
    uint64_t target = ucxpool_copy_target[i];
    uint64_t source = ucxpool_copy_source[i];
    uint32_t length = ucxpool_copy_length[i];
    uint64_t at = (target & ~(uint64_t)(UNIT - 1)) +
                  (uint64_t)(unit - ucxpool_copy_unit[i]) * UNIT;
    flight   f;

    f.target = at;
    f.first = (at < target) ? (uint32_t)(target - at) : 0;
    f.last = (at + UNIT > target + length) ? (uint32_t)(target + length - at)
                                           : UNIT;
    f.bytes = load_unit(source + (at - target), source,
                        source + ucxpool_copy_data[i]);
    return f;
}

DEVICE void copy_units(uint32_t num_units, uint32_t num_pieces)
{
    uint32_t step = (num_pieces > 1)
                        ? 1u << (31 - __builtin_clz(num_pieces - 1))
                        : 0;

    for (uint32_t u = thread_index(); u < num_units;
         u += COPY_THREADS * UNROLL) {
        flight f[UNROLL];

#pragma unroll
        for (int i = 0; i < UNROLL; i++) {
            uint32_t unit = u + i * COPY_THREADS;

            f[i].first = f[i].last = 0;
            if (unit < num_units) {
                f[i] = load_flight(unit, find_piece(unit, num_pieces, step));
            }
        }
#pragma unroll
        for (int i = 0; i < UNROLL; i++) {
            if (f[i].last - f[i].first == UNIT) {
                store16(f[i].target, f[i].bytes);
            } else if (f[i].first < f[i].last) {
                store_part(f[i].target, f[i].bytes, f[i].first, f[i].last);
            }
        }
    }
}

/* Returns a tile of a list of equal-length pieces. */
DEVICE copy_tile_t even_tile(uint32_t form, uint32_t length, uint64_t stream,
                             uint32_t stream_size, uint32_t tile_size,
                             uint32_t number)
{
    return copy_tile_even(stream, stream_size,
                          copy_even_stride((copy_form_t)form, length),
                          tile_size, number);
}

struct piece {
    uint64_t address;
    uint64_t length;
    /* With COPY_EXACT, the offset in the stream. With pairs and places, the
     * position of the other side. */
    uint64_t stream;
};

/* Returns the fault of an entry in a list of equal-length pieces; 0 if it is
 * valid. */
DEVICE uint32_t fault_of(const piece &p, uint64_t entry, uint64_t limit,
                         uint32_t length)
{
    uint32_t number = (uint32_t)entry + 1;

    if (p.length != length) {
        return number | COPY_OTHER;
    }
    if (p.address == 0) {
        return number;
    }
    return (p.stream > limit) ? (number | COPY_BEYOND) : 0;
}

/* Load piece `index` of a tile, without the bytes before the tile. If all
 * pieces have the same length, an invalid entry is reported at `fault`. */
DEVICE piece load_piece(const copy_tile_t *tile, const uint64_t *list,
                        const uint64_t *offsets, uint64_t limit, uint32_t form,
                        uint32_t length, uint32_t index, uint64_t fault)
{
    uint64_t entry = tile->first + index;
    piece    p = {0, length, 0};

    if ((tile->count == 1) && !copy_is_even((copy_form_t)form)) {
        p.address = tile->origin;
        p.length = (index == 0) ? tile->size - tile->padding : 0;
        return p;
    }
    if (index >= tile->count) {
        p.length = 0;
        return p;
    }
    if (form == COPY_ONE) {
        p.address = (uint64_t)list;
    } else if ((form == COPY_UNIFORM) || (form == COPY_EVEN_SEGMENTS) ||
               (form == COPY_EVEN_PLACES)) {
        if (form == COPY_EVEN_SEGMENTS) {
            load_entry(list + 2 * entry, &p.address, &p.length);
        } else {
            p.address = load_entry(list + entry);
        }
        if (form == COPY_EVEN_PLACES) {
            p.stream = load_entry(offsets + entry);
        }

        uint32_t wrong = fault_of(p, entry, limit, length);

        if (wrong != 0) {
            store4(fault, wrong);
            p.length = 0;
            return p;
        }
    } else if (form == COPY_EVEN_PAIRS) {
        load_entry(list + 2 * entry, &p.address, &p.stream);
    } else if (form == COPY_PAIRS) {
        p.address = load_entry(list + 3 * entry);
        p.stream = load_entry(list + 3 * entry + 1);
        p.length = load_entry(list + 3 * entry + 2);
    } else {
        load_entry(list + 2 * entry, &p.address, &p.length);
    }
    if (form == COPY_EXACT) {
        p.stream = p.length >> 32;
        p.length = (uint32_t)p.length;
    }
    if (index == 0) {
        p.address += (p.address != 0) ? tile->origin : 0;
        p.length -= tile->origin;
        p.stream += tile->origin;
    }
    return p;
}

/* A piece of COPY_EXACT without an address consists of zeros. Replace its
 * address, because the bounds of reads would wrap around at 0. */
DEVICE void replace_null(piece *p, uint32_t form, uint32_t gather,
                         uint32_t *size_p, uint32_t *data_p)
{
    if ((form == COPY_EXACT) && (p->address == 0)) {
        *size_p = gather ? *size_p : 0;
        *data_p = 0;
        p->address = UNIT;
    }
}

/* Share the piece of this thread with all threads of the block. Returns the
 * total number of units in the pieces of all threads. */
DEVICE uint32_t share_piece(uint64_t target, uint64_t source, uint32_t size,
                            uint32_t data)
{
    uint32_t me = thread_index();
    uint32_t units = ((uint32_t)(target % UNIT) + size + UNIT - 1) / UNIT;
    uint32_t num_units;

    barrier();
    ucxpool_copy_target[me] = target;
    ucxpool_copy_source[me] = source;
    ucxpool_copy_length[me] = size;
    ucxpool_copy_data[me] = data;
    ucxpool_copy_unit[me] = sum_before((size > 0) ? units : 0, &num_units);
    barrier();
    return num_units;
}

/*
 * Wait until another GPU has written this number to a word. Data that the other
 * GPU wrote before this number is then visible. The wait is limited, because an
 * application that waits for all work of this GPU must not wait for a failed
 * peer. Also, a peer that shares the GPU with this process by time slicing must
 * not wait for this kernel.
 */
DEVICE bool has_arrived(uint64_t word, uint32_t number)
{
    uint64_t start = clock_now();

    if (thread_index() == 0) {
        uint32_t v;

        do {
            v = load4_acquire(word);
        } while ((v != number) && (clock_now() - start < COPY_PATIENCE));
        ucxpool_copy_has_arrived = (v == number) ? 1 : 0;
    }
    barrier();
    return ucxpool_copy_has_arrived != 0;
}

/* Returns false, and sets the fault, if the data of a tile has not arrived. */
DEVICE bool has_data(uint64_t awaited, uint32_t mark, uint64_t fault)
{
    if ((awaited == 0) || has_arrived(awaited, mark)) {
        return true;
    }
    if (thread_index() == 0) {
        store4(fault, COPY_LATE);
    }
    return false;
}

DEVICE void write_done(uint64_t done, uint32_t number)
{
    if ((done != 0) && (thread_index() == 0)) {
        store4_release(done, number);
    }
}

/*
 * Copy a list, one tile per thread block of COPY_THREADS threads. `gather` is 1
 * or 0. If all pieces have the same length, the tiles are computed from stream,
 * stream_size and tile_size. For COPY_EVEN_PLACES, `tiles` is the list of
 * offsets, which must not exceed `limit`. `fault` is the address of a word for
 * the fault, in the form that copy/tiles.h describes. Only lists of pieces of
 * equal length are checked. The fault is COPY_LATE if `awaited` is not 0 and
 * the word at this address did not get the number `mark` in time. If `done` is
 * not 0, the launch has one tile, and writes `number` there at the end.
 */
extern "C" __attribute__((global))
__attribute__((launch_bounds(COPY_THREADS, BLOCKS))) void
ucxpool_copy(const copy_tile_t *tiles, const uint64_t *list, uint32_t form,
             uint32_t length, uint32_t gather, uint64_t stream,
             uint32_t stream_size, uint32_t tile_size, uint64_t fault,
             uint64_t awaited, uint32_t mark, uint64_t limit, uint64_t done,
             uint32_t number)
{
    uint32_t    block = __nvvm_read_ptx_sreg_ctaid_x();
    bool        is_even = copy_is_even((copy_form_t)form);
    copy_tile_t tile = is_even ? even_tile(form, length, stream, stream_size,
                                           tile_size, block)
                               : tiles[block];
    uint32_t    me = thread_index();
    /* Each piece has its own position on the other side. */
    bool        is_exact = form >= COPY_EXACT;
    uint32_t    align = is_exact ? 1 : UNIT;
    uint32_t    left = tile.size;

    if (!has_data(awaited, mark, fault)) {
        tile.count = 0;
    }
    for (uint32_t index = 0; index < tile.count; index += COPY_THREADS) {
        piece p = load_piece(&tile, list, (const uint64_t *)tiles, limit, form,
                             length, index + me, fault);

        /* Place the pieces in the tile, each with its padding; cut them at the
         * end of the tile. */
        uint32_t data = (p.length < left) ? (uint32_t)p.length : left;
        uint32_t size = (data + align - 1) & ~(align - 1);
        uint32_t total;
        uint32_t start = sum_before(size, &total);

        size = (start < left) ? smaller(size, left - start) : 0;
        data = smaller(data, size);
        size = gather ? size : data;
        replace_null(&p, form, gather, &size, &data);
        if (!is_exact || ((tile.count == 1) && !is_even)) {
            p.stream = start;
        }
        if (form != COPY_EVEN_PAIRS) {
            p.stream += (form == COPY_EVEN_PLACES) ? stream : tile.stream;
        }

        uint32_t num_units = share_piece(gather ? p.stream : p.address,
                                         gather ? p.address : p.stream, size,
                                         data);

        copy_units(num_units, smaller(COPY_THREADS, tile.count - index));
        barrier();

        total = smaller(total, left);
        left -= total;
        if (!is_exact) {
            tile.stream += total;
        }
    }
    write_done(done, number);
}
