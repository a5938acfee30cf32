/* Packed remote keys: the parser accepts only keys as UCX packs them. */
#include "ucx/reg.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#define HEADER 9u

static uint64_t domains;

static bool read_bytes(const uint8_t *bytes, size_t size, unsigned num)
{
    /* The copy ends with the key, so that a sanitizer detects each byte read
     * beyond it. */
    uint8_t *copy = malloc(size + 1);
    bool     is_key;

    memcpy(copy, bytes, size);
    copy   = realloc(copy, size == 0 ? 1 : size);
    is_key = ucx_key_read(copy, size, num, &domains);
    free(copy);
    return is_key;
}

TEST_SETTINGS(.timeout = 60);

TEST(a_key_names_the_domains_that_have_the_memory)
{
    const uint8_t bytes[] = {0x13, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3, 1, 9};

    ck_assert(read_bytes(bytes, sizeof(bytes), 5));
    ck_assert_uint_eq(domains, 0x13);
}

TEST(a_key_without_domains_is_valid)
{
    const uint8_t bytes[HEADER] = {0};

    domains = 7;
    ck_assert(read_bytes(bytes, sizeof(bytes), 5));
    ck_assert_uint_eq(domains, 0);
}

TEST(data_after_the_domains_is_skipped)
{
    const uint8_t bytes[] = {1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 1, 2, 3};

    ck_assert(read_bytes(bytes, sizeof(bytes), 1));
    ck_assert_uint_eq(domains, 1);
}

TEST(a_truncated_key_is_rejected)
{
    const uint8_t bytes[] = {0x3, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 2, 1, 9};

    ck_assert(read_bytes(bytes, sizeof(bytes), 2));
    for (size_t size = 0; size < sizeof(bytes); size++) {
        ck_assert(!read_bytes(bytes, size, 2));
    }
}

TEST(a_key_with_an_unknown_domain_is_rejected)
{
    const uint8_t bytes[] = {4, 0, 0, 0, 0, 0, 0, 0, 0, 0};

    ck_assert(read_bytes(bytes, sizeof(bytes), 3));
    ck_assert(!read_bytes(bytes, sizeof(bytes), 2));
    ck_assert(!read_bytes(bytes, sizeof(bytes), 0));
}

TEST(all_64_domains_fit)
{
    uint8_t bytes[HEADER + 64] = {0};

    memset(bytes, 0xff, sizeof(uint64_t));
    ck_assert(read_bytes(bytes, sizeof(bytes), 64));
    ck_assert_uint_eq(domains, UINT64_MAX);
}

/* The keys of both halves of the memory have the same domains. */
TEST(the_keys_of_this_ucx_are_parsed)
{
    enum { SIZE = 65536 };
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features   = UCP_FEATURE_AM | UCP_FEATURE_RMA,
    };
    ucp_context_h context;
    char         *memory = aligned_alloc(4096, SIZE);
    uint64_t      found[2];

    memset(memory, 1, SIZE);
    ck_assert_int_eq(ucp_init(&params, NULL, &context), UCS_OK);
    for (int i = 0; i < 2; i++) {
        const ucp_mem_map_params_t map = {
            .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                          UCP_MEM_MAP_PARAM_FIELD_LENGTH,
            .address = memory + i * (SIZE / 2),
            .length  = SIZE / 2,
        };
        ucp_mem_h memh;
        void     *key;
        size_t    size;

        ck_assert_int_eq(ucp_mem_map(context, &map, &memh), UCS_OK);
        ck_assert_int_eq(ucp_rkey_pack(context, memh, &key, &size), UCS_OK);
        ck_assert(ucx_key_read(key, size, 64, &found[i]));
        ucp_rkey_buffer_release(key);
        ck_assert_int_eq(ucp_mem_unmap(context, memh), UCS_OK);
    }
    ck_assert_uint_eq(found[0], found[1]);
    ucp_cleanup(context);
    free(memory);
}
