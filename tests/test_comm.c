/* Buffers made from registered blocks. */
#include "base/config.h"
#include "../src/block/comm.c"
#include "calls.h"
#include "rounds.h"
#include "test.h"

#include "core/stats.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NUM_REGIONS       3u
#define BLOCKS_PER_REGION 8u
#define NUM_BLOCKS        (NUM_REGIONS * BLOCKS_PER_REGION)
#define NUM_USER          (NUM_BLOCKS - 2)

static mem_regions_t regions;
static block_pool_t *pool;
static block_comm_t *comm;
static size_t        block_size;
/* Held by the test, so that only the user share has free blocks. */
static uint32_t send_block;
static uint32_t recv_block;

/* --- fixture ---------------------------------------------------------- */

static void create(unsigned num_regions, size_t blocks_per_region,
                   unsigned send_share)
{
    block_pool_params_t params = {.regions    = &regions,
                                  .send_share = send_share};

    block_size        = (size_t)sysconf(_SC_PAGESIZE);
    params.block_size = block_size;
    assert_ok(mem_regions_init(&regions, &mem_kind_host, -1, num_regions,
                               blocks_per_region * block_size, BASE_SWITCH_NO));
    assert_ok(block_pool_create(&params, &pool));
    assert_ok(block_comm_create(pool, &comm));
    assert_ok(block_pool_get(pool, BLOCK_SHARE_SEND, &send_block));
    assert_ok(block_pool_get(pool, BLOCK_SHARE_RECV, &recv_block));
    ck_assert_uint_eq(recv_block, 1);
}

static void setup(void)
{
    create(NUM_REGIONS, BLOCKS_PER_REGION, 0);
}

static void teardown(void)
{
    calls_reset();
    block_comm_destroy(comm);
    block_pool_put(pool, BLOCK_SHARE_SEND, send_block);
    block_pool_put(pool, BLOCK_SHARE_RECV, recv_block);
    assert_ok(block_pool_check(pool));
    block_pool_destroy(pool);
    mem_regions_cleanup(&regions);
}

static void require_counts(uint64_t num_free, uint64_t num_held,
                           uint64_t num_quarantined)
{
    block_stats_t stats;

    block_pool_stats(pool, BLOCK_SHARE_USER, &stats);
    ck_assert_uint_eq(stats.free, num_free);
    ck_assert_uint_eq(stats.held, num_held);
    ck_assert_uint_eq(stats.quarantined, num_quarantined);
    assert_ok(block_pool_check(pool));
}

static char *alloc_blocks(size_t num_blocks)
{
    void *address;

    assert_ok(block_comm_alloc(comm, num_blocks * block_size, &address));
    return address;
}

static void free_buffer(void *address)
{
    assert_ok(block_comm_free(comm, address));
}

static bool is_home(const char *address)
{
    const char *start = regions.address;

    return (address >= start) && (address < start + NUM_BLOCKS * block_size);
}

/* Free blocks are adjacent: take every second one. */
static void scatter(void)
{
    block_stats_t stats;
    char         *singles[NUM_USER];

    block_pool_stats(pool, BLOCK_SHARE_USER, &stats);
    for (unsigned i = 0; i < stats.free; i++) {
        singles[i] = alloc_blocks(1);
    }
    for (unsigned i = 0; i < stats.free; i += 2) {
        free_buffer(singles[i]);
    }
}

static char *alloc_stitched(size_t num_blocks)
{
    char *buffer;

    scatter();
    buffer = alloc_blocks(num_blocks);
    ck_assert(!is_home(buffer));
    return buffer;
}

/* Write through the buffer and read through the regions, then the reverse,
 * piece by piece; returns the number of pieces. */
static unsigned require_same_bytes(char *buffer, size_t size, unsigned seed)
{
    size_t               offset = 0;
    unsigned             num    = 0;
    mem_piece_t          piece;
    block_comm_buffer_t *found;

    for (size_t i = 0; i < size; i++) {
        buffer[i] = (char)(i * 7 + i / block_size + seed);
    }
    for (; offset < size; offset += piece.length, num++) {
        char *home;

        ck_assert(block_comm_find(comm, buffer + offset, size - offset, &piece,
                                  &found));
        ck_assert_uint_ge(piece.length, 1);
        ck_assert_uint_le(piece.offset + piece.length, regions.region_size);
        home = (char *)regions.regions[piece.region].address + piece.offset;
        ck_assert_int_eq(memcmp(home, buffer + offset, piece.length), 0);
        home[0] ^= 0x55;
        ck_assert_int_eq(home[0], buffer[offset]);
        home[0] ^= 0x55;
    }
    ck_assert_uint_eq(offset, size);
    return num;
}

