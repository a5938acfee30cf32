/* Parsing and resolution of "host:port". */
#include "net_calls.h"
#include "test.h"

#include "base/log.h"
#include "bootstrap/address.h"

#include <ucxpool/ucxpool.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <string.h>

static bootstrap_where_t where;

static void setup(void)
{
    base_log_set_level(BASE_LOG_NONE);
}

static void teardown(void)
{
    net_call_reset();
}

static void assert_address(const char *text, bootstrap_where_use_t use,
                           const char *name)
{
    char found[BOOTSTRAP_ADDRESS_NAME_SIZE];

    ck_assert_msg(bootstrap_where_resolve(text, use, &where) == UCXPOOL_OK,
                  "%s: %s", text, ucxpool_error_detail());
    ck_assert_uint_ge(where.num_addresses, 1);
    ck_assert_str_eq(where.text, text);
    bootstrap_address_format(&where.addresses[0], found);
    ck_assert_str_eq(found, name);
}

static void assert_refused(const char *text, bootstrap_where_use_t use,
                           const char *words)
{
    assert_error_detail(bootstrap_where_resolve(text, use, &where),
                        INVALID_PARAM, words);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown);

TEST(numeric_addresses_are_parsed)
{
    assert_address("127.0.0.1:7000", BOOTSTRAP_WHERE_CONNECT, "127.0.0.1:7000");
    assert_address("[::1]:65535", BOOTSTRAP_WHERE_CONNECT, "[::1]:65535");
    assert_address("127.0.0.1:0", BOOTSTRAP_WHERE_LISTEN, "127.0.0.1:0");
    assert_address("[::1]:00080", BOOTSTRAP_WHERE_LISTEN, "[::1]:80");
    ck_assert_uint_eq(bootstrap_address_port(&where.addresses[0]), 80);
}

TEST(listen_without_host_uses_all_addresses)
{
    assert_ok(bootstrap_where_resolve(":7000", BOOTSTRAP_WHERE_LISTEN, &where));
    for (size_t i = 0; i < where.num_addresses; i++) {
        ck_assert(!bootstrap_address_is_loopback(&where.addresses[i]));
        ck_assert_uint_eq(bootstrap_address_port(&where.addresses[i]), 7000);
    }
}

TEST(listen_prefers_ipv4_for_a_name)
{
    assert_address("localhost:7000", BOOTSTRAP_WHERE_LISTEN, "127.0.0.1:7000");
}

TEST(malformed_addresses_are_rejected_with_a_reason)
{
    char long_text[BOOTSTRAP_WHERE_SIZE + 1];

    memset(long_text, 'a', sizeof(long_text) - 1);
    long_text[sizeof(long_text) - 1] = '\0';

    assert_refused("", BOOTSTRAP_WHERE_LISTEN, "the port is missing");
    assert_refused("localhost", BOOTSTRAP_WHERE_LISTEN, "the port is missing");
    assert_refused("localhost:", BOOTSTRAP_WHERE_LISTEN, "must be a number");
    assert_refused("localhost:http", BOOTSTRAP_WHERE_LISTEN,
                   "must be a number");
    assert_refused("localhost:-1", BOOTSTRAP_WHERE_LISTEN, "must be a number");
    assert_refused("localhost:65536", BOOTSTRAP_WHERE_LISTEN,
                   "must be a number");
    assert_refused("localhost:99999999999999999999", BOOTSTRAP_WHERE_LISTEN,
                   "must be a number");
    assert_refused("localhost: 80", BOOTSTRAP_WHERE_LISTEN, "must be a number");
    assert_refused("::1:7000", BOOTSTRAP_WHERE_LISTEN, "in brackets");
    assert_refused("[::1:7000", BOOTSTRAP_WHERE_LISTEN, "as [::1]:7000");
    assert_refused("[]:7000", BOOTSTRAP_WHERE_LISTEN, "as [::1]:7000");
    assert_refused("[::1]7000", BOOTSTRAP_WHERE_LISTEN, "must be a number");
    assert_refused(long_text, BOOTSTRAP_WHERE_LISTEN, "too long");
}

TEST(connect_needs_a_host_and_a_port)
{
    assert_refused(":7000", BOOTSTRAP_WHERE_CONNECT, "a host is needed");
    assert_refused("127.0.0.1:0", BOOTSTRAP_WHERE_CONNECT, "must not be 0");
}

TEST(unresolvable_host_reports_the_resolver_error)
{
    net_call_fail(NET_CALL_GETADDRINFO, 1, EAI_NONAME);
    assert_refused("nowhere:7000", BOOTSTRAP_WHERE_CONNECT,
                   gai_strerror(EAI_NONAME));
    ck_assert(net_call_reset());

    net_call_fail(NET_CALL_GETADDRINFO, 1, EAI_MEMORY);
    assert_error(bootstrap_where_resolve("nowhere:7000",
                                         BOOTSTRAP_WHERE_CONNECT, &where),
                 NO_MEMORY);

    net_call_fail(NET_CALL_GETADDRINFO, 1, EAI_SYSTEM);
    ck_assert_int_lt(bootstrap_where_resolve("nowhere:7000",
                                             BOOTSTRAP_WHERE_CONNECT, &where),
                     0);
}

TEST(every_form_of_loopback_is_recognized)
{
    static const struct {
        const char *text;
        bool        is_loopback;
    } cases[] = {
        {"127.0.0.1:1", true},
        {"127.255.1.2:1", true},
        {"[::1]:1", true},
        {"[::ffff:127.0.0.1]:1", true},
        {"0.0.0.0:1", false},
        {"[::]:1", false},
        {"128.0.0.1:1", false},
        {"126.0.0.1:1", false},
        {"[::ffff:10.0.0.1]:1", false},
        {"[::2]:1", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_ok(bootstrap_where_resolve(cases[i].text, BOOTSTRAP_WHERE_LISTEN,
                                          &where));
        ck_assert_msg(bootstrap_address_is_loopback(&where.addresses[0]) ==
                          cases[i].is_loopback,
                      "%s", cases[i].text);
    }
}

TEST(ipv4_mapped_peer_is_printed_as_ipv4)
{
    assert_address("[::ffff:127.0.0.1]:80", BOOTSTRAP_WHERE_CONNECT,
                   "127.0.0.1:80");
}
