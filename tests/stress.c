/*
 * stress - processes that send, read and write at random, while their parent
 * kills, terminates, stops and restarts them. Every byte is checked.
 *
 * usage: stress [--seconds N] [--seed S] [--wire map|ucx|auto] [--processes P]
 *               [--calm]
 *
 * With --calm no process is killed, terminated or stopped before the end.
 * Default: 10 seconds, seed 1, auto, 4 processes. Settings in the
 * environment (UCXPOOL_*) hold, except WIRE and COMM_SIZE.
 *
 * Each process opens and closes channels to the others, sends messages of every
 * form and length, cancels some, sets deadlines to some, exports and revokes
 * windows, reads and writes those of others, and allocates from the heap. A
 * process fails if it aborts, gets an unexpected error or a wrong byte, or if a
 * request or a shutdown takes over two minutes. Prints the counts; the exit
 * code is 1 if any process failed.
 */
#define _GNU_SOURCE
#include <ucxpool/ucxpool.h>

#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_PROCESSES 32
#define MAX_CHANNELS  24
#define MAX_LENGTH    (1u << 20)
#define MAX_SEGMENTS  256
#define GAP           16 /* bytes between the segments of one buffer */
#define BUFFER_SIZE   (MAX_LENGTH + MAX_SEGMENTS * GAP)
#define NUM_SENDS     16
#define NUM_RECVS     8
#define NUM_WINDOWS   4
#define NUM_REMOTES   8
#define NUM_PIECES    32 /* of the heap */
#define WINDOW_SIZE   (128u << 10)
#define ALL_BITS      UINT64_MAX
#define MS            UINT64_C(1000000)
#define SECOND        (1000 * MS)
#define PATIENCE      (120 * SECOND)

/* The purpose of a message. */
enum { TAG_POSTED = 1, TAG_PROBED, TAG_WINDOW, TAG_DONE };

static const char *const wires[] = {"none", "map", "ucx"};

typedef struct counts {
    uint64_t messages;
    uint64_t bytes;
    uint64_t windows; /* imported */
    uint64_t reads;
    uint64_t writes;
} counts_t;

/* Shared by all processes. */
typedef struct board {
    uint16_t ports[MAX_PROCESSES]; /* 0: does not listen */
    uint64_t beats[MAX_PROCESSES]; /* rounds of its loop */
    counts_t wires[3];             /* by ucxpool_wire_t */
    uint64_t canceled;
    uint64_t timed_out;
    uint64_t refused;
    uint64_t lost;
    uint64_t opened;
    uint64_t heap;
} board_t;

static board_t    *board;
static const char *wire          = "auto";
static unsigned    num_processes = 4;
static bool        is_calm;

/* --- this process --------------------------------------------------------- */

/* A buffer in segments, with gaps between them. */
typedef struct layout {
    ucxpool_segment_t segments[MAX_SEGMENTS];
    size_t            count;
    size_t            length; /* of all */
} layout_t;

typedef struct transfer {
    ucxpool_request_t *request; /* NULL: free */
    ucxpool_channel_t *channel;
    uint8_t           *buffer;
    layout_t           layout;
    void              *pieces[MAX_SEGMENTS];
    ucxpool_range_t    ranges[MAX_SEGMENTS];
    uint32_t           seed;
    uint64_t           since;
} transfer_t;

/* A window of this process, exported to one peer. */
typedef struct owned {
    ucxpool_window_t  *window; /* NULL: destroyed */
    uint8_t           *memory;
    uint32_t           seed;
    uint64_t           until; /* it is revoked, or its memory is used again */
    ucxpool_request_t *sent;  /* the message with its blob */
    uint8_t            blob[UCXPOOL_WINDOW_BLOB_SIZE];
    bool               is_guarded;
} owned_t;

typedef enum step { STEP_IDLE, STEP_READ, STEP_WRITE, STEP_READ_BACK } step_t;

/* A window of a peer. The first half has a pattern; only this
 * process writes to the second half. */
typedef struct imported {
    ucxpool_remote_window_t *remote; /* NULL: free */
    ucxpool_channel_t       *channel;
    uint32_t                 seed;
    uint64_t                 until;
    step_t                   step;
    ucxpool_place_t          place;
    uint32_t                 write_seed;
    transfer_t               transfer;
} imported_t;

/* The metadata of each message. */
typedef struct note {
    uint32_t seed;
    uint32_t length;
} note_t;

typedef struct piece {
    uint8_t *address;
    size_t   size;
    uint32_t seed;
} piece_t;

