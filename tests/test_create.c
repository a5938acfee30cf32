/* Creation of pools, channels and listeners either succeeds or leaves
 * nothing. */
#include "base/math.h"
#include "calls.h"
#include "pair.h"
#include "slow.h"
#include "test.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALL_BITS UINT64_MAX

static const char small[] = "BLOCK_SIZE=64k REGION_SIZE=256k COMM_SIZE=1m "
                            "HUGE_PAGES=n LOG_LEVEL=none CLOSE_TIMEOUT=50ms";

static char secret[64];

static void setup(void)
{
    static const char text[] = "a secret of sufficient length, and random";
    int               fd;

    snprintf(secret, sizeof(secret), "/tmp/test_create_XXXXXX");
    fd = mkstemp(secret);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, sizeof(text)), (ssize_t)sizeof(text));
    close(fd);
}

static void teardown(void)
{
    calls_reset();
    unlink(secret);
}

static ucxpool_config_t *read_settings(const char *settings)
{
    ucxpool_config_t *config;
    char              text[512];
    char             *rest = text;
    char             *key;

    assert_ok(ucxpool_config_read(&config));
    snprintf(text, sizeof(text), "%s SECRET_FILE=%s", settings, secret);
    while ((key = strtok_r(rest, " ", &rest)) != NULL) {
        char *value = strchr(key, '=');

        *value++ = '\0';
        assert_ok(ucxpool_config_modify(config, key, value));
    }
    return config;
}

static ucxpool_status_t create(ucxpool_config_t *config, ucxpool_t **pool_p)
{
    ucxpool_params_t params = {
        .field_mask = UCXPOOL_PARAM_FIELD_CONFIG,
        .config     = config,
    };

    return ucxpool_create(&params, pool_p);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .timeout = 60);

TEST(missing_arguments_are_rejected)
{
    static const uint64_t fields[] = {
        UCXPOOL_PARAM_FIELD_CONFIG, UCXPOOL_PARAM_FIELD_CONTEXT,
        UCXPOOL_PARAM_FIELD_WORKER, UCXPOOL_PARAM_FIELD_NAME};
    ucxpool_params_t params = {0};
    ucxpool_t       *pool   = (ucxpool_t *)&params;

    for (int i = 0; i < 4; i++) {
        params.field_mask = fields[i];
        assert_error(ucxpool_create(&params, &pool), INVALID_PARAM);
        ck_assert_ptr_eq(pool, (ucxpool_t *)&params);
    }
    params.field_mask  = UCXPOOL_PARAM_FIELD_MEMORY_KIND;
    params.memory_kind = (ucxpool_memory_kind_t)77;
    assert_error(ucxpool_create(&params, &pool), UNSUPPORTED);
    ck_assert_ptr_eq(pool, (ucxpool_t *)&params);
}

static const char *const nonsense[] = {"BLOCK_SIZE=1m REGION_SIZE=1536k",
                                       "SEND_SHARE=60 RECV_SHARE=60",
                                       "COMM_SIZE=64k"};
#define NUM_NONSENSE 3

static void assert_name(ucxpool_t *pool, const char *name)
{
    ucxpool_attr_t attr;

    ucxpool_query(pool, &attr, sizeof(attr));
    ck_assert_str_eq(attr.name, name);
}

TEST(pools_without_a_name_get_the_lowest_free_number)
{
    static const char *const names[] = {"ucxpool", "ucxpool-2", "ucxpool-3"};
    ucxpool_t               *pools[3];

    for (int i = 0; i < 3; i++) {
        pools[i] = pair_pool(small);
        assert_name(pools[i], names[i]);
    }
    for (int i = 0; i < 2; i++) {
        ucxpool_destroy(pools[i]);
        pools[i] = pair_pool(small);
        assert_name(pools[i], names[i]);
    }
    for (int i = 0; i < 3; i++) {
        ucxpool_destroy(pools[i]);
    }
}

TEST(failed_create_releases_its_number)
{
    ucxpool_config_t *config = read_settings(nonsense[0]);
    ucxpool_t        *pool;

    assert_error(create(config, &pool), INVALID_PARAM);
    ucxpool_config_release(config);
    pool = pair_pool(small);
    assert_name(pool, "ucxpool");
    ucxpool_destroy(pool);
}

