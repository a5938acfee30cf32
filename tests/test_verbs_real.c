/*
 * The pool's keys on a real RDMA device. One process writes into blocks of
 * another and reads from them, and the data must be right. Exits with 77 if
 * there is no device. Soft-RoCE is sufficient.
 */
#include "pair.h"
#include "rdma_end.h"
#include "test.h"
#include "two.h"

#include "core/stats.h"

#include <ucxpool/verbs.h>

#include <infiniband/verbs.h>

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK  ((size_t)64 << 10)
#define REGION ((size_t)256 << 10)
/* Most blocks belong to the user, and lie in all four regions. */
#define SETTINGS   "WIRE=map SEND_SHARE=1 RECV_SHARE=1"
#define NUM_BLOCKS 14u
#define ACCESS \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

/* One of the two processes: its registered pool, and the addresses of the
 * other's blocks. */
typedef struct rdma {
    two_t                 two;
    rdma_end_t            end;
    ucxpool_verbs_t      *verbs;
    ucxpool_block_t       blocks[NUM_BLOCKS];
    ucxpool_verbs_piece_t mine[NUM_BLOCKS];
    ucxpool_verbs_piece_t theirs[NUM_BLOCKS];
} rdma_t;

/* The content of a process's block. Each byte identifies the process. */
static uint8_t byte_of(bool is_child, unsigned block, size_t offset)
{
    return (uint8_t)(offset * 7 + offset / 251 + block * 31 +
                     (is_child ? 128 : 0));
}

static void fill(const rdma_t *rdma, unsigned block, bool is_child)
{
    uint8_t *bytes = rdma->blocks[block].address;

    for (size_t i = 0; i < BLOCK; i++) {
        bytes[i] = byte_of(is_child, block, i);
    }
}

static bool holds(const void *memory, unsigned block, size_t offset,
                  size_t length, bool is_child)
{
    const uint8_t *bytes = memory;

    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != byte_of(is_child, block, offset + i)) {
            return false;
        }
    }
    return true;
}

/* A barrier of both processes. */
static void meet(rdma_t *rdma)
{
    char byte = 0;

    two_send(&rdma->two, &byte, 1);
    two_recv(&rdma->two, &byte, 1);
}

static void keys_of_blocks(rdma_t *rdma)
{
    const size_t size = sizeof(rdma->mine);

    for (unsigned i = 0; i < NUM_BLOCKS; i++) {
        two_ok(ucxpool_verbs_keys(rdma->verbs, rdma->blocks[i].address,
                                  rdma->blocks[i].size, &rdma->mine[i]));
        two_check(rdma->mine[i].length == BLOCK);
    }
    two_send(&rdma->two, rdma->mine, size);
    two_recv(&rdma->two, rdma->theirs, size);
}

static void start(rdma_t *rdma)
{
    two_init(&rdma->two, SETTINGS);
    rdma_open(&rdma->end);
    two_ok(ucxpool_verbs_register(rdma->two.pool, rdma->end.pd, ACCESS,
                                  &rdma->verbs));
    two_ok(ucxpool_block_get_n(rdma->two.pool, NUM_BLOCKS, rdma->blocks));
    for (unsigned i = 0; i < NUM_BLOCKS; i++) {
        fill(rdma, i, rdma->two.is_child);
    }
    keys_of_blocks(rdma);
    rdma_connect(&rdma->end, rdma->two.talk);
}

/* Closing the domains and devices succeeds, so nothing is left in them. */
static void stop(rdma_t *rdma)
{
    meet(rdma);
    for (unsigned i = 0; i < NUM_BLOCKS; i++) {
        ucxpool_block_put(rdma->two.pool, &rdma->blocks[i]);
    }
    two_ok(ucxpool_verbs_deregister(rdma->verbs));
    rdma_close(&rdma->end);
    two_cleanup(&rdma->two);
}

