/*
 * The sides that use UCX directly: active messages, tag messages, gets and
 * puts.
 */
#include "common/system.h"
#include "common/error.h"
#include "perf/lane.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

/* Time limit for a clean close. */
#define CLOSE_NS UINT64_C(2000000000)

/* Maximum number of pending operations of one slot before progress. More
 * operations would only make UCX's queues longer. */
#define WINDOW 64u

enum { AM_DATA = 1, AM_REPLY = 2 };

/* The header of an active message. */
typedef struct header {
    uint32_t slot;
    uint32_t index; /* index of the buffer in the message */
} header_t;

struct raw_end;

struct raw_lane {
    uint32_t          mode;        /* MODE_PEER or MODE_NONE */
    ucs_memory_type_t memory_type; /* of all buffers */
    ucp_context_h     context;
    ucp_worker_h      worker;
    ucp_ep_h          ep;
    struct raw_end   *sender;   /* the end for which replies arrive */
    struct raw_end   *receiver; /* the end for which messages arrive */
    bool              closing;  /* errors are ignored */
    bool              failed;
    /* Headers of replies: UCX 1.13 reads them until the send has completed. */
    header_t reply_headers[WORK_MAX_OUTSTANDING];
};

typedef struct raw_end {
    end_t         end; /* first: an end_t * is a raw_end_t * */
    raw_lane_t   *lane;
    ucp_mem_h     memh;    /* NULL: no registration */
    void         *arena;   /* registered GPU memory; or NULL */
    header_t     *headers; /* of active messages, slot by slot */
    ucp_dt_iov_t *iov;     /* slot by slot */
    /* Gets and puts: the other end's arena, and its key. */
    uint64_t   peer;
    ucp_rkey_h rkey;
} raw_end_t;

/* --- common to all ways --------------------------------------------------- */

static int fail(end_t *end, ucs_status_t status, const char *what)
{
    return end_fail(end, what, ucs_status_string(status));
}

/* Returns 0 if a call of UCX succeeded. Otherwise prints an error and returns
 * -1. */
static int check(ucs_status_t status, const char *what)
{
    return status == UCS_OK
               ? 0
               : tool_error("%s: %s", what, ucs_status_string(status));
}

/* Direct arriving messages to this end, until another end of the same kind is
 * entered. */
static void enter(raw_end_t *raw)
{
    if (raw->end.is_sender) {
        raw->lane->sender = raw;
    } else {
        raw->lane->receiver = raw;
    }
}

static void raw_progress(end_t *end)
{
    raw_end_t *raw = (raw_end_t *)end;

    enter(raw);
    ucp_worker_progress(raw->lane->worker);
    if (raw->lane->failed) {
        end->failed = true;
    }
}

/* Handle the result of a UCX call with a slot as user data. The call counts as
 * pending until it completes. */
static int posted(end_slot_t *slot, ucs_status_ptr_t post)
{
    if (UCS_PTR_IS_ERR(post)) {
        return fail(slot->end, UCS_PTR_STATUS(post),
                    "UCX did not accept a message");
    }
    if (post != NULL) {
        slot->pending++;
    }
    return 0;
}

/* Post one part of a slot's message. */
typedef ucs_status_ptr_t (*post_part_t)(const raw_end_t *raw, unsigned index,
                                        size_t                     part,
                                        const ucp_request_param_t *param);

/* Post the parts of a message, with at most `most` of them pending. Inlined, so
 * that post() is not called by a pointer. */
static inline __attribute__((always_inline)) int
post_parts(raw_end_t *raw, unsigned index, size_t num, unsigned most,
           post_part_t post, const ucp_request_param_t *param)
{
    end_slot_t *slot = &raw->end.slots[index];

    for (size_t part = 0; part < num; part++) {
        if (raw->end.failed ||
            ((slot->pending >= most) &&
             (end_wait(&raw->end, index, most) != 0)) ||
            (posted(slot, post(raw, index, part, param)) != 0)) {
            return -1;
        }
    }
    return 0;
}

static void ended(end_slot_t *slot, void *request, ucs_status_t status,
                  const char *what)
{
    slot->pending--;
    ucp_request_free(request);
    if (status != UCS_OK) {
        fail(slot->end, status, what);
    }
}

static void sent(void *request, ucs_status_t status, void *user_data)
{
    ended(user_data, request, status, "a send ended early");
}

