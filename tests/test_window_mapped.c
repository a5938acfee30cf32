/* Windows in files that both sides map: which files are mapped, for which
 * access, and whether anything is leaked. */
#include <config.h>

#include "calls.h"
#include "pair.h"
#include "sealed.h"
#include "test.h"

#include "window/way.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Since Linux 5.1. The C library's headers may be older. */
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

#define SIZE ((size_t)1 << 20)
#define BOTH PAIR_READ_AND_WRITE

/* b owns the window; a imports it. */
static pair_t                   pair;
static ucxpool_window_t        *window;
static ucxpool_remote_window_t *remote;

/* The window's file, or -1, and the part of it that is mapped. */
static int      fd;
static uint8_t *memory;
static size_t   memory_size;

static void map_file(int file, size_t offset, size_t size)
{
    fd          = file;
    memory      = sealed_map(fd, offset, size);
    memory_size = size;
}

/* A file of SIZE bytes, completely mapped. */
static void map_whole_file(void)
{
    map_file(sealed_file(SIZE, SIZE, F_SEAL_SHRINK), 0, SIZE);
}

static ucxpool_remote_window_attr_t asked(void)
{
    return pair_remote_attr(remote);
}

static ucxpool_status_t make_window(void *address, size_t size, int file)
{
    ucxpool_window_params_t params = {
        .field_mask = (file >= 0) ? UCXPOOL_WINDOW_PARAM_FIELD_FD : 0,
        .fd         = file,
    };

    return ucxpool_window_create(pair.b, address, size, &params, &window);
}

static void import(unsigned access)
{
    remote = pair_import(pair.to_b, window, access);
    pair_until(&pair, asked().status != UCXPOOL_INPROGRESS);
    ck_assert_msg(asked().status == UCXPOOL_OK, "%s", asked().reason);
}

static void begin(void *address, size_t size, unsigned access)
{
    pair_fill(address, size);
    assert_ok(make_window(address, size, fd));
    import(access);
}

static void let_go(void)
{
    ucxpool_remote_window_release(remote);
    pair_until(&pair, pair_window_attr(window).num_peers == 0);
}

static void end(void)
{
    let_go();
    ucxpool_window_destroy(window);
    window = NULL;
}

/* The way used if nothing is mapped. */
static ucxpool_way_t other_way(void)
{
    return pair_has_pidfd() ? UCXPOOL_WAY_PROCESS : UCXPOOL_WAY_MESSAGES;
}

static ucxpool_status_t move(bool is_write, uint64_t offset, void *bytes,
                             size_t length)
{
    return pair_finish(&pair,
                       pair_access(remote, is_write, offset, bytes, length));
}

/* Reads all bytes, and writes all bytes if that is allowed. */
static void check_bytes(const uint8_t *right, size_t size)
{
    uint8_t *bytes = test_alloc(size);

    assert_ok(move(false, 0, bytes, size));
    ck_assert_mem_eq(bytes, right, size);
    if (asked().access & UCXPOOL_WINDOW_WRITE) {
        pair_fill(bytes, size);
        assert_ok(move(true, 0, bytes, size));
        ck_assert_mem_eq(bytes, right, size);
    }
}

static void check_reason(const char *words)
{
    assert_has(asked().way_reason, words);
}

static void check_mapped(size_t num_views, const uint8_t *right, size_t size)
{
    ck_assert_int_eq(asked().way, UCXPOOL_WAY_MAPPED);
    ck_assert_uint_eq(remote->num_views, num_views);
    check_bytes(right, size);
}

static void check_not_mapped(const char *reason, const uint8_t *right,
                             size_t size)
{
    ck_assert_int_eq(asked().way, other_way());
    check_reason(reason);
    check_bytes(right, size);
}

static void setup(void)
{
    fd          = -1;
    memory_size = 0;
    pair_init(&pair, "WIRE=map", "WIRE=map COMM_SIZE=16m");
}

static void teardown(void)
{
    if (window != NULL) {
        end();
    }
    pair_cleanup(&pair);
    if (fd >= 0) {
        close(fd);
    }
    if (memory_size != 0) {
        sealed_put(memory, memory_size);
    }
}

/* --- mapped memory -------------------------------------------------------- */

TEST_SETTINGS(.setup = setup, .teardown = teardown, .timeout = 60);

TEST(a_part_of_a_file_is_found_wherever_it_is_mapped)
{
    map_file(sealed_file(4 * SIZE, 4 * SIZE, F_SEAL_SHRINK), SIZE, 2 * SIZE);
    begin(memory + 12345, SIZE, BOTH);
    close(fd);
    fd = -1;
    check_mapped(1, memory + 12345, SIZE);
}

/* Two parts in another order than in the file, and a third that continues the
 * second one. */