static bool is_ready(void)
{
    if (!rdma_is_present()) {
        fprintf(stderr, "no RDMA device with a port that is up\n");
        return false;
    }
    /* UCX only has to connect the two pools, over transports that always
     * exist. */
    setenv("UCX_TLS", "tcp,self", 0);
    return true;
}

TEST_SETTINGS(.timeout = 60, .only_if = is_ready);

TEST(a_peer_writes_every_block)
{
    rdma_t rdma;

    start(&rdma);
    if (!rdma.two.is_child) {
        for (unsigned i = 0; i < NUM_BLOCKS; i++) {
            two_check(rdma_write(&rdma.end, rdma.mine[i].address, BLOCK,
                                 rdma.mine[i].lkey, rdma.theirs[i].address,
                                 rdma.theirs[i].rkey) == IBV_WC_SUCCESS);
        }
    }
    meet(&rdma);
    for (unsigned i = 0; i < NUM_BLOCKS; i++) {
        two_check(holds(rdma.blocks[i].address, i, 0, BLOCK, false));
    }
    stop(&rdma);
}

TEST(a_peer_reads_every_block)
{
    rdma_t rdma;

    start(&rdma);
    if (!rdma.two.is_child) {
        for (unsigned i = 0; i < NUM_BLOCKS; i++) {
            two_check(rdma_read(&rdma.end, rdma.mine[i].address, BLOCK,
                                rdma.mine[i].lkey, rdma.theirs[i].address,
                                rdma.theirs[i].rkey) == IBV_WC_SUCCESS);
            two_check(holds(rdma.blocks[i].address, i, 0, BLOCK, true));
        }
    }
    stop(&rdma);
}

TEST(writing_a_part_of_a_block_changes_no_other_byte)
{
    const size_t offset = 1001;
    const size_t length = 30011;
    rdma_t       rdma;

    start(&rdma);
    if (!rdma.two.is_child) {
        two_check(rdma_write(&rdma.end, rdma.mine[3].address + offset,
                             (uint32_t)length, rdma.mine[3].lkey,
                             rdma.theirs[3].address + offset,
                             rdma.theirs[3].rkey) == IBV_WC_SUCCESS);
    }
    meet(&rdma);
    if (rdma.two.is_child) {
        const char *bytes = rdma.blocks[3].address;

        two_check(holds(bytes, 3, 0, offset, true));
        two_check(holds(bytes + offset, 3, offset, length, false));
        two_check(holds(bytes + offset + length, 3, offset + length,
                        BLOCK - offset - length, true));
    }
    stop(&rdma);
}

/* The device does not know the addresses of a buffer with scattered blocks. Its
 * pieces have other addresses. */
TEST(a_stitched_buffer_is_sent_piece_by_piece)
{
    ucxpool_verbs_piece_t piece;
    char                 *buffer;
    void                 *address;
    rdma_t                rdma;

    start(&rdma);
    for (unsigned i = 0; i < NUM_BLOCKS; i += 2) {
        ucxpool_block_put(rdma.two.pool, &rdma.blocks[i]);
    }
    two_ok(ucxpool_comm_alloc(rdma.two.pool, 3 * BLOCK, &address));
    buffer = address;
    for (size_t i = 0; i < 3 * BLOCK; i++) {
        buffer[i] =
            (char)byte_of(rdma.two.is_child, 1 + 2 * (i / BLOCK), i % BLOCK);
    }
    for (unsigned i = 0; !rdma.two.is_child && (i < 3); i++) {
        two_ok(ucxpool_verbs_keys(rdma.verbs, buffer + i * BLOCK,
                                  (3 - i) * BLOCK, &piece));
        two_check(piece.length == BLOCK);
        two_check(rdma_write(&rdma.end, piece.address, BLOCK, piece.lkey,
                             rdma.theirs[1 + 2 * i].address,
                             rdma.theirs[1 + 2 * i].rkey) == IBV_WC_SUCCESS);
    }
    meet(&rdma);
    for (unsigned i = 1; rdma.two.is_child && (i < 6); i += 2) {
        two_check(holds(rdma.blocks[i].address, i, 0, BLOCK, false));
    }
    ucxpool_comm_free(rdma.two.pool, address);
    for (unsigned i = 0; i < NUM_BLOCKS; i += 2) {
        two_ok(ucxpool_block_get(rdma.two.pool, &rdma.blocks[i]));
    }
    stop(&rdma);
}

