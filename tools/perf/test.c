#include "perf/test.h"

#include <stdio.h>
#include <string.h>

#define M ((uint64_t)1 << 20)
#define G ((uint64_t)1 << 30)

/* clang-format off */

/* Raw UCX sides for scattered, contiguous and registered buffers in GPU
 * memory. */
#define GPU_SCATTERED \
    {WAY_AM_EACH, WAY_TAG_EACH, WAY_AM_MEMH, WAY_TAG_MEMH}
#define GPU_CONTIGUOUS {WAY_AM, WAY_TAG, WAY_AM_MEMH, WAY_TAG_MEMH}
#define GPU_TRIP       {WAY_AM, WAY_AM_MEMH}
#define GPU_REGISTERED {WAY_AM_MEMH, WAY_TAG_MEMH}

/* Columns: name and title; unit; -s and -n; the pool's way, raw ways in host
 * memory and in GPU memory; other members. */
static const test_t tests[] = {
    {"each", "scattered buffers in one message, against one active message per "
     "buffer",
     UNIT_RATE, 4096, 16384, WAY_POOL, {WAY_AM_EACH},
     .gpu_ways = GPU_SCATTERED, .second_way = WAY_POOL_PIECES},
    {"misaligned", "scattered buffers, misaligned at the sender, against one "
     "active message per buffer",
     UNIT_RATE, 4096, 16384, WAY_POOL, {WAY_AM_EACH},
     .gpu_ways = GPU_SCATTERED, .second_way = WAY_POOL_PIECES, .misaligned = 1},
    {"iov", "scattered buffers in one message, against UCX's IOV datatype",
     UNIT_RATE, 4096, 16384, WAY_POOL, {WAY_IOV},
     .gpu_ways = {WAY_IOV}},
    {"both", "scattered buffers in both directions at once, each way against "
     "one active message per buffer",
     UNIT_RATE, 4096, 16384, WAY_POOL, {WAY_AM_EACH},
     .gpu_ways = GPU_SCATTERED, .second_way = WAY_POOL_PIECES, .is_both = true},
    {"read", "scattered pieces of the receiver's window, read by the sender, "
     "against UCX's gets",
     UNIT_RATE, 4096, 16384, WAY_POOL_READ, {WAY_GET_EACH, WAY_GET},
     .gpu_ways = {0}},
    {"write", "scattered pieces of the receiver's window, written by the "
     "sender, against UCX's puts",
     UNIT_RATE, 4096, 16384, WAY_POOL_WRITE, {WAY_PUT_EACH, WAY_PUT},
     .gpu_ways = {0}},
    {"comm", "ucxpool_comm_alloc memory on both sides, against raw UCX with a "
     "memory handle",
     UNIT_RATE, 64 * M, 1, WAY_POOL_COMM, {WAY_AM_MEMH, WAY_TAG_MEMH},
     .gpu_ways = GPU_REGISTERED},
    {"any", "any other memory, against raw UCX",
     UNIT_RATE, 64 * M, 1, WAY_POOL, {WAY_AM, WAY_TAG},
     .gpu_ways = GPU_CONTIGUOUS},
    {"pingpong", "round trip of one message, against a raw active message",
     UNIT_TRIP, 64, 1, WAY_POOL, {WAY_AM}, .gpu_ways = GPU_TRIP},
    {"pingpong-comm", "round trip of one message of ucxpool_comm_alloc memory",
     UNIT_TRIP, 64, 1, WAY_POOL_COMM, {WAY_AM}, .gpu_ways = GPU_TRIP},
    {"pingpong-wait", "round trip of one message, both sides in "
     "ucxpool_wait()",
     UNIT_TRIP, 64, 1, WAY_POOL_WAIT, .gpu_ways = {0}},
    {"rate", "messages of one buffer each, against messages of raw UCX",
     UNIT_MESSAGES, 8, 4096, WAY_POOL_EACH, {WAY_AM_EACH, WAY_TAG_EACH},
     .gpu_ways = {0}, .second_way = WAY_POOL_BATCH},
};

/* Columns: table, test, -s, -n, --wire. */
static const test_row_t rows[] = {
    {"map", "each", 256, 65536, MODE_MAP},
    {"map", "each", 4096, 16384, MODE_MAP},
    {"map", "iov", 256, 65536, MODE_MAP},
    {"map", "iov", 4096, 16384, MODE_MAP},
    {"map", "comm", 64 * M, 1, MODE_MAP},
    {"map", "any", 64 * M, 1, MODE_MAP},
    {"map", "pingpong", 64, 1, MODE_MAP},
    {"ucx", "each", 256, 65536, MODE_UCX},
    {"ucx", "each", 4096, 16384, MODE_UCX},
    {"ucx", "iov", 256, 65536, MODE_UCX},
    {"ucx", "iov", 4096, 16384, MODE_UCX},
    {"ucx", "comm", 64 * M, 1, MODE_UCX},
    {"ucx", "any", 64 * M, 1, MODE_UCX},
    {"cuda", "each", 4096, 131072, MODE_MAP},
    {"cuda", "each", 1024, 131072, MODE_MAP},
    {"cuda", "each", 256, 262144, MODE_MAP},
    {"cuda", "each", 64, 1048576, MODE_MAP},
    {"cuda", "each", M, 512, MODE_MAP},
    {"cuda", "misaligned", 4096, 131072, MODE_MAP},
    {"cuda", "any", G, 1, MODE_MAP},
    {"cuda", "comm", G, 1, MODE_MAP},
    {"cuda", "pingpong", 4096, 1, MODE_MAP},
    {"cuda", "pingpong-comm", 4096, 1, MODE_MAP},
    {"cuda-ucx", "each", 4096, 131072, MODE_UCX},
    {"cuda-ucx", "each", 1024, 131072, MODE_UCX},
    {"cuda-ucx", "any", G, 1, MODE_UCX},
    {"cuda-ucx", "comm", G, 1, MODE_UCX},
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

/* --- the list ------------------------------------------------------------- */

static void print_ways(const test_t *test, const uint32_t *ways)
{
    printf("%s", side_name((side_t){test->pool_way, MODE_AUTO}));
    if (test->second_way != WAY_NONE) {
        printf(" %s", side_name((side_t){test->second_way, MODE_AUTO}));
    }
    for (unsigned i = 0; ways[i] != WAY_NONE; i++) {
        printf(" %s", side_name((side_t){ways[i], MODE_PEER}));
        printf(" %s", side_name((side_t){ways[i], MODE_NONE}));
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
           "raw UCX, /peer with failure handling, /none without:\n"
           "  am-each, am, am-memh, tag-each, tag, tag-memh, iov,\n"
           "  get-each, get, put-each, put\n"
           "the pool, /auto, /map, /ucx name the wire:\n"
           "  pool, pool-pieces, pool-even, pool-each, pool-batch, pool-wait,\n"
           "  pool-comm, pool-read, pool-read-asleep, pool-write,\n"
           "  pool-write-asleep\n");
}