static ucxpool_t            *pool;
static ucxpool_listener_t   *listener;
static unsigned              own_index;
static ucxpool_channel_t    *channels[MAX_CHANNELS];
static transfer_t            sends[NUM_SENDS];
static transfer_t            recvs[NUM_RECVS];
static owned_t               windows[NUM_WINDOWS];
static imported_t            remotes[NUM_REMOTES];
static piece_t               pieces[NUM_PIECES];
static int                   file; /* has the pattern from seed 0 on */
static volatile sig_atomic_t is_ending;

static uint64_t now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static unsigned below(unsigned limit)
{
    return (unsigned)rand() % limit;
}

static bool one_in(unsigned number)
{
    return below(number) == 0;
}

static void count(uint64_t *counter, uint64_t number)
{
    __atomic_fetch_add(counter, number, __ATOMIC_RELAXED);
}

__attribute__((noreturn, format(printf, 1, 2))) static void
fail(const char *format, ...)
{
    va_list args;

    fprintf(stderr, "stress: FAIL: process %u (%d): ", own_index, getpid());
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    _exit(3);
}

static void must(ucxpool_status_t status, const char *what)
{
    if (status != UCXPOOL_OK) {
        fail("%s: %s: %s", what, ucxpool_status_string(status),
             ucxpool_error_detail());
    }
}

/* --- bytes ---------------------------------------------------------------- */

/* Byte i of the bytes of a seed is byte (seed + i) % PERIOD of the pattern. */
#define PERIOD 65521u

static uint8_t pattern[PERIOD + MAX_LENGTH];

static void make_pattern(void)
{
    uint32_t state = 12345;

    for (size_t i = 0; i < PERIOD; i++) {
        state      = state * 1664525u + 1013904223u;
        pattern[i] = (uint8_t)(state >> 24);
    }
    for (size_t i = PERIOD; i < sizeof(pattern); i++) {
        pattern[i] = pattern[i - PERIOD];
    }
}

static const uint8_t *bytes_of(uint32_t seed, size_t position)
{
    return pattern + (seed + position) % PERIOD;
}

static uint32_t draw_seed(void)
{
    return below(PERIOD);
}

static void fill(const layout_t *layout, uint32_t seed)
{
    size_t position = 0;

    for (size_t i = 0; i < layout->count; i++) {
        memcpy(layout->segments[i].address, bytes_of(seed, position),
               layout->segments[i].length);
        position += layout->segments[i].length;
    }
}

static void check_bytes(const uint8_t *got, uint32_t seed, size_t position,
                        size_t length, const char *what)
{
    const uint8_t *wanted = bytes_of(seed, position);

    if (memcmp(got, wanted, length) == 0) {
        return;
    }
    for (size_t i = 0; i < length; i++) {
        if (got[i] != wanted[i]) {
            fail("%s: byte %zu of seed %u is %#x instead of %#x", what,
                 position + i, seed, got[i], wanted[i]);
        }
    }
}

/* The first bytes of the layout. */
static void check(const layout_t *layout, size_t length, uint32_t seed,
                  const char *what)
{
    size_t position = 0;
    size_t size;

    for (size_t i = 0; (i < layout->count) && (position < length); i++) {
        size = layout->segments[i].length;
        size = (size < length - position) ? size : length - position;
        check_bytes(layout->segments[i].address, seed, position, size, what);
        position += size;
    }
}

/* Split a buffer into segments: at random, or all of one length. */
static void cut(layout_t *layout, uint8_t *buffer, size_t length, bool is_even)
{
    size_t   left = length;
    unsigned num  = one_in(4) ? 1 + below(MAX_SEGMENTS) : 1 + below(4);

    *layout = (layout_t){.count = num};
    for (unsigned i = 0; i < num; i++) {
        size_t size = (i + 1 == num) ? left : below((unsigned)left + 1);

        size                = is_even ? length / num : size;
        layout->segments[i] = (ucxpool_segment_t){buffer, size};
        buffer += size + GAP;
        left -= size;
        layout->length += size;
    }
}

/* Lengths of all magnitudes. */
static size_t draw_length(void)
{
    return below((1u << below(21)) + 1);
}

/* --- requests ------------------------------------------------------------- */

static counts_t *counts_of(const ucxpool_channel_t *channel)
{
    ucxpool_channel_attr_t attr = {.wire = UCXPOOL_WIRE_NONE};

    if (channel != NULL) {
        ucxpool_channel_query(channel, &attr, sizeof(attr));
    }
    return &board->wires[attr.wire];
}

/* Some requests get a deadline. */
static void draw_params(ucxpool_request_params_t *params)
{
    if (one_in(16)) {
        params->field_mask |= UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT;
        params->timeout_ns = (1 + below(300)) * MS;
    }
}

/* A channel that has ended accepts nothing. It fails with TIMED_OUT if a peer
 * is stopped during an in-place transfer that was canceled here. */
