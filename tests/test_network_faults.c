/* UCX fails to open another network device when it is needed. */
#include "calls.h"
#include "core/pool.h"
#include "pair.h"
#include "test.h"
#include "wireup/wireup.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVERYWHERE "LISTEN_WITHOUT_SECRET=y LOG_LEVEL=none "

/* An address of this host on a device that new pools do not open. */
static char outside[INET_ADDRSTRLEN];

static bool has_outside(void)
{
    struct ifaddrs *all;

    if (getifaddrs(&all) != 0) {
        return false;
    }
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
        if ((one->ifa_flags & IFF_UP) && !(one->ifa_flags & IFF_LOOPBACK) &&
            (one->ifa_addr != NULL) && (one->ifa_addr->sa_family == AF_INET)) {
            inet_ntop(AF_INET,
                      &((const struct sockaddr_in *)one->ifa_addr)->sin_addr,
                      outside, sizeof(outside));
        }
    }
    freeifaddrs(all);
    unsetenv("UCX_NET_DEVICES");
    unsetenv("UCX_TLS");
    return outside[0] != '\0';
}

/* Create both pools. Pool b listens, and pool a has these settings. */
static ucxpool_listener_t *init(pair_t *pair, const char *settings)
{
    pair->a = pair_pool(settings);
    pair->b = pair_pool(EVERYWHERE);
    return pair_listen(pair->b, "127.0.0.1:0");
}

/* Connect a to b at that address, up to the open state on both sides. */
static void open_pair(pair_t *pair, ucxpool_listener_t *listener,
                      const char *host)
{
    pair->to_b = pair_call(pair->a, host, ucxpool_listener_port(listener));
    pair_until(pair, ucxpool_listener_accept(listener, NULL, &pair->to_a) !=
                         UCXPOOL_INPROGRESS);
    pair_until(pair, pair_is_open(pair->to_b) && pair_is_open(pair->to_a));
}

static void close_pair(pair_t *pair)
{
    ucxpool_channel_close(pair->to_b);
    ucxpool_channel_close(pair->to_a);
}

/* The channel of a fails because it cannot use the ucx wire. */
static void require_refused(pair_t *pair, ucxpool_listener_t *listener,
                            const char *host)
{
    ucxpool_channel_attr_t attr;

    pair->to_b = pair_call(pair->a, host, ucxpool_listener_port(listener));
    pair_until(pair, pair_state(pair->to_b) == UCXPOOL_CHANNEL_FAILED);
    attr = pair_attr(pair->to_b);
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_UNSUPPORTED);
    assert_has(attr.reason, "set UCX_NET_DEVICES");
    ucxpool_channel_close(pair->to_b);
    pair_until(pair, ucxpool_listener_accept(listener, NULL, &pair->to_a) ==
                         UCXPOOL_OK);
    ucxpool_channel_close(pair->to_a);
}

static void destroy(pair_t *pair)
{
    ucxpool_destroy(pair->a);
    ucxpool_destroy(pair->b);
}

/* Memory registration, or setting a handler, fails with the new devices and
 * again with the devices that UCX had before. */
static void lose(ucxpool_t *pool, calls_name_t call)
{
    ucxpool_listener_t *listener;

    calls_fail_from(call, 1, 0);
    ck_assert_int_ne(ucxpool_listener_create(pool, "0.0.0.0:0", &listener),
                     UCXPOOL_OK);
    ck_assert(pool->ucx.is_lost);
}

static const calls_name_t calls[] = {CALLS_UCP_MEM_MAP, CALLS_UCP_SET_HANDLER};
#define NUM_CALLS 2

TEST_SETTINGS(.teardown = calls_reset, .timeout = 120, .only_if = has_outside);

TEST_EACH(lost_ucx_leaves_the_map_wire, NUM_CALLS)
{
    pair_t              pair;
    ucxpool_listener_t *listener = init(&pair, EVERYWHERE);

    lose(pair.a, calls[_i]);
    open_pair(&pair, listener, "127.0.0.1");
    ck_assert(pair.a->ucx.is_lost);
    ck_assert_int_eq(pair_attr(pair.to_b).wire, UCXPOOL_WIRE_MAP);
    pair_exchange(&pair, 100000);
    pair_arm(pair.a);
    close_pair(&pair);
    calls_reset();
    destroy(&pair);
}

TEST_EACH(lost_ucx_refuses_the_ucx_wire_and_is_restarted, NUM_CALLS)
{
    pair_t              pair;
    ucxpool_listener_t *listener = init(&pair, EVERYWHERE "WIRE=ucx");

    lose(pair.a, calls[_i]);
    require_refused(&pair, listener, "127.0.0.1");
    ck_assert(pair.a->ucx.is_lost);
    calls_reset();
    open_pair(&pair, listener, "127.0.0.1");
    ck_assert(!pair.a->ucx.is_lost);
    ck_assert_int_eq(pair_attr(pair.to_b).wire, UCXPOOL_WIRE_UCX);
    pair_exchange(&pair, 100000);
    close_pair(&pair);
    destroy(&pair);
}

