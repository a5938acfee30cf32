/*
 * Windows accessed by UCX's get and put: when memory is registered, when this
 * way is used, and that nothing leaks if UCX, the owner or the importer refuses
 * it. UCX's functions are wrapped, and made to fail.
 */
#include "pair.h"
#include "test.h"
#include "replace.h"

#include "base/clock.h"
#include "core/control.h"
#include "core/remote.h"
#include "window/remote.h"
#include "window/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIRECT "WIRE=ucx WINDOW_WAY=direct"
#define SIZE   ((size_t)1 << 20)
#define TAG    UINT64_C(78)

/* --- UCX ------------------------------------------------------------------ */

typedef enum spoil {
    SPOIL_NOTHING,
    SPOIL_MAP,
    SPOIL_PACK,
    SPOIL_EMPTY,  /* the packed key has no bytes */
    SPOIL_LENGTH, /* a part of the key states more bytes than the key has */
    SPOIL_TYPE,   /* the key is for an unknown kind of memory */
    SPOIL_UNPACK,
    SPOIL_GET,
    SPOIL_PUT,
    SPOIL_FLUSH
} spoil_t;

static spoil_t  spoil;
static unsigned spoil_nth; /* from 1 */
static unsigned num_spoilt;
static bool     is_native; /* the endpoints look like those of a network card */
static int      num_maps, num_mapped, num_keys;
static unsigned num_gets, num_puts, num_flushes;
static int      num_late_keys; /* keys that outlive their worker */

static ucp_worker_h watched_worker;

static bool is_spoilt(spoil_t what)
{
    return (spoil == what) && (++num_spoilt == spoil_nth);
}

static void spoil_the(spoil_t what, unsigned nth)
{
    spoil      = what;
    spoil_nth  = nth;
    num_spoilt = 0;
}

REPLACE(ucs_status_t, ucp_mem_map, ucp_context_h context,
        const ucp_mem_map_params_t *params, ucp_mem_h *memh)
{
    ucs_status_t status;

    if (is_spoilt(SPOIL_MAP)) {
        return UCS_ERR_NO_MEMORY;
    }
    status = __real_ucp_mem_map(context, params, memh);
    num_maps += status == UCS_OK;
    num_mapped += status == UCS_OK;
    return status;
}

REPLACE(ucs_status_t, ucp_mem_unmap, ucp_context_h context, ucp_mem_h memh)
{
    num_mapped--;
    return __real_ucp_mem_unmap(context, memh);
}

REPLACE(ucs_status_t, ucp_rkey_pack, ucp_context_h context, ucp_mem_h memh,
        void **buffer, size_t *size)
{
    ucs_status_t status;
    uint8_t     *bytes;
    uint64_t     domains = 1;

    if (is_spoilt(SPOIL_PACK)) {
        return UCS_ERR_UNSUPPORTED;
    }
    status = __real_ucp_rkey_pack(context, memh, buffer, size);
    bytes  = *buffer;
    if (is_spoilt(SPOIL_EMPTY)) {
        *size = 0;
    }
    if (is_spoilt(SPOIL_LENGTH)) {
        memcpy(bytes, &domains, sizeof(domains));
        *size = sizeof(domains) + 1;
    }
    if (is_spoilt(SPOIL_TYPE)) {
        bytes[sizeof(domains)] = 77;
    }
    return status;
}

REPLACE(ucs_status_t, ucp_ep_rkey_unpack, ucp_ep_h ep, const void *buffer,
        ucp_rkey_h *key)
{
    ucs_status_t status;

    if (is_spoilt(SPOIL_UNPACK)) {
        return UCS_ERR_UNREACHABLE;
    }
    status = __real_ucp_ep_rkey_unpack(ep, buffer, key);
    num_keys += status == UCS_OK;
    return status;
}

REPLACE(void, ucp_rkey_destroy, ucp_rkey_h key)
{
    num_keys--;
    __real_ucp_rkey_destroy(key);
}

REPLACE(void, ucp_worker_destroy, ucp_worker_h worker)
{
    if (worker == watched_worker) {
        num_late_keys = num_keys;
    }
    __real_ucp_worker_destroy(worker);
}