static bool is_posted(ucxpool_status_t status, const char *what)
{
    if ((status == UCXPOOL_ERR_CLOSED) || (status == UCXPOOL_ERR_PEER_LOST) ||
        (status == UCXPOOL_ERR_TIMED_OUT)) {
        return false;
    }
    must(status, what);
    return true;
}

/* Is this status allowed? OK: always. */
static bool has_arrived(const transfer_t *transfer, const char *what)
{
    ucxpool_request_attr_t attr;

    ucxpool_request_query(transfer->request, &attr, sizeof(attr));
    switch (attr.status) {
    case UCXPOOL_OK:
        return true;
    case UCXPOOL_ERR_CANCELED:
        count(&board->canceled, 1);
        return false;
    case UCXPOOL_ERR_TIMED_OUT:
        count(&board->timed_out, 1);
        return false;
    case UCXPOOL_ERR_REFUSED:
        count(&board->refused, 1);
        return false;
    case UCXPOOL_ERR_PEER_LOST:
    case UCXPOOL_ERR_CLOSED:
        count(&board->lost, 1);
        return false;
    default:
        fail("%s: %s: %s", what, ucxpool_status_string(attr.status),
             attr.detail);
    }
}

static bool has_ended(transfer_t *transfer, const char *what)
{
    if (transfer->request == NULL) {
        return false;
    }
    if (ucxpool_request_test(transfer->request) != UCXPOOL_INPROGRESS) {
        return true;
    }
    if (now() - transfer->since > PATIENCE) {
        fail("%s of %zu bytes does not end", what, transfer->layout.length);
    }
    if (one_in(5000)) {
        ucxpool_request_cancel(transfer->request);
    }
    return false;
}

static void release(transfer_t *transfer)
{
    ucxpool_request_release(transfer->request);
    transfer->request = NULL;
}

/* Memory of every kind that messages take. */
static uint8_t *draw_buffer(void)
{
    void *address = NULL;

    if (one_in(3) &&
        (ucxpool_comm_alloc(pool, BUFFER_SIZE, &address) == UCXPOOL_OK)) {
        return address;
    }
    if (one_in(2) &&
        (ucxpool_heap_alloc(pool, BUFFER_SIZE, NULL, &address) == UCXPOOL_OK)) {
        return address;
    }
    address = malloc(BUFFER_SIZE);
    if (address == NULL) {
        fail("no memory");
    }
    return address;
}

/* --- messages out --------------------------------------------------------- */

/* Some of the segments come from the file. */
static void make_ranges(transfer_t *send)
{
    size_t position = 0;

    for (size_t i = 0; i < send->layout.count; i++) {
        const ucxpool_segment_t *segment = &send->layout.segments[i];

        send->ranges[i] =
            one_in(2) ? ucxpool_range_memory(segment->address, segment->length)
                      : ucxpool_range_file(
                            file, (int64_t)((send->seed + position) % PERIOD),
                            segment->length, "pattern");
        position += segment->length;
    }
}

/* A message's data, in one of the four forms. */
static ucxpool_data_t draw_data(transfer_t *send)
{
    size_t   length = draw_length();
    unsigned form   = below(4);

    cut(&send->layout, send->buffer, length, form == 1);
    switch (form) {
    case 0:
        return ucxpool_data_segments(send->layout.segments, send->layout.count);
    case 1:
        for (size_t i = 0; i < send->layout.count; i++) {
            send->pieces[i] = send->layout.segments[i].address;
        }
        return ucxpool_data_pieces(send->pieces, send->layout.count,
                                   send->layout.segments[0].length);
    case 2:
        make_ranges(send);
        return ucxpool_source_ranges(send->ranges, send->layout.count);
    default:
        send->layout.count       = 1;
        send->layout.length      = length;
        send->layout.segments[0] = (ucxpool_segment_t){send->buffer, length};
        return ucxpool_data_buffer(send->buffer, length);
    }
}

static void start_send(transfer_t *send, ucxpool_channel_t *channel)
{
    note_t                   note;
    ucxpool_request_params_t params = {
        .field_mask      = UCXPOOL_REQUEST_PARAM_FIELD_METADATA,
        .metadata        = &note,
        .metadata_length = sizeof(note),
    };
    ucxpool_data_t data;

    send->seed = draw_seed();
    data       = draw_data(send);
    note       = (note_t){send->seed, (uint32_t)send->layout.length};
    fill(&send->layout, send->seed);
    draw_params(&params);
    send->since = now();
    if (!is_posted(ucxpool_send(channel, &data,
                                one_in(2) ? TAG_POSTED : TAG_PROBED, &params,
                                &send->request),
                   "send")) {
        send->request = NULL;
    }
}