static void fill_param(const raw_end_t *raw, end_slot_t *slot, ucp_mem_h memh,
                       ucp_request_param_t *param)
{
    param->op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                          UCP_OP_ATTR_FIELD_USER_DATA |
                          UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    param->cb.send     = sent;
    param->user_data   = slot;
    param->memory_type = raw->lane->memory_type;
    if (memh != NULL) {
        param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
        param->memh = memh;
    }
}

/* --- active messages: one per buffer, or one of contiguous memory --------- */

static ucs_status_ptr_t post_am(const raw_end_t *raw, unsigned index,
                                size_t part, const ucp_request_param_t *param)
{
    size_t             i       = index * raw->end.buffers.num_segments + part;
    ucxpool_segment_t *segment = &raw->end.buffers.segments[i];

    return ucp_am_send_nbx(raw->lane->ep, AM_DATA, &raw->headers[i],
                           sizeof(header_t), segment->address, segment->length,
                           param);
}

static int am_send(end_t *end, unsigned index)
{
    raw_end_t          *raw = (raw_end_t *)end;
    ucp_request_param_t param;

    enter(raw);
    fill_param(raw, &end->slots[index], raw->memh, &param);
    return post_parts(raw, index, end->buffers.num_segments, WINDOW, post_am,
                      &param);
}

static int am_expect(end_t *end, unsigned slot)
{
    enter((raw_end_t *)end);
    end->slots[slot].num_arrived = 0;
    return 0;
}

/* Send the reply: only a header, or the whole message. */
static int am_reply(end_t *end, unsigned index)
{
    raw_end_t          *raw    = (raw_end_t *)end;
    end_slot_t         *slot   = &end->slots[index];
    header_t           *header = &raw->lane->reply_headers[index];
    void               *data   = NULL;
    size_t              length = 0;
    ucp_request_param_t param;

    /* The previous reply of this slot has arrived, because there is a new
     * message. UCX may not have reported the reply's completion yet. */
    if (end_wait(end, index, 1) != 0) {
        return -1;
    }
    fill_param(raw, slot, NULL, &param);
    if (end->work.echo) {
        data   = buffers_segments(&end->buffers, index)[0].address;
        length = end->buffers.size;
    } else {
        param.memory_type = UCS_MEMORY_TYPE_HOST;
    }
    header->slot  = index;
    header->index = 0;
    return posted(slot, ucp_am_send_nbx(raw->lane->ep, AM_REPLY, header,
                                        sizeof(*header), data, length, &param));
}

/* Record an arrived part of a message, or at the sender the reply. */
static void arrived(end_slot_t *slot)
{
    if (slot->end->is_sender) {
        slot->replied = true;
    } else {
        end_part_arrived(slot, slot->end->buffers.num_segments);
    }
}

static void fetched(void *request, ucs_status_t status, size_t length,
                    void *user_data)
{
    ended(user_data, request, status, "a receive ended early");
    if (status == UCS_OK) {
        arrived(user_data);
    }
}

/* Copy what has arrived to its place. With rendezvous, its bytes are still at
 * the other end. */
static ucs_status_t take(raw_end_t *raw, unsigned index, void *data,
                         const ucxpool_segment_t   *target,
                         const ucp_am_recv_param_t *attr)
{
    end_slot_t         *slot = &raw->end.slots[index];
    ucp_request_param_t param;
    ucs_status_ptr_t    request;

    if (!(attr->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV)) {
        if ((target->length != 0) &&
            (memory_put(raw->end.buffers.memory, target->address, data,
                        target->length) != 0)) {
            raw->end.failed = true;
        } else {
            arrived(slot);
        }
        return UCS_OK;
    }
    fill_param(raw, slot, raw->end.is_sender ? NULL : raw->memh, &param);
    param.cb.recv_am = fetched;
    request = ucp_am_recv_data_nbx(raw->lane->worker, data, target->address,
                                   target->length, &param);
    if ((posted(slot, request) == 0) && (request == NULL)) {
        arrived(slot);
    }
    return UCS_INPROGRESS;
}

/* Handle a buffer of a message, or at the sender a reply. raw: the end for
 * which it arrives, or NULL. UCX does not align headers. */
