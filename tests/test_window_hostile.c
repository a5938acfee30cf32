/*
 * An authenticated peer that violates the rules of windows, over the `map`
 * wire. Its channel fails, or its operation is rejected. No byte outside the
 * granted memory is read or written, and the owner gets the window back.
 */
#include <config.h>

#include "hostile.h"
#include "sealed.h"
#include "test.h"

#include "window/operation.h"
#include "window/service.h"
#include "wireup/wireup.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define SETTINGS "WIRE=map DEPTH=4 CREDITS=8"
#define SIZE     ((size_t)10000)

static uint8_t           memory[SIZE];
static ucxpool_window_t *window;
static uint64_t          sequence;

static void begin(void)
{
    hostile_init(SETTINGS);
    memset(memory, 0x11, SIZE);
    assert_ok(
        ucxpool_window_create(hostile.pair.a, memory, SIZE, NULL, &window));
    hostile_let_peer_read();
}

/* The channel has ended, the owner has its window back, and no byte has
 * changed. */
static void end(void)
{
    ck_assert(hostile_is_over());
    assert_ok(ucxpool_window_revoke(window, 0));
    ucxpool_window_destroy(window);
    ck_assert(pair_is_all(memory, SIZE, 0x11));
    hostile_check();
    hostile_cleanup();
}

static void check_rejected(void (*attack)(void), int row)
{
    begin();
    attack();
    hostile_let_peer_read();
    ck_assert(hostile_is_over());
    ck_assert_int_eq(hostile.victim->status, UCXPOOL_ERR_PROTOCOL);
    end();
}

static void check_ignored(void (*attack)(void), int row)
{
    proto_fixed_t bye = {.head = {.credits = 0}};

    begin();
    attack();
    hostile_let_peer_read();
    ck_assert(!hostile_is_over());
    hostile_post_message(PROTO_BYE, &bye, NULL, 0);
    hostile_let_peer_read();
    end();
}

TEST_SETTINGS(.before_fork = pair_warm_up, .timeout = 60);

/* --- messages of the peer ------------------------------------------------- */

static void open_window(uint64_t number, unsigned access, uint8_t twist)
{
    proto_fixed_t fixed = {
        .window_open = {.remote = 1, .window = number, .access = access}};

    if ((access != 0) && (access <= 3)) {
        memcpy(fixed.window_open.key, window->key[access - 1],
               sizeof(fixed.window_open.key));
    }
    fixed.window_open.key[5] ^= twist;
    hostile_post_message(PROTO_WINDOW_OPEN, &fixed, NULL, 0);
    hostile_let_peer_read();
}

/* Obtain a valid grant. */
static uint64_t get_grant(unsigned access)
{
    open_window(window->number, access, 0);
    ck_assert(!base_list_is_empty(&window->grants));
    return base_list_head(&window->grants, window_grant_t, link)->number;
}

static void post_eager(uint32_t flags, uint64_t tag, const void *bytes,
                       size_t size)
{
    static uint8_t   data[PROTO_DATA_MAX];
    const copy_run_t run   = {size, 1};
    proto_fixed_t    fixed = {.desc = {.sequence     = sequence++,
                                       .tag          = tag,
                                       .payload_size = size,
                                       .num_runs     = 1,
                                       .flags = PROTO_DESC_EAGER | flags}};

    memcpy(data, &run, sizeof(run));
    memcpy(data + sizeof(run), bytes, size);
    hostile_post_message(PROTO_DESC, &fixed, data, sizeof(run) + size);
}

typedef struct told {
    proto_call_t    call;
    ucxpool_place_t place;
} told_t;

/* A CALL with one place. */
static told_t told(uint64_t grant, proto_call_kind_t kind, uint64_t offset,
                   uint64_t length)
{
    return (told_t){
        .call  = {.operation  = 9,
                  .grant      = grant,
                  .kind       = kind,
                  .num_places = 1,
                  .size       = length},
        .place = {offset, length},
    };
}

static void call(told_t told)
{
    post_eager(PROTO_DESC_CALL, 9, &told, sizeof(told));
    hostile_let_peer_read();
}

static bool is_served(void)
{
    return !base_list_is_empty(&hostile.victim->windows->served);
}

