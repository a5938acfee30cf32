/* Registration in protection domains, with a stand-in for libibverbs. */
#include <config.h>

#include "base/config.h"
#include "fds.h"
#include "gpu.h"
#include "mem/reg_verbs.h"
#include "pair.h"
#include "test.h"
#include "replace.h"
#include "verbs_stand_in/stand_in.h"

#include "core/stats.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <infiniband/verbs.h>

#define BLOCK       ((size_t)64 << 10)
#define REGION      ((size_t)256 << 10)
#define MIB         ((size_t)1 << 20)
#define NUM_REGIONS 4u /* as in pair_pool() */
#define NUM_BLOCKS  8u /* the user's share of the pool */
#define ACCESS \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static struct ibv_device  device  = {.name = "card0"};
static struct ibv_context context = {.device = &device};
static struct ibv_pd pds[] = {{.context = &context}, {.context = &context}};

static const verbs_stand_in_t *verbs_library;
static ucxpool_t              *pool;
static ucxpool_verbs_t        *verbs;

/* The calloc() call that fails, counted from now on; 0: none. */
static unsigned calloc_fail_at;

REPLACE(void *, calloc, size_t num, size_t size)
{
    if ((calloc_fail_at != 0) && (--calloc_fail_at == 0)) {
        return NULL;
    }
    return __real_calloc(num, size);
}

static void use_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    ck_assert_msg(library != NULL, "%s", dlerror());
    verbs_library = dlsym(library, VERBS_STAND_IN_SYMBOL);
    ck_assert_ptr_nonnull(verbs_library);
    verbs_library->reset();
    verbs = NULL;
    setenv(MEM_VERBS_LIBRARY_VARIABLE, path, 1);
}

static mem_verbs_counts_t counts;

/* Without a pool, UCX has not loaded the library. */
static ucxpool_status_t create_alone(void)
{
    mem_regions_t    regions;
    mem_verbs_t     *registration;
    ucxpool_status_t status;

    assert_ok(mem_regions_init(&regions, &mem_kind_host, -1, 1, REGION,
                               BASE_SWITCH_NO));
    status =
        mem_verbs_create(&regions, &pds[0], ACCESS, &counts, &registration);
    mem_regions_cleanup(&regions);
    return status;
}

/* The first test, because UCX loads the library with the first pool. */
TEST(a_process_without_libibverbs_gets_an_error)
{
    unsetenv(MEM_VERBS_LIBRARY_VARIABLE);
    if (dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD) != NULL) {
        return; /* another library of this process has loaded it */
    }
    assert_error_detail(create_alone(), UNSUPPORTED,
                        "libibverbs.so.1 is not loaded in this process");
}

static void setup(void)
{
    use_library(VERBS_STAND_IN_DIR "/libverbs.so");
    pool = pair_pool("LOG_LEVEL=none");
}

static void teardown(void)
{
    ucxpool_destroy(pool);
    pool = NULL;
    ck_assert_uint_eq(verbs_library->live(NULL), 0);
}

static ucxpool_status_t try_register(void)
{
    return ucxpool_verbs_register(pool, &pds[0], ACCESS, &verbs);
}

static void must_register(void)
{
    assert_ok(try_register());
}

static void must_deregister(void)
{
    assert_ok(ucxpool_verbs_deregister(verbs));
}

static void check_nothing_is_registered(void)
{
    core_stats_t stats = pair_stats(pool);

    ck_assert_uint_eq(verbs_library->live(NULL), 0);
    ck_assert_uint_eq(stats.verbs_domains, 0);
    ck_assert_uint_eq(stats.verbs_host_regions, 0);
    ck_assert_uint_eq(stats.verbs_host_bytes, 0);
    ck_assert_uint_eq(stats.verbs_dmabuf_regions, 0);
    ck_assert_uint_eq(stats.verbs_dmabuf_bytes, 0);
    ck_assert_uint_eq(stats.verbs_peer_regions, 0);
    ck_assert_uint_eq(stats.verbs_peer_bytes, 0);
}