static ucs_status_t take_message(raw_end_t *raw, const void *header,
                                 size_t header_length, void *data,
                                 size_t length, const ucp_am_recv_param_t *attr)
{
    buffers_t        *buffers;
    ucxpool_segment_t target;
    header_t          at;

    if ((raw == NULL) || (header_length != sizeof(at))) {
        return UCS_OK;
    }
    buffers = &raw->end.buffers;
    memcpy(&at, header, sizeof(at));
    if ((at.slot >= raw->end.work.outstanding) ||
        (at.index >= buffers->num_segments)) {
        fail(&raw->end, UCS_ERR_INVALID_PARAM, "an unexpected message");
        return UCS_OK;
    }
    target = buffers_segments(buffers, at.slot)[at.index];
    if (raw->end.is_sender) {
        target.address = buffers_reply(buffers, at.slot);
        target.length  = raw->end.work.echo ? buffers->size : 0;
    }
    if (length != target.length) {
        fail(&raw->end, UCS_ERR_MESSAGE_TRUNCATED,
             "a message has a wrong size");
        return UCS_OK;
    }
    return take(raw, at.slot, data, &target, attr);
}

static ucs_status_t data_arrived(void *arg, const void *header,
                                 size_t header_length, void *data,
                                 size_t length, const ucp_am_recv_param_t *attr)
{
    return take_message(((raw_lane_t *)arg)->receiver, header, header_length,
                        data, length, attr);
}

static ucs_status_t reply_arrived(void *arg, const void *header,
                                  size_t header_length, void *data,
                                  size_t                     length,
                                  const ucp_am_recv_param_t *attr)
{
    return take_message(((raw_lane_t *)arg)->sender, header, header_length,
                        data, length, attr);
}

/* --- tag messages: the same, or one of a list (UCP_DATATYPE_IOV) ---------- */

static uint64_t tag_of(unsigned slot, size_t part)
{
    return (uint64_t)slot << 32 | part;
}

/* Returns the number of tag messages in a message. */
static size_t num_parts(const raw_end_t *raw)
{
    return raw->iov != NULL ? 1 : raw->end.buffers.num_segments;
}

static void fill_tag_param(const raw_end_t *raw, end_slot_t *slot,
                           ucp_request_param_t *param)
{
    fill_param(raw, slot, raw->memh, param);
    param->op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param->datatype =
        raw->iov != NULL ? UCP_DATATYPE_IOV : ucp_dt_make_contig(1);
}

/* Returns the buffer and the count of a part, in the form of its datatype. */
static void *part_memory(const raw_end_t *raw, unsigned index, size_t part,
                         size_t *count_p)
{
    const buffers_t   *buffers = &raw->end.buffers;
    ucxpool_segment_t *segment = buffers_segments(buffers, index) + part;

    if (raw->iov != NULL) {
        *count_p = buffers->num_segments;
        return raw->iov + index * buffers->num_segments;
    }
    *count_p = segment->length;
    return segment->address;
}

static ucs_status_ptr_t post_tag_send(const raw_end_t *raw, unsigned index,
                                      size_t                     part,
                                      const ucp_request_param_t *param)
{
    size_t count;
    void  *memory = part_memory(raw, index, part, &count);

    return ucp_tag_send_nbx(raw->lane->ep, memory, count, tag_of(index, part),
                            param);
}

static int tag_send(end_t *end, unsigned index)
{
    raw_end_t          *raw = (raw_end_t *)end;
    ucp_request_param_t param;

    enter(raw);
    fill_tag_param(raw, &end->slots[index], &param);
    return post_parts(raw, index, num_parts(raw), WINDOW, post_tag_send,
                      &param);
}

static void tag_received(void *request, ucs_status_t status,
                         const ucp_tag_recv_info_t *info, void *user_data)
{
    end_slot_t *slot = user_data;

    ended(slot, request, status, "a receive ended early");
    if (status != UCS_OK) {
        return;
    }
    slot->num_bytes += info->length;
    end_part_arrived(slot, num_parts((const raw_end_t *)slot->end));
    if (slot->arrived && (slot->num_bytes != slot->end->buffers.size)) {
        slot->arrived = false;
        fail(slot->end, UCS_ERR_MESSAGE_TRUNCATED,
             "a message has a wrong size");
    }
}

static ucs_status_ptr_t post_tag_recv(const raw_end_t *raw, unsigned index,
                                      size_t                     part,
                                      const ucp_request_param_t *param)
{
    size_t count;
    void  *memory = part_memory(raw, index, part, &count);

    return ucp_tag_recv_nbx(raw->lane->worker, memory, count,
                            tag_of(index, part), UINT64_MAX, param);
}

