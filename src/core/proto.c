#include "core/proto.h"

#include "base/error.h"
#include "copy/fault.h"

#include <ucxpool/window.h>

#include <string.h>

/* The messages: the type, the struct of the fixed part, and its size. */
/* clang-format off */
#define MESSAGES(_message) \
    _message(PROTO_HELLO, proto_hello_t, 184) \
    _message(PROTO_READY, proto_ready_t, 24) \
    _message(PROTO_GO, proto_head_t, 16) \
    _message(PROTO_DESC, proto_desc_t, 64) \
    _message(PROTO_RUNS, proto_runs_t, 32) \
    _message(PROTO_ACCEPT, proto_accept_t, 48) \
    _message(PROTO_DATA, proto_data_t, 80) \
    _message(PROTO_TAKEN, proto_taken_t, 32) \
    _message(PROTO_DONE, proto_done_t, 32) \
    _message(PROTO_CANCEL, proto_cancel_t, 40) \
    _message(PROTO_CREDIT, proto_head_t, 16) \
    _message(PROTO_BYE, proto_bye_t, 24) \
    _message(PROTO_DOORBELL, proto_head_t, 16) \
    _message(PROTO_KEPT, proto_head_t, 16) \
    _message(PROTO_SHORT, proto_short_t, 24) \
    _message(PROTO_WINDOW_OPEN, proto_window_open_t, 56) \
    _message(PROTO_WINDOW_OPENED, proto_window_opened_t, 56) \
    _message(PROTO_WINDOW_CLOSE, proto_window_close_t, 24) \
    _message(PROTO_WINDOW_REVOKE, proto_window_revoke_t, 24) \
    _message(PROTO_WINDOW_END, proto_window_end_t, 32) \
    _message(PROTO_RETURNED, proto_returned_t, 24) \
    _message(PROTO_MAILBOX, proto_mailbox_t, 40)

#define FIXED_SIZE(_type, _struct, _size) [_type] = (_size),
static const size_t fixed_sizes[PROTO_LAST] = {
    MESSAGES(FIXED_SIZE)
};
/* clang-format on */

#define CHECK_SIZE(_type, _struct, _size) \
    static_assert(sizeof(_struct) == (_size), "layout");
MESSAGES(CHECK_SIZE)
static_assert(sizeof(proto_window_cuda_t) == 104, "layout");
static_assert(sizeof(proto_window_part_t) == 56, "layout");
static_assert(sizeof(ipc_virtual_run_t) == 16, "layout");
static_assert(sizeof(proto_lent_t) == 24, "layout");
static_assert(sizeof(proto_call_t) == 48, "layout");
static_assert(sizeof(proto_import_t) == 32, "layout");
static_assert(sizeof(proto_given_t) == 144, "layout");
static_assert(PROTO_SHORT_MAX + sizeof(copy_run_t) <= PROTO_DATA_MAX,
              "a message of a SHORT and its run must fit");
static_assert((PROTO_SHORT_MAX % 8 == 0) &&
                  (sizeof(uint64_t) + PROTO_SHORT_MAX <= PROTO_DATA_MAX),
              "the longest message must fit in a SHORT");
static_assert(PROTO_PARTS_MAX * sizeof(proto_window_part_t) <= PROTO_DATA_MAX,
              "all parts must fit");

size_t proto_fixed_size(unsigned type)
{
    return (type < PROTO_LAST) ? fixed_sizes[type] : 0;
}

static bool opened_size_fits(const proto_window_opened_t *opened, size_t size)
{
    switch (opened->flags & (PROTO_OPENED_CUDA | PROTO_OPENED_PARTS |
                             PROTO_OPENED_KEY | PROTO_OPENED_VIRTUAL)) {
    case 0:
        return size <= PROTO_TEXT_MAX;
    case PROTO_OPENED_CUDA:
        return size == sizeof(proto_window_cuda_t);
    case PROTO_OPENED_PARTS:
        return (size != 0) && (size % sizeof(proto_window_part_t) == 0) &&
               (size / sizeof(proto_window_part_t) <= PROTO_PARTS_MAX);
    case PROTO_OPENED_KEY:
        return size <= PROTO_KEY_MAX;
    case PROTO_OPENED_VIRTUAL:
        size -= ipc_virtual_layout_size(0);
        return (size != 0) && (size % sizeof(ipc_virtual_run_t) == 0) &&
               (size / sizeof(ipc_virtual_run_t) <= IPC_VIRTUAL_RUNS_MAX);
    default:
        return false;
    }
}