/* The keys are those of the registration that contains the piece. */
static void check_piece(const ucxpool_verbs_piece_t *piece,
                        const struct ibv_pd         *pd)
{
    const char          *address = (const char *)(uintptr_t)piece->address;
    const struct ibv_mr *mr      = verbs_library->find(pd, address);

    ck_assert_ptr_nonnull(mr);
    ck_assert_uint_eq(piece->lkey, mr->lkey);
    ck_assert_uint_eq(piece->rkey, mr->rkey);
    ck_assert_uint_ge(piece->length, 1);
    ck_assert_ptr_eq(verbs_library->find(pd, address + piece->length - 1), mr);
}

/* Every byte of a buffer in host memory has the address that its pieces state.
 * Returns the number of pieces. */
static unsigned check_pieces(const char *buffer, size_t length)
{
    ucxpool_verbs_piece_t piece;
    unsigned              num = 0;

    for (size_t done = 0; done < length; done += piece.length) {
        assert_ok(
            ucxpool_verbs_keys(verbs, buffer + done, length - done, &piece));
        check_piece(&piece, &pds[0]);
        ck_assert_uint_le(piece.length, length - done);
        ck_assert_mem_eq((const char *)(uintptr_t)piece.address, buffer + done,
                         piece.length);
        num++;
    }
    return num;
}

TEST_SETTINGS(.setup = setup, .teardown = teardown);

TEST(every_region_is_registered_once)
{
    core_stats_t stats;

    must_register();
    ck_assert_str_eq(verbs_library->journal(), "reg0 reg1 reg2 reg3");
    ck_assert_int_eq(verbs_library->access(), ACCESS);
    stats = pair_stats(pool);
    ck_assert_uint_eq(stats.verbs_domains, 1);
    ck_assert_uint_eq(stats.verbs_registrations, NUM_REGIONS);
    ck_assert_uint_eq(stats.verbs_host_regions, NUM_REGIONS);
    ck_assert_uint_eq(stats.verbs_host_bytes, NUM_REGIONS * REGION);
    ck_assert_uint_eq(stats.verbs_dmabuf_bytes + stats.verbs_peer_bytes, 0);
    ck_assert_uint_gt(stats.verbs_registration_ns, 0);
    must_deregister();
    check_nothing_is_registered();
    ck_assert_uint_eq(pair_stats(pool).verbs_registrations, NUM_REGIONS);
}

TEST(the_last_region_is_deregistered_first)
{
    must_register();
    (void)verbs_library->journal();
    must_deregister();
    ck_assert_str_eq(verbs_library->journal(), "dereg3 dereg2 dereg1 dereg0");
}

TEST(a_block_has_the_keys_of_its_region)
{
    ucxpool_block_t       blocks[NUM_BLOCKS];
    ucxpool_verbs_piece_t piece;
    uint32_t              lkeys[NUM_REGIONS] = {0};

    must_register();
    assert_ok(ucxpool_block_get_n(pool, NUM_BLOCKS, blocks));
    for (unsigned i = 0; i < NUM_BLOCKS; i++) {
        assert_ok(ucxpool_verbs_keys(verbs, blocks[i].address, blocks[i].size,
                                     &piece));
        check_piece(&piece, &pds[0]);
        ck_assert_uint_eq(piece.address, (uintptr_t)blocks[i].address);
        ck_assert_uint_eq(piece.length, blocks[i].size);
        ck_assert((lkeys[blocks[i].region] == 0) ||
                  (lkeys[blocks[i].region] == piece.lkey));
        lkeys[blocks[i].region] = piece.lkey;
    }
    for (unsigned i = 0; i < NUM_BLOCKS; i++) {
        ucxpool_block_put(pool, &blocks[i]);
    }
    must_deregister();
}

TEST(bytes_inside_a_block_have_its_keys)
{
    ucxpool_block_t       block;
    ucxpool_verbs_piece_t piece;

    must_register();
    memset(&piece, 0xa5, sizeof(piece));
    assert_ok(ucxpool_block_get(pool, &block));
    assert_ok(
        ucxpool_verbs_keys(verbs, (char *)block.address + 1000, 7, &piece));
    ck_assert_uint_eq(piece.address, (uintptr_t)block.address + 1000);
    ck_assert_uint_eq(piece.length, 7);
    ck_assert_uint_eq(piece.reserved[0] | piece.reserved[1], 0);
    check_piece(&piece, &pds[0]);
    ucxpool_block_put(pool, &block);
    must_deregister();
}