/* Post all receives at once. None completes before the sender sends. */
static int tag_expect(end_t *end, unsigned index)
{
    raw_end_t          *raw  = (raw_end_t *)end;
    end_slot_t         *slot = &end->slots[index];
    ucp_request_param_t param;

    enter(raw);
    slot->num_arrived = 0;
    slot->num_bytes   = 0;
    fill_tag_param(raw, slot, &param);
    param.op_attr_mask |= UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.recv = tag_received;
    return post_parts(raw, index, num_parts(raw), UINT_MAX, post_tag_recv,
                      &param);
}

/* --- gets and puts of registered memory, completed by a flush ------------- */

static void flushed(void *request, ucs_status_t status, void *user_data)
{
    end_slot_t *slot = user_data;

    sent(request, status, user_data);
    slot->replied = true;
}

static int flush(raw_end_t *raw, end_slot_t *slot)
{
    ucp_request_param_t param = {
        .op_attr_mask =
            UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
        .cb.send   = flushed,
        .user_data = slot,
    };
    ucs_status_ptr_t request = ucp_ep_flush_nbx(raw->lane->ep, &param);

    if (posted(slot, request) != 0) {
        return -1;
    }
    slot->replied = request == NULL;
    return 0;
}

static ucs_status_ptr_t post_rma(const raw_end_t *raw, unsigned index,
                                 size_t part, const ucp_request_param_t *param)
{
    const buffers_t   *buffers = &raw->end.buffers;
    ucxpool_segment_t *segment = buffers_segments(buffers, index) + part;
    uint64_t at = raw->peer + buffers_peer_offset(buffers, segment->address);

    if (side_is(raw->end.side, IS_READ)) {
        return ucp_get_nbx(raw->lane->ep, segment->address, segment->length, at,
                           raw->rkey, param);
    }
    return ucp_put_nbx(raw->lane->ep, segment->address, segment->length, at,
                       raw->rkey, param);
}

static int rma_send(end_t *end, unsigned index)
{
    raw_end_t          *raw   = (raw_end_t *)end;
    ucp_request_param_t param = {
        .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK |
                        UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMH,
        .cb.send   = sent,
        .user_data = &end->slots[index],
        .memh      = raw->memh,
    };

    return post_parts(raw, index, end->buffers.num_segments, WINDOW, post_rma,
                      &param) != 0
               ? -1
               : flush(raw, &end->slots[index]);
}

/* Pack the address of the end's memory, followed by the key. Returns NULL after
 * an error. */
static char *pack_offer(const raw_end_t *raw, size_t *length_p)
{
    uint64_t address = (uintptr_t)raw->end.buffers.arena;
    void    *key;
    size_t   key_length;
    char    *offer;

    if (check(ucp_rkey_pack(raw->lane->context, raw->memh, &key, &key_length),
              "UCX cannot pack a key for its memory") != 0) {
        return NULL;
    }
    offer = tool_calloc(1, sizeof(address) + key_length);
    memcpy(offer, &address, sizeof(address));
    memcpy(offer + sizeof(address), key, key_length);
    ucp_rkey_buffer_release(key);
    *length_p = sizeof(address) + key_length;
    return offer;
}

static int rma_connect(raw_end_t *raw, control_t *control)
{
    size_t       length;
    char        *mine = pack_offer(raw, &length);
    void        *theirs;
    ucs_status_t status;
    int          result;

    if (mine == NULL) {
        return -1;
    }
    result = control_exchange(control, mine, length, &theirs, &length);
    free(mine);
    if (result != 0) {
        return -1;
    }
    memcpy(&raw->peer, theirs, sizeof(raw->peer));
    status = ucp_ep_rkey_unpack(raw->lane->ep,
                                (char *)theirs + sizeof(raw->peer), &raw->rkey);
    free(theirs);
    if (status != UCS_OK) {
        raw->rkey = NULL;
        return tool_error(
            "%s: cannot access the memory of the other process: %s",
            side_mode_title(raw->lane->mode), ucs_status_string(status));
    }
    return 0;
}

/* --- an end --------------------------------------------------------------- */

static void create_headers(raw_end_t *raw)
{
    size_t per_slot = raw->end.buffers.num_segments;
    size_t num      = raw->end.buffers.num_slots * per_slot;

    raw->headers = tool_calloc(num, sizeof(*raw->headers));
    for (size_t i = 0; i < num; i++) {
        raw->headers[i].slot  = (uint32_t)(i / per_slot);
        raw->headers[i].index = (uint32_t)(i % per_slot);
    }
}

