/* Result files of a tool. */
#include "common/result_file.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char          folder[] = "/tmp/result-file-XXXXXX";
static int           errors;     /* the saved standard error */
static char          said[4096]; /* messages of the last call */
static result_file_t files[2];

static void setup(void)
{
    int ends[2];

    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
    errors   = ends[0];
    files[0] = (result_file_t){.option = "--one", .suffixes = ".csv"};
    files[1] = (result_file_t){.option = "--two", .suffixes = ".svg or .png"};
}

static void teardown(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -r %s", folder);
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(system(command), 0);
}

static void put(const char *path, const char *text)
{
    FILE *stream = fopen(path, "w");

    ck_assert_ptr_nonnull(stream);
    fputs(text, stream);
    fclose(stream);
}

static bool holds(const char *path, const char *text)
{
    char  data[64] = {0};
    FILE *stream   = fopen(path, "r");

    if (stream == NULL) {
        return false;
    }
    ck_assert_uint_lt(fread(data, 1, sizeof(data) - 1, stream), sizeof(data));
    fclose(stream);
    return strcmp(data, text) == 0;
}

static bool exists(const char *path)
{
    return access(path, F_OK) == 0;
}

static void read_error(void)
{
    ssize_t length = read(errors, said, sizeof(said) - 1);

    said[length > 0 ? length : 0] = '\0';
}

static int try_them(const char *one, const char *two, const char *other)
{
    const result_other_t others[] = {{"what is read", other}};
    int                  code;

    files[0].path = one;
    files[1].path = two;
    code          = result_files_try(files, 2, others, 1);
    read_error();
    return code;
}

static int print_text(const void *text, FILE *stream)
{
    fputs(text, stream);
    return 0;
}

static int print_half(const void *text, FILE *stream)
{
    fputs(text, stream);
    return -1;
}

static int write_one(const char *text,
                     int (*print)(const void *text, FILE *stream))
{
    int code;

    files[0].is_asked = true;
    code              = result_file_write(&files[0], print, text, stdout);
    read_error();
    return code;
}

TEST_SETTINGS(.setup = setup, .teardown = teardown);

TEST(a_trial_leaves_no_trace)
{
    put("old.csv", "old");
    ck_assert_int_eq(try_them("old.csv", "new.svg", NULL), -1);
    ck_assert(holds("old.csv", "old"));
    ck_assert(!exists("new.svg"));
}

TEST(new_content_replaces_the_old)
{
    put("old.csv", "a long old text");
    ck_assert_int_eq(try_them("old.csv", NULL, NULL), -1);
    ck_assert_int_eq(write_one("new", print_text), 0);
    ck_assert(holds("old.csv", "new"));
}

TEST(an_input_file_is_rejected_as_output_by_any_name)
{
    const char *names[] = {"read.csv", "./read.csv", "soft.csv", "hard.csv"};

    put("read.csv", "a log");
    ck_assert_int_eq(symlink("read.csv", "soft.csv"), 0);
    ck_assert_int_eq(link("read.csv", "hard.csv"), 0);
    for (unsigned i = 0; i < 4; i++) {
        ck_assert_int_eq(try_them(names[i], NULL, "read.csv"), 2);
        ck_assert_ptr_nonnull(strstr(said, "this is what is read"));
    }
    ck_assert(holds("read.csv", "a log"));
}

TEST(two_options_cannot_name_the_same_file)
{
    ck_assert_int_eq(symlink("new", "soft"), 0);
    ck_assert_int_eq(try_them("new", "./new", NULL), 2);
    ck_assert_ptr_nonnull(strstr(said, "--two ./new: this is the file of"));
    ck_assert_int_eq(try_them("new", "soft", NULL), 2);
    ck_assert(!exists("new"));
}

TEST(a_device_may_be_named_twice)
{
    ck_assert_int_eq(try_them("/dev/null", "/dev/null", "/dev/null"), -1);
}

TEST(a_file_name_with_another_formats_suffix_is_rejected)
{
    ck_assert_int_eq(try_them("a.json", NULL, NULL), 2);
    ck_assert_ptr_nonnull(strstr(said, "ends in .csv"));
    ck_assert_int_eq(try_them(NULL, "a.pdf", NULL), 2);
    ck_assert_int_eq(try_them("a.CSV", "a.Png", NULL), -1);
    ck_assert_int_eq(try_them("a", "b.2026", NULL), -1);
}

TEST(the_trial_finds_unwritable_files)
{
    ck_assert_int_eq(try_them("no/such/folder.csv", NULL, NULL), 1);
    ck_assert_ptr_nonnull(strstr(said, "No such file"));
    ck_assert_int_eq(try_them(".", NULL, NULL), 1);
    ck_assert_ptr_nonnull(strstr(said, "Is a directory"));
}

TEST(a_failed_trial_leaves_nothing)
{
    ck_assert_int_eq(try_them("new.csv", "no/such.svg", NULL), 1);
    ck_assert(!exists("new.csv"));
}

TEST(a_full_disk_is_an_error_and_leaves_no_file)
{
    struct rlimit limit = {4, 4};

    ck_assert_int_eq(try_them("new.csv", NULL, NULL), -1);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(write_one("longer than that", print_text), -1);
    ck_assert_ptr_nonnull(strstr(said, "--one new.csv: File too large"));
    ck_assert(!exists("new.csv"));
}

TEST(a_full_device_is_an_error)
{
    ck_assert_int_eq(try_them("/dev/full", NULL, NULL), -1);
    ck_assert_int_eq(write_one("something", print_text), -1);
    ck_assert_ptr_nonnull(strstr(said, "free some space"));
}

TEST(an_incomplete_file_is_removed_and_a_link_to_it_kept)
{
    ck_assert_int_eq(symlink("new.csv", "soft.csv"), 0);
    ck_assert_int_eq(try_them("soft.csv", NULL, NULL), -1);
    ck_assert_int_eq(write_one("half", print_half), -1);
    ck_assert(!exists("new.csv"));
    ck_assert_int_eq(unlink("soft.csv"), 0);
}