/* Returns true if the size of the variable part matches the fixed part. */
static bool data_size_fits(const proto_fixed_t *message, size_t data_size)
{
    uint64_t size;

    switch (message->head.type) {
    case PROTO_HELLO:
        return (message->hello.num_files <= PROTO_FILES_MAX) &&
               (data_size == message->hello.num_files * sizeof(ipc_file_t));
    case PROTO_READY:
    case PROTO_DONE:
    case PROTO_CANCEL:
    case PROTO_WINDOW_END:
        return data_size <= PROTO_TEXT_MAX;
    case PROTO_BYE:
        return data_size <= PROTO_REASON_MAX;
    case PROTO_WINDOW_OPENED:
        return opened_size_fits(&message->window_opened, data_size);
    case PROTO_DESC:
        size = message->desc.metadata_size;
        if (!(message->desc.flags & PROTO_DESC_RUNS)) {
            size += (uint64_t)message->desc.num_runs * sizeof(copy_run_t);
        } else if (message->desc.num_runs == 0) {
            /* Without runs, the descriptor could never be completed. */
            return false;
        }
        return (data_size <= PROTO_DATA_MAX) &&
               ((message->desc.flags & PROTO_DESC_EAGER) ? size <= data_size
                                                         : size == data_size);
    case PROTO_SHORT:
        return (message->in_short.length != 0) &&
               (message->in_short.length <= PROTO_SHORT_MAX) &&
               (message->in_short.num != 0) &&
               (data_size == message->in_short.num *
                                 proto_short_size(message->in_short.length));
    case PROTO_RUNS:
        return (data_size <= PROTO_DATA_MAX) &&
               (data_size ==
                (uint64_t)message->runs.num_runs * sizeof(copy_run_t));
    case PROTO_ACCEPT:
        return (data_size % sizeof(proto_lent_t) == 0) &&
               (data_size / sizeof(proto_lent_t) <= PROTO_LENT_MAX);
    case PROTO_DATA:
        return true;
    default:
        return data_size == 0;
    }
}

static bool is_error(int32_t status)
{
    return (status < UCXPOOL_OK) && (status >= UCXPOOL_ERR_LIMIT);
}

ucxpool_status_t proto_parse(const void *fixed, size_t fixed_size,
                             size_t data_size, proto_fixed_t *message_p)
{
    if ((fixed_size < sizeof(proto_head_t)) ||
        (fixed_size > sizeof(*message_p))) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer sent a message with an invalid header size "
                          "(%zu bytes)",
                          fixed_size);
    }
    memcpy(message_p, fixed, fixed_size);
    if (message_p->head.version != PROTO_VERSION) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "the peer uses protocol version %u, this pool uses "
                          "%u; use the same version of libucxpool on both "
                          "sides",
                          message_p->head.version, PROTO_VERSION);
    }
    if (fixed_size != proto_fixed_size(message_p->head.type)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer sent a message of type %u with an invalid "
                          "header size (%zu bytes)",
                          message_p->head.type, fixed_size);
    }
    if ((message_p->head.type == PROTO_CANCEL) &&
        !is_error(message_p->cancel.status)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer canceled a message with status %d, which is "
                          "not an error",
                          (int)message_p->cancel.status);
    }
    if ((message_p->head.type == PROTO_BYE) &&
        (message_p->bye.status != UCXPOOL_OK) &&
        !is_error(message_p->bye.status)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer ended a channel with status %d, which is "
                          "invalid",
                          (int)message_p->bye.status);
    }
    if (!data_size_fits(message_p, data_size)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer sent a message of type %u with an invalid "
                          "data size (%zu bytes)",
                          message_p->head.type, data_size);
    }
    return UCXPOOL_OK;
}