static void create_iov(raw_end_t *raw)
{
    const buffers_t *buffers = &raw->end.buffers;
    size_t           num     = buffers->num_slots * buffers->num_segments;

    raw->iov = tool_calloc(num, sizeof(*raw->iov));
    for (size_t i = 0; i < num; i++) {
        raw->iov[i].buffer = buffers->segments[i].address;
        raw->iov[i].length = buffers->segments[i].length;
    }
}

/* Register memory with UCX once, before anything is sent. UCX detects the type
 * of host memory; the type of GPU memory is given. */
static int register_memory(raw_end_t *raw, void **arena_p)
{
    memory_t *memory = raw->end.memory;
    size_t    size =
        buffers_arena_size(&raw->end.work, side_is_scattered(raw->end.side));
    ucp_mem_map_params_t map = {
        .field_mask =
            UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
            UCP_MEM_MAP_PARAM_FIELD_FLAGS | UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
        .length      = size,
        .memory_type = raw->lane->memory_type,
    };
    ucp_mem_attr_t attr = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    ucs_status_t   status;

    if (memory_is_on_gpu(memory) &&
        (memory_alloc(memory, size, &raw->arena) != 0)) {
        return -1;
    }
    map.address = raw->arena;
    map.flags   = raw->arena == NULL ? UCP_MEM_MAP_ALLOCATE : 0;
    status      = ucp_mem_map(raw->lane->context, &map, &raw->memh);
    if (status != UCS_OK) {
        raw->memh = NULL;
        return tool_error("UCX cannot register %zu bytes: %s; if this exceeds "
                          "the limit of locked memory (ulimit -l), raise it, "
                          "or lower -s or -O",
                          size, ucs_status_string(status));
    }
    if (check(ucp_mem_query(raw->memh, &attr),
              "UCX cannot report the address of its memory") != 0) {
        return -1;
    }
    *arena_p = attr.address;
    return 0;
}

static void raw_destroy(end_t *end)
{
    raw_end_t *raw = (raw_end_t *)end;

    if (raw->lane->sender == raw) {
        raw->lane->sender = NULL;
    }
    if (raw->lane->receiver == raw) {
        raw->lane->receiver = NULL;
    }
    if (raw->rkey != NULL) {
        ucp_rkey_destroy(raw->rkey);
    }
    buffers_cleanup(&end->buffers);
    if (raw->memh != NULL) {
        ucp_mem_unmap(raw->lane->context, raw->memh);
    }
    memory_free(end->memory, raw->arena, 0);
    free(raw->headers);
    free(raw->iov);
    free(raw);
}

static const end_ops_t am_ops  = {am_send, am_expect, am_reply, raw_progress,
                                  raw_destroy};
static const end_ops_t tag_ops = {tag_send, tag_expect, am_reply, raw_progress,
                                  raw_destroy};
static const end_ops_t rma_ops = {rma_send, end_no_part, end_no_part,
                                  raw_progress, raw_destroy};

int raw_end_create(raw_lane_t *lane, const end_params_t *params,
                   control_t *control, end_t **end_p)
{
    side_t     side  = params->side;
    void      *arena = NULL;
    raw_end_t *raw   = tool_calloc(1, sizeof(*raw));

    end_init(&raw->end,
             side_is(side, IS_RMA)  ? &rma_ops
             : side_is(side, IS_AM) ? &am_ops
                                    : &tag_ops,
             params);
    raw->lane = lane;
    if ((side_is(side, IS_REGISTERED) && (register_memory(raw, &arena) != 0)) ||
        (end_init_buffers(&raw->end, arena) != 0) ||
        (side_is(side, IS_RMA) && (rma_connect(raw, control) != 0))) {
        raw_destroy(&raw->end);
        return -1;
    }
    if (side_is(side, IS_AM)) {
        create_headers(raw);
    } else if (side.way == WAY_IOV) {
        create_iov(raw);
    }
    *end_p = &raw->end;
    return 0;
}

/* --- a lane --------------------------------------------------------------- */

static void ep_failed(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    raw_lane_t *lane = arg;

    if (!lane->closing && !lane->failed) {
        lane->failed = true;
        tool_error("raw UCX lost the other process: %s",
                   ucs_status_string(status));
    }
}

static int create_context(raw_lane_t *lane)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        /* Without RMA, UCX 1.15 and later cannot access remote memory by its
         * handle. */
        .features = UCP_FEATURE_AM | UCP_FEATURE_TAG | UCP_FEATURE_RMA,
    };

    return check(ucp_init(&params, NULL, &lane->context),
                 "UCX failed to start (check UCX_TLS and UCX_NET_DEVICES)");
}