TEST(a_buffer_across_regions_has_several_pieces)
{
    void *buffer;

    must_register();
    assert_ok(ucxpool_comm_alloc(pool, NUM_BLOCKS * BLOCK, &buffer));
    pair_fill(buffer, NUM_BLOCKS * BLOCK);
    ck_assert_uint_ge(check_pieces(buffer, NUM_BLOCKS * BLOCK), 2);
    ck_assert_uint_ge(check_pieces((char *)buffer + 5, 3 * BLOCK + 11), 1);
    ucxpool_comm_free(pool, buffer);
    must_deregister();
}

/* The device does not know the addresses of such a buffer. */
TEST(a_stitched_buffer_has_the_keys_of_its_blocks_regions)
{
    ucxpool_block_t blocks[14];
    void           *buffer;

    ucxpool_destroy(pool);
    pool = pair_pool("SEND_SHARE=1 RECV_SHARE=1");
    must_register();
    assert_ok(ucxpool_block_get_n(pool, 14, blocks));
    for (unsigned i = 0; i < 14; i += 2) {
        ucxpool_block_put(pool, &blocks[i]);
    }
    assert_ok(ucxpool_comm_alloc(pool, 4 * BLOCK, &buffer));
    ck_assert_ptr_null(verbs_library->find(&pds[0], buffer));
    pair_fill(buffer, 4 * BLOCK);
    ck_assert_uint_eq(check_pieces(buffer, 4 * BLOCK), 4);
    ck_assert_uint_eq(check_pieces((char *)buffer + BLOCK / 2, BLOCK), 2);
    ucxpool_comm_free(pool, buffer);
    for (unsigned i = 1; i < 14; i += 2) {
        ucxpool_block_put(pool, &blocks[i]);
    }
    must_deregister();
}

TEST(memory_outside_the_pool_has_no_keys)
{
    ucxpool_block_t       block;
    ucxpool_verbs_piece_t piece = {.lkey = 1};
    char                  mine[16];

    must_register();
    assert_ok(ucxpool_block_get(pool, &block));
    assert_error(ucxpool_verbs_keys(verbs, mine, sizeof(mine), &piece),
                 INVALID_PARAM);
    assert_error(ucxpool_verbs_keys(verbs, NULL, 1, &piece), INVALID_PARAM);
    assert_error(ucxpool_verbs_keys(verbs, block.address, 0, &piece),
                 INVALID_PARAM);
    ck_assert_uint_eq(piece.lkey, 1);
    ucxpool_block_put(pool, &block);
    must_deregister();
}

TEST(each_domain_has_its_own_keys)
{
    ucxpool_verbs_t      *other;
    ucxpool_verbs_piece_t pieces[2];
    ucxpool_block_t       block;

    must_register();
    assert_ok(
        ucxpool_verbs_register(pool, &pds[1], IBV_ACCESS_LOCAL_WRITE, &other));
    ck_assert_uint_eq(pair_stats(pool).verbs_domains, 2);
    ck_assert_uint_eq(pair_stats(pool).verbs_host_bytes,
                      2 * NUM_REGIONS * REGION);
    assert_ok(ucxpool_block_get(pool, &block));
    assert_ok(ucxpool_verbs_keys(verbs, block.address, 1, &pieces[0]));
    assert_ok(ucxpool_verbs_keys(other, block.address, 1, &pieces[1]));
    check_piece(&pieces[0], &pds[0]);
    check_piece(&pieces[1], &pds[1]);
    must_deregister();
    ck_assert_uint_eq(verbs_library->live(&pds[0]), 0);
    ck_assert_uint_eq(verbs_library->live(&pds[1]), NUM_REGIONS);
    assert_ok(ucxpool_verbs_keys(other, block.address, 1, &pieces[1]));
    ucxpool_block_put(pool, &block);
    assert_ok(ucxpool_verbs_deregister(other));
    check_nothing_is_registered();
}

