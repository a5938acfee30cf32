/* Pools on the caller's own UCX context, worker and endpoints. */
#include "pair.h"
#include "test.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#define TAG          UINT64_C(3)
#define ALL_BITS     UINT64_MAX
#define ALL_FEATURES (UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP)

static const char *const wires[] = {"WIRE=map", "WIRE=ucx"};
#define NUM_WIRES 2

/* The UCX objects that the caller created. */
typedef struct ucx {
    ucp_context_h context;
    ucp_worker_h  worker;
} ucx_t;

/* Destroyed at the end of the test, after the pair. */
static ucx_t    created[2];
static unsigned num_created;

static void destroy_created(void)
{
    while (num_created > 0) {
        num_created--;
        ucp_worker_destroy(created[num_created].worker);
        ucp_cleanup(created[num_created].context);
    }
}

static void ucx_init(ucx_t *ucx, uint64_t features)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features   = features,
    };
    ucp_worker_params_t worker_params = {
        .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };

    ck_assert_int_eq(ucp_init(&params, NULL, &ucx->context), UCS_OK);
    ck_assert_int_eq(
        ucp_worker_create(ucx->context, &worker_params, &ucx->worker), UCS_OK);
    if (num_created == 0) {
        test_at_end(destroy_created);
    }
    created[num_created++] = *ucx;
}

static ucxpool_status_t try_pool(const ucxpool_params_t *borrowed,
                                 const char *settings, ucxpool_t **pool_p)
{
    char text[128];

    snprintf(text, sizeof(text),
             "BLOCK_SIZE=64k COMM_SIZE=1m LOG_LEVEL=error CLOSE_TIMEOUT=200ms "
             "%s",
             settings);
    return pair_try_pool(borrowed, text, pool_p);
}

static ucxpool_t *pool_over(const ucx_t *ucx, const char *settings)
{
    ucxpool_params_t params = {
        .field_mask = UCXPOOL_PARAM_FIELD_CONTEXT | UCXPOOL_PARAM_FIELD_WORKER,
        .context    = ucx->context,
        .worker     = ucx->worker,
    };
    ucxpool_t *pool;

    assert_ok(try_pool(&params, settings, &pool));
    return pool;
}

/* Both directions: header-only, through blocks, and in place. */
static void exchange_all(pair_t *pair)
{
    static const size_t lengths[] = {10, 50000, 300000};
    static uint8_t      source[300000];
    static uint8_t      target[300000];
    ucxpool_request_t  *send;
    ucxpool_request_t  *recv;

    for (unsigned i = 0; i < 6; i++) {
        size_t length = lengths[i / 2];
        bool   back   = i % 2 != 0;

        pair_fill(source, length);
        pair_poison(target, length);
        recv = pair_recv(back ? pair->a : pair->b,
                         back ? pair->to_b : pair->to_a, target, length, TAG);
        send = pair_send(back ? pair->to_a : pair->to_b, source, length, TAG);
        pair_finish_both(pair, send, recv);
        ck_assert_mem_eq(source, target, length);
    }
    pair_check_blocks(pair);
}

static ucx_t  ucx;
static pair_t pair;

/* Create pool a on a worker of the caller, and pool b. */
static void begin(uint64_t features, const char *wire)
{
    ucx_init(&ucx, features);
    pair.a = pool_over(&ucx, wire);
    pair.b = pair_pool(wire);
    pair_keep(&pair);
}

static void begin_connected(const char *wire)
{
    begin(ALL_FEATURES, wire);
    pair_connect(&pair);
}

TEST_SETTINGS(.timeout = 60);

TEST_EACH(pool_works_on_the_callers_worker, NUM_WIRES)
{
    begin_connected(wires[_i]);
    exchange_all(&pair);
}