static block_comm_buffer_t *find_buffer(const char *address)
{
    mem_piece_t          piece;
    block_comm_buffer_t *buffer;

    ck_assert(block_comm_find(comm, address, 1, &piece, &buffer));
    return buffer;
}

static bool is_found(const void *address)
{
    mem_piece_t          piece;
    block_comm_buffer_t *buffer;

    return block_comm_find(comm, address, 1, &piece, &buffer);
}

/* --- allocation ------------------------------------------------------- */

TEST_SETTINGS(.setup = setup, .teardown = teardown, .timeout = 120);

TEST(alloc_of_zero_bytes_is_rejected)
{
    void *address = &address;

    assert_error(block_comm_alloc(comm, 0, &address), INVALID_PARAM);
    ck_assert_ptr_eq(address, &address);
}

TEST(alloc_beyond_the_share_fails_at_any_size)
{
    const size_t lengths[] = {NUM_USER * block_size + 1, SIZE_MAX / 2,
                              SIZE_MAX - 1, SIZE_MAX};
    void        *address   = &address;

    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        assert_error(block_comm_alloc(comm, lengths[i], &address), NO_BLOCKS);
        ck_assert_ptr_eq(address, &address);
        assert_detail("COMM_SIZE");
    }
    require_counts(NUM_USER, 0, 0);
}

TEST(alloc_beyond_the_free_blocks_fails)
{
    void *address = &address;

    alloc_blocks(NUM_USER - 1);
    assert_error(block_comm_alloc(comm, 2 * block_size, &address), NO_BLOCKS);
    ck_assert_ptr_eq(address, &address);
    alloc_blocks(1);
}

TEST(run_across_regions_is_one_buffer_of_several_pieces)
{
    char *buffer = alloc_blocks(NUM_USER);

    ck_assert_ptr_eq(buffer, block_pool_address(pool, 2));
    ck_assert_uint_eq(require_same_bytes(buffer, NUM_USER * block_size, 2), 3);
}

TEST(adjacent_blocks_of_a_stitched_buffer_are_one_piece)
{
    char *low;
    char *wall;
    char *high;
    char *buffer;

    low  = alloc_blocks(3);
    wall = alloc_blocks(1);
    high = alloc_blocks(6);
    alloc_blocks(NUM_USER - 10);
    free_buffer(low);
    free_buffer(high);
    /* Blocks 2 to 4, 6 and 7, and 8 to 11; the last group starts a region. */
    buffer = alloc_blocks(9);
    ck_assert(!is_home(buffer));
    ck_assert_uint_eq(require_same_bytes(buffer, 9 * block_size, 4), 3);
    free_buffer(wall);
}

TEST(the_whole_share_can_be_stitched_two_by_two)
{
    char    *singles[NUM_USER];
    unsigned first_half = NUM_USER / 2 / 2 * 2;

    for (unsigned i = 0; i < NUM_USER; i++) {
        singles[i] = alloc_blocks(1);
    }
    /* An even number of every second block, then the blocks between them. */
    for (unsigned i = 0; i < first_half; i++) {
        free_buffer(singles[2 * i]);
    }
    for (unsigned i = 0; i < first_half; i += 2) {
        ck_assert(!is_home(alloc_blocks(2)));
    }
    for (unsigned i = 0; i < first_half; i++) {
        free_buffer(singles[2 * i + 1]);
    }
    for (unsigned i = 0; i < first_half; i += 2) {
        ck_assert(!is_home(alloc_blocks(2)));
    }
    free_buffer(singles[2 * first_half]);
    free_buffer(singles[2 * first_half + 1]);
    require_counts(2, NUM_USER - 2, 0);
}

TEST(blocks_smaller_than_a_page_are_not_stitched)
{
    void *address = &address;

    scatter();
    regions.page_size = 2 * block_size;
    assert_error_detail(block_comm_alloc(comm, 2 * block_size, &address),
                        NO_BLOCKS, "BLOCK_SIZE");
    assert_ok(block_comm_alloc(comm, block_size, &address));
    regions.page_size = block_size;
}

TEST(alloc_fails_if_the_share_has_no_blocks)
{
    void *address;

    teardown();
    create(1, 2, 100);
    assert_error(block_comm_alloc(comm, 1, &address), NO_BLOCKS);
    ck_assert(!is_found(regions.address));
}

/* --- lookup -------------------------------------------------------------- */