/* The channel of a peer that can only use `ucx` fails as well. */
TEST_EACH(lost_ucx_refuses_an_incoming_connection, NUM_CALLS)
{
    pair_t              pair;
    ucxpool_listener_t *listener = init(&pair, EVERYWHERE "WIRE=ucx");

    lose(pair.b, calls[_i]);
    pair.to_b = pair_call(pair.a, "127.0.0.1", ucxpool_listener_port(listener));
    pair_until(&pair, ucxpool_listener_accept(listener, NULL, &pair.to_a) ==
                          UCXPOOL_ERR_UNSUPPORTED);
    pair_until(&pair, pair_state(pair.to_b) == UCXPOOL_CHANNEL_FAILED);
    ucxpool_channel_close(pair.to_b);
    calls_reset();
    destroy(&pair);
}

/* Pool a has an endpoint to c, so UCX cannot be restarted with the new device,
 * on which b listens. */
TEST_EACH(a_device_that_cannot_be_added_leaves_only_the_map_wire, 2)
{
    const char         *wires[]   = {EVERYWHERE, EVERYWHERE "WIRE=ucx"};
    ucxpool_t          *a         = pair_pool(wires[_i]);
    pair_t              to_c      = {.a = a, .b = pair_pool(wires[!_i])};
    pair_t              to_b      = {.a = a, .b = pair_pool(EVERYWHERE)};
    ucxpool_listener_t *c_listens = pair_listen(to_c.b, "127.0.0.1:0");
    ucxpool_listener_t *b_listens = pair_listen(to_b.b, "0.0.0.0:0");

    open_pair(&to_c, c_listens, "127.0.0.1");
    ck_assert_int_eq(pair_attr(to_c.to_b).wire, UCXPOOL_WIRE_UCX);
    if (_i == 0) {
        open_pair(&to_b, b_listens, outside);
        ck_assert_int_eq(pair_attr(to_b.to_b).wire, UCXPOOL_WIRE_MAP);
        pair_exchange(&to_b, 100000);
        close_pair(&to_b);
    } else {
        require_refused(&to_b, b_listens, outside);
        pair_exchange(&to_c, 100000);
    }
    close_pair(&to_c);
    ucxpool_destroy(to_b.b);
    destroy(&to_c);
}

/* Connecting to the broadcast address fails unless the socket sets
 * SO_BROADCAST. */
TEST(connect_fails_for_an_address_without_a_route)
{
    ucxpool_t          *a         = pair_pool(EVERYWHERE);
    ucxpool_t          *c         = pair_pool(EVERYWHERE "WIRE=ucx");
    pair_t              to_c      = {.a = a, .b = c};
    ucxpool_listener_t *c_listens = pair_listen(c, "127.0.0.1:0");
    bootstrap_where_t   where;
    bootstrap_where_t   unusable;
    char                name[INET_ADDRSTRLEN + 8];

    assert_ok(bootstrap_where_resolve("255.255.255.255:1",
                                      BOOTSTRAP_WHERE_CONNECT, &where));
    snprintf(name, sizeof(name), "%s:1", outside);
    assert_ok(
        bootstrap_where_resolve(name, BOOTSTRAP_WHERE_CONNECT, &unusable));
    open_pair(&to_c, c_listens, "127.0.0.1");
    core_lock(a);
    ck_assert(wireup_network_connect(a, &where)); /* the error is not UCX's */
    ck_assert(!wireup_network_connect(a, &unusable));
    where.addresses[where.num_addresses++] = unusable.addresses[0];
    ck_assert(!wireup_network_connect(a, &where));
    core_unlock(a);
    close_pair(&to_c);
    destroy(&to_c);
}

static void count_opened(ucxpool_log_level_t level, const char *text, void *arg)
{
    if ((level == UCXPOOL_LOG_WARN) &&
        (strstr(text, "also listens on ") != NULL)) {
        (*(int *)arg)++;
    }
}

TEST(address_get_warns_once_about_the_devices_it_opens)
{
    ucxpool_t *pool       = pair_pool("LOG_LEVEL=warn");
    int        num_warned = 0;
    void      *address;
    size_t     length;

    assert_ok(ucxpool_log_set_handler(count_opened, &num_warned));
    for (int i = 0; i < 2; i++) {
        assert_ok(ucxpool_address_get(pool, &address, &length));
        ucxpool_address_release(address);
        ck_assert_int_eq(num_warned, 1);
    }
    assert_ok(ucxpool_log_set_handler(NULL, NULL));
    ucxpool_destroy(pool);
}
