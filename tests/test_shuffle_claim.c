/* The claim on an output folder, between runs that live and runs that died. */
#include "tools/shuffle/claim.h"
#include "tools/shuffle/error.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const claim_id_t one   = "11111111111111111111111111111111";
static const claim_id_t other = "22222222222222222222222222222222";

static char path[64];
static int  folder;

static void setup(void)
{
    snprintf(path, sizeof(path), "claim-%ld", (long)getpid());
    ck_assert_int_eq(mkdir(path, 0777), 0);
    folder = open(path, O_RDONLY | O_DIRECTORY);
    ck_assert_int_ge(folder, 0);
}

static void teardown(void)
{
    unlinkat(folder, "something", 0);
    unlinkat(folder, ".ucxpool_shuffle.claim", 0);
    close(folder);
    rmdir(path);
}

static bool is_empty(void)
{
    return (rmdir(path) == 0) && (mkdir(path, 0777) == 0);
}

static int take(claim_t *claim, const claim_id_t id)
{
    return claim_take(claim, folder, path, id, false);
}

START_TEST(another_run_is_refused_and_told_by_whom)
{
    claim_t first;
    claim_t second;
    char    process[32];

    ck_assert_int_eq(take(&first, one), 0);
    ck_assert_int_eq(take(&second, other), -1);
    snprintf(process, sizeof(process), "(process %ld on ", (long)getpid());
    ck_assert_ptr_nonnull(strstr(error_text(), process));
    ck_assert_ptr_nonnull(strstr(error_text(), "another folder with -o"));
    claim_drop(&first, folder);
}
END_TEST

START_TEST(processes_of_a_run_share_a_claim)
{
    claim_t claims[3];
    claim_t late;

    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(take(&claims[i], one), 0);
    }
    claim_drop(&claims[0], folder);
    claim_drop(&claims[2], folder);
    ck_assert_int_eq(take(&late, other), -1);
    claim_drop(&claims[1], folder);
    ck_assert(is_empty());
}
END_TEST

START_TEST(the_last_of_a_run_that_created_the_folder_is_told)
{
    claim_t first;
    claim_t second;

    ck_assert_int_eq(take(&first, one), 0);
    ck_assert_int_eq(claim_take(&second, folder, path, one, true), 0);
    ck_assert(!claim_drop(&second, folder));
    ck_assert(claim_drop(&first, folder));
    ck_assert(!claim_drop(&first, folder));
}
END_TEST

START_TEST(the_claim_of_a_killed_run_is_taken_over)
{
    claim_t claim;
    int     status;
    pid_t   child = fork();

    if (child == 0) {
        take(&claim, one);
        raise(SIGKILL);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(faccessat(folder, ".ucxpool_shuffle.claim", F_OK, 0), 0);
    ck_assert_int_eq(take(&claim, other), 0);
    claim_drop(&claim, folder);
}
END_TEST

START_TEST(a_folder_with_something_in_it_cannot_be_claimed)
{
    claim_t claim;
    int     fd = openat(folder, "something", O_CREAT | O_WRONLY, 0666);

    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(take(&claim, one), -1);
    ck_assert_ptr_nonnull(strstr(error_text(), "it holds 'something'"));
    ck_assert_int_ne(faccessat(folder, ".ucxpool_shuffle.claim", F_OK, 0), 0);
}
END_TEST

START_TEST(a_folder_that_was_removed_is_told_apart)
{
    claim_t claim;

    ck_assert_int_eq(rmdir(path), 0);
    ck_assert_int_eq(take(&claim, one), 1);
    ck_assert_int_eq(mkdir(path, 0777), 0);
}
END_TEST

/* In each round all start at once, and who gets the claim must be the only one:
 * a file that is created exclusively tells. */
static int contend(const int start[2])
{
    claim_t    claim;
    claim_id_t id;
    char       byte;
    int        fd;
    int        code = 0;

    close(start[1]);
    if ((claim_id_make(id) != 0) || (read(start[0], &byte, 1) != 0)) {
        return 2;
    }
    if (take(&claim, id) != 0) {
        return 0;
    }
    fd = openat(folder, "something", O_CREAT | O_EXCL | O_WRONLY, 0666);
    if (fd < 0) {
        return 2;
    }
    code = unlinkat(folder, "something", 0) == 0 ? 1 : 2;
    claim_drop(&claim, folder);
    return code;
}

START_TEST(of_runs_that_start_together_no_two_have_the_claim)
{
    int start[2];
    int status;
    int num_done = 0;

    ck_assert_int_eq(pipe(start), 0);
    for (unsigned i = 0; i < 8; i++) {
        if (fork() == 0) {
            _exit(contend(start));
        }
    }
    close(start[0]);
    close(start[1]);
    while (wait(&status) > 0) {
        ck_assert(WIFEXITED(status));
        ck_assert_int_lt(WEXITSTATUS(status), 2);
        num_done += WEXITSTATUS(status);
    }
    ck_assert_int_ge(num_done, 1);
    ck_assert(is_empty());
}
END_TEST

START_TEST(ids_differ)
{
    claim_id_t first;
    claim_id_t second;

    ck_assert_int_eq(claim_id_make(first), 0);
    ck_assert_int_eq(claim_id_make(second), 0);
    ck_assert_uint_eq(strlen(first), sizeof(first) - 1);
    ck_assert_str_ne(first, second);
}
END_TEST

int main(void)
{
    Suite   *suite = suite_create("shuffle claim");
    TCase   *tcase = tcase_create("claim");
    SRunner *runner;
    int      num_failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, another_run_is_refused_and_told_by_whom);
    tcase_add_test(tcase, processes_of_a_run_share_a_claim);
    tcase_add_test(tcase, the_last_of_a_run_that_created_the_folder_is_told);
    tcase_add_test(tcase, the_claim_of_a_killed_run_is_taken_over);
    tcase_add_test(tcase, a_folder_with_something_in_it_cannot_be_claimed);
    tcase_add_test(tcase, a_folder_that_was_removed_is_told_apart);
    tcase_add_loop_test(
        tcase, of_runs_that_start_together_no_two_have_the_claim, 0, 20);
    tcase_add_test(tcase, ids_differ);
    suite_add_tcase(suite, tcase);
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    num_failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return num_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