TEST(parts_of_a_file_may_be_in_any_order)
{
    static const size_t starts[] = {3 * SIZE, 0, SIZE};

    map_file(sealed_file(4 * SIZE, 4 * SIZE, F_SEAL_SHRINK), 0, 3 * SIZE);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_ptr_eq(mmap(memory + i * SIZE, SIZE, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_FIXED, fd, (off_t)starts[i]),
                         memory + i * SIZE);
    }
    begin(memory + 100, 3 * SIZE - 200, BOTH);
    check_mapped(2, memory + 100, 3 * SIZE - 200);
}

TEST(memory_that_the_pool_has_mapped_is_not_mapped_again)
{
    size_t before;
    void  *own;

    assert_ok(ucxpool_comm_alloc(pair.b, SIZE, &own));
    before = calls_mapped_size();
    begin(own, SIZE, UCXPOOL_WINDOW_READ);
    ck_assert_int_eq(asked().way, UCXPOOL_WAY_MAPPED);
    ck_assert_uint_eq(calls_mapped_size(), before);
    check_bytes(own, SIZE);
    end();
    ucxpool_comm_free(pair.b, own);
}

TEST(only_the_windows_part_of_the_heap_is_mapped)
{
    size_t before;
    void  *own;

    assert_ok(ucxpool_heap_alloc(pair.b, 64 * SIZE, NULL, &own));
    before = calls_mapped_size();
    begin((uint8_t *)own + SIZE / 2 + 8, SIZE, BOTH);
    ck_assert_int_eq(asked().way, UCXPOOL_WAY_MAPPED);
    ck_assert_uint_le(calls_mapped_size(), before + 5 * SIZE);
    check_bytes((uint8_t *)own + SIZE / 2 + 8, SIZE);
    end();
    assert_ok(ucxpool_heap_free(pair.b, own, NULL));
}

/* Is the mapping of this address writable? */
static bool is_writable(const void *address)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char  line[512];
    bool  is_there = false;

    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        unsigned long start, end;
        char          kinds[5];

        if ((sscanf(line, "%lx-%lx %4s", &start, &end, kinds) == 3) &&
            ((uintptr_t)address >= start) && ((uintptr_t)address < end)) {
            is_there = kinds[1] == 'w';
            ck_assert_int_eq(kinds[0], 'r');
        }
    }
    fclose(maps);
    return is_there;
}

TEST(a_read_only_blob_is_mapped_read_only)
{
    map_whole_file();
    for (unsigned access = UCXPOOL_WINDOW_READ; access <= BOTH; access++) {
        begin(memory, SIZE, access);
        ck_assert_int_eq(asked().way, UCXPOOL_WAY_MAPPED);
        ck_assert_int_eq(is_writable(remote->views[0].view.start),
                         (access & UCXPOOL_WINDOW_WRITE) != 0);
        end();
    }
}

TEST(a_sealed_file_keeps_its_length)
{
    uint8_t bytes[100];

    map_whole_file();
    begin(memory, SIZE, BOTH);
    ck_assert_int_eq(ftruncate(fd, 0), -1);
    ck_assert_int_eq(errno, EPERM);
    assert_ok(move(false, SIZE - 100, bytes, 100));
    ck_assert_mem_eq(bytes, memory + SIZE - 100, 100);
}

/* --- memory that is not mapped -------------------------------------------- */

TEST(a_file_that_can_shrink_is_not_mapped)
{
    uint8_t bytes[100];

    map_file(sealed_file(SIZE, SIZE, F_SEAL_GROW), 0, SIZE);
    begin(memory, SIZE, BOTH);
    check_not_mapped("can shrink", memory, SIZE);
    if (asked().way == UCXPOOL_WAY_PROCESS) {
        ck_assert_int_eq(ftruncate(fd, 0), 0);
        assert_error(move(false, 0, bytes, sizeof(bytes)), IO);
    }
}

TEST(a_sparse_file_is_not_mapped)
{
    map_file(sealed_file(4 * SIZE, 0, F_SEAL_SHRINK), 0, 4 * SIZE);
    assert_ok(make_window(memory, 4 * SIZE, fd));
    import(UCXPOOL_WINDOW_READ);
    check_not_mapped("are backed by memory", memory, 4 * SIZE);
}

TEST(memory_without_a_file_reports_the_reason)
{
    void *own = test_alloc(SIZE);

    begin(own, SIZE, BOTH);
    check_not_mapped("neither the pool's memory nor", own, SIZE);
    end();
}

/* Every page becomes a part of its own. */
TEST(more_parts_than_a_message_holds_are_not_mapped)
{
    enum { PAGE = 4096, NUM = PROTO_PARTS_MAX + 1 };

    map_file(sealed_file(NUM * PAGE, NUM * PAGE, F_SEAL_SHRINK), 0, NUM * PAGE);
    for (size_t i = 0; i < NUM; i++) {
        ck_assert_ptr_ne(mmap(memory + i * PAGE, PAGE, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_FIXED, fd,
                              (off_t)((NUM - 1 - i) * PAGE)),
                         MAP_FAILED);
    }
    begin(memory, NUM * PAGE, BOTH);
    check_not_mapped("too many parts", memory, NUM * PAGE);
    end();
    begin(memory, (NUM - 1) * PAGE, BOTH);
    check_mapped(NUM - 1, memory, (NUM - 1) * PAGE);
}