static void advance_sends(void)
{
    for (unsigned i = 0; i < NUM_SENDS; i++) {
        ucxpool_channel_t *channel = channels[below(MAX_CHANNELS)];

        if (has_ended(&sends[i], "a send")) {
            (void)has_arrived(&sends[i], "a send");
            release(&sends[i]);
        }
        if ((sends[i].request == NULL) && (channel != NULL)) {
            start_send(&sends[i], channel);
        }
    }
}

/* --- messages in ---------------------------------------------------------- */

static void arrived(transfer_t *recv)
{
    ucxpool_request_attr_t attr;
    note_t                 note;
    counts_t              *counts;

    if (!has_arrived(recv, "a receive")) {
        return;
    }
    ucxpool_request_query(recv->request, &attr, sizeof(attr));
    if (attr.metadata_length != sizeof(note)) {
        fail("a message has %zu bytes of metadata", attr.metadata_length);
    }
    memcpy(&note, attr.metadata, sizeof(note));
    if (note.length != attr.length) {
        fail("a message of %u bytes came with %zu", note.length, attr.length);
    }
    check(&recv->layout, attr.length, note.seed, "a message");
    counts = counts_of(attr.channel);
    count(&counts->messages, 1);
    count(&counts->bytes, attr.length);
}

static void start_recv(transfer_t *recv)
{
    ucxpool_request_params_t params = {.field_mask = 0};
    ucxpool_data_t           data;

    cut(&recv->layout, recv->buffer, MAX_LENGTH, false);
    data = ucxpool_data_segments(recv->layout.segments, recv->layout.count);
    draw_params(&params);
    recv->since = UINT64_MAX / 2; /* there may be no sender */
    must(ucxpool_recv(pool, NULL, &data, TAG_POSTED, ALL_BITS, &params,
                      &recv->request),
         "receive");
}

static void advance_recvs(void)
{
    for (unsigned i = 0; i < NUM_RECVS; i++) {
        transfer_t *recv = &recvs[i];

        if ((recv->request != NULL) &&
            (ucxpool_request_test(recv->request) != UCXPOOL_INPROGRESS)) {
            arrived(recv);
            release(recv);
        }
        /* The last ones are for messages that are probed. */
        if ((recv->request == NULL) && (i < NUM_RECVS / 2)) {
            start_recv(recv);
        }
    }
}

static void take_probed(void)
{
    transfer_t        *recv = &recvs[NUM_RECVS / 2 + below(NUM_RECVS / 2)];
    ucxpool_message_t *message;
    ucxpool_data_t     data;

    if ((recv->request != NULL) ||
        (ucxpool_probe(pool, NULL, TAG_PROBED, ALL_BITS, &message) !=
         UCXPOOL_OK)) {
        return;
    }
    if (one_in(16)) {
        ucxpool_message_refuse(message, "not today");
        return;
    }
    cut(&recv->layout, recv->buffer, MAX_LENGTH, false);
    data = ucxpool_data_segments(recv->layout.segments, recv->layout.count);
    recv->since = now();
    if (ucxpool_message_recv(message, &data, NULL, &recv->request) !=
        UCXPOOL_OK) {
        recv->request = NULL;
        ucxpool_message_refuse(message, NULL);
    }
}

/* Notifications of reads and writes of our windows. */
static void take_notifications(void)
{
    ucxpool_message_t *message;
    ucxpool_data_t     data = ucxpool_data_buffer(NULL, 0);

    while (ucxpool_probe(pool, NULL, TAG_DONE, ALL_BITS, &message) ==
           UCXPOOL_OK) {
        if (ucxpool_message_recv(message, &data, NULL, NULL) != UCXPOOL_OK) {
            ucxpool_message_refuse(message, NULL);
        }
    }
}

/* --- windows of this process ---------------------------------------------- */

/* After a window is destroyed its memory is filled with this, and no peer may
 * change it. */
#define GUARD 0xee

static void check_guard(const owned_t *owned)
{
    for (size_t i = 0; i < WINDOW_SIZE; i++) {
        if (owned->memory[i] != GUARD) {
            fail("byte %zu of a window was written after its end", i);
        }
    }
}

static void export_one(owned_t *owned, ucxpool_channel_t *channel)
{
    note_t                   note;
    ucxpool_request_params_t params = {
        .field_mask      = UCXPOOL_REQUEST_PARAM_FIELD_METADATA,
        .metadata        = &note,
        .metadata_length = sizeof(note),
    };

    owned->seed  = draw_seed();
    owned->until = now() + below(2000) * MS;
    memcpy(owned->memory, bytes_of(owned->seed, 0), WINDOW_SIZE / 2);
    must(ucxpool_window_create(pool, owned->memory, WINDOW_SIZE, NULL,
                               &owned->window),
         "window");
    must(ucxpool_window_export(owned->window,
                               UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE,
                               owned->blob),
         "export");
    note = (note_t){owned->seed, WINDOW_SIZE};
    if (!is_posted(ucxpool_send_buffer(channel, owned->blob,
                                       sizeof(owned->blob), TAG_WINDOW, &params,
                                       &owned->sent),
                   "blob")) {
        owned->sent = NULL;
    }
}

