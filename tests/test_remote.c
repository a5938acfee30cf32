/*
 * State about other pools: which blobs belong to the same pool, and how many
 * pools that connected are remembered.
 */
#include "core/remote.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "bootstrap/client.h"
#include "core/pool.h"
#include "pair.h"
#include "test.h"
#include "replace.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* If set, the clock is stopped at this time. */
static struct timespec stopped_at;

REPLACE(int, clock_gettime, clockid_t clock, struct timespec *now_p)
{
    if (stopped_at.tv_sec == 0) {
        return __real_clock_gettime(clock, now_p);
    }
    *now_p = stopped_at;
    return 0;
}

static core_blob_t *address_of(ucxpool_t *pool, size_t *length_p)
{
    void *address;

    assert_ok(ucxpool_address_get(pool, &address, length_p));
    return address;
}

static pair_t       pair;
static core_blob_t *blob; /* of a pool, until the end of the test */
static size_t       length;

static void release_blob(void)
{
    ucxpool_address_release(blob);
}

static void take_blob(ucxpool_t *pool)
{
    blob = address_of(pool, &length);
    test_at_end(release_blob);
}

static core_remote_t *get(ucxpool_t *pool)
{
    core_remote_t *remote;

    core_lock(pool);
    remote = core_remote_get(pool, blob);
    core_unlock(pool);
    ck_assert_ptr_nonnull(remote);
    return remote;
}

static void put(core_remote_t *remote)
{
    ucxpool_t *pool = remote->pool;

    core_lock(pool);
    core_remote_put(remote);
    core_unlock(pool);
}

static const struct {
    size_t offset; /* of a byte in a blob */
    bool   is_of_one_call;
} bytes[] = {
    {offsetof(core_blob_t, am_id), false},
    {offsetof(core_blob_t, id), false},
    {offsetof(core_blob_t, key), false},
    {offsetof(core_blob_t, pair), true},
    {offsetof(core_blob_t, turn), true},
    {offsetof(core_blob_t, net_namespace), false},
    {offsetof(core_blob_t, host) + offsetof(ipc_host_t, pid), false},
    {offsetof(core_blob_t, worker), false},
    {offsetof(core_blob_t, worker) + 20, false},
};

#define NUM_BYTES ((int)(sizeof(bytes) / sizeof(bytes[0])))

TEST_SETTINGS(.timeout = 60);

TEST_EACH(a_pool_is_identified_by_all_fields_of_its_blob, NUM_BYTES)
{
    core_remote_t *known, *other;

    pair_pools(&pair, NULL, NULL);
    take_blob(pair.b);
    known = get(pair.a);
    ck_assert_uint_gt(length, bytes[_i].offset);
    ((uint8_t *)blob)[bytes[_i].offset] ^= 1;
    other = get(pair.a);
    ck_assert_int_eq(other == known, bytes[_i].is_of_one_call);
    ((uint8_t *)blob)[bytes[_i].offset] ^= 1;
    put(other);
    other = get(pair.a);
    ck_assert_ptr_eq(other, known);
    put(other);
    put(known);
}

static void check_address(void)
{
    size_t       now_length;
    core_blob_t *now = address_of(pair.a, &now_length);

    ck_assert_uint_eq(now_length, length);
    ck_assert_mem_eq(now, blob, length);
    ucxpool_address_release(now);
}

TEST(the_blob_of_a_pool_does_not_change)
{
    pair_pools(&pair, "WIRE=ucx", "WIRE=ucx");
    take_blob(pair.a);
    for (int i = 0; i < 5; i++) {
        pair_connect(&pair);
        check_address();
        pair_exchange(&pair, 100000);
        check_address();
        ucxpool_channel_close(pair.to_a);
        ucxpool_channel_close(pair.to_b);
        pair_until(&pair, pair.a->channels.count == 0);
        pair_until(&pair, pair.b->channels.count == 0);
        check_address();
    }
}

/* --- damaged addresses --------------------------------------------------- */

static const char *const wires[] = {"WIRE=ucx", "WIRE=auto"};

static void create_fails(size_t address_length, const char *words)
{
    ucxpool_channel_params_t params = {
        .field_mask     = UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS,
        .address        = blob,
        .address_length = address_length,
    };
    ucxpool_channel_t *none = NULL;

    assert_error(ucxpool_channel_create(pair.a, &params, &none), INVALID_PARAM);
    ck_assert_ptr_null(none);
    assert_detail(words);
}

static void set_checksum(void)
{
    blob->checksum =
        base_crc32c_of_record(blob, length, offsetof(core_blob_t, checksum));
}