/* --- the victim's own import of a window that the peer does not have ------ */

static ucxpool_remote_window_t *import(void)
{
    window_blob_t            blob = {.magic   = WINDOW_BLOB_MAGIC,
                                     .version = PROTO_VERSION,
                                     .access  = UCXPOOL_WINDOW_READ,
                                     .window  = 1,
                                     .length  = 100};
    ucxpool_remote_window_t *remote;

    memcpy(blob.pool, hostile.pair.b->id, sizeof(blob.pool));
    blob.checksum = window_blob_checksum(&blob);
    assert_ok(ucxpool_remote_window_import(hostile.victim, &blob, sizeof(blob),
                                           &remote));
    hostile_let_peer_read();
    return remote;
}

static void send_opened(const ucxpool_remote_window_t *remote, uint64_t length)
{
    proto_fixed_t fixed = {.window_opened = {.remote  = remote->number,
                                             .grant   = 5,
                                             .length  = length,
                                             .address = 16,
                                             .flags   = PROTO_OPENED_PROCESS}};

    hostile_post_message(PROTO_WINDOW_OPENED, &fixed, NULL, 0);
    hostile_let_peer_read();
}

/* --- violations that end the channel -------------------------------------- */

REJECTED(call_without_places)
{
    proto_call_t half = {.operation = 9};

    post_eager(PROTO_DESC_CALL, 9, &half, 40);
}

REJECTED(repeated_call)
{
    uint64_t grant = get_grant(UCXPOOL_WINDOW_WRITE);

    call(told(grant, PROTO_CALL_WRITE, 0, 100));
    call(told(grant, PROTO_CALL_WRITE, 0, 100));
}

REJECTED(message_of_two_kinds)
{
    told_t both = told(1, PROTO_CALL_READ, 0, 100);

    post_eager(PROTO_DESC_CALL | PROTO_DESC_READ, 9, &both, sizeof(both));
}

/* Sends these parts of the window that the victim has requested, of 100
 * bytes. */
static void send_parts(const proto_window_part_t *parts, size_t num)
{
    ucxpool_remote_window_t     *remote = import();
    ucxpool_remote_window_attr_t attr;
    proto_fixed_t fixed = {.window_opened = {.remote = remote->number,
                                             .grant  = 5,
                                             .length = 100,
                                             .flags  = PROTO_OPENED_PARTS}};

    hostile_post_message(PROTO_WINDOW_OPENED, &fixed, parts,
                         num * sizeof(parts[0]));
    hostile_let_peer_read();
    ucxpool_remote_window_query(remote, &attr, sizeof(attr));
    /* If the victim may not read the peer's memory, it asks, and the peer
     * closes. */
    while (attr.status == UCXPOOL_INPROGRESS) {
        core_source_progress(hostile.pair.b);
        wireup_fd_export_progress(hostile.pair.b);
        ucxpool_progress(hostile.pair.a);
        ucxpool_remote_window_query(remote, &attr, sizeof(attr));
    }
    assert_ok(attr.status);
    ck_assert_msg(attr.way == UCXPOOL_WAY_MESSAGES, "%s", attr.way_reason);
    ck_assert_ptr_null(remote->views);
    ucxpool_remote_window_release(remote);
}

/* A valid region, and a file that can be mapped. */
static proto_window_part_t good_region(void)
{
    return (proto_window_part_t){.region = 1, .length = 100};
}

static int                 file;
static proto_window_part_t good_file(void)
{
    proto_window_part_t part = {.length = 100};

    assert_ok(ipc_file_fill(file, &part.file));
    return part;
}

static void send_region(uint32_t region, uint64_t offset, uint64_t length)
{
    const proto_window_part_t part = {
        .region = region, .offset = offset, .length = length};

    send_parts(&part, 1);
}

IGNORED(parts_outside_all_regions)
{
    const proto_window_part_t region  = good_region();
    proto_window_part_t       two[2]  = {region, region};
    const core_mapping_t     *mapping = hostile.victim->peer.mapping;

    send_region(UINT32_MAX, 0, 100);
    send_region(mapping->num_regions + 1, 0, 100);
    send_region(1, mapping->region_sizes[0] - 99, 100);
    send_region(1, UINT64_MAX, 100);
    send_region(1, 0, 99);
    send_region(1, 0, 101);
    send_region(1, 0, 0);
    send_parts(two, 2);
    two[0].length = 1;
    two[1].length = UINT64_MAX;
    send_parts(two, 2);
}

