/* Which worker is told to be the cause, whatever comes of its failure. */
#include "tools/shuffle/worker_group.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define NUM_WORKERS 4

static job_t          job;
static worker_group_t group;

/* In place of a worker: what it is told to say, it says. */
static void echo(int socket)
{
    struct rlimit none = {0, 0};
    char          word;

    setrlimit(RLIMIT_CORE, &none);
    while (recv(socket, &word, 1, 0) == 1) {
        send(socket, &word, 1, MSG_NOSIGNAL);
    }
    _exit(0);
}

static void start(unsigned index)
{
    int   sockets[2];
    pid_t pid;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        close(sockets[0]);
        echo(sockets[1]);
    }
    close(sockets[1]);
    group.members[index].pid    = pid;
    group.members[index].socket = sockets[0];
    group.num_alive++;
}

static void setup(void)
{
    job.num_workers = NUM_WORKERS;
    ck_assert_int_eq(group_init(&group, &job), 0);
    for (unsigned i = 0; i < NUM_WORKERS; i++) {
        start(i);
    }
}

/* All others end as they do in the end of every run that fails. */
static void teardown(void)
{
    group_kill(&group);
    for (unsigned i = 0; i < NUM_WORKERS; i++) {
        if (group.members[i].socket >= 0) {
            while (group_hear(&group, i) != 0) {
            }
        }
    }
    ck_assert_uint_eq(group.num_alive, 0);
    group_cleanup(&group);
}

static void reports_error(unsigned index, const char *text)
{
    char word = SHARED_FAILED;

    strcpy(group.shared[index].error, text);
    ck_assert_int_eq(send(group.members[index].socket, &word, 1, 0), 1);
    ck_assert_int_eq(group_hear(&group, index), SHARED_FAILED);
}

static void loses(unsigned index, const char *text)
{
    group.shared[index].is_consequence = true;
    reports_error(index, text);
}

static void dies(unsigned index, int signal_number)
{
    ck_assert_int_eq(kill(group.members[index].pid, signal_number), 0);
    ck_assert_int_eq(group_hear(&group, index), 0);
}

static void assert_cause(const char *text)
{
    ck_assert_int_eq(group_say_error(&group), -1);
    ck_assert_msg(strstr(error_text(), text) != NULL, "%s", error_text());
}

START_TEST(the_first_error_is_told)
{
    reports_error(2, "the first");
    reports_error(0, "the second");
    assert_cause("the first");
}
END_TEST

START_TEST(an_error_is_told_whoever_dies_of_it)
{
    reports_error(2, "no field 2");
    group.is_ending = true;
    dies(0, SIGABRT);
    dies(1, SIGKILL);
    loses(3, "lost worker 2");
    assert_cause("no field 2");
}
END_TEST

START_TEST(an_error_comes_before_one_who_lost_its_peer)
{
    loses(0, "lost worker 2");
    reports_error(2, "no field 2");
    assert_cause("no field 2");
}
END_TEST

START_TEST(a_killed_worker_is_told_though_its_end_is_heard_last)
{
    loses(0, "lost worker 2");
    dies(1, SIGABRT);
    group.is_ending = true;
    reports_error(3, "something else");
    dies(2, SIGKILL);
    assert_cause("worker 2 (process");
    assert_cause("killed by signal 9");
    ck_assert(group_was_slain(&group, 2));
    ck_assert(!group_was_slain(&group, 1));
}
END_TEST

START_TEST(a_worker_that_aborted_comes_before_those_that_lost_it)
{
    loses(0, "lost worker 2");
    group.is_ending = true;
    dies(2, SIGABRT);
    assert_cause("killed by signal 6");
}
END_TEST

START_TEST(of_two_that_died_by_themselves_the_first_is_told)
{
    dies(3, SIGABRT);
    dies(1, SIGUSR1);
    assert_cause("killed by signal 6");
}
END_TEST

START_TEST(one_that_lost_its_peer_is_told_where_nothing_else_is_known)
{
    loses(1, "lost worker 2");
    loses(0, "lost worker 1");
    assert_cause("lost worker 2");
}
END_TEST

START_TEST(those_that_were_killed_in_the_end_are_not_told)
{
    loses(3, "lost worker 2");
    group_kill(&group);
    for (unsigned i = 0; i < NUM_WORKERS; i++) {
        ck_assert_int_eq(group_hear(&group, i), 0);
        ck_assert(!group_was_slain(&group, i));
    }
    assert_cause("lost worker 2");
}
END_TEST

START_TEST(the_workers_are_parked_when_all_that_live_have_failed)
{
    reports_error(0, "no field 2");
    dies(1, SIGABRT);
    ck_assert(!group_is_parked(&group));
    loses(2, "told to end");
    ck_assert(!group_is_parked(&group));
    loses(3, "told to end");
    ck_assert(group_is_parked(&group));
}
END_TEST

int main(void)
{
    Suite   *suite  = suite_create("shuffle_group");
    TCase   *tcase  = tcase_create("cause");
    SRunner *runner = srunner_create(suite);
    int      failed;

    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, the_first_error_is_told);
    tcase_add_test(tcase, an_error_is_told_whoever_dies_of_it);
    tcase_add_test(tcase, an_error_comes_before_one_who_lost_its_peer);
    tcase_add_test(tcase, a_killed_worker_is_told_though_its_end_is_heard_last);
    tcase_add_test(tcase,
                   a_worker_that_aborted_comes_before_those_that_lost_it);
    tcase_add_test(tcase, of_two_that_died_by_themselves_the_first_is_told);
    tcase_add_test(tcase,
                   one_that_lost_its_peer_is_told_where_nothing_else_is_known);
    tcase_add_test(tcase, those_that_were_killed_in_the_end_are_not_told);
    tcase_add_test(tcase,
                   the_workers_are_parked_when_all_that_live_have_failed);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
