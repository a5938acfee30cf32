#include "perf/list.h"
#include "perf/side.h"
#include "perf/test.h"

#include <stdio.h>
#include <string.h>

static void print_ways(const uint32_t *ways)
{
    char   name[SIDE_NAME_SIZE];
    side_t side;

    for (unsigned i = 0; ways[i] != WAY_LAST; i++) {
        side.way  = ways[i];
        side.mode = MODE_COPY;
        if (side_is_copy(side)) {
            printf(" %s", side_name(side, name));
            continue;
        }
        for (side.mode = MODE_PEER; side.mode <= MODE_NONE; side.mode++) {
            printf(" %s", side_name(side, name));
        }
    }
    printf("\n");
}

static void print_pieces(const test_t *test)
{
    char name[SIDE_NAME_SIZE];

    if (test->has_pieces) {
        printf(" %s", side_name((side_t){WAY_POOL_PIECES, MODE_AUTO}, name));
    }
}

static void print_test(const test_t *test)
{
    char   name[SIDE_NAME_SIZE];
    side_t side = {test->pool_way, MODE_AUTO};

    printf("  %-13s %s\n                -s %llu -n %llu; sides: %s", test->name,
           test->title, (unsigned long long)test->size,
           (unsigned long long)test->count, side_name(side, name));
    print_pieces(test);
    print_ways(test->raw_ways);
    if (test->gpu_ways[0] != WAY_LAST) {
        printf("                with --device: %s", name);
        print_pieces(test);
        print_ways(test->gpu_ways);
    }
}

void list_print(void)
{
    const test_t     *test;
    const test_row_t *row;

    printf("tests (-t), with their defaults:\n\n");
    for (unsigned i = 0; (test = test_at(i)) != NULL; i++) {
        print_test(test);
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
    for (unsigned i = 0; (row = test_row_at(i)) != NULL; i++) {
        printf("  %-8s ucxpool_perf -t %s", row->table, row->test);
        if (strcmp(row->test, "block") != 0) {
            printf(" -s %llu -n %llu%s --wire %s",
                   (unsigned long long)row->size,
                   (unsigned long long)row->count,
                   test_table_is_on_gpu(row->table) ? " --device cuda" : "",
                   side_mode_name(row->pool_mode));
        }
        printf("\n");
    }
}