IGNORED(unexpected_files)
{
    proto_window_part_t part;

    file         = sealed_file(8192, 8192, F_SEAL_SHRINK);
    part         = good_file();
    part.file.fd = -1;
    send_parts(&part, 1);
    part.file.fd = INT32_MAX;
    send_parts(&part, 1);
    part = good_file();
    part.file.inode++;
    send_parts(&part, 1);
    part           = good_file();
    part.file.size = 16384;
    send_parts(&part, 1);
    part        = good_file();
    part.offset = 8093;
    send_parts(&part, 1);
    part.offset = UINT64_MAX - 50;
    send_parts(&part, 1);
    part                      = good_file();
    part.file.huge_page_shift = 12;
    send_parts(&part, 1);
    part.file.huge_page_shift = 200;
    send_parts(&part, 1);
    close(file);
    file = sealed_file(8192, 8192, 0); /* it can shrink */
    part = good_file();
    send_parts(&part, 1);
    close(file);
    file = sealed_file(8192, 0, F_SEAL_SHRINK); /* sparse */
    part = good_file();
    send_parts(&part, 1);
    close(file);
}

REJECTED(parts_and_a_gpu_at_once)
{
    const uint32_t           flags  = PROTO_OPENED_PARTS | PROTO_OPENED_CUDA;
    ucxpool_remote_window_t *remote = import();
    proto_window_part_t      part   = good_region();
    proto_fixed_t fixed = {.window_opened = {.remote = remote->number,
                                             .grant  = 5,
                                             .length = 100,
                                             .flags  = flags}};

    hostile_post_message(PROTO_WINDOW_OPENED, &fixed, &part, sizeof(part));
    hostile_let_peer_read();
    ucxpool_remote_window_release(remote);
}

IGNORED(length_that_is_not_the_blobs)
{
    ucxpool_remote_window_t *remote = import();

    send_opened(remote, 101);
    ck_assert_int_eq(pair_remote_attr(remote).status,
                     UCXPOOL_ERR_INVALID_PARAM);
    ucxpool_remote_window_release(remote);
}

/* Read the window, and return the number of the operation. */
static uint64_t post_read(ucxpool_remote_window_t *remote,
                          ucxpool_request_t      **request_p)
{
    static uint8_t   bytes[100];
    ucxpool_place_t  place  = {0, 100};
    ucxpool_places_t places = ucxpool_places(&place, 1);
    ucxpool_data_t   data   = ucxpool_data_buffer(bytes, sizeof(bytes));

    send_opened(remote, 100);
    assert_ok(
        ucxpool_remote_window_read(remote, &places, &data, NULL, request_p));
    hostile_let_peer_read();
    return base_list_head(&hostile.victim->windows->called, window_operation_t,
                          link)
        ->number;
}

REJECTED(answer_of_another_length)
{
    uint8_t                  bytes[99] = {0};
    ucxpool_remote_window_t *remote    = import();

    post_eager(PROTO_DESC_READ, post_read(remote, NULL), bytes, sizeof(bytes));
    hostile_let_peer_read();
    ucxpool_remote_window_release(remote);
}

/* --- violations that are rejected or ignored ------------------------------ */

IGNORED(keys_and_numbers_that_are_wrong)
{
    open_window(window->number, UCXPOOL_WINDOW_READ, 1);
    open_window(window->number + 1, UCXPOOL_WINDOW_READ, 0);
    open_window(window->number, 0, 0);
    open_window(window->number, 4, 0);
    open_window(window->number, UINT32_MAX, 0);
    ck_assert(base_list_is_empty(&window->grants));
}

