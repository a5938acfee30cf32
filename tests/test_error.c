/* The last error of a thread, and the log lines for errors. */
#include "caught.h"
#include "test.h"

#include "base/error.h"
#include "base/log.h"

#include <ucxpool/log.h>

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TEST_SETTINGS(.setup = caught_begin, .teardown = caught_end);

TEST(error_detail_is_empty_before_any_failure)
{
    ck_assert_str_eq(ucxpool_error_detail(), "");
}

TEST(error_returns_its_status_and_keeps_its_detail)
{
    assert_error(base_error(UCXPOOL_ERR_LIMIT, "%d of %s", 3, "them"), LIMIT);
    ck_assert_str_eq(ucxpool_error_detail(), "3 of them");
    base_error(UCXPOOL_ERR_IO, "later");
    ck_assert_str_eq(ucxpool_error_detail(), "later");
}

TEST(error_may_quote_the_previous_detail)
{
    base_error(UCXPOOL_ERR_IO, "inner");
    base_error(UCXPOOL_ERR_IO, "outer: %s", ucxpool_error_detail());
    ck_assert_str_eq(ucxpool_error_detail(), "outer: inner");
}

TEST(long_detail_is_truncated)
{
    char name[2 * BASE_ERROR_SIZE];

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';

    base_error(UCXPOOL_ERR_IO, "%s", name);
    ck_assert_uint_eq(strlen(ucxpool_error_detail()), BASE_ERROR_SIZE - 1);
    base_error_errno(ENOSPC, "%s", name);
    ck_assert_uint_eq(strlen(ucxpool_error_detail()), BASE_ERROR_SIZE - 1);
}

TEST(error_detail_is_one_line)
{
    base_error(UCXPOOL_ERR_REFUSED, "the peer says \"%s\"", "no\n\033[2Jno");
    ck_assert_str_eq(ucxpool_error_detail(), "the peer says \"no??[2Jno\"");
}

TEST(errno_is_reported_as_text)
{
    base_error_errno(ENOENT, "cannot open %s", "/x");
    ck_assert_str_eq(ucxpool_error_detail(),
                     "cannot open /x: No such file or directory");
}

TEST(too_many_open_files_are_reported_with_the_limit_to_raise)
{
    base_error_errno(EMFILE, "cannot open %s", "/x");
    ck_assert_str_eq(ucxpool_error_detail(),
                     "cannot open /x: Too many open files; raise the limit of "
                     "open files (ulimit -n)");
    base_error_errno(ENFILE, "x");
    assert_detail("raise fs.file-max");
}

TEST(errno_maps_to_a_status)
{
    static const struct {
        int              error;
        ucxpool_status_t status;
    } examples[] = {
        {ENOMEM, UCXPOOL_ERR_NO_MEMORY},
        {EACCES, UCXPOOL_ERR_PERMISSION},
        {EPERM, UCXPOOL_ERR_PERMISSION},
        {EADDRINUSE, UCXPOOL_ERR_ADDRESS_IN_USE},
        {ETIMEDOUT, UCXPOOL_ERR_TIMED_OUT},
        {ENOSYS, UCXPOOL_ERR_UNSUPPORTED},
        {ECONNREFUSED, UCXPOOL_ERR_PEER_LOST},
        {EPIPE, UCXPOOL_ERR_PEER_LOST},
        {EIO, UCXPOOL_ERR_IO},
        {0, UCXPOOL_ERR_IO},
    };

    for (size_t i = 0; i < sizeof(examples) / sizeof(examples[0]); i++) {
        ck_assert_int_eq(base_error_errno(examples[i].error, "x"),
                         examples[i].status);
    }
}

TEST(error_preserves_errno)
{
    errno = EBUSY;
    base_error(UCXPOOL_ERR_IO, "x");
    ck_assert_int_eq(errno, EBUSY);
    base_error_errno(ENOENT, "x");
    ck_assert_int_eq(errno, EBUSY);
}

static void *fail_in_thread(void *arg)
{
    bool *was_empty = arg;

    *was_empty = ucxpool_error_detail()[0] == '\0';
    base_error(UCXPOOL_ERR_IO, "of the other thread");
    return NULL;
}

TEST(each_thread_has_its_own_last_error)
{
    bool was_empty = false;

    base_error(UCXPOOL_ERR_IO, "mine");
    test_thread(fail_in_thread, &was_empty);
    test_join(1);
    ck_assert(was_empty);
    ck_assert_str_eq(ucxpool_error_detail(), "mine");
}

TEST(an_error_is_logged_at_info_as_one_line)
{
    char expected[64];

    base_error(UCXPOOL_ERR_IO, "it broke");
    base_error_errno(EIO, "and this, too");
    ck_assert_str_eq(caught_text(), "");
    base_log_set_level(BASE_LOG_INFO);
    base_error(UCXPOOL_ERR_IO, "it broke");
    snprintf(expected, sizeof(expected), "ucxpool[%d] INFO: it broke\n",
             (int)getpid());
    ck_assert_str_eq(caught_text(), expected);
}

TEST(unreturned_error_is_logged_as_a_warning)
{
    ck_assert_int_eq(base_error_log_at(BASE_LOG_WARN), BASE_LOG_INFO);
    base_error(UCXPOOL_ERR_IO, "it broke");
    assert_has(caught_text(), "WARN: it broke\n");
}

