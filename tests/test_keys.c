/* The keys of the settings: the values each accepts, and the errors for
 * others. */
#include "base/key.h"
#include "base/log.h"
#include "config_fixture.h"
#include "test.h"

#include <ucxpool/ucxpool.h>

#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define SEC UINT64_C(1000000000)

TEST_SETTINGS(.setup = read_config, .teardown = release_config);

TEST(defaults_match_the_header)
{
    ck_assert_uint_eq(values_of(config)->comm_size, BASE_SIZE_AUTO);
    ck_assert_uint_eq(values_of(config)->block_size, BASE_SIZE_AUTO);
    ck_assert_uint_eq(values_of(config)->region_size, BASE_SIZE_AUTO);
    ck_assert_uint_eq(values_of(config)->send_share, 25);
    ck_assert_uint_eq(values_of(config)->recv_share, 25);
    ck_assert_int_eq(values_of(config)->huge_pages, BASE_SWITCH_TRY);
    ck_assert_int_eq(values_of(config)->cuda_backing, BASE_BACKING_AUTO);
    ck_assert_int_eq(values_of(config)->wire, BASE_WIRE_AUTO);
    ck_assert_uint_eq(values_of(config)->frag_size, BASE_SIZE_AUTO);
    ck_assert_uint_eq(values_of(config)->eager_size, 16 * KIB);
    ck_assert_uint_eq(values_of(config)->credits, 256);
    ck_assert_uint_eq(values_of(config)->max_unexpected, 131072);
    ck_assert_uint_eq(values_of(config)->inplace_min, 16 * KIB);
    ck_assert_uint_eq(values_of(config)->max_metadata, 2 * KIB);
    ck_assert_uint_eq(values_of(config)->max_segments, 4 * MIB);
    ck_assert_int_eq(values_of(config)->checksum, BASE_CHECKSUM_NONE);
    ck_assert_uint_eq(values_of(config)->am_id, 100);
    ck_assert_uint_eq(values_of(config)->request_timeout_ns, UCXPOOL_FOREVER);
    ck_assert_uint_eq(values_of(config)->close_timeout_ns, 2 * SEC);
    ck_assert_uint_eq(values_of(config)->spin_ns, 200000);
    ck_assert_str_eq(values_of(config)->secret_file, "");
    ck_assert(!values_of(config)->listen_without_secret);
    ck_assert_uint_eq(values_of(config)->max_half_open, 1024);
    ck_assert_uint_eq(values_of(config)->accept_queue, 1024);
    ck_assert_uint_eq(values_of(config)->handshake_timeout_ns, 30 * SEC);
    ck_assert_uint_eq(values_of(config)->log_level, BASE_LOG_WARN);
}

TEST(every_default_is_accepted_and_printed_by_its_key)
{
    base_config_t values;
    char          text[BASE_KEY_VALUE_SIZE];

    for (size_t i = 0; i < BASE_NUM_KEYS; i++) {
        memset(&values, 0xff, sizeof(values));
        ck_assert(
            base_key_parse(&base_keys[i], base_keys[i].fallback, &values));
        base_key_format(&base_keys[i], &values, text);
        ck_assert_str_eq(text, base_keys[i].fallback);
    }
}

TEST(names_and_fields_of_keys_are_unique)
{
    for (size_t i = 0; i < BASE_NUM_KEYS; i++) {
        ck_assert_str_ne(base_keys[i].doc, "");
        ck_assert_ptr_eq(base_key_find(base_keys[i].name), &base_keys[i]);
        for (size_t j = 0; j < i; j++) {
            ck_assert_str_ne(base_keys[i].name, base_keys[j].name);
            ck_assert_uint_ne(base_keys[i].offset, base_keys[j].offset);
        }
    }
}

TEST(every_key_describes_its_values)
{
    for (size_t i = 0; i < BASE_NUM_KEYS; i++) {
        char text[BASE_KEY_EXPECTED_SIZE];

        base_key_expected(&base_keys[i], text);
        ck_assert_uint_gt(strlen(text), 0);
        ck_assert_uint_lt(strlen(text), sizeof(text) - 1);
    }
}

TEST(value_of_every_type_can_be_set)
{
    set("BLOCK_SIZE", "64K");
    set("SPIN", "1ms");
    set("DEPTH", "8");
    set("SEND_SHARE", "40");
    set("LISTEN_WITHOUT_SECRET", "yes");
    set("HUGE_PAGES", "n");
    set("CHECKSUM", "CRC32C");
    set("SECRET_FILE", "/etc/secret");

    ck_assert_uint_eq(values_of(config)->block_size, 64 * KIB);
    ck_assert_uint_eq(values_of(config)->spin_ns, 1000000);
    ck_assert_uint_eq(values_of(config)->depth, 8);
    ck_assert_uint_eq(values_of(config)->send_share, 40);
    ck_assert(values_of(config)->listen_without_secret);
    ck_assert_int_eq(values_of(config)->huge_pages, BASE_SWITCH_NO);
    ck_assert_int_eq(values_of(config)->checksum, BASE_CHECKSUM_CRC32C);
    ck_assert_str_eq(values_of(config)->secret_file, "/etc/secret");
}

