/* Result files of a tool. */
#include "common/result_file.h"
#include "test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char          folder[] = "/tmp/result-file-XXXXXX";
static int           errors;     /* the saved standard error */
static char          said[4096]; /* messages of the last call */
static result_file_t file;

static void setup(void)
{
    int ends[2];

    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_eq(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
    errors = ends[0];
    file   = (result_file_t){.option = "--one"};
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

static int try_it(const char *path)
{
    int code;

    file.path = path;
    code      = result_file_try(&file);
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

    file.is_asked = true;
    code          = result_file_write(&file, print, text, stdout);
    read_error();
    return code;
}

TEST_SETTINGS(.setup = setup, .teardown = teardown);

TEST(a_trial_leaves_no_trace)
{
    put("old.csv", "old");
    ck_assert_int_eq(try_it("old.csv"), 0);
    ck_assert_int_eq(try_it("new.svg"), 0);
    ck_assert(holds("old.csv", "old"));
    ck_assert(!exists("new.svg"));
}

TEST(new_content_replaces_the_old)
{
    put("old.csv", "a long old text");
    ck_assert_int_eq(try_it("old.csv"), 0);
    ck_assert_int_eq(write_one("new", print_text), 0);
    ck_assert(holds("old.csv", "new"));
}

TEST(a_file_is_found_by_any_name)
{
    const char *names[] = {"read.csv", "./read.csv", "soft.csv", "hard.csv"};

    put("read.csv", "a log");
    ck_assert_int_eq(symlink("read.csv", "soft.csv"), 0);
    ck_assert_int_eq(link("read.csv", "hard.csv"), 0);
    for (unsigned i = 0; i < 4; i++) {
        file.path = names[i];
        ck_assert(result_file_is(&file, "read.csv"));
        ck_assert(!result_file_is(&file, NULL));
    }
    file.path = "/dev/null";
    ck_assert(!result_file_is(&file, "/dev/null"));
    ck_assert(holds("read.csv", "a log"));
}

TEST(the_trial_finds_unwritable_files)
{
    ck_assert_int_eq(try_it("no/such/folder.csv"), -1);
    ck_assert_ptr_nonnull(strstr(said, "No such file"));
    ck_assert_int_eq(try_it("."), -1);
    ck_assert_ptr_nonnull(strstr(said, "Is a directory"));
}

TEST(a_full_disk_is_an_error_and_leaves_no_file)
{
    struct rlimit limit = {4, 4};

    ck_assert_int_eq(try_it("new.csv"), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(write_one("longer than that", print_text), -1);
    ck_assert_ptr_nonnull(strstr(said, "--one new.csv: File too large"));
    ck_assert(!exists("new.csv"));
}

TEST(a_full_device_is_an_error)
{
    ck_assert_int_eq(try_it("/dev/full"), 0);
    ck_assert_int_eq(write_one("something", print_text), -1);
    ck_assert_ptr_nonnull(strstr(said, "free some space"));
}

TEST(an_incomplete_file_is_removed_and_a_link_is_kept)
{
    ck_assert_int_eq(try_it("new.csv"), 0);
    ck_assert_int_eq(write_one("half", print_half), -1);
    ck_assert(!exists("new.csv"));
    put("new.csv", "");
    ck_assert_int_eq(symlink("new.csv", "soft.csv"), 0);
    ck_assert_int_eq(try_it("soft.csv"), 0);
    ck_assert_int_eq(write_one("half", print_half), -1);
    ck_assert_int_eq(unlink("soft.csv"), 0);
}