TEST(a_domain_is_registered_once_for_all_callers)
{
    ucxpool_verbs_t *again;

    must_register();
    assert_ok(ucxpool_verbs_register(pool, &pds[0], ACCESS, &again));
    ck_assert_ptr_eq(again, verbs);
    ck_assert_uint_eq(pair_stats(pool).verbs_registrations, NUM_REGIONS);
    must_deregister();
    ck_assert_uint_eq(verbs_library->live(&pds[0]), NUM_REGIONS);
    must_deregister();
    check_nothing_is_registered();
}

TEST(a_domain_has_one_set_of_access_flags)
{
    ucxpool_verbs_t *again = NULL;

    must_register();
    assert_error_detail(
        ucxpool_verbs_register(pool, &pds[0], IBV_ACCESS_LOCAL_WRITE, &again),
        INVALID_PARAM, "with access 0x7, not 0x1");
    ck_assert_ptr_null(again);
    must_deregister();
    check_nothing_is_registered();
}

TEST(invalid_access_flags_are_rejected_at_once)
{
    static const int wrong[] = {
        IBV_ACCESS_REMOTE_WRITE,
        IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ,
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED,
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_error(ucxpool_verbs_register(pool, &pds[0], wrong[i], &verbs),
                     INVALID_PARAM);
    }
    assert_error(ucxpool_verbs_register(pool, NULL, ACCESS, &verbs),
                 INVALID_PARAM);
    assert_error(ucxpool_verbs_register(pool, &pds[0], ACCESS, NULL),
                 INVALID_PARAM);
    ck_assert_str_eq(verbs_library->journal(), "");
    ck_assert_ptr_null(verbs);
}

TEST(optional_access_flags_use_the_newer_call)
{
    const int access = ACCESS | IBV_ACCESS_RELAXED_ORDERING;

    assert_ok(ucxpool_verbs_register(pool, &pds[0], access, &verbs));
    ck_assert_str_eq(verbs_library->journal(),
                     "optional0 optional1 optional2 optional3");
    ck_assert_int_eq(verbs_library->access(), access);
    must_deregister();
}

TEST(an_old_library_ignores_optional_access_flags)
{
    use_library(VERBS_STAND_IN_DIR "/libold_verbs.so");
    assert_ok(ucxpool_verbs_register(
        pool, &pds[0], ACCESS | IBV_ACCESS_RELAXED_ORDERING, &verbs));
    ck_assert_int_eq(verbs_library->access(), ACCESS);
    must_deregister();
    ck_assert_uint_eq(verbs_library->live(NULL), 0);
}

/* Errors of the device, and the messages to the user. */
static const struct {
    int              error;
    ucxpool_status_t status;
    const char      *words;
} refusals[] = {
    {ENOMEM, UCXPOOL_ERR_NO_MEMORY, "UCXPOOL_COMM_SIZE"},
    {EAGAIN, UCXPOOL_ERR_LIMIT, "rdma.max"},
    {EINVAL, UCXPOOL_ERR_INVALID_PARAM, "access flags"},
    {EOPNOTSUPP, UCXPOOL_ERR_UNSUPPORTED, "access flags"},
    {EPERM, UCXPOOL_ERR_PERMISSION, "the device"},
    {EFAULT, UCXPOOL_ERR_IO, "the device"},
};

#define NUM_REFUSALS ((int)(sizeof(refusals) / sizeof(refusals[0])))

TEST_EACH(registration_can_be_retried_after_a_refusal, NUM_REFUSALS)
{
    char words[80];

    for (unsigned n = 1; n <= NUM_REGIONS; n++) {
        verbs_library->refuse(n, refusals[_i].error, 0);
        ck_assert_int_eq(try_register(), refusals[_i].status);
        ck_assert_ptr_null(verbs);
        snprintf(words, sizeof(words),
                 "region %u of 4 (262144 bytes each) with card0 by ibv_reg_mr",
                 n - 1);
        assert_detail(words);
        assert_detail(strerror(refusals[_i].error));
        assert_detail(refusals[_i].words);
        check_nothing_is_registered();
    }
    verbs_library->refuse(0, 0, 0);
    must_register();
    must_deregister();
}

