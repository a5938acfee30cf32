#include "perf/test.h"

#include <stdio.h>
#include <string.h>

#define M ((uint64_t)1 << 20)
#define G ((uint64_t)1 << 30)

/* clang-format off */

/* Raw UCX sides for scattered, contiguous and registered buffers in GPU
 * memory. */
#define GPU_SCATTERED \
    {WAY_AM_EACH, WAY_TAG_EACH, WAY_AM_MEMH, WAY_TAG_MEMH, WAY_COPY_EACH, \
     WAY_COPY}
#define GPU_CONTIGUOUS {WAY_AM, WAY_TAG, WAY_AM_MEMH, WAY_TAG_MEMH, WAY_COPY}
#define GPU_REGISTERED {WAY_AM_MEMH, WAY_TAG_MEMH, WAY_COPY}
#define GPU_COPIES     {WAY_COPY_EACH, WAY_COPY}

/* Name and title; unit; -s and -n; the pool's way, raw ways in host memory and
 * in a GPU's; other members. */
static const test_t tests[] = {
    {"each", "scattered buffers in one message, against one active message per "
     "buffer",
     UNIT_RATE, 4096, 16384, WAY_POOL, {WAY_AM_EACH},
     .gpu_ways = GPU_SCATTERED, .has_pieces = true},
    {"mixed", "scattered buffers of lengths as columns have them, up to -s, "
     "against one active message per buffer",
     UNIT_RATE, 8 * M, 180, WAY_POOL, {WAY_AM_EACH},
     .gpu_ways = GPU_SCATTERED, .is_mixed = true},
    {"misaligned", "scattered buffers, the sender's one byte off, against one "
     "active message per buffer",
     UNIT_RATE, 4096, 16384, WAY_POOL, {WAY_AM_EACH},
     .gpu_ways = GPU_SCATTERED, .has_pieces = true, .misaligned = 1},
    {"few-blocks", "scattered buffers through 16 MiB of send blocks in all, "
     "against one active message per buffer",
     UNIT_RATE, 4096, 16384, WAY_POOL, {WAY_AM_EACH},
     .gpu_ways = GPU_SCATTERED, .has_pieces = true, .send_size = 16 * M},
    {"iov", "scattered buffers in one message, against UCX's IOV datatype",
     UNIT_RATE, 4096, 16384, WAY_POOL, {WAY_IOV},
     .gpu_ways = {WAY_IOV, WAY_COPY_EACH}},
    {"both", "scattered buffers in both directions at once, each way against "
     "one active message per buffer",
     UNIT_RATE, 4096, 16384, WAY_POOL, {WAY_AM_EACH},
     .gpu_ways = GPU_SCATTERED, .has_pieces = true, .is_both = true},
    {"read", "scattered pieces of the receiver's window, read by the sender, "
     "against UCX's gets",
     UNIT_RATE, 4096, 16384, WAY_POOL_READ, {WAY_GET_EACH, WAY_GET},
     .gpu_ways = GPU_COPIES},
    {"write", "scattered pieces of the receiver's window, written by the "
     "sender, against UCX's puts",
     UNIT_RATE, 4096, 16384, WAY_POOL_WRITE, {WAY_PUT_EACH, WAY_PUT},
     .gpu_ways = GPU_COPIES},
    {"comm", "ucxpool_comm_alloc memory on both sides, against raw UCX with a "
     "memory handle",
     UNIT_RATE, 64 * M, 1, WAY_POOL_COMM, {WAY_AM_MEMH, WAY_TAG_MEMH},
     .gpu_ways = GPU_REGISTERED},
    {"comm-send", "ucxpool_comm_alloc memory at the sender, against raw UCX "
     "with a memory handle",
     UNIT_RATE, 64 * M, 1, WAY_POOL_COMM_SEND, {WAY_AM_MEMH, WAY_TAG_MEMH},
     .gpu_ways = GPU_REGISTERED},
    {"comm-recv", "ucxpool_comm_alloc memory at the receiver, against raw UCX "
     "with a memory handle",
     UNIT_RATE, 64 * M, 1, WAY_POOL_COMM_RECV, {WAY_AM_MEMH, WAY_TAG_MEMH},
     .gpu_ways = GPU_REGISTERED},
    {"any", "any other memory, against raw UCX",
     UNIT_RATE, 64 * M, 1, WAY_POOL, {WAY_AM, WAY_TAG},
     .gpu_ways = GPU_CONTIGUOUS},
    {"pingpong", "one message there and back, against a raw active message",
     UNIT_TRIP, 64, 1, WAY_POOL, {WAY_AM}, .gpu_ways = GPU_CONTIGUOUS},
    {"pingpong-comm", "one message of ucxpool_comm_alloc memory there and back",
     UNIT_TRIP, 64, 1, WAY_POOL_COMM, {WAY_AM}, .gpu_ways = GPU_CONTIGUOUS},
    {"pingpong-event", "one message there and back, both sides asleep on the "
     "event descriptor",
     UNIT_TRIP, 64, 1, WAY_POOL_EVENT, .gpu_ways = {0}},
    {"pingpong-wait", "one message there and back, both sides in "
     "ucxpool_wait()",
     UNIT_TRIP, 64, 1, WAY_POOL_WAIT, .gpu_ways = {0}},
    {"rate", "messages of one buffer each, against messages of raw UCX",
     UNIT_MESSAGES, 8, 4096, WAY_POOL_EACH, {WAY_AM_EACH, WAY_TAG_EACH},
     .gpu_ways = {0}},
    {"block", "one block taken and given back, one thread",
     UNIT_BLOCK, 1, 1, WAY_BLOCK, .gpu_ways = {0}},
};

