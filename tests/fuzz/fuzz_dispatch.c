/*
 * Fuzz target: messages of an authenticated peer, through everything behind the
 * parser.
 *
 * Two pools of this process have a channel on the `map` wire. The victim has a
 * pending send, a pending receive, and a window. The input consists of actions
 * of the peer and of the victim's caller:
 *
 *     0   1   an action, see do_attack(); for a message, its type
 *     1   1   F, number of bytes of the fixed part after the head
 *     2   1   D, number of bytes of the variable part
 *     3   1   credits; for other actions, an argument
 *     4       F bytes, D bytes; the rest of the fixed part is zero
 *
 * Afterwards the channels are closed, and the victim must be intact. The pools
 * are reused by the next input, so they remember earlier channels.
 */
#include "fuzz.h"

#include "../hostile.h"

#include "base/log.h"
#include "core/stats.h"
#include "window/operation.h"
#include "window/service.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The way `process` would trust the peer's statement where its memory is, and
 * that memory is this process's own. */
#define SETTINGS \
    "WIRE=map DEPTH=4 CREDITS=8 MAX_SEGMENTS=2000 WINDOW_WAY=messages"

#define NUM_WINDOWS 3u
#define NUM_REMOTES 3u
#define WINDOW_SIZE 3000u
#define REMOTE_SIZE 70000u

typedef struct input {
    const uint8_t *at;
    size_t         left;
} input_t;

enum {
    DEED_POST = 128, /* further requests of the victim */
    DEED_READ,
    DEED_CANCEL,
    DEED_WORD,
    DEED_TAIL,
    DEED_SLEEPING,
    DEED_REVOKE,
    DEED_WINDOW, /* the victim's own windows: see use_windows() */
    DEED_REMOTE, /* the victim's imported windows */
    DEED_OPEN,   /* a valid OPEN, with the key of a blob */
    DEED_CALL,   /* a CALL whose zero fields are filled in */
    DEED_DESC,   /* a descriptor with the correct sequence number */
    DEED_LAST
};

/* Statistics when the input began. */
static core_stats_t before;

/* The victim's windows. Each memory ends at an address that a sanitizer
 * checks. */
static uint8_t           memory[NUM_WINDOWS][WINDOW_SIZE];
static ucxpool_window_t *windows[NUM_WINDOWS];
static bool              may_write[NUM_WINDOWS];

/* Imports of windows that the peer claims to have. */
static ucxpool_remote_window_t *remotes[NUM_REMOTES];

/* Called by libcheck's macros; libcheck itself works only in its tests. */
void _mark_point(const char *file, int line)
{
}

void _ck_assert_failed(const char *file, int line, const char *expression,
                       const char *message, ...)
{
    fprintf(stderr, "%s:%d: %s (%s)\n", file, line, expression,
            (message == NULL) ? "" : message);
    abort();
}

static const uint8_t *take(input_t *input, size_t size)
{
    const uint8_t *at = input->at;

    input->at += size;
    input->left -= size;
    return at;
}

/* --- numbers ----------------------------------------------------------------
 */

/* A grant of the channel by its age, the newest first. */
static uint64_t some_grant(unsigned place)
{
    uint64_t        number = 0;
    window_grant_t *grant;

    base_list_for_each(grant, &hostile.victim->windows->grants, window_grant_t,
                       channel_link) {
        if ((number == 0) || (place == 0)) {
            number = grant->number;
        } else {
            place--;
        }
    }
    return number;
}

/* An operation of the victim that the peer has to serve. */
static uint64_t some_operation(void)
{
    base_list_t *called = &hostile.victim->windows->called;

    return base_list_is_empty(called)
               ? 0
               : base_list_head(called, window_operation_t, link)->number;
}

static uint64_t some_remote(void)
{
    for (unsigned i = 0; i < NUM_REMOTES; i++) {
        if (remotes[i] != NULL) {
            return remotes[i]->number;
        }
    }
    return 0;
}

/* The same for the numbers of windows. */
static void fill_window_numbers(proto_type_t type, proto_fixed_t *fixed)
{
    if ((type == PROTO_WINDOW_OPENED) && (fixed->window_opened.remote == 0)) {
        fixed->window_opened.remote = some_remote();
    } else if ((type == PROTO_WINDOW_CLOSE) &&
               (fixed->window_close.grant < NUM_WINDOWS)) {
        fixed->window_close.grant =
            some_grant((unsigned)fixed->window_close.grant);
    } else if ((type == PROTO_WINDOW_REVOKE) &&
               (fixed->window_revoke.remote == 0)) {
        fixed->window_revoke.remote = some_remote();
    } else if ((type == PROTO_WINDOW_END) &&
               (fixed->window_end.operation == 0)) {
        fixed->window_end.operation = some_operation();
    } else if ((type == PROTO_DESC) && (fixed->desc.flags & PROTO_DESC_READ) &&
               (fixed->desc.tag == 0)) {
        fixed->desc.tag = some_operation();
    }
}