int raw_is_for_gpu(bool *is_for_gpu_p)
{
    ucp_context_attr_t attr = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    raw_lane_t         lane;
    int                result;

    if (create_context(&lane) != 0) {
        return -1;
    }
    result        = check(ucp_context_query(lane.context, &attr),
                          "UCX cannot report its memory types");
    *is_for_gpu_p = (attr.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
    ucp_cleanup(lane.context);
    return result;
}

static int set_handler(raw_lane_t *lane, unsigned id, ucp_am_recv_callback_t cb)
{
    ucp_am_handler_param_t param = {
        .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
                      UCP_AM_HANDLER_PARAM_FIELD_CB |
                      UCP_AM_HANDLER_PARAM_FIELD_ARG,
        .id  = id,
        .cb  = cb,
        .arg = lane,
    };

    return check(ucp_worker_set_am_recv_handler(lane->worker, &param),
                 "UCX cannot set a handler for active messages");
}

static int create_worker(raw_lane_t *lane)
{
    ucp_worker_params_t params = {
        .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE,
    };

    if (check(ucp_worker_create(lane->context, &params, &lane->worker),
              "UCX cannot create a worker") != 0) {
        return -1;
    }
    if ((set_handler(lane, AM_DATA, data_arrived) != 0) ||
        (set_handler(lane, AM_REPLY, reply_arrived) != 0)) {
        ucp_worker_destroy(lane->worker);
        return -1;
    }
    return 0;
}

static int create_ep(raw_lane_t *lane, const ucp_address_t *address)
{
    ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
        .address         = address,
        .err_mode        = UCP_ERR_HANDLING_MODE_NONE,
        .err_handler.cb  = ep_failed,
        .err_handler.arg = lane,
    };
    ucs_status_t status;

    if (lane->mode == MODE_PEER) {
        params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
        params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER;
    }
    status = ucp_ep_create(lane->worker, &params, &lane->ep);
    if (status != UCS_OK) {
        return tool_error(
            "%s: UCX cannot connect to the other process: %s; check UCX_TLS",
            side_mode_title(lane->mode), ucs_status_string(status));
    }
    return 0;
}

static int connect_lane(raw_lane_t *lane, control_t *control)
{
    ucp_address_t *mine;
    void          *address;
    size_t         length;
    int            result;

    if (check(ucp_worker_get_address(lane->worker, &mine, &length),
              "UCX cannot return its address") != 0) {
        return -1;
    }
    result = control_exchange(control, mine, length, &address, &length);
    ucp_worker_release_address(lane->worker, mine);
    if (result == 0) {
        result = create_ep(lane, address);
    }
    free(address);
    return result;
}

int raw_lane_create(uint32_t mode, bool is_on_gpu, control_t *control,
                    raw_lane_t **lane_p)
{
    raw_lane_t *lane = tool_calloc(1, sizeof(*lane));

    lane->mode        = mode;
    lane->memory_type = is_on_gpu ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
    if (create_context(lane) != 0) {
        goto err_free_lane;
    }
    if (create_worker(lane) != 0) {
        goto err_cleanup_context;
    }
    if (connect_lane(lane, control) != 0) {
        goto err_destroy_worker;
    }
    *lane_p = lane;
    return 0;

err_destroy_worker:
    ucp_worker_destroy(lane->worker);
err_cleanup_context:
    ucp_cleanup(lane->context);
err_free_lane:
    free(lane);
    return -1;
}

/* Close an endpoint. Without failure handling, this requires a flush. */
static void close_ep(raw_lane_t *lane)
{
    ucp_request_param_t param = {0};
    ucs_status_ptr_t    request;
    uint64_t            deadline = clock_now() + CLOSE_NS;

    lane->closing = true;
    request       = ucp_ep_close_nbx(lane->ep, &param);
    if (!UCS_PTR_IS_PTR(request)) {
        return;
    }
    while ((ucp_request_check_status(request) == UCS_INPROGRESS) &&
           (clock_now() < deadline)) {
        ucp_worker_progress(lane->worker);
    }
    ucp_request_free(request);
}

void raw_lane_destroy(raw_lane_t *lane)
{
    if (lane == NULL) {
        return;
    }
    close_ep(lane);
    ucp_worker_destroy(lane->worker);
    ucp_cleanup(lane->context);
    free(lane);
}