/* Table, test, -s, -n, --wire; targets against failure handling, without it,
 * and the aim; GB/s with two GPUs, with one. */
static const test_row_t rows[] = {
    {"map", "each", 256, 65536, MODE_MAP, 60, 3, 0, 0, 0},
    {"map", "each", 4096, 16384, MODE_MAP, 8, 1.3, 0, 0, 0},
    {"map", "iov", 256, 65536, MODE_MAP, 4, 1.0, 0, 0, 0},
    {"map", "iov", 4096, 16384, MODE_MAP, 5, 1.2, 0, 0, 0},
    {"map", "comm", 64 * M, 1, MODE_MAP, 4, 1.0, 1.2, 0, 0},
    {"map", "any", 64 * M, 1, MODE_MAP, 4, 0.9, 1.1, 0, 0},
    {"map", "pingpong", 64, 1, MODE_MAP, 1.3, 0, 0, 0, 0},
    {"ucx", "each", 256, 65536, MODE_UCX, 20, 0, 0, 0, 0},
    {"ucx", "each", 4096, 16384, MODE_UCX, 2.5, 0, 0, 0, 0},
    {"ucx", "iov", 256, 65536, MODE_UCX, 0.95, 0, 0, 0, 0},
    {"ucx", "iov", 4096, 16384, MODE_UCX, 0.95, 0, 0, 0, 0},
    {"ucx", "comm", 64 * M, 1, MODE_UCX, 0.95, 0, 0, 0, 0},
    {"ucx", "any", 64 * M, 1, MODE_UCX, 0.9, 0, 0, 0, 0},
    {"both", "block", 1, 1, MODE_AUTO, 0, 0, 0, 0, 0},
    {"cuda", "each", 4096, 131072, MODE_MAP, 250, 250, 0, 345, 300},
    {"cuda", "each", 1024, 131072, MODE_MAP, 0, 0, 0, 340, 0},
    {"cuda", "each", 256, 262144, MODE_MAP, 0, 0, 0, 300, 0},
    {"cuda", "each", 64, 1048576, MODE_MAP, 0, 0, 0, 80, 0},
    {"cuda", "each", M, 512, MODE_MAP, 0, 0, 0, 345, 0},
    {"cuda", "mixed", 8 * M, 1170, MODE_MAP, 0, 0, 0, 300, 0},
    {"cuda", "misaligned", 4096, 131072, MODE_MAP, 0, 0, 0, 200, 0},
    {"cuda", "few-blocks", 4096, 131072, MODE_MAP, 0, 0, 0, 240, 0},
    {"cuda", "any", G, 1, MODE_MAP, 0.9, 0.9, 0, 0, 0},
    {"cuda", "comm", G, 1, MODE_MAP, 0.98, 0.98, 0, 0, 0},
    {"cuda", "pingpong", 4096, 1, MODE_MAP, 1.5, 0, 0, 0, 0},
    {"cuda", "pingpong-comm", 4096, 1, MODE_MAP, 1.1, 0, 0, 0, 0},
    {"cuda-ucx", "each", 4096, 131072, MODE_UCX, 0, 0, 0, 330, 0},
    {"cuda-ucx", "each", 1024, 131072, MODE_UCX, 0, 0, 0, 320, 0},
    {"cuda-ucx", "any", G, 1, MODE_UCX, 0.85, 0.85, 0, 0, 0},
    {"cuda-ucx", "comm", G, 1, MODE_UCX, 0.95, 0.95, 0, 0, 0},
};

