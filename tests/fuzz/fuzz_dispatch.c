/*
 * Fuzz target: what a proven peer says, through everything behind the parser.
 *
 * Two pools of this process have a channel on the `map` wire; a send and a
 * receive of the victim are under way, and it has a window. The input is what
 * the other one does, and what the victim's caller does meanwhile:
 *
 *     0   1   a deed, see do_deed(); for a message, its type
 *     1   1   F, bytes of the fixed part that follow, from behind the head
 *     2   1   D, bytes of the variable part that follow
 *     3   1   credits; for other deeds, an argument
 *     4       F bytes, D bytes; the rest of the fixed part is zero
 *
 * Afterwards the channels are closed, and the victim must be whole. The pools
 * stay: one input's channel is the next one's past.
 */
#include "fuzz.h"

#include "../hostile.h"

#include "base/log.h"
#include "core/stats.h"
#include "window/window.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A peer's word for where its memory is would be taken by the way `process`,
 * and that memory is this process's. */
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
    DEED_POST = 128, /* more of the victim's requests */
    DEED_READ,
    DEED_CANCEL,
    DEED_WORD,
    DEED_TAIL,
    DEED_SLEEPING,
    DEED_REVOKE,
    DEED_WINDOW, /* the victim's own: see use_windows() */
    DEED_REMOTE, /* likewise */
    DEED_OPEN,   /* a right OPEN, with the key of a blob */
    DEED_CALL,   /* a CALL whose fields are filled in where they are 0 */
    DEED_DESC,   /* a descriptor with the right sequence number */
    DEED_LAST
};

static hostile_t hostile;

/* When the input began. */
static core_stats_t before;

/* The victim's windows, each with memory that ends where a sanitizer looks. */
static uint8_t           memory[NUM_WINDOWS][WINDOW_SIZE];
static ucxpool_window_t *windows[NUM_WINDOWS];
static bool              may_write[NUM_WINDOWS];

/* What it has imported of windows that the peer says it has. */
static ucxpool_remote_t *remotes[NUM_REMOTES];

/* What libcheck's macros call; the library itself works in its tests only. */
void _mark_point(const char *file, int line)
{
    (void)file;
    (void)line;
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

/* The place-th grant of the channel, counted from the newest. */
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

/* An operation of the victim's that the peer is to serve. */
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

/* The same for what windows have. */
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

/* Messages name what is under way as 0; the fixed part has it in its place. */
static void fill_numbers(proto_type_t type, proto_fixed_t *fixed)
{
    fill_window_numbers(type, fixed);
    if ((type == PROTO_DATA) && (fixed->data.receive == 0)) {
        fixed->data.receive = hostile_receive(&hostile, fixed->data.message);
    } else if ((type == PROTO_ACCEPT) && (fixed->accept.message == 0)) {
        fixed->accept.message = hostile_send(&hostile);
    } else if ((type == PROTO_TAKEN) && (fixed->taken.message == 0)) {
        fixed->taken.message = hostile_send(&hostile);
    } else if ((type == PROTO_DONE) && (fixed->done.message == 0)) {
        fixed->done.message = hostile_send(&hostile);
    }
}

/* The next bytes, as many as the header says, in memory of so many. */
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
        hostile_let_read(&hostile);
        fixed.desc.sequence = hostile.victim->flow.arrived_sequence;
    }
    hostile_say(&hostile, type, &fixed, bytes, data_size);
}

/* --- windows ---------------------------------------------------------------
 */

static void say_open(uint8_t argument)
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
    hostile_say(&hostile, PROTO_WINDOW_OPEN, &fixed, NULL, 0);
}

static uint64_t add_lengths(const ucxpool_place_t *places, size_t num)
{
    uint64_t size = 0;

    for (size_t i = 0; i < num; i++) {
        size += places[i].length;
    }
    return size;
}

/* A CALL in its descriptor; the places lie behind it. */
typedef struct told {
    copy_run_t      run;
    proto_call_t    call;
    ucxpool_place_t places[UINT8_MAX / sizeof(ucxpool_place_t)];
} told_t;

