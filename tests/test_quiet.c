/* Errors are returned to the caller if there is one, and are otherwise logged
 * at the default level. */
#include "caught.h"
#include "pair.h"
#include "test.h"

#include <ucxpool/framework.h>
#include <ucxpool/ucxpool.h>

#include <stdlib.h>
#include <string.h>

static ucxpool_t *pool;

#define SIZES "COMM_SIZE=8m MEMORY_LIMIT=64m "

static void start(void)
{
    unsetenv("UCXPOOL_LOG_LEVEL");
    assert_ok(pair_try_pool(NULL, SIZES "HUGE_PAGES=n", &pool));
    caught_begin();
}

static void stop(void)
{
    caught_end();
    ucxpool_destroy(pool);
}

/* The failed call returns the error, and nothing is logged. */
static void assert_quiet(ucxpool_status_t status)
{
    ck_assert_int_lt(status, 0);
    ck_assert_str_ne(ucxpool_error_detail(), "");
    ck_assert_str_eq(caught_text(), "");
}

TEST_SETTINGS(.setup = start, .teardown = stop);

TEST(an_error_returned_to_the_caller_is_not_logged)
{
    ucxpool_t          *first = pool;
    ucxpool_listener_t *listener;
    ucxpool_channel_t  *channel;
    ucxpool_config_t   *config;
    void               *address;

    assert_quiet(pair_try_pool(NULL, SIZES "SEND_SHARE=90", &pool));
    pool = first;
    assert_ok(ucxpool_config_read(&config));
    assert_quiet(ucxpool_config_modify(config, "BLOCKSIZE", "4m"));
    ucxpool_config_release(config);
    assert_quiet(ucxpool_listener_create(pool, "0.0.0.0:0", &listener));
    assert_quiet(ucxpool_channel_connect(pool, "nowhere", NULL, &channel));
    assert_quiet(ucxpool_channel_create(pool, NULL, &channel));
    assert_quiet(ucxpool_comm_alloc(pool, 0, &address));
    assert_quiet(ucxpool_heap_alloc(pool, (size_t)1 << 40, NULL, &address));
    assert_quiet(ucxpool_heap_free(pool, &pool, NULL));
    assert_quiet(ucxpool_framework_set_pool(-5, pool));
}

/* The last log line is the expected warning. */
static void assert_reported(const char *words)
{
    const char *text = caught_text();

    ck_assert_msg((strstr(text, "WARN: ") != NULL) &&
                      (strstr(text, words) != NULL),
                  "no warning \"%s\" in \"%s\"", words, text);
    assert_detail(words);
}

TEST(an_error_without_a_caller_is_logged_as_a_warning)
{
    ucxpool_block_t block;

    assert_ok(ucxpool_block_get(pool, &block));
    ucxpool_block_put(pool, &block);
    ck_assert_str_eq(caught_text(), "");
    ucxpool_block_put(pool, &block);
    assert_reported("cannot put block");
    ucxpool_comm_free(pool, &block);
    assert_reported("buffer");
    ucxpool_rmm_free(&block, 1, NULL, pool);
    assert_reported("is not in this pool's heap");
}

TEST(a_failed_channel_is_logged_once)
{
    ucxpool_channel_t *channel;

    assert_ok(ucxpool_channel_connect(pool, "127.0.0.1:1", NULL, &channel));
    assert_error(ucxpool_channel_wait(channel, UCXPOOL_FOREVER), PEER_LOST);
    assert_reported("cannot connect to 127.0.0.1:1");
    ck_assert_ptr_null(strchr(strchr(caught_text(), '\n') + 1, '\n'));
    ucxpool_channel_close(channel);
}

TEST(a_failed_framework_allocation_is_logged_once)
{
    size_t length;

    assert_ok(ucxpool_framework_set_pool(UCXPOOL_FRAMEWORK_HOST, pool));
    ck_assert_ptr_null(
        ucxpool_torch_alloc((ssize_t)1 << 40, UCXPOOL_FRAMEWORK_HOST, NULL));
    assert_reported("the heap cannot allocate");
    length = strlen(caught_text());
    ck_assert_ptr_null(
        ucxpool_torch_alloc((ssize_t)1 << 40, UCXPOOL_FRAMEWORK_HOST, NULL));
    ck_assert_uint_eq(strlen(caught_text()), length);
}