static void end_window(owned_t *owned)
{
    check_bytes(owned->memory, owned->seed, 0, WINDOW_SIZE / 2, "a window");
    ucxpool_window_destroy(owned->window);
    owned->window = NULL;
    memset(owned->memory, GUARD, WINDOW_SIZE);
    owned->is_guarded = true;
    owned->until      = now() + below(200) * MS;
}

static void advance_windows(void)
{
    for (unsigned i = 0; i < NUM_WINDOWS; i++) {
        owned_t           *owned   = &windows[i];
        ucxpool_channel_t *channel = channels[below(MAX_CHANNELS)];

        if (now() < owned->until) {
            continue;
        }
        if (owned->window != NULL) {
            if (ucxpool_window_revoke(owned->window, MS) == UCXPOOL_OK) {
                end_window(owned);
            }
        } else if ((owned->sent != NULL) &&
                   (ucxpool_request_test(owned->sent) == UCXPOOL_INPROGRESS)) {
            continue; /* the blob has not been sent yet */
        } else if (channel != NULL) {
            ucxpool_request_release(owned->sent);
            owned->sent = NULL;
            if (owned->is_guarded) {
                check_guard(owned);
            }
            export_one(owned, channel);
        }
    }
}

/* --- windows of others ---------------------------------------------------- */

static void import_blob(imported_t *imported, ucxpool_message_t *message)
{
    ucxpool_message_attr_t attr;
    uint8_t                blob[UCXPOOL_WINDOW_BLOB_SIZE];
    ucxpool_data_t         data = ucxpool_data_buffer(blob, sizeof(blob));
    ucxpool_request_t     *request;
    note_t                 note;
    ucxpool_status_t       status;

    ucxpool_message_query(message, &attr, sizeof(attr));
    memcpy(&note, attr.metadata, sizeof(note));
    if (ucxpool_message_recv(message, &data, NULL, &request) != UCXPOOL_OK) {
        ucxpool_message_refuse(message, NULL);
        return;
    }
    status = ucxpool_request_wait(request, PATIENCE);
    ucxpool_request_release(request);
    if ((status != UCXPOOL_OK) || (attr.channel == NULL) ||
        !is_posted(ucxpool_remote_window_import(
                       attr.channel, blob, sizeof(blob), &imported->remote),
                   "import")) {
        imported->remote = NULL;
        return;
    }
    imported->channel = attr.channel;
    imported->seed    = note.seed;
    imported->step    = STEP_IDLE;
    imported->until   = now() + below(2000) * MS;
    count(&counts_of(attr.channel)->windows, 1);
}

static void take_blobs(void)
{
    ucxpool_message_t *message;

    for (unsigned i = 0; i < NUM_REMOTES; i++) {
        if ((remotes[i].remote == NULL) &&
            (remotes[i].transfer.request == NULL) &&
            (ucxpool_probe(pool, NULL, TAG_WINDOW, ALL_BITS, &message) ==
             UCXPOOL_OK)) {
            import_blob(&remotes[i], message);
        }
    }
}

/* Read or write one place, with bytes in several segments. */
static void access_place(imported_t *imported, step_t step)
{
    transfer_t              *transfer = &imported->transfer;
    ucxpool_places_t         places   = ucxpool_places(&imported->place, 1);
    ucxpool_request_params_t params   = {.field_mask = 0};
    ucxpool_data_t           data;
    ucxpool_status_t         status;

    cut(&transfer->layout, transfer->buffer, imported->place.length, false);
    data = ucxpool_data_segments(transfer->layout.segments,
                                 transfer->layout.count);
    draw_params(&params);
    if (one_in(8)) {
        params.field_mask |= UCXPOOL_REQUEST_PARAM_FIELD_NOTIFY;
        params.notify_tag = TAG_DONE;
    }
    transfer->since = now();
    if (step == STEP_WRITE) {
        fill(&transfer->layout, imported->write_seed);
        status = ucxpool_remote_window_write(imported->remote, &places, &data,
                                             &params, &transfer->request);
    } else {
        status = ucxpool_remote_window_read(imported->remote, &places, &data,
                                            &params, &transfer->request);
    }
    imported->step = step;
    if ((status == UCXPOOL_ERR_CANCELED) || (status == UCXPOOL_ERR_REFUSED) ||
        !is_posted(status, "read or write")) {
        transfer->request = NULL;
        imported->until   = 0; /* it has ended */
    }
}

static void draw_place(imported_t *imported, bool is_second_half)
{
    const unsigned half   = WINDOW_SIZE / 2;
    unsigned       length = 1 + below(1u << below(17));

    length = (length < half) ? length : half;
    imported->place.offset =
        below(half - length + 1) + (is_second_half ? half : 0);
    imported->place.length = length;
}

