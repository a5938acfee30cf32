/*
 * Fuzz target: what a proven peer says, through everything behind the parser.
 *
 * Two pools of this process have a channel on the `map` wire; a send and a
 * receive of the victim are under way. The input is what the other one does:
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
#include "../hostile.h"

#include "base/log.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SETTINGS "WIRE=map DEPTH=4 CREDITS=8 MAX_SEGMENTS=2000"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
    DEED_LAST
};

static hostile_t hostile;

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

/* Messages name what is under way as 0; the fixed part has it in its place. */
static void fill_numbers(proto_type_t type, proto_fixed_t *fixed)
{
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

static void say(unsigned type, const uint8_t *header, input_t *input)
{
    static const size_t head_size = sizeof(proto_head_t);
    proto_fixed_t       fixed;
    size_t              fixed_size, data_size;
    const uint8_t      *bytes;

    memset(&fixed, 0, sizeof(fixed));
    fixed_size = base_min((size_t)header[1], input->left);
    bytes      = take(input, fixed_size);
    memcpy((uint8_t *)&fixed + head_size, bytes,
           base_min(fixed_size, sizeof(fixed) - head_size));
    data_size          = base_min((size_t)header[2], input->left);
    bytes              = take(input, data_size);
    fixed.head.credits = header[3];
    fill_numbers((proto_type_t)type, &fixed);
    hostile_say(&hostile, (proto_type_t)type, &fixed, bytes, data_size);
}

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
    default:
        say(deed, header, input);
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
        base_log_set_level(BASE_LOG_NONE);
    }
    pair_connect(&hostile.pair);
    hostile.victim  = hostile.pair.to_b;
    hostile.channel = hostile.pair.to_a;
    hostile_post(&hostile);
    hostile_let_read(&hostile);
}

/* The peer goes, then the victim's caller closes. */
static void finish(void)
{
    proto_fixed_t bye = {.head = {.credits = 0}};

    hostile_let_read(&hostile);
    if (!hostile_is_over(&hostile)) {
        /* Whatever was done to the words of its page. */
        hostile_write_word(&hostile, hostile.channel->ring.head, 0);
        hostile_say(&hostile, PROTO_BYE, &bye, NULL, 0);
        hostile_let_read(&hostile);
    }
    ucxpool_channel_close(hostile.channel);
    ucxpool_channel_close(hostile.victim);
    pair_until(&hostile.pair, (hostile.pair.a->channels.count == 0) &&
                                  (hostile.pair.b->channels.count == 0));
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