static void check_refused(void *address, size_t size, int file,
                          const char *words)
{
    unsigned num_fds = fds_count();

    assert_error(make_window(address, size, file), INVALID_PARAM);
    ck_assert_ptr_null(window);
    assert_detail(words);
    ck_assert_uint_eq(fds_count(), num_fds);
}

TEST(a_file_not_mapped_at_the_windows_address_is_rejected)
{
    int other = sealed_file(SIZE, SIZE, F_SEAL_SHRINK);
    uint8_t *private;

    map_whole_file();
    private = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    ck_assert_ptr_ne(private, MAP_FAILED);
    check_refused(memory, SIZE, other, "not a shared mapping");
    check_refused(private, SIZE, fd, "not a shared mapping");
    check_refused(test_alloc(SIZE), SIZE, fd, "not a shared mapping");
    ck_assert_int_eq(munmap(memory + SIZE - 4096, 4096), 0);
    check_refused(memory, SIZE, fd, "not a shared mapping");
    check_refused(memory, SIZE / 2, INT_MAX, "is not open");
    close(other);
    sealed_put(private, SIZE);
    memory_size -= 4096;
}

/* --- memory that is mapped read-only -------------------------------------- */

static void check_writes_go_otherwise(const uint8_t *right, size_t size)
{
    ck_assert_int_eq(asked().way, UCXPOOL_WAY_MAPPED);
    ck_assert_int_eq(remote->write_way->id, other_way());
    check_reason("writes use");
    check_bytes(right, size);
}

/* An import for writing only. */
static void check_not_written(const char *reason)
{
    let_go();
    import(UCXPOOL_WINDOW_WRITE);
    ck_assert_int_eq(asked().way, other_way());
    check_reason(reason);
}

TEST(writes_to_the_pools_blocks_use_another_way)
{
    void *own;

    assert_ok(ucxpool_comm_alloc(pair.b, SIZE, &own));
    begin(own, SIZE, BOTH);
    check_writes_go_otherwise(own, SIZE);
    check_not_written("read-only");
    end();
    ucxpool_comm_free(pair.b, own);
}

TEST(a_file_sealed_against_writing_is_mapped_read_only)
{
    map_whole_file();
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0) {
        begin(memory, SIZE, BOTH);
        check_writes_go_otherwise(memory, SIZE);
        check_not_written("sealed against writing");
    }
}

/* --- failures and leaks --------------------------------------------------- */

TEST(destroying_a_window_leaks_nothing)
{
    unsigned num_fds;
    size_t   mapped;

    map_whole_file();
    num_fds = fds_count();
    mapped  = calls_mapped_size();
    for (int i = 0; i < 10; i++) {
        begin(memory, SIZE, BOTH);
        ck_assert_uint_gt(calls_mapped_size(), mapped);
        assert_ok(ucxpool_window_revoke(window, 0));
        pair_until(&pair, calls_mapped_size() == mapped);
        end();
        ck_assert_uint_eq(fds_count(), num_fds);
    }
}

TEST(another_way_is_used_after_a_failed_call)
{
    static const struct {
        calls_name_t name;
        int          error;
        const char  *words;
    } calls[] = {
        {CALLS_OPEN, EACCES, "cannot be opened"},
        {CALLS_FSTAT, EIO, "attributes cannot be read"},
        {CALLS_MMAP, ENOMEM, "mapping"},
        {CALLS_CALLOC, ENOMEM, "no memory"},
    };
    unsigned num_fds;
    size_t   mapped;

    map_whole_file();
    num_fds = fds_count();
    mapped  = calls_mapped_size();
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        assert_ok(make_window(memory, SIZE, fd));
        remote = pair_import(pair.to_b, window, UCXPOOL_WINDOW_READ);
        calls_fail_from(calls[i].name, 1, calls[i].error);
        pair_until(&pair, asked().status != UCXPOOL_INPROGRESS);
        ck_assert_msg(calls_has_failed(), "%s", calls[i].words);
        calls_reset();
        assert_ok(asked().status);
        ck_assert_int_ne(asked().way, UCXPOOL_WAY_MAPPED);
        check_reason(calls[i].words);
        check_bytes(memory, SIZE);
        end();
        ck_assert_uint_eq(fds_count(), num_fds);
        ck_assert_uint_eq(calls_mapped_size(), mapped);
    }
    begin(memory, SIZE, BOTH);
    ck_assert_int_eq(asked().way, UCXPOOL_WAY_MAPPED);
}

TEST(a_window_is_created_even_if_its_file_cannot_be_found)
{
    map_whole_file();
    calls_fail(CALLS_FOPEN, 1, EACCES);
    assert_ok(make_window(memory, SIZE, fd));
    calls_reset();
    import(BOTH);
    check_not_mapped("cannot read /proc/self/maps", memory, SIZE);
}