TEST(address_outside_all_buffers_is_not_found)
{
    uint32_t index;
    char     local;
    char    *buffer = alloc_blocks(2);

    assert_ok(block_pool_get(pool, BLOCK_SHARE_USER, &index));
    ck_assert(!is_found(NULL));
    ck_assert(!is_found(&local));
    ck_assert(!is_found((char *)regions.address - 1));
    ck_assert(!is_found((char *)regions.address + NUM_BLOCKS * block_size));
    ck_assert(!is_found(block_pool_address(pool, index)));
    ck_assert(!is_found((void *)UINTPTR_MAX));
    ck_assert(is_found(buffer + 2 * block_size - 1));
    ck_assert(!is_found(buffer + 2 * block_size));
    block_pool_put(pool, BLOCK_SHARE_USER, index);
}

TEST(the_ends_of_a_stitched_buffer_are_exact)
{
    char *buffer = alloc_stitched(3);

    ck_assert(!is_found(buffer - 1));
    ck_assert(is_found(buffer));
    ck_assert(is_found(buffer + 3 * block_size - 1));
    ck_assert(!is_found(buffer + 3 * block_size));
}

TEST(stitched_buffer_is_not_found_at_its_blocks_addresses)
{
    char                *buffer = alloc_stitched(2);
    mem_piece_t          piece;
    block_comm_buffer_t *found;

    ck_assert(block_comm_find(comm, buffer, 1, &piece, &found));
    ck_assert(!is_found((char *)regions.regions[piece.region].address +
                        piece.offset));
}

TEST(piece_starts_at_the_byte_and_respects_the_limit)
{
    char                *buffer = alloc_stitched(2);
    mem_piece_t          piece;
    block_comm_buffer_t *found;

    ck_assert(
        block_comm_find(comm, buffer + block_size + 5, 7, &piece, &found));
    ck_assert_uint_eq(piece.offset % block_size, 5);
    ck_assert_uint_eq(piece.length, 7);
    ck_assert(block_comm_find(comm, buffer + block_size + 5, SIZE_MAX, &piece,
                              &found));
    ck_assert_uint_eq(piece.length, block_size - 5);
    ck_assert(block_comm_find(comm, buffer, 0, &piece, &found));
    ck_assert_uint_eq(piece.length, 0);
}

TEST(blocks_of_buffers_are_recognized)
{
    char *run      = alloc_blocks(2);
    char *stitched = alloc_stitched(2);

    (void)stitched;
    ck_assert(block_comm_has_block(comm, 2));
    ck_assert(block_comm_has_block(comm, 3));
    ck_assert(!block_comm_has_block(comm, NUM_BLOCKS - 2));
    free_buffer(run);
    ck_assert(!block_comm_has_block(comm, 2));
    ck_assert(!block_comm_has_block(comm, NUM_BLOCKS));
    ck_assert(!block_comm_has_block(comm, UINT32_MAX));
}

TEST(pieces_end_where_blocks_or_regions_are_not_adjacent)
{
    const uint32_t indices[] = {4, 5, 6, 3, 7, 8, 9, 11};
    const uint32_t wanted[]  = {3, 3, 3, 4, 5, 7, 7, 8};
    uint32_t       ends[8];
    mem_piece_t    piece;

    pieces_cut(pool, indices, 8, ends);
    ck_assert_mem_eq(ends, wanted, sizeof(ends));
    pieces_get(pool, indices, ends, 1, &piece);
    ck_assert_uint_eq(piece.region, 0);
    ck_assert_uint_eq(piece.offset, 5 * block_size);
    ck_assert_uint_eq(piece.length, 2 * block_size);
    ck_assert(!pieces_is_run(indices, 8));
    ck_assert(pieces_is_run(indices + 4, 3));
    ck_assert(pieces_is_run(indices, 1));
}

/* --- freeing ---------------------------------------------------------- */

TEST(free_takes_null)
{
    free_buffer(NULL);
    block_comm_destroy(NULL);
}

static void require_not_freed(void *address)
{
    assert_error(block_comm_free(comm, address), INVALID_PARAM);
}

TEST(free_rejects_addresses_inside_a_buffer)
{
    char *run = alloc_blocks(2);
    char *stitched;
    int   local;

    require_not_freed(run + 1);
    require_not_freed(run + block_size);
    require_not_freed(&local);
    require_not_freed(run + 2 * block_size);
    free_buffer(run);
    require_not_freed(run);
    stitched = alloc_stitched(2);
    require_not_freed(stitched + block_size);
    require_not_freed(stitched - 1);
    free_buffer(stitched);
    require_not_freed(stitched);
}