TEST_EACH(pool_creates_a_worker_in_the_callers_context, NUM_WIRES)
{
    ucxpool_params_t params = {.field_mask = UCXPOOL_PARAM_FIELD_CONTEXT};

    ucx_init(&ucx, ALL_FEATURES);
    params.context = ucx.context;
    assert_ok(try_pool(&params, wires[_i], &pair.a));
    pair.b = pair_pool(wires[_i]);
    pair_keep(&pair);
    pair_connect(&pair);
    exchange_all(&pair);
}

TEST_EACH(caller_may_progress_its_worker_directly, NUM_WIRES)
{
    static uint8_t     source[200000];
    static uint8_t     target[200000];
    ucxpool_request_t *send;
    ucxpool_request_t *recv;

    begin_connected(wires[_i]);
    pair_fill(source, sizeof(source));
    recv = pair_recv(pair.b, NULL, target, sizeof(target), TAG);
    send = pair_send(pair.to_b, source, sizeof(source), TAG);
    for (uint64_t until = pair_deadline(); !pair_ended(recv);) {
        for (int i = 0; i < 10; i++) {
            ucp_worker_progress(ucx.worker);
            ucxpool_progress(pair.b);
        }
        ucxpool_progress(pair.a);
        ck_assert(!pair_is_late(until));
    }
    pair_finish_both(&pair, send, recv);
    ck_assert_mem_eq(source, target, sizeof(source));
}

TEST_EACH(destroy_leaves_the_callers_worker_usable, NUM_WIRES)
{
    static uint8_t bytes[100];

    begin_connected(wires[_i]);
    for (int i = 0; i < 20; i++) {
        assert_ok(ucxpool_send_buffer(pair.to_a, bytes, sizeof(bytes), TAG,
                                      NULL, NULL));
    }
    ucxpool_destroy(pair.a);
    pair.a = NULL;
    for (int i = 0; i < 1000; i++) {
        ucxpool_progress(pair.b);
        ucp_worker_progress(ucx.worker);
    }
    /* A second pool on the same worker takes the same active message ids. */
    pair_cleanup(&pair);
    pair.a = pool_over(&ucx, wires[_i]);
    pair.b = pair_pool(wires[_i]);
    pair_keep(&pair);
    pair_connect(&pair);
    exchange_all(&pair);
}

TEST_EACH(wait_polls_without_ucp_wakeup, NUM_WIRES)
{
    static uint8_t     source[100000];
    static uint8_t     target[100000];
    ucxpool_request_t *send;
    ucxpool_request_t *recv;
    int                fd = -7;

    begin(UCP_FEATURE_AM | UCP_FEATURE_RMA, wires[_i]);
    assert_error(ucxpool_event_fd(pair.a, &fd), UNSUPPORTED);
    ck_assert_int_eq(fd, -7);
    assert_error_detail(ucxpool_arm(pair.a), UNSUPPORTED, "UCP_FEATURE_WAKEUP");
    ck_assert_int_eq(ucxpool_wait(pair.a, 1000000), UCXPOOL_INPROGRESS);
    pair_connect(&pair);
    exchange_all(&pair);
    recv = pair_recv(pair.a, NULL, target, sizeof(target), TAG);
    send = pair_send(pair.to_a, source, sizeof(source), TAG);
    while (!pair_ended(recv)) {
        ucxpool_request_wait(recv, 1000000);
        ucxpool_progress(pair.b);
    }
    pair_finish_both(&pair, send, recv);
}

TEST(worker_without_its_context_is_rejected)
{
    ucxpool_t       *pool   = NULL;
    ucxpool_params_t params = {.field_mask = UCXPOOL_PARAM_FIELD_WORKER};

    ucx_init(&ucx, ALL_FEATURES);
    params.worker = ucx.worker;
    assert_error(try_pool(&params, "LOG_LEVEL=none", &pool), INVALID_PARAM);
    ck_assert_ptr_null(pool);
    params.field_mask |= UCXPOOL_PARAM_FIELD_CONTEXT;
    assert_error(try_pool(&params, "LOG_LEVEL=none", &pool), INVALID_PARAM);
    params.context = ucx.context;
    params.worker  = NULL;
    assert_error(try_pool(&params, "LOG_LEVEL=none", &pool), INVALID_PARAM);
    ck_assert_ptr_null(pool);
}