/* The numbers after 64 are not used again. */
TEST(many_pools_without_a_name_get_different_names)
{
    uint64_t   limit = fds_limit(FDS_ALL); /* 66 pools use about 850 */
    ucxpool_t *pools[66];

    for (int i = 0; i < 66; i++) {
        pools[i] = pair_pool(small);
    }
    assert_name(pools[63], "ucxpool-64");
    assert_name(pools[64], "ucxpool-65");
    assert_name(pools[65], "ucxpool-66");
    for (int i = 0; i < 66; i++) {
        ucxpool_destroy(pools[i]);
    }
    pools[0] = pair_pool(small);
    assert_name(pools[0], "ucxpool");
    ucxpool_destroy(pools[0]);
    fds_limit(limit);
}

static void *use_two_pools(void *settings)
{
    static uint8_t sent[200000] = {1, 2, 3}, received[sizeof(sent)];
    pair_t         pair;

    pair_init(&pair, settings, settings);
    for (size_t length = 10; length <= sizeof(sent); length *= 20) {
        pair_finish_both(&pair, pair_send(pair.to_b, sent, length, 1),
                         pair_recv(pair.b, pair.to_a, received, length, 1));
        ck_assert_mem_eq(sent, received, length);
    }
    pair_cleanup(&pair);
    return NULL;
}