TEST(keys_are_invalid_after_deregistration)
{
    rdma_t rdma;
    int    status;

    start(&rdma);
    if (rdma.two.is_child) {
        two_ok(ucxpool_verbs_deregister(rdma.verbs));
        rdma.verbs = NULL;
    }
    meet(&rdma);
    if (!rdma.two.is_child) {
        status = rdma_write(&rdma.end, rdma.mine[0].address, BLOCK,
                            rdma.mine[0].lkey, rdma.theirs[0].address,
                            rdma.theirs[0].rkey);
        two_check(status == IBV_WC_REM_ACCESS_ERR);
    }
    meet(&rdma);
    if (rdma.two.is_child) {
        two_check(holds(rdma.blocks[0].address, 0, 0, BLOCK, true));
    }
    stop(&rdma);
}

TEST(a_pool_can_be_destroyed_before_its_domain)
{
    rdma_end_t       end;
    ucxpool_verbs_t *verbs;
    ucxpool_t       *pool = pair_pool("");

    rdma_open(&end);
    assert_ok(ucxpool_verbs_register(pool, end.pd, ACCESS, &verbs));
    ucxpool_destroy(pool);
    rdma_close(&end); /* requires that the domain is empty */
}

TEST(each_domain_of_a_device_has_its_own_registration)
{
    rdma_end_t            ends[2];
    ucxpool_verbs_t      *verbs[2];
    ucxpool_verbs_piece_t pieces[2];
    ucxpool_block_t       block;
    core_stats_t          stats;
    ucxpool_t            *pool = pair_pool("");

    assert_ok(ucxpool_block_get(pool, &block));
    for (int i = 0; i < 2; i++) {
        rdma_open(&ends[i]);
        assert_ok(ucxpool_verbs_register(pool, ends[i].pd, ACCESS, &verbs[i]));
        assert_ok(ucxpool_verbs_keys(verbs[i], block.address, 1, &pieces[i]));
    }
    ck_assert_uint_ne(pieces[0].rkey, pieces[1].rkey);
    core_stats_get(pool, &stats);
    ck_assert_uint_eq(stats.verbs_host_regions, 8);
    for (int i = 0; i < 2; i++) {
        assert_ok(ucxpool_verbs_deregister(verbs[i]));
        rdma_close(&ends[i]);
    }
    core_stats_get(pool, &stats);
    ck_assert_uint_eq(stats.verbs_host_bytes, 0);
    ucxpool_block_put(pool, &block);
    ucxpool_destroy(pool);
}

