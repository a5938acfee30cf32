/* Partition files, with injected system call failures. */
#include "tools/shuffle/output.h"

#include "common/error.h"
#include "test.h"
#include "replace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The call that fails, counted from 1; 0: none. */
typedef struct fault {
    unsigned at;
    unsigned count;
    int      error;
} fault_t;

static fault_t  pwrite_fault;
static fault_t  close_fault;
static fault_t  openat_fault;
static fault_t  linkat_fault;
static bool     pwrite_is_short;
static unsigned num_pwrites;
static unsigned num_openats;
static bool     files_are_few;
static bool     links_are_unknown;

static bool strikes(fault_t *fault)
{
    if ((fault->at == 0) || (++fault->count != fault->at)) {
        return false;
    }
    errno = fault->error;
    return true;
}

REPLACE(ssize_t, pwrite, int fd, const void *data, size_t length, off_t offset)
{
    num_pwrites++;
    if (strikes(&pwrite_fault)) {
        return -1;
    }
    return __real_pwrite(fd, data, pwrite_is_short && length > 1 ? 1 : length,
                         offset);
}

REPLACE(int, close, int fd)
{
    int result = __real_close(fd);

    return strikes(&close_fault) ? -1 : result;
}

int __real_openat(int fd, const char *path, int flags, ...);
int __wrap_openat(int fd, const char *path, int flags, mode_t mode);

int __wrap_openat(int fd, const char *path, int flags, mode_t mode)
{
    num_openats++;
    return strikes(&openat_fault) ? -1 : __real_openat(fd, path, flags, mode);
}

REPLACE(int, linkat, int from, const char *old, int to, const char *path,
        int flags)
{
    if (links_are_unknown) {
        errno = EPERM;
        return -1;
    }
    return strikes(&linkat_fault) ? -1
                                  : __real_linkat(from, old, to, path, flags);
}

/* The sanitizers' own calls come here too, before the sanitizers are
 * initialized. */
#ifdef __has_attribute
#if __has_attribute(disable_sanitizer_instrumentation)
#define UNWATCHED \
    __attribute__((disable_sanitizer_instrumentation, no_sanitize("address")))
#endif
#endif
#ifndef UNWATCHED
#define UNWATCHED
#endif

REPLACE(UNWATCHED int, getrlimit, __rlimit_resource_t which,
        struct rlimit *limit_p)
{
    if (files_are_few) {
        *limit_p = (struct rlimit){20, 20};
        return 0;
    }
    return __real_getrlimit(which, limit_p);
}

REPLACE(UNWATCHED int, setrlimit, __rlimit_resource_t which,
        const struct rlimit *limit)
{
    if (files_are_few && (limit->rlim_cur > 20)) {
        errno = EPERM;
        return -1;
    }
    return __real_setrlimit(which, limit);
}

static char            path[64];
static output_folder_t folder;
static output_t        output;
static const uint64_t  run = 0x0123456789abcdef;
#define RUN "0123456789abcdef"
static const output_set_t set = {1, 2, 6}; /* partitions 1, 3 and 5 */

static void setup(void)
{
    snprintf(path, sizeof(path), "output-%ld", (long)getpid());
    ck_assert_int_eq(output_folder_open(&folder, path, run), 0);
}

static void teardown(void)
{
    output_discard(&folder, &set);
    output_folder_close(&folder);
    rmdir(path);
}

/* Discard a failed run, and start the next one. */
static void start_again(void)
{
    teardown();
    setup();
}

static bool exists(const char *name)
{
    return faccessat(folder.fd, name, F_OK, 0) == 0;
}

static bool contains(const char *name, const char *text)
{
    char    data[64] = {0};
    int     fd       = __real_openat(folder.fd, name, O_RDONLY);
    ssize_t length   = read(fd, data, sizeof(data) - 1);

    __real_close(fd);
    return (length >= 0) && (strcmp(data, text) == 0);
}

static void put(const char *name, const char *text)
{
    int fd = __real_openat(folder.fd, name, O_WRONLY | O_CREAT, 0666);

    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    __real_close(fd);
}

static int write_all(void)
{
    if (output_init(&output, &folder, &set) != 0) {
        return -1;
    }
    if ((output_append(&output, 3, "three\n", 6) != 0) ||
        (output_append(&output, 5, "five\n", 5) != 0) ||
        (output_append(&output, 3, "drei\n", 5) != 0) ||
        (output_finish(&output) != 0)) {
        output_cleanup(&output);
        return -1;
    }
    output_cleanup(&output);
    return 0;
}

TEST_SETTINGS(.setup = setup, .teardown = teardown);

TEST(files_get_their_names_only_by_commit)
{
    ck_assert_int_eq(write_all(), 0);
    ck_assert(!exists("part-00003"));
    ck_assert_int_eq(output_commit(&folder, &set), 0);
    ck_assert(contains("part-00001", ""));
    ck_assert(contains("part-00003", "three\ndrei\n"));
    ck_assert(contains("part-00005", "five\n"));
    ck_assert(!exists("part-00000"));
}