TEST(huge_pages_accepts_its_three_values)
{
    set("HUGE_PAGES", "y");
    ck_assert_int_eq(values_of(config)->huge_pages, BASE_SWITCH_YES);
    set("HUGE_PAGES", "TRY");
    ck_assert_int_eq(values_of(config)->huge_pages, BASE_SWITCH_TRY);
    ck_assert_int_eq(values_of(config)->cuda_backing, BASE_BACKING_AUTO);
    assert_refused("LISTEN_WITHOUT_SECRET", "try");
    assert_refused("HUGE_PAGES", "perhaps");
}

TEST(limits_are_accepted_and_values_beyond_are_rejected)
{
    static const struct {
        const char *key, *below, *min, *max, *above;
    } limits[] = {
        {"BLOCK_SIZE", "2k", "4k", "1g", "2g"},
        {"SEND_SHARE", "0", "1", "99", "100"},
        {"RECV_SHARE", "0", "1", "99", "100"},
        {"FRAG_SIZE", "4095", "4096", "1g", "1073741825"},
        {"DEPTH", "0", "1", "64", "65"},
        {"EAGER_SIZE", "-1", "0", "16k", "16385"},
        {"CREDITS", "0", "1", "1024", "1025"},
        {"MAX_METADATA", "-1", "0", "4k", "4097"},
        {"MAX_SEGMENTS", "0", "1", "1g", "1073741825"},
        {"AM_ID", "-1", "0", "65000", "65001"},
        {"MAX_HALF_OPEN", "0", "1", "65536", "65537"},
        {"ACCEPT_QUEUE", "0", "1", "4096", "4097"},
        {"HANDSHAKE_TIMEOUT", "0", "1ms", "1h", "61m"},
        {"REQUEST_TIMEOUT", "999us", "1ms", "inf", "auto"},
        {"PEER_TIMEOUT", "999ms", "1s", "inf", "auto"},
        {"PEER_TIMEOUT", "0", "1s", "24h", "25h"},
    };

    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        assert_refused(limits[i].key, limits[i].below);
        set(limits[i].key, limits[i].min);
        set(limits[i].key, limits[i].max);
        assert_refused(limits[i].key, limits[i].above);
    }
}

TEST(block_size_must_be_a_power_of_two)
{
    assert_refused("BLOCK_SIZE", "3m");
    assert_detail("BLOCK_SIZE=3m");
    assert_detail("power of two from 4k to 1g");
}

TEST(auto_and_inf_are_accepted_only_by_some_keys)
{
    set("COMM_SIZE", "auto");
    set("COMM_SIZE", "0");
    assert_refused("COMM_SIZE", "4k");
    assert_refused("MEMORY_LIMIT", "0");
    set("INPLACE_MIN", "inf");
    set("CLOSE_TIMEOUT", "inf");
    assert_refused("COMM_SIZE", "inf");
    assert_refused("INPLACE_MIN", "auto");
    assert_refused("BLOCK_SIZE", "inf");
    assert_refused("HANDSHAKE_TIMEOUT", "inf");
}

TEST(error_has_the_bad_value_and_the_accepted_ones)
{
    assert_refused("WIRE", "tcp");
    assert_detail("WIRE=tcp");
    assert_detail("auto, map, ucx");
    assert_refused("DEPTH", "");
    assert_detail("a number from 1 to 64");
}

TEST(long_bad_value_is_truncated_in_the_error)
{
    char value[5000];

    memset(value, '9', sizeof(value) - 1);
    value[sizeof(value) - 1] = '\0';
    assert_refused("DEPTH", value);
    assert_detail("999...");
    assert_detail("a number from 1 to 64");
}

TEST(path_that_is_too_long_is_rejected)
{
    char path[BASE_PATH_SIZE + 1];

    memset(path, 'x', sizeof(path));
    path[BASE_PATH_SIZE] = '\0';
    assert_refused("SECRET_FILE", path);
    path[BASE_PATH_SIZE - 1] = '\0';
    set("SECRET_FILE", path);
    ck_assert_str_eq(values_of(config)->secret_file, path);
}

TEST(an_unknown_key_is_named)
{
    assert_refused("BLOKC_SIZE", "4m");
    assert_detail("BLOKC_SIZE");
    assert_detail("ucxpool_info -c");
    assert_refused("block_size", "4m");
    assert_refused("", "y");
}