/* The peer's other channel and its request are not affected. */
TEST_EACH(an_address_with_any_bit_flipped_is_rejected, 2)
{
    pair_begin(&pair, wires[_i], wires[_i]);
    take_blob(pair.b);
    for (size_t bit = 0; bit < 8 * length; bit++) {
        ((uint8_t *)blob)[bit / 8] ^= (uint8_t)(1u << bit % 8);
        create_fails(length,
                     (bit < 32) ? "not an address of a pool" : "damaged");
        ((uint8_t *)blob)[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t cut = 0; cut < length; cut++) {
        create_fails(cut, "address");
    }
    blob->reserved = 1;
    set_checksum();
    create_fails(length, "reserved");
    blob->reserved = 0;
    blob->worker_length--;
    set_checksum();
    create_fails(length, "length");
    ck_assert(pair_is_open(pair.to_a) && pair_is_open(pair.to_b));
    pair_exchange(&pair, 100000);
}

/* --- an authenticated client that sends a blob written by the test -------- */

static void call(ucxpool_listener_t *listener)
{
    char                text[32];
    bootstrap_where_t   where;
    bootstrap_client_t *client;
    ucxpool_status_t    status = UCXPOOL_INPROGRESS;

    snprintf(text, sizeof(text), "127.0.0.1:%u",
             ucxpool_listener_port(listener));
    assert_ok(bootstrap_where_resolve(text, BOOTSTRAP_WHERE_CONNECT, &where));
    assert_ok(bootstrap_client_connect(&where, NULL, blob, length,
                                       BASE_CLOCK_FOREVER, &client));
    while (status == UCXPOOL_INPROGRESS) {
        ucxpool_progress(pair.a);
        status = bootstrap_client_progress(client);
    }
    assert_ok(status);
    bootstrap_client_destroy(client);
}

/* As a group member could, who has the addresses of all members. */
TEST_EACH(a_client_that_poses_as_another_pool_does_not_affect_it, 2)
{
    ucxpool_t *poser = pair_pool(wires[_i]);

    pair_pools(&pair, wires[_i], wires[_i]);
    take_blob(poser);
    memcpy(blob->id, pair.b->id, sizeof(blob->id));
    memcpy(blob->key, pair.b->key, sizeof(blob->key));
    core_blob_set_turn(blob, CORE_BLOB_NO_TURN); /* and fix the checksum */
    call(pair_listen(pair.a, "127.0.0.1:0"));
    pair_connect(&pair);
    pair_exchange(&pair, 100000);
    ucxpool_destroy(poser);
}

/* --- clients that are never accepted -------------------------------------- */

static unsigned num_remotes(const ucxpool_t *pool)
{
    const base_list_t *link  = pool->channels.remotes.next;
    unsigned           count = 0;

    for (; link != &pool->channels.remotes; link = link->next) {
        count++;
    }
    return count;
}

static void flood(uint32_t num)
{
    for (uint32_t i = 0; i < num; i++) {
        memcpy(blob->id, &i, sizeof(i));
        core_lock(pair.a);
        ck_assert_int_eq(core_remote_called(pair.a, blob, false),
                         CORE_BLOB_CALLERS);
        core_unlock(pair.a);
    }
}

TEST(a_bounded_number_of_pending_clients_is_remembered)
{
    core_remote_t *used;

    pair_pools(&pair, NULL, NULL);
    take_blob(pair.b);
    used = get(pair.a);
    /* A slow machine may need longer than clients are remembered. */
    __real_clock_gettime(CLOCK_MONOTONIC, &stopped_at);
    flood(CORE_CALLED_MAX);
    ck_assert_uint_eq(num_remotes(pair.a), CORE_CALLED_MAX + 1);
    flood(3 * CORE_CALLED_MAX);
    ck_assert_uint_eq(num_remotes(pair.a), CORE_CALLED_MAX + 1);
    memcpy(blob->id, pair.b->id, sizeof(blob->id));
    put(get(pair.a));
    ck_assert_uint_eq(num_remotes(pair.a), CORE_CALLED_MAX + 1);
    stopped_at = (struct timespec){0};
    put(used);
}

TEST_EACH(a_client_forgotten_before_accept_can_still_connect, 2)
{
    ucxpool_listener_t *listener;

    pair_pools(&pair, wires[_i], wires[_i]);
    take_blob(pair.b);
    listener = pair_listen(pair.a, "127.0.0.1:0");
    pair_call_a(&pair, listener, "127.0.0.1");
    pair_until(&pair, pair.to_a->wireup.client == NULL);
    flood(2 * CORE_CALLED_MAX);
    pair_accept(&pair, listener);
    ck_assert(!core_remote_is_our_turn(pair.to_b));
    pair_until(&pair, pair_is_open(pair.to_a) && pair_is_open(pair.to_b));
    pair_exchange(&pair, 1000);
}