TEST(a_short_write_is_continued)
{
    pwrite_is_short = true;
    ck_assert_int_eq(write_all(), 0);
    ck_assert(contains(".part-00003." RUN ".tmp", "three\ndrei\n"));
}

TEST(an_interrupted_write_is_repeated)
{
    pwrite_fault = (fault_t){2, 0, EINTR};
    ck_assert_int_eq(write_all(), 0);
    ck_assert(contains(".part-00005." RUN ".tmp", "five\n"));
}

TEST(a_full_disk_is_an_error_with_the_file_and_advice)
{
    for (unsigned n = 1; n <= 2; n++) {
        pwrite_fault = (fault_t){n, 0, ENOSPC};
        ck_assert_int_eq(write_all(), -1);
        assert_has(kept_error(), ".part-0000");
        assert_has(kept_error(), "free some space");
        output_discard(&folder, &set);
        ck_assert(!exists(".part-00003." RUN ".tmp"));
        start_again();
    }
    ck_assert_int_eq(write_all(), 0);
}

TEST(a_disk_that_is_full_at_close_is_an_error)
{
    for (unsigned n = 1; n <= 3; n++) {
        close_fault = (fault_t){n, 0, ENOSPC};
        ck_assert_int_eq(write_all(), -1);
        assert_has(kept_error(), "free some space");
        start_again();
    }
}

TEST(a_file_that_cannot_be_created_is_an_error)
{
    for (unsigned n = 1; n <= 3; n++) {
        openat_fault = (fault_t){n, 0, EACCES};
        ck_assert_int_eq(write_all(), -1);
        assert_has(kept_error(), "cannot create");
        openat_fault.at = 0;
        start_again();
    }
    ck_assert_int_eq(write_all(), 0);
}

TEST(a_failed_commit_renames_no_file)
{
    for (unsigned n = 1; n <= 3; n++) {
        ck_assert_int_eq(write_all(), 0);
        linkat_fault = (fault_t){n, 0, EIO};
        ck_assert_int_eq(output_commit(&folder, &set), -1);
        ck_assert(!exists("part-00001"));
        ck_assert(!exists("part-00003"));
        ck_assert(exists(".part-00001." RUN ".tmp"));
        start_again();
    }
}

/* With hard links, and without. */
TEST_EACH(a_commit_does_not_replace_another_file, 2)
{
    links_are_unknown = _i == 1;
    ck_assert_int_eq(write_all(), 0);
    put("part-00003", "another's");
    ck_assert_int_eq(output_commit(&folder, &set), -1);
    assert_has(kept_error(), "part-00003");
    ck_assert(!exists("part-00001"));
    output_discard(&folder, &set);
    ck_assert(!exists(".part-00001." RUN ".tmp"));
    ck_assert(!exists(".part-00003." RUN ".tmp"));
    ck_assert(contains("part-00003", "another's"));
    unlinkat(folder.fd, "part-00003", 0);
}

TEST(discard_removes_committed_but_unsettled_files)
{
    ck_assert_int_eq(write_all(), 0);
    ck_assert_int_eq(output_commit(&folder, &set), 0);
    output_discard(&folder, &set);
    ck_assert(!exists("part-00003"));
    ck_assert(!exists(".part-00003." RUN ".tmp"));
}

TEST_EACH(withdrawn_files_have_only_their_temporary_name, 2)
{
    links_are_unknown = _i == 1;
    ck_assert_int_eq(write_all(), 0);
    ck_assert_int_eq(output_commit(&folder, &set), 0);
    output_withdraw(&folder, &set);
    ck_assert(!exists("part-00003"));
    ck_assert(contains(".part-00003." RUN ".tmp", "three\ndrei\n"));
}

TEST(settled_files_stay)
{
    ck_assert_int_eq(write_all(), 0);
    ck_assert_int_eq(output_commit(&folder, &set), 0);
    output_settle(&folder, &set);
    ck_assert(!exists(".part-00003." RUN ".tmp"));
    output_discard(&folder, &set);
    ck_assert(contains("part-00003", "three\ndrei\n"));
    for (unsigned i = 1; i <= 5; i += 2) {
        char name[16];

        snprintf(name, sizeof(name), "part-0000%u", i);
        ck_assert_int_eq(unlinkat(folder.fd, name, 0), 0);
    }
}

TEST(a_foreign_writer_is_detected)
{
    int fd;

    ck_assert_int_eq(output_init(&output, &folder, &set), 0);
    ck_assert_int_eq(output_append(&output, 3, "three\n", 6), 0);
    fd = __real_openat(folder.fd, ".part-00003." RUN ".tmp",
                       O_WRONLY | O_APPEND);
    ck_assert_int_eq(write(fd, "a foreign line\n", 15), 15);
    __real_close(fd);
    ck_assert_int_eq(output_finish(&output), -1);
    output_cleanup(&output);
}

static char pieces[500000];