/* A number 0 in a message is replaced by that of a pending operation. */
static void fill_numbers(proto_type_t type, proto_fixed_t *fixed)
{
    fill_window_numbers(type, fixed);
    if ((type == PROTO_DATA) && (fixed->data.receive == 0)) {
        fixed->data.receive = hostile_receive(fixed->data.message);
    } else if ((type == PROTO_ACCEPT) && (fixed->accept.message == 0)) {
        fixed->accept.message = hostile_send();
    } else if ((type == PROTO_TAKEN) && (fixed->taken.message == 0)) {
        fixed->taken.message = hostile_send();
    } else if ((type == PROTO_DONE) && (fixed->done.message == 0)) {
        fixed->done.message = hostile_send();
    }
}

/* Copy the next bytes, as many as the header says, to memory of that size. */
static void take_into(input_t *input, size_t size, void *target, size_t room)
{
    size_t         length = base_min(size, input->left);
    const uint8_t *bytes  = take(input, length);

    memset(target, 0, room);
    memcpy(target, bytes, base_min(length, room));
}

static void say(proto_type_t type, bool is_in_turn, const uint8_t *header,
                input_t *input)
{
    static const size_t head_size = sizeof(proto_head_t);
    proto_fixed_t       fixed     = {.head = {.credits = header[3]}};
    size_t              data_size;
    const uint8_t      *bytes;

    take_into(input, header[1], (uint8_t *)&fixed + head_size,
              sizeof(fixed) - head_size);
    data_size = base_min((size_t)header[2], input->left);
    bytes     = take(input, data_size);
    fill_numbers(type, &fixed);
    if (is_in_turn) {
        hostile_let_peer_read();
        fixed.desc.sequence = hostile.victim->flow.arrived_sequence;
    }
    hostile_post_message(type, &fixed, bytes, data_size);
}

/* --- windows ---------------------------------------------------------------
 */

static void send_open(uint8_t argument)
{
    unsigned which  = argument % NUM_WINDOWS;
    unsigned access = 1 + argument / NUM_WINDOWS %
                              (UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE);
    proto_fixed_t fixed = {
        .window_open = {.remote = argument, .access = access}};

    if (windows[which] == NULL) {
        return;
    }
    may_write[which] |= (access & UCXPOOL_WINDOW_WRITE) != 0;
    fixed.window_open.window = windows[which]->number;
    memcpy(fixed.window_open.key, windows[which]->key[access - 1],
           sizeof(fixed.window_open.key));
    hostile_post_message(PROTO_WINDOW_OPEN, &fixed, NULL, 0);
}

static uint64_t add_lengths(const ucxpool_place_t *places, size_t num)
{
    uint64_t size = 0;

    for (size_t i = 0; i < num; i++) {
        size += places[i].length;
    }
    return size;
}

/* A CALL in its descriptor, followed by its places. */
typedef struct told {
    copy_run_t      run;
    proto_call_t    call;
    ucxpool_place_t places[UINT8_MAX / sizeof(ucxpool_place_t)];
} told_t;

static void send_call(const uint8_t *header, input_t *input)
{
    proto_fixed_t fixed = {
        .desc = {.tag      = header[3],
                 .num_runs = 1,
                 .flags    = PROTO_DESC_EAGER | PROTO_DESC_CALL}};
    size_t size = base_min((size_t)header[2], sizeof(((told_t *)NULL)->places));
    told_t told;
    size_t num;

    take_into(input, header[1], &told.call, sizeof(told.call));
    take_into(input, header[2], told.places, sizeof(told.places));
    num = size /
          ((told.call.length != 0) ? sizeof(uint64_t) : sizeof(told.places[0]));
    if (told.call.operation == 0) {
        told.call.operation = header[3];
    }
    if (told.call.grant < NUM_WINDOWS) {
        told.call.grant = some_grant((unsigned)told.call.grant);
    }
    if (told.call.num_places == 0) {
        told.call.num_places = num;
    }
    if (told.call.size == 0) {
        told.call.size = (told.call.length != 0)
                             ? num * told.call.length
                             : add_lengths(told.places, num);
    }
    hostile_let_peer_read();
    fixed.desc.sequence     = hostile.victim->flow.arrived_sequence;
    fixed.desc.payload_size = sizeof(told.call) + size;
    told.run                = (copy_run_t){fixed.desc.payload_size, 1};
    hostile_post_message(PROTO_DESC, &fixed, &told,
                         sizeof(told.run) + fixed.desc.payload_size);
}