REPLACE(ucs_status_ptr_t, ucp_get_nbx, ucp_ep_h ep, void *buffer, size_t size,
        uint64_t address, ucp_rkey_h key, const ucp_request_param_t *param)
{
    num_gets++;
    if (is_spoilt(SPOIL_GET)) {
        return UCS_STATUS_PTR(UCS_ERR_UNSUPPORTED);
    }
    return __real_ucp_get_nbx(ep, buffer, size, address, key, param);
}

REPLACE(ucs_status_ptr_t, ucp_put_nbx, ucp_ep_h ep, const void *buffer,
        size_t size, uint64_t address, ucp_rkey_h key,
        const ucp_request_param_t *param)
{
    num_puts++;
    if (is_spoilt(SPOIL_PUT)) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    return __real_ucp_put_nbx(ep, buffer, size, address, key, param);
}

REPLACE(ucs_status_ptr_t, ucp_ep_flush_nbx, ucp_ep_h ep,
        const ucp_request_param_t *param)
{
    num_flushes++;
    if (is_spoilt(SPOIL_FLUSH)) {
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    return __real_ucp_ep_flush_nbx(ep, param);
}

REPLACE(void, ucp_ep_print_info, ucp_ep_h ep, FILE *stream)
{
    if (is_native) {
        fprintf(stream, "#  lane[0]:  1:rc_verbs/card:1.0 md[1] -> md[1]/ib "
                        "rma#0 am\n");
    } else {
        __real_ucp_ep_print_info(ep, stream);
    }
}

/* --- a window and its import ---------------------------------------------- */

/* b owns the window; a reads and writes it. */
static pair_t                   pair;
static uint8_t                 *memory;
static ucxpool_window_t        *window;
static ucxpool_remote_window_t *remote;
static uint8_t                  bytes[SIZE];
static int                      num_maps_before, num_mapped_before;

static ucxpool_remote_window_attr_t asked(void)
{
    return pair_remote_attr(remote);
}

static ucxpool_window_attr_t told(void)
{
    return pair_window_attr(window);
}

static uint64_t stat(const char *name)
{
    uint64_t value;

    assert_ok(ucxpool_stats_get(pair.b, name, &value));
    return value;
}

static void forget_calls(void)
{
    spoil     = SPOIL_NOTHING;
    is_native = false;
    num_gets = num_puts = num_flushes = 0;
}

static void open_window(const char *importers, const char *owners)
{
    forget_calls();
    pair_init(&pair, importers, owners);
    pair.a->windows->may_emulate = strstr(importers, "direct") != NULL;
    num_maps_before              = num_maps;
    num_mapped_before            = num_mapped;
    memory                       = malloc(SIZE);
    pair_fill(memory, SIZE);
    assert_ok(ucxpool_window_create(pair.b, memory, SIZE, NULL, &window));
}

static void import(ucxpool_window_t *of)
{
    remote = pair_import(pair.to_b, of, PAIR_READ_AND_WRITE);
    pair_until(&pair, asked().status != UCXPOOL_INPROGRESS);
}

static ucxpool_request_t *post(bool is_write, size_t num, size_t size)
{
    static uint64_t  offsets[64]; /* must stay valid until the operation ends */
    ucxpool_data_t   data = ucxpool_data_buffer(bytes, num * size);
    ucxpool_places_t places;
    ucxpool_request_t *request;

    ck_assert_uint_le(num, sizeof(offsets) / sizeof(offsets[0]));
    for (size_t i = 0; i < num; i++) {
        offsets[i] = i * size;
    }
    places = ucxpool_places_even(offsets, num, size);
    assert_ok(is_write ? ucxpool_remote_window_write(remote, &places, &data,
                                                     NULL, &request)
                       : ucxpool_remote_window_read(remote, &places, &data,
                                                    NULL, &request));
    return request;
}

static ucxpool_status_t move(bool is_write, size_t num, size_t size)
{
    return pair_finish(&pair, post(is_write, num, size));
}

/* Read and write the whole window. */
static void check_moves(void)
{
    pair_poison(bytes, SIZE);
    assert_ok(move(false, 1, SIZE));
    ck_assert_mem_eq(bytes, memory, SIZE);
    pair_fill(bytes, SIZE);
    assert_ok(move(true, 1, SIZE));
    ck_assert_mem_eq(bytes, memory, SIZE);
}

static void release(void)
{
    ucxpool_remote_window_release(remote);
    pair_until(&pair, told().num_peers == 0);
}

/* Nothing is leaked. */
static void check_end(void)
{
    ck_assert_int_eq(num_mapped, 0);
    ck_assert_int_eq(num_keys, 0);
    free(memory);
}

/* The same after the channel has ended. */
static void end_closed(void)
{
    ucxpool_remote_window_release(remote);
    ucxpool_window_destroy(window);
    pair_cleanup(&pair);
    check_end();
}

static void end(void)
{
    release();
    ck_assert_int_eq(num_keys, 0);
    ck_assert_uint_eq(pair.to_b->windows->num_rma, 0);
    ucxpool_window_destroy(window);
    ck_assert_uint_eq(stat("window_registered_bytes"), 0);
    ck_assert_int_eq(num_mapped, num_mapped_before);
    pair_check_blocks(&pair);
    pair_cleanup(&pair);
    check_end();
}

static void begin(const char *importers, const char *owners)
{
    open_window(importers, owners);
    test_at_end(end);
}

/* --- registration --------------------------------------------------------- */

TEST_SETTINGS(.timeout = 60);

TEST(a_window_is_registered_once_for_all_importers)
{
    begin(DIRECT, DIRECT);
    ck_assert_uint_eq(told().registered, 0);
    ck_assert(told().not_registered[0] == '\0');
    for (int i = 0; i < 3; i++) {
        import(window);
        ck_assert_int_eq(asked().way, UCXPOOL_WAY_RMA);
        assert_has(asked().way_reason, "with UCX's get and put");
        ck_assert_int_eq(num_keys, 1);
        check_moves();
        release();
        ck_assert_int_eq(num_keys, 0);
    }
    ck_assert_uint_ge(num_gets, 3 * 3);
    ck_assert_uint_ge(num_puts, 3 * 2);
    ck_assert_uint_eq(told().registered, SIZE);
    ck_assert_int_eq(num_maps - num_maps_before, 1);
    ck_assert_uint_eq(stat("window_registered_bytes"), SIZE);
    ck_assert_uint_eq(stat("window_registrations"), 1);
    ck_assert_uint_eq(stat("window_registrations_refused"), 0);
    import(window);
}

TEST(a_revoked_window_is_no_longer_registered)
{
    begin(DIRECT, DIRECT);
    import(window);
    ck_assert_int_eq(ucxpool_window_revoke(window, 0), UCXPOOL_INPROGRESS);
    ck_assert_int_eq(num_mapped, num_mapped_before + 1);
    pair_until(&pair, ucxpool_window_revoke(window, 0) == UCXPOOL_OK);
    ck_assert_int_eq(num_mapped, num_mapped_before);
    ck_assert_uint_eq(told().registered, 0);
    ck_assert_int_eq(num_keys, 0);
}

/* Not even if this way is required. */
TEST(tcp_has_no_get_and_put)
{
    begin(DIRECT, DIRECT);
    pair.a->windows->may_emulate = false;
    import(window);
    assert_error(asked().status, UNSUPPORTED);
    assert_has(asked().reason, "do not support get and put");
    ck_assert_int_eq(num_maps, num_maps_before);
}

/* It is not requested if the transports have no get and put. */
TEST(tcp_falls_back_to_messages)
{
    begin("WIRE=ucx", "WIRE=ucx");
    import(window);
    ck_assert_int_eq(asked().way, UCXPOOL_WAY_MESSAGES);
    assert_has(asked().way_reason, "do not support get and put");
    ck_assert_int_eq(num_maps, num_maps_before);
    ck_assert(told().not_registered[0] == '\0');
    check_moves();
    ck_assert_uint_eq(num_gets + num_puts, 0);
}

TEST_EACH(an_owner_may_require_messages, 2)
{
    begin(_i ? DIRECT : "WIRE=ucx", "WIRE=ucx WINDOW_WAY=messages");
    is_native = true;
    import(window);
    ck_assert_int_eq(num_maps, num_maps_before);
    assert_has(told().not_registered, "WINDOW_WAY=messages");
    if (_i) { /* the importer requires get and put */
        assert_error(asked().status, UNSUPPORTED);
        assert_has(asked().reason, "WINDOW_WAY=messages");
    } else {
        ck_assert_int_eq(asked().way, UCXPOOL_WAY_MESSAGES);
        assert_has(asked().way_reason, "the owner has UCXPOOL_WINDOW_WAY");
        check_moves();
    }
}

TEST(windows_beyond_the_budget_use_messages)
{
    ucxpool_window_t        *second;
    ucxpool_remote_window_t *first;
    uint8_t                 *more = test_alloc(SIZE / 2);

    begin("WIRE=ucx", "WIRE=ucx WINDOW_BUDGET=1m");
    is_native = true;
    pair_fill(more, SIZE / 2);
    assert_ok(ucxpool_window_create(pair.b, more, SIZE / 2, NULL, &second));
    import(second);
    ck_assert_int_eq(asked().way, UCXPOOL_WAY_RMA);
    first = remote;
    import(window);
    ck_assert_int_eq(asked().way, UCXPOOL_WAY_MESSAGES);
    assert_has(asked().way_reason, "UCXPOOL_WINDOW_BUDGET");
    assert_has(told().not_registered, "WINDOW_BUDGET");
    ck_assert_uint_eq(told().registered, 0);
    ck_assert_uint_eq(stat("window_registered_bytes"), SIZE / 2);
    ck_assert_uint_eq(stat("window_registrations_refused"), 1);
    check_moves();
    release();
    /* After the first import is released, there is room. */
    ucxpool_remote_window_release(first);
    pair_until(&pair, base_list_is_empty(&second->grants));
    ucxpool_window_destroy(second);
    import(window);
    ck_assert_int_eq(asked().way, UCXPOOL_WAY_RMA);
    ck_assert_uint_eq(told().registered, SIZE);
    ck_assert(told().not_registered[0] == '\0');
    check_moves();
    test_end();
}

TEST(messages_are_used_if_ucx_fails)
{
    static const struct {
        spoil_t     what;
        bool        is_owners; /* the owner reports why it has no key */
        const char *reason;
    } cases[] = {
        {SPOIL_MAP, true, "UCX cannot register the window"},
        {SPOIL_PACK, true, "UCX cannot pack a key"},
        {SPOIL_EMPTY, true, "UCX packed a key of 0 bytes"},
        {SPOIL_UNPACK, false, "UCX rejected the owner's key"},
        {SPOIL_GET, false, "UCX cannot read from the window"},
    };

    begin("WIRE=ucx", "WIRE=ucx");
    is_native = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        spoil_the(cases[i].what, 1);
        import(window);
        ck_assert_int_eq(asked().way, UCXPOOL_WAY_MESSAGES);
        assert_has(asked().way_reason, cases[i].reason);
        if (cases[i].is_owners) {
            ck_assert_str_eq(told().not_registered, asked().way_reason);
            ck_assert_int_eq(num_mapped, num_mapped_before);
        }
        check_moves();
        release();
        ck_assert_int_eq(num_keys, 0);
    }
    ck_assert_uint_eq(stat("window_registrations_refused"), 3);
    import(window); /* retry; this time it succeeds */
    ck_assert_int_eq(asked().way, UCXPOOL_WAY_RMA);
    check_moves();
}