static void require_quarantine(char *buffer, size_t num_blocks)
{
    block_comm_buffer_t *held = find_buffer(buffer);
    block_stats_t        before;

    block_pool_stats(pool, BLOCK_SHARE_USER, &before);
    block_comm_hold(held);
    block_comm_hold(held);
    free_buffer(buffer);
    require_counts(before.free, before.held - num_blocks, num_blocks);
    ck_assert(!is_found(buffer));
    require_not_freed(buffer);
    block_comm_drop(comm, held);
    require_counts(before.free, before.held - num_blocks, num_blocks);
    block_comm_drop(comm, held);
    require_counts(before.free + num_blocks, before.held - num_blocks, 0);
}

TEST(a_run_freed_while_busy_is_quarantined_until_the_last_drop)
{
    require_quarantine(alloc_blocks(4), 4);
}

TEST(a_stitched_buffer_freed_while_busy_stays_mapped_until_the_last_drop)
{
    char                *buffer = alloc_stitched(3);
    block_comm_buffer_t *held   = find_buffer(buffer);
    size_t               mapped = calls_mapped_size();

    memset(buffer, 42, 3 * block_size);
    block_comm_hold(held);
    free_buffer(buffer);
    ck_assert_int_eq(buffer[3 * block_size - 1], 42);
    ck_assert_uint_eq(calls_mapped_size(), mapped);
    block_comm_drop(comm, held);
    ck_assert_uint_eq(calls_mapped_size(), mapped - 3 * block_size);
}

TEST(stitched_blocks_freed_while_busy_are_quarantined)
{
    require_quarantine(alloc_stitched(4), 4);
}

TEST(destroy_frees_all_buffers)
{
    size_t               mapped = calls_mapped_size();
    char                *buffer = alloc_stitched(3);
    block_comm_buffer_t *held   = find_buffer(buffer);

    block_comm_hold(held);
    free_buffer(buffer);
    alloc_blocks(4);
    block_comm_destroy(comm);
    comm = NULL;
    require_counts(NUM_USER, 0, 0);
    ck_assert_uint_eq(calls_mapped_size(), mapped);
}

/* --- failures ------------------------------------------------------------ */

/* Make the first, second, ... call of one name fail, until an allocation makes
 * fewer calls than that. */
static void require_clean_failures(calls_name_t name, int error,
                                   unsigned min_failures)
{
    size_t           mapped = calls_mapped_size();
    void            *address;
    block_stats_t    before;
    block_stats_t    after;
    ucxpool_status_t status;
    unsigned         n = 0;

    block_pool_stats(pool, BLOCK_SHARE_USER, &before);
    for (;;) {
        address = NULL;
        calls_fail(name, ++n, error);
        status = block_comm_alloc(comm, 4 * block_size, &address);
        if (!calls_has_failed()) {
            break;
        }
        if (status == UCXPOOL_OK) {
            /* It succeeded in another way. */
            free_buffer(address);
        } else {
            ck_assert_int_eq(status, UCXPOOL_ERR_NO_MEMORY);
            ck_assert_ptr_null(address);
        }
        block_pool_stats(pool, BLOCK_SHARE_USER, &after);
        ck_assert_uint_eq(after.free, before.free);
        ck_assert_uint_eq(after.held, before.held);
        ck_assert_uint_eq(calls_mapped_size(), mapped);
        assert_ok(block_pool_check(pool));
    }
    assert_ok(status);
    ck_assert_uint_gt(n, min_failures);
    require_same_bytes(address, 4 * block_size, n);
    free_buffer(address);
}

TEST(a_run_survives_the_failure_of_each_allocation)
{
    require_clean_failures(CALLS_CALLOC, 0, 1);
}

TEST(stitching_survives_the_failure_of_each_allocation)
{
    scatter();
    require_clean_failures(CALLS_CALLOC, 0, 2);
}

TEST(stitching_survives_the_failure_of_each_mapping)
{
    scatter();
    require_clean_failures(CALLS_MMAP, 12, 1);
    require_clean_failures(CALLS_MREMAP, 12, 0);
}

/* --- at random -------------------------------------------------------- */

#define NUM_ROUNDS 300
#define NUM_STEPS  10 /* per round */
#define MAX_LIVE   16

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

typedef struct model {
    unsigned char       *address;
    size_t               length;
    unsigned char        seed;
    block_comm_buffer_t *held; /* NULL: not busy */
} model_t;

static void fill(const model_t *model)
{
    memset(model->address, model->seed, model->length);
}

static void require_filled(const model_t *model)
{
    ck_assert_int_eq(model->address[0], model->seed);
    ck_assert_int_eq(
        memcmp(model->address, model->address + 1, model->length - 1), 0);
}