static void make_window(unsigned which)
{
    if (windows[which] == NULL) {
        may_write[which] = false;
        memset(memory[which], (int)which + 1, WINDOW_SIZE);
        ck_assert_int_eq(ucxpool_window_create(hostile.pair.a, memory[which],
                                               WINDOW_SIZE, NULL,
                                               &windows[which]),
                         UCXPOOL_OK);
    }
}

/* After the end, the peer must not access it. Without write access, the memory
 * must be unchanged. */
static void end_window(unsigned which)
{
    if ((windows[which] == NULL) ||
        (ucxpool_window_revoke(windows[which], 0) != UCXPOOL_OK)) {
        return;
    }
    ucxpool_window_destroy(windows[which]);
    windows[which] = NULL;
    ck_assert(may_write[which] || ((memory[which][0] == which + 1) &&
                                   (memcmp(memory[which], memory[which] + 1,
                                           WINDOW_SIZE - 1) == 0)));
}

/* Actions of the owner: the low bits of the argument select the window, the
 * others the action. */
static void use_window(uint8_t argument)
{
    unsigned which = argument % NUM_WINDOWS;

    if (argument / NUM_WINDOWS % 2 == 0) {
        make_window(which);
    } else {
        end_window(which);
    }
}

static void import(unsigned which)
{
    window_blob_t blob = {.magic   = WINDOW_BLOB_MAGIC,
                          .version = PROTO_VERSION,
                          .access  = UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE,
                          .window  = which + 1,
                          .length  = REMOTE_SIZE};

    memcpy(blob.pool, hostile.pair.b->id, sizeof(blob.pool));
    blob.checksum = window_blob_checksum(&blob);
    if ((remotes[which] == NULL) &&
        (ucxpool_remote_window_import(hostile.victim, &blob, sizeof(blob),
                                      &remotes[which]) != UCXPOOL_OK)) {
        remotes[which] = NULL;
    }
}

static void release(unsigned which)
{
    ucxpool_remote_window_release(remotes[which]);
    remotes[which] = NULL;
}

/* A read or write of two places, optionally canceled at once. */
static void operate(unsigned which, uint8_t argument)
{
    static uint8_t           bytes[REMOTE_SIZE];
    static ucxpool_place_t   places[2];
    ucxpool_request_params_t params = {
        .field_mask = (argument & 1u) ? UCXPOOL_REQUEST_PARAM_FIELD_NOTIFY : 0,
        .notify_tag = 2,
    };
    ucxpool_places_t   list = ucxpool_places(places, 2);
    ucxpool_data_t     data;
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    places[0] = (ucxpool_place_t){7, 1 + argument * 100u};
    places[1] = (ucxpool_place_t){40000, argument};
    data      = ucxpool_data_buffer(bytes, places[0].length + places[1].length);
    status    = (argument & 2u)
                    ? ucxpool_remote_window_write(remotes[which], &list, &data,
                                                  &params, &request)
                    : ucxpool_remote_window_read(remotes[which], &list, &data,
                                                 &params, &request);
    if (status == UCXPOOL_OK) {
        if (argument & 4u) {
            ucxpool_request_cancel(request);
        }
        ucxpool_request_release(request);
    }
}

static void use_remote(uint8_t argument, uint8_t length)
{
    unsigned which = argument % NUM_REMOTES;

    switch (argument / NUM_REMOTES % 3) {
    case 0:
        import(which);
        break;
    case 1:
        release(which);
        break;
    default:
        if (remotes[which] != NULL) {
            operate(which, length);
        }
    }
}

/* --- deeds -----------------------------------------------------------------
 */

static void post_small(uint8_t argument)
{
    static uint8_t     bytes[65536];
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    if (argument & 1u) {
        status = ucxpool_recv_buffer(hostile.pair.a, hostile.victim, bytes,
                                     argument * 200u, argument & 2u, 2, NULL,
                                     &request);
    } else {
        status = ucxpool_send_buffer(hostile.victim, bytes, argument * 200u, 2,
                                     NULL, &request);
    }
    if (status == UCXPOOL_OK) {
        ucxpool_request_release(request);
    }
}