/* A thread's stack is as small under ulimit -s 64. Sanitizers need more. */
TEST_EACH(thread_with_a_small_stack_can_use_pools, 2)
{
    static char *const wires[] = {"WIRE=map", "WIRE=ucx"};
    size_t             size    = slow_is() ? 1 << 20 : 64 << 10;
    size_t             least   = (size_t)PTHREAD_STACK_MIN; /* 128 KiB on Arm */
    pthread_attr_t     attr;
    pthread_t          thread;

    ck_assert_int_eq(pthread_attr_init(&attr), 0);
    ck_assert_int_eq(pthread_attr_setstacksize(&attr, base_max(size, least)),
                     0);
    /* Large frames must not skip the guard. */
    ck_assert_int_eq(pthread_attr_setguardsize(&attr, 1 << 20), 0);
    ck_assert_int_eq(pthread_create(&thread, &attr, use_two_pools, wires[_i]),
                     0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    pthread_attr_destroy(&attr);
}

TEST_EACH(inconsistent_settings_are_rejected, NUM_NONSENSE)
{
    char              text[300];
    ucxpool_config_t *config;
    ucxpool_t        *pool = NULL;

    snprintf(text, sizeof(text), "%s %s", small, nonsense[_i]);
    config = read_settings(text);
    assert_error(create(config, &pool), INVALID_PARAM);
    ck_assert_ptr_null(pool);
    ck_assert_str_ne(ucxpool_error_detail(), "");
    ucxpool_config_release(config);
}

/* The calls that may fail, and whether a failure must be an error. A failed
 * optional call must not be. */
typedef struct failure {
    calls_name_t name;
    int          error;
    bool         is_fatal;
} failure_t;

static const failure_t failures[] = {
    {CALLS_CALLOC, ENOMEM, true},
    {CALLS_MALLOC, ENOMEM, false}, /* while registering: fewer blocks */
    {CALLS_ALIGNED_ALLOC, ENOMEM, true},
    {CALLS_MEMFD_CREATE, EMFILE, true},
    {CALLS_FTRUNCATE, ENOSPC, true},
    {CALLS_FALLOCATE, ENOSPC, true},
    {CALLS_MMAP, ENOMEM, true},
    {CALLS_FCNTL, EPERM, false}, /* unsealed: the pool is not shared */
    {CALLS_MADVISE, EINVAL, false},
    {CALLS_OPEN, EMFILE, false},
    {CALLS_FOPEN, EMFILE, false},
    {CALLS_FSTAT, EIO, true},
    {CALLS_FSTATFS, EIO, false},
    {CALLS_SYSCALL, ENOSYS, false},
    {CALLS_EPOLL_CREATE1, EMFILE, true},
    {CALLS_EPOLL_CTL, ENOSPC, true},
    {CALLS_TIMERFD_CREATE, EMFILE, true},
    {CALLS_EVENTFD, EMFILE, true},
    {CALLS_RAND_BYTES, EIO, true},
    {CALLS_MUTEX_INIT, ENOMEM, false}, /* a plain mutex cannot fail */
    {CALLS_COND_INIT, ENOMEM, true},
    {CALLS_UCP_CONFIG_READ, 0, true},
    {CALLS_UCP_INIT, 0, true},
    {CALLS_UCP_WORKER_CREATE, 0, true},
    {CALLS_UCP_MEM_MAP, 0, false}, /* fewer blocks */
    {CALLS_UCP_SET_HANDLER, 0, true},
    {CALLS_UCP_GET_ADDRESS, 0, true},
    {CALLS_UCP_EP_CREATE, 0, true},
};
#define NUM_FAILURES ((int)(sizeof(failures) / sizeof(failures[0])))

/* An object that the test creates and destroys. */
typedef struct maker {
    ucxpool_config_t *config;
    ucxpool_t        *pool; /* of the created objects */
    ucxpool_t        *other;
    ucxpool_status_t (*make)(struct maker *maker, void **made_p);
    void (*unmake)(struct maker *maker, void *made);
} maker_t;

/* Was the call that failed the last one? */
static bool make_with_failure(maker_t *maker, const failure_t *failure,
                              unsigned n)
{
    unsigned         num_fds     = fds_count();
    size_t           mapped_size = calls_mapped_size();
    void            *made        = NULL;
    ucxpool_status_t status;
    bool             has_failed;

    calls_fail(failure->name, n, failure->error);
    status     = maker->make(maker, &made);
    has_failed = calls_has_failed();
    calls_reset();
    if (status == UCXPOOL_OK) {
        ck_assert_msg(!has_failed || !failure->is_fatal,
                      "call %u of kind %d failed without an error", n,
                      failure->name);
        maker->unmake(maker, made);
    } else {
        ck_assert_msg(has_failed, "kind %d, call %u: %s", failure->name, n,
                      ucxpool_error_detail());
        ck_assert_ptr_null(made);
        ck_assert_str_ne(ucxpool_error_detail(), "");
    }
    if ((status == UCXPOOL_OK) && (maker->pool != NULL)) {
        return !has_failed; /* the other pool keeps a record */
    }
    ck_assert_msg(fds_count() == num_fds,
                  "call %u of kind %d: %u descriptors are left, there were %u",
                  n, failure->name, fds_count(), num_fds);
    ck_assert_msg(calls_mapped_size() == mapped_size,
                  "call %u of kind %d: mappings are left", n, failure->name);
    return !has_failed;
}

/* Has a call failed? */
static bool make_with_failures(maker_t *maker, const failure_t *failure)
{
    unsigned n = 1;
    void    *made;

    /* Let UCX and others make their one-time allocations now. */
    assert_ok(maker->make(maker, &made));
    maker->unmake(maker, made);
    while (!make_with_failure(maker, failure, n)) {
        n++;
    }
    assert_ok(maker->make(maker, &made));
    maker->unmake(maker, made);
    return n > 1;
}

/* These are the channels' calls only. Creating a pool makes each of the other
 * calls that must not fail. */
static bool is_of_channels(calls_name_t name)
{
    return (name == CALLS_FSTAT) || (name == CALLS_UCP_GET_ADDRESS) ||
           (name == CALLS_UCP_EP_CREATE);
}

static ucxpool_status_t make_pool(maker_t *maker, void **made_p)
{
    ucxpool_t       *pool;
    ucxpool_status_t status = create(maker->config, &pool);

    if (status == UCXPOOL_OK) {
        *made_p = pool;
    }
    return status;
}

static void unmake_pool(maker_t *maker, void *made)
{
    ucxpool_destroy(made);
}

TEST_EACH(failed_pool_create_leaves_nothing, NUM_FAILURES)
{
    maker_t maker = {.make = make_pool, .unmake = unmake_pool};

    maker.config = read_settings(small);
    ck_assert(make_with_failures(&maker, &failures[_i]) ||
              !failures[_i].is_fatal || is_of_channels(failures[_i].name));
    ucxpool_config_release(maker.config);
}

/* Together with its pool, so that nothing of it stays. */
static void unmake_channel(maker_t *maker, void *made)
{
    ucxpool_channel_close(made);
    ucxpool_destroy(maker->pool);
    assert_ok(create(maker->config, &maker->pool));
}

static void *address_of(ucxpool_t *pool, size_t *length_p)
{
    void *address;

    assert_ok(ucxpool_address_get(pool, &address, length_p));
    return address;
}

/* Get the peer's address before any call fails. */
static void  *peer_address;
static size_t peer_address_length;

static ucxpool_status_t make_channel(maker_t *maker, void **made_p)
{
    ucxpool_channel_params_t params = {
        .field_mask     = UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS,
        .address        = peer_address,
        .address_length = peer_address_length,
    };
    ucxpool_channel_t *channel;
    ucxpool_status_t   status;

    status = ucxpool_channel_create(maker->pool, &params, &channel);
    if (status == UCXPOOL_OK) {
        *made_p = channel;
    }
    return status;
}

static ucxpool_status_t make_caller(maker_t *maker, void **made_p)
{
    ucxpool_channel_t *channel;
    ucxpool_status_t   status;

    status =
        ucxpool_channel_connect(maker->pool, "127.0.0.1:1", NULL, &channel);
    if (status == UCXPOOL_OK) {
        *made_p = channel;
    }
    return status;
}

static ucxpool_status_t make_listener(maker_t *maker, void **made_p)
{
    ucxpool_listener_t *listener;
    ucxpool_status_t    status;

    status = ucxpool_listener_create(maker->pool, "127.0.0.1:0", &listener);
    if (status == UCXPOOL_OK) {
        *made_p = listener;
    }
    return status;
}

static void unmake_listener(maker_t *maker, void *made)
{
    ucxpool_listener_destroy(made);
}

static const maker_t makers[] = {
    {.make = make_channel, .unmake = unmake_channel},
    {.make = make_caller, .unmake = unmake_channel},
    {.make = make_listener, .unmake = unmake_listener},
};

/* Channels by address and by listener, and listeners. */
TEST_EACH(failed_create_in_a_pool_leaves_nothing, 3 * NUM_FAILURES)
{
    maker_t   maker = makers[_i / NUM_FAILURES];
    failure_t mild  = failures[_i % NUM_FAILURES];

    /* HELLO is sent once the channel is connected, so a failed send fails the
     * channel and not the call. */
    mild.is_fatal = false;
    maker.config  = read_settings(small);
    assert_ok(create(maker.config, &maker.pool));
    assert_ok(create(maker.config, &maker.other));
    peer_address = address_of(maker.other, &peer_address_length);
    make_with_failures(&maker, &mild);
    ucxpool_address_release(peer_address);
    ucxpool_destroy(maker.pool);
    ucxpool_destroy(maker.other);
    ucxpool_config_release(maker.config);
}

static unsigned num_called;

static void post_again(ucxpool_request_t *request, ucxpool_status_t status,
                       void *arg)
{
    static uint8_t           byte;
    ucxpool_request_params_t params = {
        .field_mask   = UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK,
        .callback     = post_again,
        .callback_arg = arg,
    };
    pair_t *pair = arg;

    ck_assert_int_eq(status, UCXPOOL_ERR_CANCELED);
    num_called++;
    ucxpool_request_release(request);
    ck_assert_int_ne(ucxpool_recv_buffer(pair->a, NULL, &byte, 1, 1, ALL_BITS,
                                         &params, &request),
                     UCXPOOL_OK);
    ck_assert_int_ne(
        ucxpool_send_buffer(pair->to_b, &byte, 1, 1, &params, &request),
        UCXPOOL_OK);
}

TEST_EACH(destroy_with_open_objects_calls_back_once, 2)
{
    static const char *const wires[] = {"WIRE=map LOG_LEVEL=none",
                                        "WIRE=ucx LOG_LEVEL=none"};
    static uint8_t           bytes[300000];
    ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK,
        .callback   = post_again,
    };
    ucxpool_listener_t *listener;
    ucxpool_message_t  *message;
    void               *memory;
    pair_t              pair;

    pair_init(&pair, wires[_i], wires[_i]);
    params.callback_arg = &pair;
    num_called          = 0;
    assert_ok(ucxpool_listener_create(pair.a, "127.0.0.1:0", &listener));
    assert_ok(ucxpool_comm_alloc(pair.a, 100000, &memory));
    for (int i = 0; i < 3; i++) {
        assert_ok(ucxpool_recv_buffer(pair.a, (i == 0) ? NULL : pair.to_b,
                                      bytes, 10, 1, ALL_BITS, &params, NULL));
        assert_ok(ucxpool_send_buffer(pair.to_b, bytes, sizeof(bytes), 2,
                                      &params, NULL));
        assert_ok(ucxpool_send_buffer(pair.to_a, bytes, sizeof(bytes), 3, NULL,
                                      NULL));
    }
    pair_until(&pair, ucxpool_probe(pair.a, NULL, 3, ALL_BITS, &message) ==
                          UCXPOOL_OK);
    ucxpool_destroy(pair.a);
    ck_assert_uint_eq(num_called, 6);
    pair.a = NULL;
    pair_cleanup(&pair);
}