static void say_call(const uint8_t *header, input_t *input)
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
    hostile_let_read(&hostile);
    fixed.desc.sequence     = hostile.victim->flow.arrived_sequence;
    fixed.desc.payload_size = sizeof(told.call) + size;
    told.run                = (copy_run_t){fixed.desc.payload_size, 1};
    hostile_say(&hostile, PROTO_DESC, &fixed, &told,
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

/* Nobody may touch it any more, and whoever could not write has not. */
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

/* What the owner does: argument's low bits say to which, the others what. */
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
        (ucxpool_window_import(hostile.victim, &blob, sizeof(blob),
                               &remotes[which]) != UCXPOOL_OK)) {
        remotes[which] = NULL;
    }
}

static void release(unsigned which)
{
    ucxpool_remote_release(remotes[which]);
    remotes[which] = NULL;
}

/* A read or a write of two places, which may be canceled at once. */
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
    status =
        (argument & 2u)
            ? ucxpool_write(remotes[which], &list, &data, &params, &request)
            : ucxpool_read(remotes[which], &list, &data, &params, &request);
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

static void do_deed(unsigned deed, const uint8_t *header, input_t *input)
{
    core_ring_page_t *page     = hostile.channel->ring.mine;
    uint64_t          argument = header[3];

    switch (deed) {
    case DEED_POST:
        post_small(header[3]);
        break;
    case DEED_READ:
        hostile_let_read(&hostile);
        break;
    case DEED_CANCEL:
        ucxpool_request_cancel((argument & 1u) ? hostile.recv : hostile.send);
        break;
    case DEED_WORD:
        hostile_write_word(&hostile, hostile.channel->ring.head,
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
        say_open(header[3]);
        break;
    case DEED_CALL:
        say_call(header, input);
        break;
    case DEED_DESC:
        say(PROTO_DESC, true, header, input);
        break;
    default:
        say((proto_type_t)deed, false, header, input);
    }
}

/* LeakSanitizer asks this before it looks, after an input or at the end. Of
 * pools that are there still it sees too little: UCX points to memory from
 * within mappings of its own, where the sanitizer does not look. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);

int __lsan_is_turned_off(void)
{
    return hostile.pair.a != NULL;
}

/* At the end, so that it sees then what the pools have leaked. */
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
        /* What a seed does must not depend on time. */
        hostile.pair.a->announce_ns = UCXPOOL_FOREVER;
        base_log_set_level(BASE_LOG_NONE);
    }
    pair_connect(&hostile.pair);
    hostile.victim  = hostile.pair.to_b;
    hostile.channel = hostile.pair.to_a;
    hostile_post(&hostile);
    make_window(0);
    hostile_let_read(&hostile);
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

/* How the victim fares, before the peer goes. */
static void tell(void)
{
    ucxpool_channel_attr_t attr;
    core_stats_t           stats;

    ucxpool_channel_query(hostile.victim, &attr, sizeof(attr));
    core_stats_get(hostile.pair.a, &stats);
    snprintf(told, sizeof(told),
             "receive %s, send %s, %llu received, %llu sent, %llu refused; %s",
             end_of(hostile.recv), end_of(hostile.send),
             since(stats.messages_received, before.messages_received),
             since(stats.messages_sent, before.messages_sent),
             since(stats.messages_refused, before.messages_refused),
             attr.reason);
}

/* The peer goes, then the victim's caller closes. */
static void finish(void)
{
    proto_fixed_t bye = {.head = {.credits = 0}};

    hostile_let_read(&hostile);
    tell();
    if (!hostile_is_over(&hostile)) {
        /* Whatever was done to the words of its page. */
        hostile_write_word(&hostile, hostile.channel->ring.head, 0);
        hostile_say(&hostile, PROTO_BYE, &bye, NULL, 0);
        hostile_let_read(&hostile);
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
    hostile_check(&hostile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input_t        input = {data, size};
    const uint8_t *header;

    start();
    while (input.left >= 4) {
        header = take(&input, 4);
        do_deed(header[0] % DEED_LAST, header, &input);
    }
    finish();
    return 0;
}