static void do_attack(unsigned attack, const uint8_t *header, input_t *input)
{
    core_ring_page_t *page     = hostile.channel->ring.mine;
    uint64_t          argument = header[3];

    switch (attack) {
    case DEED_POST:
        post_small(header[3]);
        break;
    case DEED_READ:
        hostile_let_peer_read();
        break;
    case DEED_CANCEL:
        ucxpool_request_cancel((argument & 1u) ? hostile.recv : hostile.send);
        break;
    case DEED_WORD:
        hostile_write_word(hostile.channel->ring.head,
                           argument << 56 | argument << 24 | argument);
        break;
    case DEED_TAIL:
        __atomic_store_n(&page->tail, hostile.victim->ring.head - argument,
                         __ATOMIC_SEQ_CST);
        break;
    case DEED_SLEEPING:
        __atomic_store_n(&page->sleeping, (uint32_t)argument, __ATOMIC_SEQ_CST);
        break;
    case DEED_REVOKE:
        __atomic_store_n(&page->revoked[argument], argument, __ATOMIC_SEQ_CST);
        break;
    case DEED_WINDOW:
        use_window(header[3]);
        break;
    case DEED_REMOTE:
        use_remote(header[3], header[1]);
        break;
    case DEED_OPEN:
        send_open(header[3]);
        break;
    case DEED_CALL:
        send_call(header, input);
        break;
    case DEED_DESC:
        say(PROTO_DESC, true, header, input);
        break;
    default:
        say((proto_type_t)attack, false, header, input);
    }
}

/* LeakSanitizer calls this before a check, after an input or at exit. It would
 * report false leaks for existing pools: UCX stores pointers in its own
 * mappings, which the sanitizer does not scan. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
    return hostile.pair.a != NULL;
}

/* At exit, so that the sanitizer can find leaks of the pools. */
static void destroy_pools(void)
{
    pair_cleanup(&hostile.pair);
    hostile.pair = (pair_t){0};
}

static void start(void)
{
    if (hostile.pair.a == NULL) {
        if (atexit(destroy_pools) != 0) {
            abort();
        }
        hostile.pair.a = pair_pool(SETTINGS);
        hostile.pair.b = pair_pool(SETTINGS);
        /* The behaviour of a seed must not depend on time. */
        hostile.pair.a->announce_ns = UCXPOOL_FOREVER;
        base_log_set_level(BASE_LOG_NONE);
    }
    pair_connect(&hostile.pair);
    hostile.victim  = hostile.pair.to_b;
    hostile.channel = hostile.pair.to_a;
    hostile_post();
    make_window(0);
    hostile_let_peer_read();
    core_stats_get(hostile.pair.a, &before);
}

static char told[512];

const char *fuzz_told(void)
{
    return told;
}

static const char *end_of(const ucxpool_request_t *request)
{
    return ucxpool_status_string(ucxpool_request_test(request));
}

static unsigned long long since(uint64_t now, uint64_t then)
{
    return now - then;
}

/* The state of the victim, before the peer closes. */
static void tell(void)
{
    ucxpool_channel_attr_t attr;
    core_stats_t           stats;

    ucxpool_channel_query(hostile.victim, &attr, sizeof(attr));
    core_stats_get(hostile.pair.a, &stats);
    snprintf(
        told, sizeof(told),
        "receive %s, send %s, %llu received, %llu sent, %llu refused; %s",
        end_of(hostile.recv), end_of(hostile.send),
        since(stats.counts.messages_received, before.counts.messages_received),
        since(stats.counts.messages_sent, before.counts.messages_sent),
        since(stats.counts.messages_refused, before.counts.messages_refused),
        attr.reason);
}

/* The peer closes, then the victim's caller. */
static void finish(void)
{
    proto_fixed_t bye = {.head = {.credits = 0}};

    hostile_let_peer_read();
    tell();
    if (!hostile_is_over()) {
        /* Repair the words of its page that the input has changed. */
        hostile_write_word(hostile.channel->ring.head, 0);
        hostile_post_message(PROTO_BYE, &bye, NULL, 0);
        hostile_let_peer_read();
    }
    for (unsigned i = 0; i < NUM_REMOTES; i++) {
        release(i);
    }
    ucxpool_channel_close(hostile.channel);
    ucxpool_channel_close(hostile.victim);
    pair_until(&hostile.pair, (hostile.pair.a->channels.count == 0) &&
                                  (hostile.pair.b->channels.count == 0));
    for (unsigned i = 0; i < NUM_WINDOWS; i++) {
        end_window(i);
        ck_assert_ptr_null(windows[i]);
    }
    hostile_check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input_t        input = {data, size};
    const uint8_t *header;

    start();
    while (input.left >= 4) {
        header = take(&input, 4);
        do_attack(header[0] % DEED_LAST, header, &input);
    }
    finish();
    return 0;
}