TEST(random_buffers_keep_their_bytes_and_lose_no_block)
{
    model_t              models[MAX_LIVE] = {0};
    block_comm_buffer_t *zombies[MAX_LIVE];
    size_t               zombie_blocks[MAX_LIVE];
    unsigned             num_zombies    = 0;
    uint64_t             num_held       = 0;
    uint64_t             num_in_zombies = 0;
    uint32_t             random         = 12345;

    for (unsigned i = 0; i < rounds(NUM_ROUNDS) * NUM_STEPS; i++) {
        model_t *model  = &models[next_random(&random) % MAX_LIVE];
        size_t   blocks = 0;

        if (model->address == NULL) {
            void *address;

            model->length = 2 + next_random(&random) % (6 * block_size);
            blocks        = (model->length - 1) / block_size + 1;
            if (block_comm_alloc(comm, model->length, &address) != UCXPOOL_OK) {
                ck_assert_uint_lt(NUM_USER - num_held - num_in_zombies, blocks);
                continue;
            }
            num_held += blocks;
            model->address = address;
            model->seed    = (unsigned char)next_random(&random);
            model->held    = NULL;
            fill(model);
            if (next_random(&random) % 4 == 0) {
                model->held = find_buffer(address);
                block_comm_hold(model->held);
            }
        } else {
            blocks = (model->length - 1) / block_size + 1;
            require_filled(model);
            free_buffer(model->address);
            model->address = NULL;
            num_held -= blocks;
            if (model->held != NULL) {
                num_in_zombies += blocks;
                zombie_blocks[num_zombies] = blocks;
                zombies[num_zombies++]     = model->held;
            }
        }
        if ((num_zombies == MAX_LIVE) ||
            ((num_zombies > 0) && (next_random(&random) % 8 == 0))) {
            block_comm_drop(comm, zombies[--num_zombies]);
            num_in_zombies -= zombie_blocks[num_zombies];
        }
        require_counts(NUM_USER - num_held - num_in_zombies, num_held,
                       num_in_zombies);
    }
    for (int i = 0; i < MAX_LIVE; i++) {
        if (models[i].address != NULL) {
            require_filled(&models[i]);
        }
    }
}

/* --- threads ---------------------------------------------------------- */

#define NUM_THREADS 3

static void use_buffer(unsigned char *address, size_t length, uint32_t id)
{
    size_t               offset = 0;
    mem_piece_t          piece;
    block_comm_buffer_t *buffer = NULL;

    memset(address, (int)id, length);
    for (; offset < length; offset += piece.length) {
        const unsigned char *home;

        ck_assert(block_comm_find(comm, address + offset, length - offset,
                                  &piece, &buffer));
        home = (unsigned char *)regions.regions[piece.region].address +
               piece.offset;
        ck_assert_int_eq(home[0], (int)id);
        ck_assert_int_eq(home[piece.length - 1], (int)id);
    }
    block_comm_hold(buffer);
}

static void *use_buffers(void *arg)
{
    uint32_t id     = *(uint32_t *)arg;
    uint32_t random = id;

    for (unsigned i = 0; i < rounds(NUM_ROUNDS) * 3; i++) {
        size_t length = 2 + next_random(&random) % (4 * block_size);
        void  *address;
        block_comm_buffer_t *buffer;

        if (block_comm_alloc(comm, length, &address) != UCXPOOL_OK) {
            continue;
        }
        use_buffer(address, length, id);
        buffer = find_buffer(address);
        if (next_random(&random) & 1) {
            free_buffer(address);
            block_comm_drop(comm, buffer);
        } else {
            block_comm_drop(comm, buffer);
            free_buffer(address);
        }
    }
    return NULL;
}

TEST(lookup_works_while_other_threads_alloc_and_free)
{
    uint32_t ids[NUM_THREADS] = {1, 2, 3};

    scatter();
    for (int i = 0; i < NUM_THREADS; i++) {
        test_thread(use_buffers, &ids[i]);
    }
    test_join(NUM_THREADS);
    require_counts(NUM_USER / 2, NUM_USER - NUM_USER / 2, 0);
}

/* One thread frees while another drops: the last one releases. */
static void *drop_one(void *arg)
{
    block_comm_drop(comm, arg);
    return NULL;
}

TEST(drop_racing_with_free_releases_once)
{
    scatter();
    for (unsigned i = 0; i < rounds(100); i++) {
        char                *address = alloc_blocks(1 + i % 4);
        block_comm_buffer_t *buffer  = find_buffer(address);

        block_comm_hold(buffer);
        test_thread(drop_one, buffer);
        free_buffer(address);
        test_join(1);
        require_counts(NUM_USER / 2, NUM_USER - NUM_USER / 2, 0);
    }
}