/* Append `length` bytes to partition 3, in pieces of `size` bytes. */
static void append_pieces(size_t length, size_t size)
{
    size_t piece;
    int    result = 0;

    for (size_t i = 0; i < sizeof(pieces); i++) {
        pieces[i] = (char)(i * 31 % 251);
    }
    for (size_t done = 0; (done < size) && (result == 0); done += piece) {
        piece  = size - done < length ? size - done : length;
        result = output_append(&output, 3, pieces + done, piece);
    }
    ck_assert_int_eq(result, 0);
}

static void expect_pieces(size_t size)
{
    static char data[sizeof(pieces) + 1];
    int fd = __real_openat(folder.fd, ".part-00003." RUN ".tmp", O_RDONLY);

    ck_assert_int_eq(read(fd, data, sizeof(data)), (ssize_t)size);
    ck_assert_int_eq(memcmp(data, pieces, size), 0);
    __real_close(fd);
}

TEST(pieces_of_any_length_come_out_in_their_order)
{
    static const size_t lengths[] = {1,     7,     4095,  4096,  30000,
                                     65535, 65536, 65537, 200000};

    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        ck_assert_int_eq(output_init(&output, &folder, &set), 0);
        append_pieces(lengths[i], sizeof(pieces));
        ck_assert_int_eq(output_finish(&output), 0);
        output_cleanup(&output);
        expect_pieces(sizeof(pieces));
        start_again();
    }
}

TEST(small_pieces_are_written_together)
{
    ck_assert_int_eq(output_init(&output, &folder, &set), 0);
    num_pwrites = 0;
    append_pieces(100, sizeof(pieces));
    ck_assert_int_eq(output_finish(&output), 0);
    ck_assert_uint_le(num_pwrites, sizeof(pieces) / output.buffer_size + 1);
    output_cleanup(&output);
}

TEST(the_buffers_of_many_partitions_are_bounded_in_total)
{
    for (uint32_t num = 1; num <= OUTPUT_MAX_PARTITIONS; num *= 10) {
        const output_set_t none = {num, 1, num};

        ck_assert_int_eq(output_init(&output, &folder, &none), 0);
        ck_assert_uint_ge(output.buffer_size, 512);
        ck_assert_uint_le(output.buffer_size * num, 64 << 20);
        output_cleanup(&output);
    }
}

TEST(beyond_the_limit_of_open_files_each_write_opens)
{
    files_are_few = true;
    ck_assert_int_eq(output_init(&output, &folder, &set), 0);
    ck_assert_uint_eq(output.num_kept, 0);
    num_openats = 0;
    append_pieces(70000, 210000);
    ck_assert_uint_ge(num_openats, 3);
    ck_assert_int_eq(output_finish(&output), 0);
    output_cleanup(&output);
    expect_pieces(210000);
}

TEST(a_file_that_cannot_be_opened_again_is_an_error)
{
    files_are_few = true;
    /* 3 calls create files. Then 2 are written to and 3 are checked, one at a
     * time. */
    for (unsigned n = 4; n <= 8; n++) {
        openat_fault = (fault_t){n, 0, EACCES};
        ck_assert_int_eq(write_all(), -1);
        assert_has(kept_error(), "cannot open");
        openat_fault.at = 0;
        start_again();
    }
    ck_assert_int_eq(write_all(), 0);
}

TEST(a_nonempty_folder_is_rejected)
{
    output_folder_t other;

    put("something", "");
    ck_assert_int_eq(output_folder_open(&other, path, run), -1);
    assert_has(kept_error(), "not empty");
    unlinkat(folder.fd, "something", 0);
}

TEST(a_folder_that_cannot_be_created_is_rejected)
{
    output_folder_t other;

    ck_assert_int_eq(output_folder_open(&other, "no/such/folder", run), -1);
    ck_assert_int_eq(output_folder_open(&other, "/dev/null", run), -1);
}

TEST(a_discarded_folder_is_removed_if_it_is_empty)
{
    put("of another process", "");
    output_discard(&folder, &set);
    output_folder_close(&folder);
    ck_assert_int_eq(access(path, F_OK), 0);
    folder.fd = open(path, O_RDONLY | O_DIRECTORY);
    unlinkat(folder.fd, "of another process", 0);
    output_folder_close(&folder);
    ck_assert_int_ne(access(path, F_OK), 0);
    setup();
}

TEST(files_of_the_same_run_may_be_in_the_folder)
{
    output_folder_t rank;

    ck_assert_int_eq(write_all(), 0);
    ck_assert_int_eq(output_folder_open(&rank, path, run), 0);
    ck_assert(!rank.created);
    output_folder_close(&rank);
    ck_assert_int_eq(output_folder_open(&rank, path, run + 1), -1);
    assert_has(kept_error(), "not empty");
}

TEST(a_discarded_folder_that_existed_before_stays)
{
    output_folder_close(&folder);
    ck_assert_int_eq(output_folder_open(&folder, path, run), 0);
    output_discard(&folder, &set);
    output_folder_close(&folder);
    ck_assert_int_eq(access(path, F_OK), 0);
    setup();
}