/* --- choice of way per operation ----------------------------------------- */

TEST(long_pieces_use_get_and_put_and_short_ones_messages)
{
    static const struct {
        size_t num, size;
        bool   is_long;
    } cases[] = {
        {1, SIZE, true},
        {8, (size_t)128 << 10, true},
        {1, (size_t)32 << 10, true},
        {1, ((size_t)32 << 10) - 1, false},
        {64, (size_t)1 << 10, false},
        {1, 4096, false},
    };

    begin("WIRE=ucx", "WIRE=ucx");
    is_native = true;
    import(window);
    ck_assert_int_eq(asked().way, UCXPOOL_WAY_RMA);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t size = cases[i].num * cases[i].size;

        num_gets = num_puts = num_flushes = 0;
        pair_poison(bytes, size);
        assert_ok(move(false, cases[i].num, cases[i].size));
        ck_assert_mem_eq(bytes, memory, size);
        pair_fill(bytes, size);
        assert_ok(move(true, cases[i].num, cases[i].size));
        ck_assert_mem_eq(bytes, memory, size);
        ck_assert_int_eq(num_gets >= cases[i].num, cases[i].is_long);
        ck_assert_int_eq(num_puts >= cases[i].num, cases[i].is_long);
        ck_assert_uint_eq(num_flushes, cases[i].is_long ? 1 : 0);
    }
}