TEST(the_error_names_the_limit_of_locked_memory)
{
    struct rlimit before;
    struct rlimit limit;

    ck_assert_int_eq(getrlimit(RLIMIT_MEMLOCK, &before), 0);
    limit          = before;
    limit.rlim_cur = 4096;
    ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    verbs_library->refuse(1, ENOMEM, 0);
    assert_error_detail(try_register(), NO_MEMORY,
                        "(ulimit -l; now 4096 bytes)");
    ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

TEST(a_failed_registration_is_undone_in_reverse_order)
{
    verbs_library->refuse(NUM_REGIONS, ENOMEM, 0);
    assert_error(try_register(), NO_MEMORY);
    ck_assert_str_eq(verbs_library->journal(),
                     "reg0 reg1 reg2 refused dereg2 dereg1 dereg0");
}

TEST(a_failed_table_allocation_leaves_no_registration)
{
    for (unsigned n = 1; n <= 2; n++) {
        calloc_fail_at = n;
        assert_error(try_register(), NO_MEMORY);
        ck_assert_uint_eq(calloc_fail_at, 0);
        check_nothing_is_registered();
    }
    must_register();
    must_deregister();
}

/* The stand-in requires that the memory still exists when it is
 * deregistered. */
TEST(destroy_deregisters_remaining_regions)
{
    ucxpool_verbs_t *other;

    must_register();
    must_register();
    assert_ok(ucxpool_verbs_register(pool, &pds[1], ACCESS, &other));
    ucxpool_destroy(pool);
    pool = NULL;
    ck_assert_uint_eq(verbs_library->live(NULL), 0);
}

TEST(deregistering_null_does_nothing)
{
    assert_ok(ucxpool_verbs_deregister(NULL));
}

TEST(a_region_with_memory_windows_can_be_deregistered_later)
{
    ucxpool_verbs_piece_t piece;
    const struct ibv_mr  *mr;
    ucxpool_block_t       blocks[NUM_BLOCKS];

    must_register();
    assert_ok(ucxpool_block_get_n(pool, NUM_BLOCKS, blocks));
    mr = verbs_library->find(&pds[0], blocks[0].address);
    verbs_library->bind(mr);
    assert_error_detail(ucxpool_verbs_deregister(verbs), IO, "memory windows");
    ck_assert_uint_eq(verbs_library->live(NULL), 1);
    ck_assert_uint_eq(pair_stats(pool).verbs_host_bytes, REGION);
    assert_error(
        ucxpool_verbs_keys(verbs, blocks[NUM_BLOCKS - 1].address, 1, &piece),
        CLOSED);
    verbs_library->bind(NULL);
    must_deregister();
    for (unsigned i = 0; i < NUM_BLOCKS; i++) {
        ucxpool_block_put(pool, &blocks[i]);
    }
    check_nothing_is_registered();
}

TEST(destroy_continues_past_a_region_with_memory_windows)
{
    ucxpool_block_t block;

    must_register();
    assert_ok(ucxpool_block_get(pool, &block));
    verbs_library->bind(verbs_library->find(&pds[0], block.address));
    ucxpool_destroy(pool);
    ck_assert_uint_eq(verbs_library->live(NULL), 1);
    pool = pair_pool("");
    verbs_library->reset();
}

/* --- several threads ---------------------------------------------------- */

#define NUM_THREADS 4
#define NUM_TURNS   50

/* Two threads per domain. */
static void *take_turns(void *pd)
{
    ucxpool_verbs_t      *mine;
    ucxpool_verbs_piece_t piece;
    core_stats_t          stats;
    ucxpool_block_t       block;

    for (int i = 0; i < NUM_TURNS; i++) {
        assert_ok(ucxpool_verbs_register(pool, pd, ACCESS, &mine));
        assert_ok(ucxpool_block_get(pool, &block));
        assert_ok(ucxpool_verbs_keys(mine, block.address, block.size, &piece));
        ck_assert_uint_eq(piece.length, block.size);
        core_stats_get(pool, &stats);
        ck_assert_uint_ge(stats.verbs_domains, 1);
        ck_assert_uint_le(stats.verbs_domains, 2);
        ck_assert_uint_ge(stats.verbs_host_regions, NUM_REGIONS);
        ucxpool_block_put(pool, &block);
        assert_ok(ucxpool_verbs_deregister(mine));
    }
    return NULL;
}

TEST(threads_register_concurrently)
{
    for (int i = 0; i < NUM_THREADS; i++) {
        test_thread(take_turns, &pds[i % 2]);
    }
    test_join(NUM_THREADS);
    check_nothing_is_registered();
}

TEST_SETTINGS(.setup = NULL);

TEST(a_missing_library_is_reported)
{
    setenv(MEM_VERBS_LIBRARY_VARIABLE, "/nonexistent/libibverbs.so", 1);
    assert_error_detail(create_alone(), UNSUPPORTED,
                        "/nonexistent/libibverbs.so");
}

TEST(a_library_without_the_symbols_is_reported)
{
    setenv(MEM_VERBS_LIBRARY_VARIABLE, "libm.so.6", 1);
    assert_error_detail(create_alone(), UNSUPPORTED,
                        "libm.so.6 has no ibv_reg_mr");
}

/* --- on a GPU ----------------------------------------------------------- */

static void bare_setup(void)
{
    use_library(VERBS_STAND_IN_DIR "/libverbs.so");
    setenv("UCXPOOL_NVML_LIBRARY", NVML_STAND_IN_PATH, 1);
}

static void gpu_setup(void)
{
    bare_setup();
    gpu_start("");
}

static void gpu_teardown(void)
{
    ucxpool_destroy(pool);
    pool = NULL;
    ck_assert_uint_eq(verbs_library->live(NULL), 0);
    gpu_stop();
}

/* A pool of four regions. */
static void gpu_pool(const char *backing)
{
    char settings[120];

    snprintf(settings, sizeof(settings),
             "COMM_SIZE=8m LOG_LEVEL=none CUDA_BACKING=%s", backing);
    pool = pair_pool_on(0, settings);
}

/* How memory of each kind is registered. */
static const struct {
    const char *backing;
    const char *calls;
    uint64_t    num_regions;
} gpu_kinds[] = {
    {"alloc", "dmabuf0", 1},
    {"vmm", "dmabuf0 dmabuf1 dmabuf2 dmabuf3", 4},
    {"host", "reg0 reg1 reg2 reg3", 4},
};

TEST_SETTINGS(.setup = gpu_setup, .teardown = gpu_teardown);

TEST_EACH(gpu_memory_is_registered_by_dmabuf_and_pinned_memory_by_address,
          (int)(sizeof(gpu_kinds) / sizeof(gpu_kinds[0])))
{
    bool         is_host = strcmp(gpu_kinds[_i].backing, "host") == 0;
    core_stats_t stats;
    unsigned     files;

    gpu_pool(gpu_kinds[_i].backing);
    files = fds_count();
    must_register();
    ck_assert_uint_eq(fds_count(), files);
    ck_assert_str_eq(verbs_library->journal(), gpu_kinds[_i].calls);
    stats = pair_stats(pool);
    ck_assert_uint_eq(stats.verbs_host_bytes, is_host ? 8 * MIB : 0);
    ck_assert_uint_eq(stats.verbs_dmabuf_bytes, is_host ? 0 : 8 * MIB);
    ck_assert_uint_eq(stats.verbs_dmabuf_regions + stats.verbs_host_regions,
                      gpu_kinds[_i].num_regions);
    must_deregister();
    check_nothing_is_registered();
}

TEST_EACH(blocks_on_a_gpu_have_keys,
          (int)(sizeof(gpu_kinds) / sizeof(gpu_kinds[0])))
{
    ucxpool_block_t       block;
    ucxpool_verbs_piece_t piece;

    gpu_pool(gpu_kinds[_i].backing);
    must_register();
    assert_ok(ucxpool_block_get(pool, &block));
    assert_ok(ucxpool_verbs_keys(verbs, block.address, block.size, &piece));
    ck_assert_uint_eq(piece.address, (uintptr_t)block.address);
    ck_assert_uint_eq(piece.length, block.size);
    check_piece(&piece, &pds[0]);
    ucxpool_block_put(pool, &block);
    must_deregister();
}

TEST(an_old_library_registers_by_address)
{
    use_library(VERBS_STAND_IN_DIR "/libold_verbs.so");
    verbs_library->set_peermem(1);
    gpu_pool("vmm");
    must_register();
    ck_assert_uint_eq(pair_stats(pool).verbs_peer_regions, 4);
    must_deregister();
    verbs_library->set_peermem(0);
    assert_error_detail(try_register(), UNSUPPORTED,
                        "this libibverbs has no ibv_reg_dmabuf_mr");
}

TEST(a_device_without_dmabuf_may_register_by_address)
{
    unsigned files;

    gpu_pool("vmm");
    files = fds_count();
    verbs_library->set_peermem(1);
    verbs_library->refuse(1, EOPNOTSUPP, 1);
    must_register();
    ck_assert_str_eq(verbs_library->journal(), "refused reg0 reg1 reg2 reg3");
    ck_assert_uint_eq(fds_count(), files);
    must_deregister();
}

TEST(the_error_gives_both_reasons_if_neither_way_works)
{
    gpu_pool("vmm");
    verbs_library->refuse(1, EOPNOTSUPP, 1);
    assert_error_detail(try_register(), UNSUPPORTED,
                        "by ibv_reg_mr: Bad address");
    assert_detail("dmabuf: Operation not supported");
    assert_detail("nvidia-peermem");
    check_nothing_is_registered();
    /* The same with the reason given by the driver. */
    stand_in.fail_call("cuMemGetHandleForAddressRange", 1,
                       CUDA_ERROR_NOT_SUPPORTED);
    assert_error_detail(
        try_register(), UNSUPPORTED,
        "cuMemGetHandleForAddressRange: CUDA_ERROR_NOT_SUPPORTED");
    check_nothing_is_registered();
}

TEST(gpu_registration_can_be_retried_after_a_refusal)
{
    unsigned files;

    gpu_pool("vmm");
    files = fds_count();
    for (unsigned n = 2; n <= 4; n++) {
        verbs_library->refuse(n, ENOMEM, 0);
        assert_error_detail(try_register(), NO_MEMORY,
                            "by ibv_reg_dmabuf_mr: Cannot allocate memory");
        assert_detail("BAR1 may be full: lower UCXPOOL_COMM_SIZE");
        check_nothing_is_registered();
        ck_assert_uint_eq(fds_count(), files);
    }
    verbs_library->refuse(0, 0, 0);
    must_register();
    must_deregister();
}

TEST(a_driver_without_dmabuf_export_is_reported)
{
    gpu_pool("vmm");
    for (unsigned n = 2; n <= 4; n++) {
        stand_in.fail_call("cuMemGetHandleForAddressRange", n,
                           CUDA_ERROR_OPERATING_SYSTEM);
        assert_error_detail(try_register(), IO,
                            "cuMemGetHandleForAddressRange: ");
        assert_detail("(304)");
        check_nothing_is_registered();
    }
    must_register();
    must_deregister();
}

TEST_SETTINGS(.setup = bare_setup, .teardown = gpu_teardown);

static void register_by_peermem(void)
{
    gpu_pool("vmm");
    verbs_library->set_peermem(1);
    must_register();
    ck_assert_str_eq(verbs_library->journal(), "reg0 reg1 reg2 reg3");
    ck_assert_uint_eq(pair_stats(pool).verbs_peer_regions, 4);
    ck_assert_uint_eq(pair_stats(pool).verbs_peer_bytes, 8 * MIB);
    must_deregister();
    check_nothing_is_registered();
}

TEST(a_gpu_without_dmabuf_needs_only_peermem)
{
    gpu_start("dmabuf=n");
    register_by_peermem();
}

/* A driver is loaded once per process: remove the function from its table. */
TEST(a_driver_without_dmabuf_export_needs_only_peermem)
{
    mem_cuda_driver_t *driver;
    mem_cuda_driver_t  complete;

    gpu_start("");
    driver   = (mem_cuda_driver_t *)(uintptr_t)gpu->driver;
    complete = *driver;
    driver->cuMemGetHandleForAddressRange = NULL;
    register_by_peermem();
    *driver = complete;
}