/* clang-format on */

#define NUM(_array) (sizeof(_array) / sizeof((_array)[0]))

const test_t *test_find(const char *name)
{
    for (unsigned i = 0; i < NUM(tests); i++) {
        if (strcmp(tests[i].name, name) == 0) {
            return &tests[i];
        }
    }
    return NULL;
}

const test_row_t *test_row_at(unsigned index)
{
    return index < NUM(rows) ? &rows[index] : NULL;
}

bool test_table_is_on_gpu(const char *table)
{
    return strncmp(table, "cuda", 4) == 0;
}

/* --- targets -------------------------------------------------------------- */

const test_row_t *test_row_of(const job_t *job, uint32_t mode)
{
    for (unsigned i = 0; i < NUM(rows); i++) {
        if ((strcmp(job->test, rows[i].test) == 0) &&
            (job->work.size == rows[i].size) &&
            (job->work.count == rows[i].count) && (mode == rows[i].pool_mode) &&
            (work_is_on_gpu(&job->work) ==
             test_table_is_on_gpu(rows[i].table))) {
            return &rows[i];
        }
    }
    return NULL;
}

/* Two processes on one GPU have a target only in `any`. */
double test_target(const test_row_t *row, const work_t *work, side_t other,
                   double *aim_p)
{
    side_t own = {test_find(row->test)->raw_ways[0], other.mode};

    *aim_p = 0;
    if ((own.way == WAY_NONE) || (side_group(own) != side_group(other)) ||
        (work_is_on_gpu(work) && (work->devices[0] == work->devices[1]) &&
         (strcmp(row->test, "any") != 0 || row->pool_mode != MODE_MAP))) {
        return 0;
    }
    if (other.mode == MODE_NONE) {
        *aim_p = row->aim;
    }
    return other.mode == MODE_NONE ? row->none : row->peer;
}

/* --- the list ------------------------------------------------------------- */

static void print_ways(const test_t *test, const uint32_t *ways)
{
    char name[SIDE_NAME_SIZE];

    printf("%s", side_name((side_t){test->pool_way, MODE_AUTO}, name));
    if (test->has_pieces) {
        printf(" %s", side_name((side_t){WAY_POOL_PIECES, MODE_AUTO}, name));
    }
    for (unsigned i = 0; ways[i] != WAY_NONE; i++) {
        printf(" %s", side_name((side_t){ways[i], MODE_PEER}, name));
        if (!side_is((side_t){ways[i], 0}, IS_COPY)) {
            printf(" %s", side_name((side_t){ways[i], MODE_NONE}, name));
        }
    }
    printf("\n");
}

static void print_row(const test_row_t *row)
{
    printf("  %-8s ucxpool_perf -t %s", row->table, row->test);
    if (strcmp(row->test, "block") != 0) {
        printf(" -s %llu -n %llu%s --wire %s", (unsigned long long)row->size,
               (unsigned long long)row->count,
               test_table_is_on_gpu(row->table) ? " --device cuda" : "",
               side_mode_name(row->pool_mode));
    }
    printf("\n");
}

void test_list(void)
{
    printf("tests (-t), with their defaults:\n\n");
    for (unsigned i = 0; i < NUM(tests); i++) {
        printf("  %-13s %s\n                -s %llu -n %llu; sides: ",
               tests[i].name, tests[i].title, (unsigned long long)tests[i].size,
               (unsigned long long)tests[i].count);
        print_ways(&tests[i], tests[i].raw_ways);
        if (tests[i].gpu_ways[0] != WAY_NONE) {
            printf("                with --device: ");
            print_ways(&tests[i], tests[i].gpu_ways);
        }
    }
    printf("\nsides (--sides): WAY/MODE\n\n"
           "  am-each, am, am-memh, tag-each, tag, tag-memh, iov,\n"
           "  get-each, get, put-each, put\n"
           "                                             raw UCX: /peer with "
           "failure handling,\n"
           "                                             /none without\n"
           "  copy-each, copy                            with --device: "
           "cuMemcpyAsync()\n"
           "  pool, pool-pieces, pool-even, pool-each, pool-event, pool-wait,\n"
           "  pool-comm, pool-comm-send, pool-comm-recv,\n"
           "  pool-read, pool-read-asleep, pool-write, pool-write-asleep\n"
           "                                             the pool: /auto, "
           "/map, /ucx name the wire\n"
           "\ntables (--table), and the command of each row:\n\n");
    for (unsigned i = 0; i < NUM(rows); i++) {
        print_row(&rows[i]);
    }
}