static uint64_t count(const char *name)
{
    uint64_t of_pool, of_channel;

    assert_ok(ucxpool_stats_get(pair.a, name, &of_pool));
    assert_ok(ucxpool_channel_stats_get(pair.to_b, name, &of_channel));
    ck_assert_uint_eq(of_pool, of_channel);
    return of_pool;
}

static uint64_t count_of_histogram(const char *name)
{
    ucxpool_histogram_t histogram;

    assert_ok(
        ucxpool_histogram_get(pair.a, name, &histogram, sizeof(histogram)));
    return histogram.count;
}

TEST(long_pieces_count_as_rma_and_short_ones_as_messages)
{
    begin("WIRE=ucx", "WIRE=ucx");
    is_native = true;
    import(window);
    assert_ok(move(false, 2, (size_t)128 << 10));
    assert_ok(move(false, 1, (size_t)64 << 10));
    assert_ok(move(true, 1, SIZE));
    assert_ok(move(false, 1, 1000));
    ck_assert_uint_eq(count("read_rma_bytes"), (size_t)320 << 10);
    ck_assert_uint_eq(count("read_rma_operations"), 2);
    ck_assert_uint_eq(count("read_messages_bytes"), 1000);
    ck_assert_uint_eq(count("read_messages_operations"), 1);
    ck_assert_uint_eq(count("written_rma_bytes"), SIZE);
    ck_assert_uint_eq(count("written_rma_operations"), 1);
    ck_assert_uint_eq(count("written_messages_operations"), 0);
    ck_assert_uint_eq(count_of_histogram("read_ucx_rma"), 2);
    ck_assert_uint_eq(count_of_histogram("read_ucx_messages"), 1);
    ck_assert_uint_eq(count_of_histogram("write_ucx_rma"), 1);
    ck_assert_uint_eq(count_of_histogram("write_ucx_messages"), 0);
}