ucxpool_status_t proto_check_desc(const proto_desc_t *desc,
                                  const copy_run_t *runs, size_t data_size,
                                  copy_totals_t *totals_p)
{
    uint64_t         expected = desc->metadata_size;
    ucxpool_status_t status;

    status = copy_lengths_check(runs, desc->num_runs, totals_p);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (totals_p->payload_size != desc->payload_size) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer announced %llu bytes, but its segments have "
                          "%llu",
                          (unsigned long long)desc->payload_size,
                          (unsigned long long)totals_p->payload_size);
    }
    if (desc->flags & PROTO_DESC_EAGER) {
        expected += totals_p->stream_size;
    }
    if (expected != data_size) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "a peer sent a descriptor with %zu bytes instead of "
                          "%llu",
                          data_size, (unsigned long long)expected);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t wrong_size(const proto_call_t *call)
{
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "the sum of the places is not %llu bytes",
                      (unsigned long long)call->size);
}

/* Check places with different lengths. */
static ucxpool_status_t check_places(const proto_call_t    *call,
                                     const ucxpool_place_t *places,
                                     uint64_t               window_length)
{
    uint64_t size = 0;

    for (uint64_t i = 0; i < call->num_places; i++) {
        if ((places[i].offset > window_length) ||
            (places[i].length > window_length - places[i].offset)) {
            return copy_fault_beyond(i);
        }
        if (!base_add(size, places[i].length, &size)) {
            return wrong_size(call);
        }
    }
    return (size == call->size) ? UCXPOOL_OK : wrong_size(call);
}

static ucxpool_status_t check_even_places(const proto_call_t *call,
                                          const uint64_t     *offsets,
                                          uint64_t            window_length)
{
    uint64_t size;

    if (!base_mul(call->num_places, call->length, &size) ||
        (size != call->size)) {
        return wrong_size(call);
    }
    for (uint64_t i = 0; i < call->num_places; i++) {
        if ((call->length > window_length) ||
            (offsets[i] > window_length - call->length)) {
            return copy_fault_beyond(i);
        }
    }
    return UCXPOOL_OK;
}

ucxpool_status_t proto_check_call(const proto_call_t *call, const void *places,
                                  uint64_t data_size, uint64_t window_length)
{
    uint64_t entry =
        (call->length != 0) ? sizeof(uint64_t) : sizeof(ucxpool_place_t);

    if (((call->kind != PROTO_CALL_READ) && (call->kind != PROTO_CALL_WRITE)) ||
        (call->num_places == 0) || (call->num_places > PROTO_PLACES_MAX) ||
        (call->size == 0) || (data_size != call->num_places * entry)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "invalid operation on a window: kind %u, %llu places "
                          "in %llu bytes",
                          call->kind, (unsigned long long)call->num_places,
                          (unsigned long long)data_size);
    }
    return (call->length != 0) ? check_even_places(call, places, window_length)
                               : check_places(call, places, window_length);
}

bool proto_parse_import(const void *bytes, size_t length,
                        proto_import_t *import_p)
{
    proto_import_t import;

    if (length != sizeof(import)) {
        return false;
    }
    memcpy(&import, bytes, sizeof(import));
    if ((import.magic != PROTO_IMPORT_MAGIC) ||
        (import.version != PROTO_VERSION) || (import.max == 0)) {
        return false;
    }
    *import_p = import;
    return true;
}

void proto_copy_text(char *text, size_t text_size, const void *data,
                     size_t data_size)
{
    size_t length = base_min(data_size, text_size - 1);

    /* Copy the text first, because the peer may change it during the check. */
    if (length != 0) {
        memcpy(text, data, length);
    }
    for (size_t i = 0; i < length; i++) {
        if ((text[i] < ' ') || (text[i] > '~')) {
            text[i] = '?';
        }
    }
    text[length] = '\0';
}