/* Check an access that has ended, and start the next one of a chain. */
static void after_access(imported_t *imported, bool is_done)
{
    transfer_t *transfer = &imported->transfer;
    counts_t   *counts;

    if (!is_done) {
        imported->step = STEP_IDLE;
        return;
    }
    counts = &board->wires[UCXPOOL_WIRE_NONE];
    for (unsigned i = 0; i < MAX_CHANNELS; i++) {
        if (channels[i] == imported->channel) {
            counts = counts_of(imported->channel);
        }
    }
    switch (imported->step) {
    case STEP_READ:
        check(&transfer->layout, transfer->layout.length,
              imported->seed + (uint32_t)imported->place.offset, "a read");
        count(&counts->reads, 1);
        break;
    case STEP_READ_BACK:
        check(&transfer->layout, transfer->layout.length, imported->write_seed,
              "what was written");
        count(&counts->reads, 1);
        break;
    default:
        count(&counts->writes, 1);
        if (imported->until != 0) {
            access_place(imported, STEP_READ_BACK);
            return;
        }
    }
    imported->step = STEP_IDLE;
}

static void advance_remote(imported_t *imported)
{
    bool is_done;

    if (has_ended(&imported->transfer, "a read or write")) {
        is_done = has_arrived(&imported->transfer, "a read or write");
        release(&imported->transfer);
        after_access(imported, is_done && (imported->remote != NULL));
    }
    if (imported->remote == NULL) {
        return;
    }
    if (now() >= imported->until) {
        ucxpool_remote_window_release(
            imported->remote); /* with one under way, too */
        imported->remote = NULL;
    } else if (imported->transfer.request == NULL) {
        imported->write_seed = draw_seed();
        if (one_in(2)) {
            draw_place(imported, false);
            access_place(imported, STEP_READ);
        } else {
            draw_place(imported, true);
            access_place(imported, STEP_WRITE);
        }
    }
}

static void advance_remotes(void)
{
    take_blobs();
    for (unsigned i = 0; i < NUM_REMOTES; i++) {
        advance_remote(&remotes[i]);
    }
}

/* --- channels and the heap ------------------------------------------------ */

static void accept_callers(void)
{
    for (unsigned i = 0; i < MAX_CHANNELS; i++) {
        if ((channels[i] == NULL) &&
            (ucxpool_listener_accept(listener, NULL, &channels[i]) !=
             UCXPOOL_OK)) {
            channels[i] = NULL;
            return;
        }
    }
}

static void end_channel(unsigned index)
{
    if (one_in(2)) {
        ucxpool_channel_close(channels[index]);
    } else {
        ucxpool_channel_abort(channels[index]);
    }
    channels[index] = NULL;
}

static void open_one(unsigned index)
{
    unsigned peer = below(num_processes);
    char     where[32];

    if ((peer == own_index) || (board->ports[peer] == 0)) {
        return;
    }
    snprintf(where, sizeof(where), "127.0.0.1:%u", board->ports[peer]);
    must(ucxpool_channel_connect(pool, where, NULL, &channels[index]),
         "connect");
    count(&board->opened, 1);
}

static void advance_channels(void)
{
    ucxpool_channel_attr_t attr;
    unsigned               index = below(MAX_CHANNELS / 2);

    accept_callers();
    for (unsigned i = 0; i < MAX_CHANNELS; i++) {
        if (channels[i] == NULL) {
            continue;
        }
        ucxpool_channel_query(channels[i], &attr, sizeof(attr));
        if (attr.status == UCXPOOL_ERR_PROTOCOL) {
            fail("channel %s: %s", attr.name, attr.reason);
        }
        if ((attr.state > UCXPOOL_CHANNEL_OPEN) || one_in(20000)) {
            end_channel(i);
        }
    }
    if ((channels[index] == NULL) && one_in(20)) {
        open_one(index);
    }
}

static void advance_heap(void)
{
    piece_t *piece = &pieces[below(NUM_PIECES)];
    void    *address;

    if (piece->address != NULL) {
        check_bytes(piece->address, piece->seed, 0, piece->size, "the heap");
        must(ucxpool_heap_free(pool, piece->address, NULL), "free");
        piece->address = NULL;
        return;
    }
    piece->size = 1 + draw_length() / 4;
    if (ucxpool_heap_alloc(pool, piece->size, NULL, &address) == UCXPOOL_OK) {
        piece->seed    = draw_seed();
        piece->address = address;
        memcpy(address, bytes_of(piece->seed, 0), piece->size);
        count(&board->heap, 1);
    }
}

/* --- a process ------------------------------------------------------------ */

