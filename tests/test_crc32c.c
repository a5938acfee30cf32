/*
 * CRC32C: the vectors of RFC 3720 B.4, and any split of the data. Includes the
 * source, to reach the table on CPUs that have the instruction.
 */
#include "base/crc32c.c"
#include "test.h"

#include <string.h>

static uint8_t data[64 * 1024];

static uint32_t crc_of_table(uint32_t crc, const void *bytes, size_t length)
{
    if (crc_table[1] == 0) {
        crc_table_init();
    }
    return ~crc_by_table(~crc, bytes, length);
}

typedef uint32_t (*way_t)(uint32_t crc, const void *bytes, size_t length);

static const way_t ways[] = {base_crc32c, crc_of_table};
#define NUM_WAYS ((int)(sizeof(ways) / sizeof(ways[0])))

/* Bit by bit, as in the definition. */
static uint32_t crc_by_bits(uint32_t crc, const uint8_t *bytes, size_t length)
{
    crc = ~crc;
    for (size_t i = 0; i < length; i++) {
        crc ^= bytes[i];
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0x82f63b78u : 0);
        }
    }
    return ~crc;
}

static void fill(void)
{
    uint32_t state = 1;

    for (size_t i = 0; i < sizeof(data); i++) {
        state   = state * 1103515245u + 12345u;
        data[i] = (uint8_t)(state >> 16);
    }
}

TEST_SETTINGS(.timeout = 60);

TEST_EACH(rfc_3720_vectors_match, NUM_WAYS)
{
    static const uint8_t read_command[48] = {
        0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,    0, 0, 0, 0,
        0x14, 0,    0, 0, 0, 0, 4, 0, 0, 0, 0, 0x14, 0, 0, 0, 0x18,
        0x28, 0,    0, 0, 0, 0, 0, 0, 2, 0, 0, 0,    0, 0, 0, 0};
    uint8_t bytes[32];

    memset(bytes, 0, sizeof(bytes));
    ck_assert_uint_eq(0x8a9136aa, ways[_i](0, bytes, sizeof(bytes)));
    memset(bytes, 0xff, sizeof(bytes));
    ck_assert_uint_eq(0x62a8ab43, ways[_i](0, bytes, sizeof(bytes)));
    for (unsigned i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)i;
    }
    ck_assert_uint_eq(0x46dd794e, ways[_i](0, bytes, sizeof(bytes)));
    for (unsigned i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(31 - i);
    }
    ck_assert_uint_eq(0x113fdb5c, ways[_i](0, bytes, sizeof(bytes)));
    ck_assert_uint_eq(0xd9963a56,
                      ways[_i](0, read_command, sizeof(read_command)));
}

TEST_EACH(empty_data_keeps_the_checksum, NUM_WAYS)
{
    ck_assert_uint_eq(0, ways[_i](0, data, 0));
    ck_assert_uint_eq(0x12345678, ways[_i](0x12345678, data, 0));
}

TEST_EACH(every_short_length_and_alignment_is_right, NUM_WAYS)
{
    fill();
    for (size_t offset = 0; offset < 8; offset++) {
        for (size_t length = 0; length < 200; length++) {
            ck_assert_uint_eq(crc_by_bits(0, data + offset, length),
                              ways[_i](0, data + offset, length));
        }
    }
}

TEST_EACH(long_data_is_right_at_lane_boundaries, NUM_WAYS)
{
    fill();
    for (size_t lanes = 1024; lanes <= 32 * 1024; lanes += 1024) {
        for (size_t length = lanes - 9; length <= lanes + 9; length++) {
            ck_assert_uint_eq(crc_by_bits(7, data + 3, length),
                              ways[_i](7, data + 3, length));
        }
    }
}

TEST_EACH(checksum_of_pieces_equals_that_of_the_whole, NUM_WAYS)
{
    uint32_t whole, crc;

    fill();
    whole = ways[_i](0, data, 20000);
    for (size_t cut = 0; cut <= 20000; cut += 37) {
        crc = ways[_i](0, data, cut);
        ck_assert_uint_eq(whole, ways[_i](crc, data + cut, 20000 - cut));
    }
}
