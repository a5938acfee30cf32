/* The lock on an output folder, with live runs and with runs that were
 * killed. */
#include "tools/shuffle/output.h"

#include "common/error.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CLAIM ".ucxpool_shuffle.claim"

static const uint64_t one   = 0x1111;
static const uint64_t other = 0x2222;

static char path[64];

static void setup(void)
{
    snprintf(path, sizeof(path), "claim-%ld", (long)getpid());
    ck_assert_int_eq(mkdir(path, 0777), 0);
}

static const char *in_folder(const char *name)
{
    static char text[128];

    snprintf(text, sizeof(text), "%s/%s", path, name);
    return text;
}

static void teardown(void)
{
    unlink(in_folder("something"));
    unlink(in_folder(CLAIM));
    rmdir(path);
}

static bool is_empty(void)
{
    return (rmdir(path) == 0) && (mkdir(path, 0777) == 0);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .timeout = 60);

TEST(the_error_for_a_second_run_names_the_first_process)
{
    output_folder_t first;
    output_folder_t second;
    char            process[32];

    ck_assert_int_eq(output_folder_open(&first, path, one), 0);
    ck_assert_int_eq(output_folder_open(&second, path, other), -1);
    snprintf(process, sizeof(process), "(process %ld on ", (long)getpid());
    ck_assert_ptr_nonnull(strstr(kept_error(), process));
    ck_assert_ptr_nonnull(strstr(kept_error(), "another folder with -o"));
    output_folder_close(&first);
}

TEST(processes_of_a_run_share_a_claim)
{
    output_folder_t folders[3];
    output_folder_t late;

    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(output_folder_open(&folders[i], path, one), 0);
    }
    output_folder_close(&folders[0]);
    output_folder_close(&folders[2]);
    ck_assert_int_eq(output_folder_open(&late, path, other), -1);
    output_folder_close(&folders[1]);
    ck_assert(is_empty());
}

TEST(the_claim_of_a_killed_run_can_be_taken_over)
{
    output_folder_t folder;
    int             status;
    pid_t           child = fork();

    if (child == 0) {
        output_folder_open(&folder, path, one);
        raise(SIGKILL);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status));
    ck_assert_int_eq(access(in_folder(CLAIM), F_OK), 0);
    ck_assert_int_eq(output_folder_open(&folder, path, other), 0);
    output_folder_close(&folder);
}

TEST(a_nonempty_folder_cannot_be_claimed)
{
    output_folder_t folder;
    int             fd = open(in_folder("something"), O_CREAT | O_WRONLY, 0666);

    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_int_eq(output_folder_open(&folder, path, one), -1);
    ck_assert_ptr_nonnull(strstr(kept_error(), "it holds 'something'"));
    ck_assert_int_ne(access(in_folder(CLAIM), F_OK), 0);
}

/* All processes start each round at the same time. The process with the claim
 * creates a file with O_EXCL, which fails if another process has the claim as
 * well. */
static int contend(const int start[2])
{
    output_folder_t folder;
    uint64_t        run;
    char            byte;
    int             fd;
    int             code = 0;

    close(start[1]);
    if ((getrandom(&run, sizeof(run), 0) != (ssize_t)sizeof(run)) ||
        (read(start[0], &byte, 1) != 0)) {
        return 2;
    }
    if (output_folder_open(&folder, path, run) != 0) {
        return 0;
    }
    fd = open(in_folder("something"), O_CREAT | O_EXCL | O_WRONLY, 0666);
    if (fd < 0) {
        return 2;
    }
    code = unlink(in_folder("something")) == 0 ? 1 : 2;
    output_folder_close(&folder);
    return code;
}

TEST_EACH(at_most_one_of_several_simultaneous_runs_gets_the_claim, 20)
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
