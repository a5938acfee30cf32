/* The log of a heap's calls. */
#include <config.h>

#include "heap/log.h"
#include "test.h"
#include "replace.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NUM_THREADS 4
#define NUM_LINES   2000

static char dir[] = "/tmp/test_heap_log.XXXXXX";
static char path[64];

/* The n-th write from now (1: the next) fails with a full disk; 0: none. */
static unsigned full_at;

/* The next write writes only this many bytes; 0: all. */
static size_t short_size;

REPLACE(ssize_t, write, int fd, const void *bytes, size_t size)
{
    if ((full_at != 0) && (--full_at == 0)) {
        errno = ENOSPC;
        return -1;
    }
    if (short_size != 0) {
        size       = short_size;
        short_size = 0;
    }
    return __real_write(fd, bytes, size);
}

/* The text of the file of that name in the directory. */
static char *text_of(const char *name)
{
    static char text[NUM_THREADS * NUM_LINES * 100];
    char        where[96];
    size_t      length;
    FILE       *file;

    snprintf(where, sizeof(where), "%s/%s", dir, name);
    file = fopen(where, "r");
    ck_assert_ptr_nonnull(file);
    length       = fread(text, 1, sizeof(text) - 1, file);
    text[length] = '\0';
    fclose(file);
    return text;
}

static void start(void)
{
    strcpy(dir + sizeof(dir) - 7, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/log", dir);
}

static void stop(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static heap_log_t *begin(void)
{
    heap_log_t *log = NULL;

    assert_ok(heap_log_create(path, &log));
    return log;
}

TEST_SETTINGS(.setup = start, .teardown = stop);

TEST(lines_have_the_format_of_rmm)
{
    heap_log_t *log = begin();
    char        expected[160];
    char       *line;
    int         hour, minute, second, micro, end;

    heap_log_write(log, HEAP_LOG_ALLOC, (void *)0x7f00abcd00, 1048576, NULL);
    heap_log_write(log, HEAP_LOG_FREE, (void *)0x7f00abcd00, 1048576,
                   (void *)0x2a);
    heap_log_write(log, HEAP_LOG_FAILURE, NULL, SIZE_MAX, (void *)0x2a);
    heap_log_destroy(log);

    line = strtok(text_of("log"), "\n");
    ck_assert_str_eq(line, "Thread,Time,Action,Pointer,Size,Stream");
    line = strtok(NULL, "\n");
    snprintf(expected, sizeof(expected), "%d,%%2d:%%2d:%%2d.%%6d%%n",
             (int)gettid());
    ck_assert_int_eq(
        sscanf(line, expected, &hour, &minute, &second, &micro, &end), 4);
    ck_assert_str_eq(line + end, ",allocate,0x7f00abcd00,1048576,0");
    line = strtok(NULL, "\n");
    ck_assert_str_eq(strstr(line, ",free"), ",free,0x7f00abcd00,1048576,0x2a");
    line = strtok(NULL, "\n");
    ck_assert_str_eq(strstr(line, ",alloc"),
                     ",allocate failure,(nil),18446744073709551615,0x2a");
    ck_assert_ptr_null(strtok(NULL, "\n"));
}

TEST(log_truncates_its_file)
{
    heap_log_destroy(begin());
    heap_log_destroy(begin());
    ck_assert_str_eq(text_of("log"),
                     "Thread,Time,Action,Pointer,Size,Stream\n");
}

TEST(two_logs_with_one_path_use_two_files)
{
    heap_log_t *first  = begin();
    heap_log_t *second = begin();

    heap_log_write(first, HEAP_LOG_ALLOC, (void *)0x100, 1, NULL);
    heap_log_write(second, HEAP_LOG_ALLOC, (void *)0x200, 2, NULL);
    heap_log_destroy(first);
    heap_log_destroy(second);
    assert_has(text_of("log"), ",0x100,1,0\n");
    assert_has(text_of("log.1"), ",0x200,2,0\n");
}

TEST(failed_open_is_reported)
{
    heap_log_t *log = NULL;

    snprintf(path, sizeof(path), "%s/none/log", dir);
    assert_error_detail(heap_log_create(path, &log), INVALID_PARAM,
                        "No such file");
    ck_assert_ptr_null(log);
}

TEST(path_that_is_too_long_is_reported)
{
    heap_log_t *log = NULL;
    static char longest[8192];

    memset(longest, 'a', sizeof(longest) - 1);
    assert_error(heap_log_create(longest, &log), INVALID_PARAM);
    ck_assert_ptr_null(log);
}

TEST(without_a_log_nothing_is_written)
{
    heap_log_write(NULL, HEAP_LOG_ALLOC, (void *)0x100, 1, NULL);
    heap_log_destroy(NULL);
}

TEST(full_disk_ends_only_the_log)
{
    heap_log_t *log = begin();

    full_at = 1;
    for (unsigned i = 0; i < NUM_LINES; i++) {
        heap_log_write(log, HEAP_LOG_ALLOC, (void *)0x100, i, NULL);
    }
    heap_log_destroy(log);
    ck_assert_str_eq(text_of("log"),
                     "Thread,Time,Action,Pointer,Size,Stream\n");
}

TEST(a_line_is_in_the_file_before_the_next_call)
{
    heap_log_t *log = begin();

    heap_log_write(log, HEAP_LOG_ALLOC, (void *)0x100, 1, NULL);
    assert_has(text_of("log"), ",0x100,1,0\n");
    heap_log_destroy(log);
}

TEST(the_rest_of_a_line_is_written_after_a_short_write)
{
    heap_log_t *log = begin();

    short_size = 10;
    heap_log_write(log, HEAP_LOG_ALLOC, (void *)0x100, 1, NULL);
    heap_log_write(log, HEAP_LOG_ALLOC, (void *)0x200, 2, NULL);
    heap_log_destroy(log);
    assert_has(text_of("log"), ",0x100,1,0\n");
    assert_has(text_of("log"), ",0x200,2,0\n");
}

static void *write_lines(void *log)
{
    for (size_t i = 0; i < NUM_LINES; i++) {
        heap_log_write(log, HEAP_LOG_ALLOC, &full_at, i, log);
    }
    return NULL;
}

TEST(lines_of_threads_are_not_interleaved)
{
    heap_log_t *log       = begin();
    unsigned    num_lines = 0;
    char        tail[64];

    for (unsigned i = 0; i < NUM_THREADS; i++) {
        test_thread(write_lines, log);
    }
    test_join(NUM_THREADS);
    snprintf(tail, sizeof(tail), ",%p", (void *)log);
    heap_log_destroy(log);
    strtok(text_of("log"), "\n");
    for (char *line = strtok(NULL, "\n"); line != NULL;
         line       = strtok(NULL, "\n")) {
        assert_has(line, ",allocate,0x");
        ck_assert_str_eq(line + strlen(line) - strlen(tail), tail);
        num_lines++;
    }
    ck_assert_uint_eq(num_lines, NUM_THREADS * NUM_LINES);
}