/* --- failures ------------------------------------------------------------- */

TEST(an_operation_that_fails_halfway_leaves_nothing_behind)
{
    begin(DIRECT, DIRECT);
    import(window);
    for (unsigned nth = 1; nth <= 12; nth++) {
        spoil_the(SPOIL_GET, nth);
        assert_error(move(false, 12, 50000), UNSUPPORTED);
        spoil_the(SPOIL_PUT, nth);
        assert_error(move(true, 12, 50000), NO_MEMORY);
        ck_assert(base_list_is_empty(&pair.to_b->windows->moving));
        ck_assert(base_list_is_empty(&pair.to_b->windows->moved));
    }
    spoil_the(SPOIL_FLUSH, 1);
    assert_error(move(true, 12, 50000), NO_MEMORY);
    check_moves();
}

/* The owner makes no progress, which UCX's get needs. */
TEST_EACH(an_operation_that_ucx_never_completes_ends_the_channel, 2)
{
    uint64_t           late = pair_deadline();
    ucxpool_request_t *request;

    open_window(DIRECT " CLOSE_TIMEOUT=100ms", DIRECT);
    import(window);
    pair.a->drain_ns = 1000000;
    request          = post(_i != 0, 1, SIZE);
    ucxpool_request_cancel(request);
    while (!pair_ended(request)) {
        ucxpool_progress(pair.a);
        ck_assert(!pair_is_late(late));
    }
    ck_assert_int_eq(pair_state(pair.to_b), UCXPOOL_CHANNEL_FAILED);
    assert_error(pair_finish(&pair, request), CANCELED);
    assert_error(asked().status, CANCELED);
    pair_until(&pair, told().num_peers == 0);
    ck_assert_int_eq(num_keys, 0);
    end_closed();
}

/* The peer has stopped without closing its channel. */
TEST(an_owner_keeps_its_registration_until_the_endpoint_is_closed)
{
    uint64_t late = pair_deadline();

    open_window(DIRECT, DIRECT " CLOSE_TIMEOUT=1000s");
    import(window);
    ucxpool_channel_abort(pair.to_a);
    ck_assert_int_eq(ucxpool_window_revoke(window, 0), UCXPOOL_INPROGRESS);
    ck_assert_int_eq(num_mapped, num_mapped_before + 1);
    ck_assert_int_ne(pair.to_a->conn.endpoint->step, CORE_ENDPOINT_CLOSED);
    pair.to_a->closing.deadline = base_clock_now();
    while (ucxpool_window_revoke(window, 0) == UCXPOOL_INPROGRESS) {
        ucxpool_progress(pair.b);
        ck_assert(!pair_is_late(late));
    }
    ck_assert_int_eq(num_mapped, num_mapped_before);
    pair_until(&pair, asked().status < UCXPOOL_OK);
    end_closed();
}