/* With and without a worker. */
static void check_lacking(uint64_t features, const char *name)
{
    ucxpool_t       *pool   = NULL;
    ucxpool_params_t params = {
        .field_mask = UCXPOOL_PARAM_FIELD_CONTEXT | UCXPOOL_PARAM_FIELD_WORKER,
    };

    ucx_init(&ucx, features);
    params.context = ucx.context;
    params.worker  = ucx.worker;
    for (int i = 0; i < 2; i++) {
        assert_error(try_pool(&params, "LOG_LEVEL=none", &pool), UNSUPPORTED);
        ck_assert_ptr_null(pool);
        assert_detail(name);
        params.field_mask = UCXPOOL_PARAM_FIELD_CONTEXT;
    }
}

TEST(context_without_active_messages_is_rejected)
{
    check_lacking(UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP, "UCP_FEATURE_AM");
    check_lacking(UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP, "UCP_FEATURE_AM");
}

TEST(context_without_rma_is_rejected)
{
    check_lacking(UCP_FEATURE_AM | UCP_FEATURE_WAKEUP, "UCP_FEATURE_RMA");
}

/* If UCX may hide features of the context, the pool must not reject it. */
TEST(context_with_few_transports_is_accepted)
{
    setenv("UCX_TLS", "tcp", 1);
    ucx_init(&ucx, ALL_FEATURES);
    ucxpool_destroy(pool_over(&ucx, "WIRE=ucx"));
    setenv("UCX_TLS", "tcp,self", 1);
    ucx_init(&ucx, ALL_FEATURES);
    ucxpool_destroy(pool_over(&ucx, "WIRE=ucx"));
}

TEST_EACH(two_pools_share_a_worker_with_different_ids, NUM_WIRES)
{
    char   settings[64];
    pair_t pairs[2];

    ucx_init(&ucx, ALL_FEATURES);
    for (int i = 0; i < 2; i++) {
        snprintf(settings, sizeof(settings), "%s AM_ID=%d", wires[_i],
                 200 + 2 * i);
        pairs[i].a = pool_over(&ucx, settings);
        pairs[i].b = pair_pool(wires[_i]);
    }
    for (int i = 0; i < 2; i++) {
        pair_connect(&pairs[i]);
    }
    for (int i = 0; i < 4; i++) {
        exchange_all(&pairs[i % 2]);
    }
    pair_cleanup(&pairs[0]);
    exchange_all(&pairs[1]);
    pair_cleanup(&pairs[1]);
}

TEST(pools_on_one_worker_must_not_share_an_id)
{
    static const int taken[] = {199, 200, 201};
    char             settings[32];
    ucx_t            other;
    ucxpool_t       *first;
    ucxpool_t       *second;
    ucxpool_t       *none   = NULL;
    ucxpool_params_t params = {
        .field_mask = UCXPOOL_PARAM_FIELD_CONTEXT | UCXPOOL_PARAM_FIELD_WORKER,
    };

    ucx_init(&ucx, ALL_FEATURES);
    ucx_init(&other, ALL_FEATURES);
    first          = pool_over(&ucx, "AM_ID=200");
    params.context = ucx.context;
    params.worker  = ucx.worker;
    for (int i = 0; i < 3; i++) {
        snprintf(settings, sizeof(settings), "LOG_LEVEL=none AM_ID=%d",
                 taken[i]);
        assert_error(try_pool(&params, settings, &none), INVALID_PARAM);
        ck_assert_ptr_null(none);
        assert_detail("UCXPOOL_AM_ID");
    }
    second = pool_over(&ucx, "AM_ID=198");
    ucxpool_destroy(second);
    second = pool_over(&other, "AM_ID=200");
    ucxpool_destroy(second);
    ucxpool_destroy(first);
    first = pool_over(&ucx, "AM_ID=199");
    ucxpool_destroy(first);
}