/* A process without privileges, and with room for two of four regions. */
TEST(the_error_names_the_limit_of_locked_memory)
{
    struct rlimit    limit = {2 * REGION + REGION / 2, RLIM_INFINITY};
    rdma_end_t       end;
    ucxpool_verbs_t *verbs = NULL;
    char             words[96];
    ucxpool_t       *pool = pair_pool("LOG_LEVEL=none");

    if (geteuid() != 0) {
        limit.rlim_max = limit.rlim_cur;
    }
    rdma_open(&end);
    ck_assert_int_eq(setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    if (geteuid() == 0) {
        ck_assert_int_eq(seteuid(65534), 0);
    }
    assert_error(ucxpool_verbs_register(pool, end.pd, ACCESS, &verbs),
                 NO_MEMORY);
    ck_assert_ptr_null(verbs);
    assert_detail("region 2 of 4");
    snprintf(words, sizeof(words),
             "raise the limit of locked memory (ulimit -l; now %llu bytes)",
             (unsigned long long)limit.rlim_cur);
    assert_detail(words);
    ck_assert_uint_eq(pair_stats(pool).verbs_host_bytes, 0);
    if (geteuid() == 65534) {
        ck_assert_int_eq(seteuid(0), 0);
        assert_ok(ucxpool_verbs_register(pool, end.pd, ACCESS, &verbs));
        assert_ok(ucxpool_verbs_deregister(verbs));
    }
    ucxpool_destroy(pool);
    rdma_close(&end);
}

#define GROUPS "/sys/fs/cgroup"
#define GROUP  GROUPS "/ucxpool-test"

static bool write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    bool  good = (file != NULL) && (fputs(text, file) >= 0);

    if (file != NULL) {
        good = (fclose(file) == 0) && good;
    }
    return good;
}

/* Move this process to a control group with this limit of RDMA objects. */
static bool enter_group(unsigned num_objects)
{
    char text[128];

    snprintf(text, sizeof(text), "%s hca_object=%u", rdma_device_name(),
             num_objects);
    return write_file(GROUPS "/cgroup.subtree_control", "+rdma") &&
           (mkdir(GROUP, 0755) == 0) && write_file(GROUP "/rdma.max", text) &&
           write_file(GROUP "/cgroup.procs", "0");
}

static void leave_group(void)
{
    (void)write_file(GROUPS "/cgroup.procs", "0");
    (void)rmdir(GROUP);
}

/* Domain, completion queue, queue pair, and two of four regions. Groups are
 * created only in the machine of ./run-rdma-tests, which has a software
 * device. */
TEST(the_error_names_the_object_limit_of_a_control_group)
{
    rdma_end_t       end;
    ucxpool_verbs_t *verbs = NULL;
    ucxpool_t       *pool;

    if ((strncmp(rdma_device_name(), "rxe", 3) != 0) || !enter_group(5)) {
        leave_group();
        fprintf(stderr, "no control group of ours: its limit is not tried\n");
        return;
    }
    pool = pair_pool("LOG_LEVEL=none");
    rdma_open(&end);
    assert_error(ucxpool_verbs_register(pool, end.pd, ACCESS, &verbs), LIMIT);
    ck_assert_ptr_null(verbs);
    ck_assert_msg((strstr(ucxpool_error_detail(), "region 2 of 4") != NULL) &&
                      (strstr(ucxpool_error_detail(), "rdma.max") != NULL),
                  "%s", ucxpool_error_detail());
    /* As the error detail advises: larger regions. */
    ucxpool_destroy(pool);
    pool = pair_pool("REGION_SIZE=512k");
    ck_assert_msg(ucxpool_verbs_register(pool, end.pd, ACCESS, &verbs) ==
                      UCXPOOL_OK,
                  "%s", ucxpool_error_detail());
    ucxpool_destroy(pool);
    rdma_close(&end);
    leave_group();
}

TEST(flags_that_the_device_rejects_are_reported)
{
    rdma_end_t       end;
    ucxpool_verbs_t *verbs;
    ucxpool_status_t status;
    ucxpool_t       *pool = pair_pool("LOG_LEVEL=none");

    rdma_open(&end);
    status = ucxpool_verbs_register(
        pool, end.pd, ACCESS | IBV_ACCESS_RELAXED_ORDERING, &verbs);
    ck_assert_msg(status == UCXPOOL_OK, "%s", ucxpool_error_detail());
    assert_ok(ucxpool_verbs_deregister(verbs));
    /* A flag that no device supports. */
    status = ucxpool_verbs_register(pool, end.pd, ACCESS | (1 << 19), &verbs);
    ck_assert_int_lt(status, 0);
    assert_detail(rdma_device_name());
    ucxpool_destroy(pool);
    rdma_close(&end);
}