static void on_term(int signal)
{
    is_ending = 1;
}

static void create_pool(void)
{
    ucxpool_config_t *config;
    ucxpool_params_t  params = {.field_mask = UCXPOOL_PARAM_FIELD_CONFIG};

    must(ucxpool_config_read(&config), "settings");
    must(ucxpool_config_modify(config, "WIRE", wire), "WIRE");
    must(ucxpool_config_modify(config, "COMM_SIZE", "32m"), "COMM_SIZE");
    must(ucxpool_config_modify(config, "HUGE_PAGES", "n"), "HUGE_PAGES");
    params.config = config;
    must(ucxpool_create(&params, &pool), "create");
    ucxpool_config_release(config);
    must(ucxpool_listener_create(pool, "127.0.0.1:0", &listener), "listen");
}

static void create_buffers(void)
{
    for (unsigned i = 0; i < NUM_SENDS; i++) {
        sends[i].buffer = draw_buffer();
    }
    for (unsigned i = 0; i < NUM_RECVS; i++) {
        recvs[i].buffer = draw_buffer();
    }
    for (unsigned i = 0; i < NUM_REMOTES; i++) {
        remotes[i].transfer.buffer = draw_buffer();
    }
    for (unsigned i = 0; i < NUM_WINDOWS; i++) {
        windows[i].memory = draw_buffer();
    }
}

static void run_process(unsigned index, unsigned seed)
{
    own_index = index;
    srand(seed);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    create_pool();
    create_buffers();
    board->ports[index] = ucxpool_listener_port(listener);
    while (!is_ending) {
        count(&board->beats[index], 1);
        advance_channels();
        advance_sends();
        advance_recvs();
        take_probed();
        take_notifications();
        advance_windows();
        advance_remotes();
        advance_heap();
        if (one_in(3)) {
            (void)ucxpool_wait(pool, MS);
        } else {
            ucxpool_progress(pool);
        }
    }
    board->ports[index] = 0;
    ucxpool_destroy(pool);
    _exit(0);
}

/* --- the parent ----------------------------------------------------------- */

typedef struct child {
    pid_t    pid;
    uint64_t beats; /* at the last check */
    uint64_t seen;
    uint64_t ends_since; /* it was terminated; 0: it was not */
    uint64_t cont_at;    /* it is stopped until then; 0: it is not */
    bool     is_killed;
} child_t;

static child_t  children[MAX_PROCESSES];
static unsigned num_kills, num_terms, num_stops;
static unsigned num_aborted, num_wrong, num_hung;

static void start(unsigned index)
{
    child_t *child = &children[index];
    unsigned seed  = (unsigned)rand();

    board->ports[index] = 0;
    *child              = (child_t){.seen = now()};
    child->pid          = fork();
    if (child->pid == 0) {
        run_process(index, seed);
    }
}

static void hang(unsigned index, const char *what)
{
    fprintf(stderr, "stress: FAIL: process %u (%d) %s\n", index,
            children[index].pid, what);
    num_hung++;
    kill(children[index].pid, SIGABRT); /* for a core */
    children[index].is_killed = true;
}

/* Returns whether it has ended; counts the end as success or failure. */
static bool has_process_ended(unsigned index)
{
    child_t *child = &children[index];
    int      status;

    if (waitpid(child->pid, &status, WNOHANG) != child->pid) {
        return false;
    }
    if (WIFSIGNALED(status) && !child->is_killed) {
        fprintf(stderr, "stress: FAIL: process %u (%d): signal %d\n", index,
                child->pid, WTERMSIG(status));
        num_aborted++;
    } else if (WIFSIGNALED(status) && (WTERMSIG(status) != SIGKILL)) {
        num_aborted += (WTERMSIG(status) == SIGABRT) ? 1 : 0;
    } else if (WIFEXITED(status) && (WEXITSTATUS(status) != 0)) {
        num_wrong++;
    } else if (WIFEXITED(status) && (child->ends_since == 0)) {
        fprintf(stderr, "stress: FAIL: process %u ended\n", index);
        num_wrong++;
    }
    return true;
}

static void watch(unsigned index)
{
    child_t *child = &children[index];
    uint64_t beats = __atomic_load_n(&board->beats[index], __ATOMIC_RELAXED);

    if ((child->cont_at != 0) && (now() >= child->cont_at)) {
        kill(child->pid, SIGCONT);
        child->cont_at = 0;
    }
    if (beats != child->beats) {
        child->beats = beats;
        child->seen  = now();
    } else if (!child->is_killed && (child->ends_since == 0) &&
               (now() - child->seen > PATIENCE)) {
        hang(index, "stands still");
    }
    if (!child->is_killed && (child->ends_since != 0) &&
        (now() - child->ends_since > PATIENCE)) {
        hang(index, "does not end");
    }
}