IGNORED(controls_for_unknown_windows)
{
    proto_fixed_t fixed = {.window_close = {.grant = 77}};

    hostile_post_message(PROTO_WINDOW_CLOSE, &fixed, NULL, 0);
    fixed = (proto_fixed_t){.window_revoke = {.remote = 77}};
    hostile_post_message(PROTO_WINDOW_REVOKE, &fixed, NULL, 0);
    fixed = (proto_fixed_t){.window_end = {.operation = 77, .refused = 1}};
    hostile_post_message(PROTO_WINDOW_END, &fixed, "why", 3);
    fixed.window_end.refused = 0;
    hostile_post_message(PROTO_WINDOW_END, &fixed, NULL, 0);
    fixed = (proto_fixed_t){.window_opened = {.remote = 77, .grant = 3}};
    hostile_post_message(PROTO_WINDOW_OPENED, &fixed, NULL, 0);
    post_eager(PROTO_DESC_READ, 77, "bytes", 5);
    post_eager(PROTO_DESC_WRITE, 77, "bytes", 5);
}

IGNORED(more_imports_than_are_granted)
{
    for (unsigned i = 0; i < PROTO_GRANTS_MAX + 10; i++) {
        open_window(window->number, UCXPOOL_WINDOW_READ, 0);
    }
    ck_assert_uint_eq(hostile.victim->windows->num_grants, PROTO_GRANTS_MAX);
}

IGNORED(calls_outside_the_grant)
{
    uint64_t grant = get_grant(UCXPOOL_WINDOW_READ);
    told_t   odd   = told(grant, (proto_call_kind_t)3, 0, 100);

    call(told(grant + 1, PROTO_CALL_READ, 0, 100));
    call(told(grant, PROTO_CALL_WRITE, 0, 100));
    call(told(grant, PROTO_CALL_READ, SIZE - 99, 100));
    call(told(grant, PROTO_CALL_READ, UINT64_MAX, 100));
    call(told(grant, PROTO_CALL_READ, 1, UINT64_MAX));
    call(told(grant, PROTO_CALL_READ, 0, 0));
    call(odd);
    odd           = told(grant, PROTO_CALL_READ, 0, 100);
    odd.call.size = 99;
    call(odd);
    odd.call.size       = 100;
    odd.call.num_places = 2;
    call(odd);
    odd.call.num_places = 1;
    odd.call.operation  = 10;
    call(odd);
    ck_assert(!is_served());
}

IGNORED(write_of_another_length)
{
    static uint8_t bytes[200];
    uint64_t       grant = get_grant(UCXPOOL_WINDOW_WRITE);

    call(told(grant, PROTO_CALL_WRITE, 0, 100));
    ck_assert(is_served());
    memset(bytes, 0xee, sizeof(bytes));
    post_eager(PROTO_DESC_WRITE, 9, bytes, sizeof(bytes));
    hostile_let_peer_read();
    ck_assert(!is_served());
}

IGNORED(calls_after_the_grant_was_closed)
{
    uint64_t      grant = get_grant(UCXPOOL_WINDOW_READ);
    proto_fixed_t fixed = {.window_close = {.grant = grant}};

    hostile_post_message(PROTO_WINDOW_CLOSE, &fixed, NULL, 0);
    hostile_post_message(PROTO_WINDOW_CLOSE, &fixed, NULL, 0);
    call(told(grant, PROTO_CALL_READ, 0, 100));
    ck_assert(!is_served());
}

TEST(a_read_ends_with_the_reason_for_which_the_owner_refuses_it)
{
    static const char        reason[] = "too many operations";
    proto_fixed_t            fixed    = {.window_end = {.refused = 1}};
    ucxpool_remote_window_t *remote;
    ucxpool_request_t       *read;
    ucxpool_request_attr_t   attr;

    begin();
    remote                     = import();
    fixed.window_end.operation = post_read(remote, &read);
    fixed.window_end.status    = UCXPOOL_ERR_LIMIT;
    hostile_post_message(PROTO_WINDOW_END, &fixed, reason, strlen(reason));
    hostile_let_peer_read();
    ucxpool_request_query(read, &attr, sizeof(attr));
    ck_assert_int_eq(attr.status, UCXPOOL_ERR_REFUSED);
    ck_assert_str_eq(attr.detail, reason);
    ucxpool_request_release(read);
    ucxpool_remote_window_release(remote);
    ucxpool_channel_abort(hostile.victim);
    end();
}