/* --- endpoints ---------------------------------------------------------- */

/* One side of a connection that the caller made. */
typedef struct side {
    ucx_t              ucx;
    ucp_ep_h           ep;
    bool               ep_failed;
    ucxpool_channel_t *channel;
    ucp_conn_request_h request;
} side_t;

static void side_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    side_t *side = arg;

    side->ep_failed = true;
    if (side->channel != NULL) {
        ucxpool_channel_fail(side->channel);
    }
}

static void create_ep(side_t *side, ucp_ep_params_t *params)
{
    params->field_mask |=
        UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params->err_mode        = UCP_ERR_HANDLING_MODE_PEER;
    params->err_handler.cb  = side_failed;
    params->err_handler.arg = side;
    ck_assert_int_eq(ucp_ep_create(side->ucx.worker, params, &side->ep),
                     UCS_OK);
}

static void create_ep_by_address(side_t *side, side_t *to)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t  *address;
    size_t          length;

    ck_assert_int_eq(ucp_worker_get_address(to->ucx.worker, &address, &length),
                     UCS_OK);
    params.address = address;
    create_ep(side, &params);
    ucp_worker_release_address(to->ucx.worker, address);
}

static void keep_request(ucp_conn_request_h request, void *arg)
{
    side_t *side = arg;

    side->request = request;
}

/* sides[0] connects to a ucp_listener_h of sides[1]. */
static void create_eps_by_listener(side_t *sides)
{
    struct sockaddr_in    where  = {.sin_family = AF_INET};
    ucp_listener_params_t params = {
        .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR |
                      UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
        .sockaddr         = {(struct sockaddr *)&where, sizeof(where)},
        .conn_handler.cb  = keep_request,
        .conn_handler.arg = &sides[1],
    };
    ucp_listener_attr_t attr = {.field_mask = UCP_LISTENER_ATTR_FIELD_SOCKADDR};
    ucp_ep_params_t     from = {
            .field_mask = UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS,
            .flags      = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
    };
    ucp_ep_params_t to = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST};
    ucp_listener_h  listener;
    uint64_t        until = pair_deadline();

    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(
        ucp_listener_create(sides[1].ucx.worker, &params, &listener), UCS_OK);
    ck_assert_int_eq(ucp_listener_query(listener, &attr), UCS_OK);
    from.sockaddr.addr    = (struct sockaddr *)&attr.sockaddr;
    from.sockaddr.addrlen = sizeof(where);
    create_ep(&sides[0], &from);
    while (sides[1].request == NULL) {
        ucp_worker_progress(sides[0].ucx.worker);
        ucp_worker_progress(sides[1].ucx.worker);
        ck_assert(!pair_is_late(until));
    }
    to.conn_request = sides[1].request;
    create_ep(&sides[1], &to);
    ucp_listener_destroy(listener);
}

static void sides_init(side_t *sides, bool by_listener, const char *wire)
{
    memset(sides, 0, 2 * sizeof(sides[0]));
    ucx_init(&sides[0].ucx, ALL_FEATURES);
    ucx_init(&sides[1].ucx, ALL_FEATURES);
    pair.a = pool_over(&sides[0].ucx, wire);
    pair.b = pool_over(&sides[1].ucx, wire);
    if (by_listener) {
        create_eps_by_listener(sides);
    } else {
        create_ep_by_address(&sides[0], &sides[1]);
        create_ep_by_address(&sides[1], &sides[0]);
    }
}