static void hurt(unsigned index)
{
    child_t *child = &children[index];

    if (child->is_killed || (child->ends_since != 0)) {
        return;
    }
    switch (below(4)) {
    case 0:
    case 1:
        num_kills++;
        child->is_killed = true;
        kill(child->pid, SIGKILL);
        break;
    case 2:
        num_terms++;
        child->ends_since = now();
        kill(child->pid, SIGTERM);
        kill(child->pid, SIGCONT);
        child->cont_at = 0;
        break;
    default:
        num_stops++;
        kill(child->pid, SIGSTOP);
        child->cont_at = now() + (1 + below(1000)) * MS;
    }
}

static void end_all(void)
{
    bool is_left = true;

    for (unsigned i = 0; i < num_processes; i++) {
        kill(children[i].pid, SIGCONT);
        if (children[i].ends_since == 0) {
            children[i].ends_since = now();
            kill(children[i].pid, SIGTERM);
        }
    }
    while (is_left) {
        is_left = false;
        for (unsigned i = 0; i < num_processes; i++) {
            if ((children[i].pid != 0) && has_process_ended(i)) {
                children[i].pid = 0;
            } else if (children[i].pid != 0) {
                is_left = true;
                watch(i);
            }
        }
        usleep(1000);
    }
}

static void run_all(unsigned seconds)
{
    uint64_t until = now() + seconds * SECOND;
    uint64_t next  = now() + SECOND;

    for (unsigned i = 0; i < num_processes; i++) {
        start(i);
    }
    while (!is_ending && (now() < until)) {
        usleep(1000);
        for (unsigned i = 0; i < num_processes; i++) {
            watch(i);
            if (has_process_ended(i)) {
                start(i);
            }
        }
        if (!is_calm && (now() >= next)) {
            hurt(below(num_processes));
            next = now() + below(400) * MS;
        }
    }
    end_all();
}

static void report(void)
{
    for (unsigned i = 0; i < 3; i++) {
        const counts_t *counts = &board->wires[i];

        printf("%s: %llu messages, %.2f GB, %llu windows, %llu reads, %llu "
               "writes\n",
               (i == 0) ? "closed meanwhile" : wires[i],
               (unsigned long long)counts->messages,
               (double)counts->bytes / 1e9, (unsigned long long)counts->windows,
               (unsigned long long)counts->reads,
               (unsigned long long)counts->writes);
    }
    printf("%llu channels opened, %llu heap allocations; ended otherwise: %llu "
           "canceled, %llu timed out, %llu refused, %llu lost\n",
           (unsigned long long)board->opened, (unsigned long long)board->heap,
           (unsigned long long)board->canceled,
           (unsigned long long)board->timed_out,
           (unsigned long long)board->refused, (unsigned long long)board->lost);
    printf("%u kills, %u terminations, %u stops; failures: %u aborted, %u "
           "wrong, %u hung\n",
           num_kills, num_terms, num_stops, num_aborted, num_wrong, num_hung);
}

static unsigned number(const char *text, unsigned max)
{
    char         *end;
    unsigned long value = strtoul(text, &end, 10);

    if ((*text == '\0') || (*end != '\0') || (value > max)) {
        fprintf(stderr, "stress: %s is not a number of at most %u\n", text,
                max);
        exit(2);
    }
    return (unsigned)value;
}

static void make_file(void)
{
    file = memfd_create("pattern", MFD_CLOEXEC);
    if ((file < 0) ||
        (write(file, pattern, sizeof(pattern)) != sizeof(pattern))) {
        perror("stress: memfd");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"seconds", required_argument, NULL, 't'},
        {"seed", required_argument, NULL, 's'},
        {"wire", required_argument, NULL, 'w'},
        {"processes", required_argument, NULL, 'p'},
        {"calm", no_argument, NULL, 'c'},
        {NULL, 0, NULL, 0},
    };
    unsigned seconds = 10;
    unsigned seed    = 1;
    int      option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 't':
            seconds = number(optarg, 1000000);
            break;
        case 's':
            seed = number(optarg, UINT32_MAX);
            break;
        case 'w':
            wire = optarg;
            break;
        case 'p':
            num_processes = number(optarg, MAX_PROCESSES);
            break;
        case 'c':
            is_calm = true;
            break;
        default:
            fprintf(stderr, "usage: stress [--seconds N] [--seed S] [--wire "
                            "map|ucx|auto] [--processes P] [--calm]\n");
            return 2;
        }
    }
    board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        perror("stress: mmap");
        return 1;
    }
    signal(SIGTERM, on_term); /* of the processes, from their start */
    srand(seed);
    make_pattern();
    make_file();
    run_all(seconds);
    report();
    return ((num_aborted | num_wrong | num_hung) == 0) ? 0 : 1;
}