TEST(error_log_level_can_be_lowered)
{
    base_log_set_level(BASE_LOG_INFO);
    ck_assert_int_eq(base_error_log_at(BASE_LOG_DEBUG), BASE_LOG_INFO);
    base_error(UCXPOOL_ERR_IO, "it is not there");
    ck_assert_str_eq(caught_text(), "");
    ck_assert_str_eq(ucxpool_error_detail(), "it is not there");
    ck_assert_int_eq(base_error_log_at(BASE_LOG_INFO), BASE_LOG_DEBUG);
    base_error(UCXPOOL_ERR_IO, "it broke");
    assert_has(caught_text(), "INFO: it broke\n");
}

TEST(disabled_level_writes_nothing)
{
    base_log_set_level(BASE_LOG_ERROR);
    base_error_log_at(BASE_LOG_WARN);
    base_error(UCXPOOL_ERR_IO, "it broke");
    base_info("not this");
    base_log_set_level(BASE_LOG_NONE);
    base_log(BASE_LOG_ERROR, "nor this");
    ck_assert_str_eq(caught_text(), "");
    ck_assert_str_eq(ucxpool_error_detail(), "it broke");
}

TEST(disabled_level_does_not_evaluate_arguments)
{
    int evaluated = 0;

    base_debug("%d", ++evaluated);
    ck_assert_int_eq(evaluated, 0);
    base_log_set_level(BASE_LOG_DEBUG);
    ck_assert_int_eq(base_log_get_level(), BASE_LOG_DEBUG);
    base_debug("%d", ++evaluated);
    ck_assert_int_eq(evaluated, 1);
}

TEST(a_log_line_is_one_line_and_names_its_level)
{
    char expected[64];

    base_log(BASE_LOG_ERROR, "a\nb");
    snprintf(expected, sizeof(expected), "ucxpool[%d] ERROR: a?b\n",
             (int)getpid());
    ck_assert_str_eq(caught_text(), expected);
}

TEST(long_log_line_is_truncated_with_a_newline)
{
    char        name[4096];
    const char *line;

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';

    base_warn("%s", name);
    line = caught_text();
    ck_assert_uint_lt(strlen(line), 2000);
    ck_assert_ptr_eq(strchr(line, '\n'), line + strlen(line) - 1);
}

TEST(failed_log_write_is_harmless)
{
    close(STDERR_FILENO);
    errno = EBUSY;
    base_warn("lost");
    ck_assert_int_eq(errno, EBUSY);
}

typedef struct heard {
    _Atomic unsigned    count;
    ucxpool_log_level_t level;
    char                message[2000];
} heard_t;

static void hear(ucxpool_log_level_t level, const char *message, void *arg)
{
    heard_t *heard = arg;

    heard->level = level;
    snprintf(heard->message, sizeof(heard->message), "%s", message);
    errno = ENOENT;
    heard->count++;
}

TEST(handler_gets_messages_instead_of_stderr)
{
    heard_t heard = {0};

    assert_ok(ucxpool_log_set_handler(hear, &heard));
    errno = EBUSY;
    base_warn("it is %d\nhere", 5);
    ck_assert_int_eq(errno, EBUSY);
    ck_assert_uint_eq(heard.count, 1);
    ck_assert_int_eq(heard.level, UCXPOOL_LOG_WARN);
    ck_assert_str_eq(heard.message, "it is 5?here");
    base_warn("%2000s", "long");
    ck_assert_uint_eq(strlen(heard.message), 1023);
    ck_assert_str_eq(caught_text(), "");
}

TEST(removing_the_handler_restores_stderr)
{
    heard_t first  = {0};
    heard_t second = {0};

    assert_ok(ucxpool_log_set_handler(hear, &first));
    assert_ok(ucxpool_log_set_handler(hear, &second));
    base_warn("for the second");
    assert_ok(ucxpool_log_set_handler(NULL, NULL));
    base_warn("for all to see");
    ck_assert_uint_eq(first.count, 0);
    ck_assert_uint_eq(second.count, 1);
    assert_has(caught_text(), "WARN: for all to see\n");
}

TEST(handler_gets_messages_of_the_enabled_levels)
{
    heard_t heard = {0};

    assert_ok(ucxpool_log_set_handler(hear, &heard));
    base_info("not this");
    assert_ok(ucxpool_log_set_level(UCXPOOL_LOG_INFO));
    base_info("this");
    assert_ok(ucxpool_log_set_level(UCXPOOL_LOG_NONE));
    base_log(BASE_LOG_ERROR, "nor this");
    ck_assert_uint_eq(heard.count, 1);
    ck_assert_str_eq(heard.message, "this");
    assert_error(ucxpool_log_set_level(UCXPOOL_LOG_TRACE + 1), INVALID_PARAM);
    ck_assert_int_eq(base_log_get_level(), BASE_LOG_NONE);
}

static void count(ucxpool_log_level_t level, const char *message, void *arg)
{
    _Atomic unsigned *num = arg;

    ck_assert_int_eq(level, UCXPOOL_LOG_WARN);
    ck_assert_str_eq(message, "said");
    (*num)++;
}

#define NUM_SAID 10000

static void *say_in_thread(void *arg)
{
    for (int i = 0; i < NUM_SAID; i++) {
        base_warn("said");
    }
    return NULL;
}

TEST(each_message_reaches_one_handler_during_changes)
{
    _Atomic unsigned num[2] = {0, 0};

    assert_ok(ucxpool_log_set_handler(count, &num[0]));
    for (int i = 0; i < 2; i++) {
        test_thread(say_in_thread, NULL);
    }
    for (int i = 0; i < 100; i++) {
        assert_ok(ucxpool_log_set_handler(count, &num[i % 2]));
    }
    test_join(2);
    ck_assert_uint_eq(num[0] + num[1], 2 * NUM_SAID);
}