/* A forced close drops what UCX has not sent yet. */
TEST(endpoints_are_flushed_before_they_are_closed)
{
    pair_init(&pair, DIRECT " CLOSE_TIMEOUT=1000s",
              DIRECT " CLOSE_TIMEOUT=1000s");
    ucxpool_channel_close(pair.to_a);
    ucxpool_channel_close(pair.to_b);
    pair_until(&pair,
               (pair.a->channels.count == 0) && (pair.b->channels.count == 0));
    num_flushes = 0;
    /* As ucxpool_destroy() does, but without a deadline, after which an
     * endpoint is not flushed. */
    core_lock(pair.a);
    core_remote_close_all(pair.a, BASE_CLOCK_FOREVER);
    core_unlock(pair.a);
    pair_until(&pair, !core_remote_has_endpoints(pair.a));
    ck_assert_uint_ge(num_flushes, 1);
    ucxpool_destroy(pair.a);
    ucxpool_destroy(pair.b);
}

TEST(an_import_released_early_leaks_nothing)
{
    begin(DIRECT, DIRECT);
    for (int rounds = 0; rounds < 12; rounds++) {
        remote = pair_import(pair.to_b, window, PAIR_READ_AND_WRITE);
        for (int i = 0; i < rounds; i++) {
            pair_progress(&pair);
        }
        release();
        ck_assert_int_eq(num_keys, 0);
    }
    import(window);
}

/* A key belongs to its worker, and must be released before it. */
TEST(destroying_a_pool_releases_its_imports)
{
    open_window(DIRECT, DIRECT);
    import(window);
    ck_assert_int_eq(num_keys, 1);
    watched_worker = pair.a->ucx.worker;
    num_late_keys  = -1;
    ucxpool_destroy(pair.a);
    ck_assert_int_eq(num_late_keys, 0);
    ucxpool_window_destroy(window);
    ucxpool_destroy(pair.b);
    check_end();
}

/* --- a peer that violates the protocol ----------------------------------- */

TEST_EACH(a_damaged_key_ends_the_channel, 2)
{
    static const spoil_t damages[] = {SPOIL_LENGTH, SPOIL_TYPE};

    open_window(DIRECT " LOG_LEVEL=none", DIRECT " LOG_LEVEL=none");
    spoil_the(damages[_i], 1);
    import(window);
    assert_error(asked().status, PROTOCOL);
    assert_has(asked().reason, "are not a UCX key");
    ck_assert_int_eq(num_keys, 0);
    pair_until(&pair, told().num_peers == 0);
    end_closed();
}

static void send_opened(const void *data, size_t size, uint32_t flags)
{
    proto_fixed_t *fixed;
    void          *room;

    core_lock(pair.b);
    fixed = core_control_begin(pair.to_a, PROTO_WINDOW_OPENED, size, CORE_MUST,
                               &room);
    fixed->window_opened.remote  = remote->number;
    fixed->window_opened.grant   = 999;
    fixed->window_opened.length  = SIZE;
    fixed->window_opened.address = 16;
    fixed->window_opened.flags   = flags;
    memcpy(room, data, size);
    core_control_end(pair.to_a);
    core_unlock(pair.b);
}

/* Both while the first answer is being tried, and afterwards. */
TEST(a_second_answer_is_ignored)
{
    const uint64_t key[2] = {0, 0};

    begin(DIRECT, DIRECT);
    remote = pair_import(pair.to_b, window, PAIR_READ_AND_WRITE);
    pair_until(&pair, remote->grant != 0);
    send_opened(key, sizeof(key), PROTO_OPENED_KEY);
    pair_until(&pair, asked().status != UCXPOOL_INPROGRESS);
    send_opened(key, sizeof(key), PROTO_OPENED_KEY);
    for (int i = 0; i < 100; i++) {
        pair_progress(&pair);
    }
    ck_assert_int_eq(num_keys, 1);
    ck_assert_uint_eq(remote->address, (uintptr_t)memory);
    check_moves();
}

/* The importer does not request a key, and uses messages. */
TEST(an_importer_that_uses_messages_requests_no_key)
{
    begin("WIRE=ucx WINDOW_WAY=messages", DIRECT);
    import(window);
    ck_assert_int_eq(asked().way, UCXPOOL_WAY_MESSAGES);
    ck_assert_int_eq(num_maps, num_maps_before);
    check_moves();
}