static void create_channel(side_t *side, ucxpool_t *pool)
{
    ucxpool_channel_params_t params = {
        .field_mask = UCXPOOL_CHANNEL_PARAM_FIELD_EP,
        .ep         = side->ep,
    };

    assert_ok(ucxpool_channel_create(pool, &params, &side->channel));
}

static void connect_sides(side_t *sides)
{
    create_channel(&sides[0], pair.a);
    create_channel(&sides[1], pair.b);
    pair.to_b = sides[0].channel;
    pair.to_a = sides[1].channel;
    pair_until(&pair, (pair_state(pair.to_b) == UCXPOOL_CHANNEL_OPEN) &&
                          (pair_state(pair.to_a) == UCXPOOL_CHANNEL_OPEN));
}

static void close_ep(side_t *sides, unsigned which)
{
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
        .flags        = UCP_EP_CLOSE_FLAG_FORCE,
    };
    void    *request = ucp_ep_close_nbx(sides[which].ep, &param);
    uint64_t until   = pair_deadline();

    while (UCS_PTR_IS_PTR(request) &&
           (ucp_request_check_status(request) == UCS_INPROGRESS)) {
        ucp_worker_progress(sides[0].ucx.worker);
        ucp_worker_progress(sides[1].ucx.worker);
        ck_assert(!pair_is_late(until));
    }
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
}

static void sides_cleanup(side_t *sides)
{
    close_ep(sides, 0);
    close_ep(sides, 1);
}

/* Made from addresses, or from a listener. */
TEST_EACH(channels_use_the_callers_endpoints, 2 * NUM_WIRES)
{
    side_t sides[2];

    sides_init(sides, _i % 2 != 0, wires[_i / 2]);
    connect_sides(sides);
    exchange_all(&pair);
    sides[0].channel = NULL;
    sides[1].channel = NULL;
    pair_cleanup(&pair);
    sides_cleanup(sides);
}

TEST_EACH(a_failed_endpoint_ends_the_channel_and_its_requests, NUM_WIRES)
{
    static uint8_t         target[10];
    ucxpool_request_t     *recv;
    ucxpool_channel_attr_t attr;
    side_t                 sides[2];

    sides_init(sides, true, wires[_i]);
    connect_sides(sides);
    recv = pair_recv(pair.a, pair.to_b, target, sizeof(target), TAG);
    close_ep(sides, 1);
    pair_until(&pair, pair_ended(recv));
    ck_assert(sides[0].ep_failed);
    assert_error(ucxpool_request_test(recv), PEER_LOST);
    ucxpool_request_release(recv);
    attr = pair_attr(pair.to_b);
    ck_assert_int_eq(attr.state, UCXPOOL_CHANNEL_FAILED);
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_PEER_LOST);
    ck_assert_str_ne(attr.reason, "");
    ucxpool_channel_fail(pair.to_a);
    ucxpool_progress(pair.b);
    pair_cleanup(&pair);
    sides[0].channel = NULL;
    close_ep(sides, 0);
}

TEST_EACH(destroy_during_a_transfer_releases_the_endpoint, NUM_WIRES)
{
    static uint8_t source[900000];
    static uint8_t target[900000];
    side_t         sides[2];

    sides_init(sides, true, wires[_i]);
    connect_sides(sides);
    for (int i = 0; i < 2; i++) {
        assert_ok(ucxpool_recv_buffer(pair.b, NULL, target, sizeof(target), TAG,
                                      ALL_BITS, NULL, NULL));
        assert_ok(ucxpool_send_buffer(pair.to_b, source, sizeof(source), TAG,
                                      NULL, NULL));
    }
    for (int i = 0; i < 20; i++) {
        pair_progress(&pair);
    }
    sides[0].channel = NULL;
    sides[1].channel = NULL;
    pair_cleanup(&pair);
    for (int i = 0; i < 1000; i++) {
        ucp_worker_progress(sides[0].ucx.worker);
        ucp_worker_progress(sides[1].ucx.worker);
    }
    sides_cleanup(sides);
}
