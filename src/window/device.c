/*
 * Copies between local GPU memory and a peer's GPU memory, which is mapped into
 * this process, or a peer's host memory, which is pinned. One kernel copies
 * scattered pieces to scattered pieces (copy/tiles.h, COPY_PAIRS).
 */
#include "base/error.h"
#include "copy/fault.h"
#include "core/memory.h"
#include "window/service.h"
#include "window/way.h"

#include <stdio.h>

/* An operation is split into about LAUNCHES launches, so that the CPU fills the
 * list of one launch while the GPU copies another. Each launch copies
 * LAUNCH_MIN to LAUNCH_MAX bytes, or up to LONG_MAX bytes of one long piece,
 * which the GPU's copy engine copies. */
#define LAUNCHES   4u
#define LAUNCH_MIN CORE_LINK_SHORT
#define LAUNCH_MAX ((uint64_t)32 << 20)
#define LONG_MAX   ((uint64_t)128 << 20)

/* --- the memory ----------------------------------------------------------- */

static ucxpool_status_t share(ucxpool_window_t *window)
{
    const mem_cuda_device_t *device = window->pool->engine->device;
    copy_pointer_t           pointer;
    ucxpool_status_t         status;

    status = copy_pointer_query(device->driver, (uintptr_t)window->address,
                                &pointer);
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (pointer.place != COPY_MEMTYPE_DEVICE) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the memory is not device memory of a GPU");
    }
    status = ipc_cuda_fill_memory(device, window->address, window->length,
                                  &window->cuda.share, &window->cuda.offset);
    if (status != UCXPOOL_ERR_UNSUPPORTED) {
        return status;
    }
    window->cuda.share.way = 0;
    return ipc_virtual_retain(device, window->address, window->length,
                              &window->memory);
}

/* Always succeeds: peers use messages for a window that cannot be shared. */
static ucxpool_status_t device_share(ucxpool_window_t *window)
{
    base_log_level_t level = base_error_log_at(BASE_LOG_DEBUG);

    if (share(window) != UCXPOOL_OK) {
        window->cuda.share.way = 0;
        snprintf(window->reason, sizeof(window->reason), "%s",
                 ucxpool_error_detail());
    }
    base_error_log_at(level);
    return UCXPOOL_OK;
}

static void device_unshare(ucxpool_window_t *window)
{
    window->cuda.share.way = 0;
    ipc_virtual_release(window->pool->engine->device, &window->memory);
}

static void device_offer(window_grant_t *grant, window_offer_t *offer)
{
    const ucxpool_window_t *window = grant->window;

    if (window->cuda.share.way != 0) {
        *offer = (window_offer_t){PROTO_OPENED_CUDA, &window->cuda,
                                  sizeof(window->cuda)};
    } else if (window->memory.num != 0) {
        const ipc_virtual_layout_t *layout = &window->memory.layout;

        *offer = (window_offer_t){PROTO_OPENED_VIRTUAL, layout,
                                  ipc_virtual_layout_size(layout->num_runs)};
    }
}

/* Returns true until the peer has ended. The channel's ring does not show
 * copies by the peer's GPU, and GPU memory must not be freed while another
 * process maps it. */
static bool device_may_touch(const window_grant_t *grant)
{
    return !grant->channel->peer.is_detached;
}

static bool is_inside(const proto_window_cuda_t *cuda, uint64_t length)
{
    return (cuda->offset <= cuda->share.size) &&
           (length <= cuda->share.size - cuda->offset) &&
           (cuda->share.way == IPC_CUDA_IPC);
}

static ucxpool_status_t map_allocation(ucxpool_remote_window_t *remote,
                                       const window_answer_t   *answer)
{
    const proto_window_cuda_t *cuda = &answer->cuda;
    ucxpool_status_t           status;

    if (!is_inside(cuda, answer->opened.length)) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "the owner's window exceeds its allocation");
    }
    if (!ipc_host_is_visible(&remote->channel->peer.host)) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "CUDA's IPC handles are not used between PID "
                          "namespaces");
    }
    status = ipc_cuda_map(remote->channel->pool->engine->device, &cuda->share,
                          NULL, 1, true, &remote->mapping);
    if (status == UCXPOOL_OK) {
        remote->share   = cuda->share;
        remote->address = (uintptr_t)remote->mapping + cuda->offset;
    }
    return status;
}

/*
 * Map the allocations of a window in virtual memory. The first call reserves
 * addresses and sets needs_files. A later call succeeds when the owner has sent
 * the files and all of them are mapped.
 *
 * UCXPOOL_INPROGRESS  the files must be requested
 *
 * Other errors: see ipc_virtual_reserve().
 */
static ucxpool_status_t open_virtual(ucxpool_remote_window_t *remote,
                                     const window_answer_t   *answer)
{
    ucxpool_status_t status;

    if (remote->range.size != 0) {
        remote->address = remote->range.address + answer->layout.offset;
        return UCXPOOL_OK;
    }
    status =
        ipc_virtual_reserve(remote->channel->pool->engine->device,
                            &answer->layout, remote->length, &remote->range);
    remote->needs_files = status == UCXPOOL_OK;
    return (status == UCXPOOL_OK) ? UCXPOOL_INPROGRESS : status;
}

static void close_virtual(ucxpool_remote_window_t *remote)
{
    ipc_virtual_unmap(remote->channel->pool->engine->device, &remote->range);
}

static unsigned device_open(ucxpool_remote_window_t *remote,
                            const window_answer_t   *answer)
{
    ucxpool_status_t status;

    if (!(answer->opened.flags & (PROTO_OPENED_CUDA | PROTO_OPENED_VIRTUAL))) {
        close_virtual(remote);
        window_remote_set_reason(remote, "%s", answer->reason);
        return 0;
    }
    base_error_do_at(BASE_LOG_DEBUG,
                     status = (answer->opened.flags & PROTO_OPENED_VIRTUAL)
                                  ? open_virtual(remote, answer)
                                  : map_allocation(remote, answer));
    if (status == UCXPOOL_INPROGRESS) {
        return 0;
    }
    if (status != UCXPOOL_OK) {
        window_remote_set_reason(remote, "%s", ucxpool_error_detail());
        return 0;
    }
    window_remote_set_reason(remote, "%s", remote->channel->wire_reason);
    return UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE;
}

static void device_close(ucxpool_remote_window_t *remote)
{
    if (remote->share.way != 0) {
        ipc_cuda_unmap(remote->channel->pool->engine->device, &remote->share, 1,
                       remote->mapping);
        remote->share.way = 0;
    }
    close_virtual(remote);
}

/* Returns true if the GPU can also access the operation's local memory. */
static bool device_fits(const window_operation_t *operation)
{
    return !operation->request->has_host_segments;
}

/* --- launches ------------------------------------------------------------- */

/* Launch as many pieces as possible now. May free the operation. */
static ucxpool_status_t device_copy(window_operation_t *operation);

static void advance(window_operation_t *operation)
{
    ucxpool_status_t status;

    if (window_operation_has_more(operation)) {
        status = device_copy(operation);
        if ((status != UCXPOOL_INPROGRESS) && (status != UCXPOOL_ERR_BUSY)) {
            window_operation_fail(operation, status, ucxpool_error_detail());
        }
    }
    if (window_operation_has_more(operation)) {
        return;
    }
    core_link_leave(&operation->work);
    if (operation->num_jobs == 0) {
        window_operation_end(operation, operation->end,
                             core_request_detail(operation->request));
    }
}

static void go(core_link_work_t *work)
{
    advance(base_container_of(work, window_operation_t, work));
}

static void job_done(copy_job_t *copy, ucxpool_status_t status)
{
    window_job_t       *job       = base_container_of(copy, window_job_t, copy);
    window_operation_t *operation = job->operation;

    job->operation = NULL;
    operation->num_jobs--;
    core_link_ended(&operation->work, job->size);
    if (status != UCXPOOL_OK) {
        window_operation_fail(operation, status, ucxpool_error_detail());
    }
    advance(operation);
}

static window_job_t *free_job(window_operation_t *operation)
{
    for (unsigned i = 0; i < WINDOW_JOBS; i++) {
        if (operation->jobs[i].operation == NULL) {
            return &operation->jobs[i];
        }
    }
    return NULL;
}

static uint64_t launch_size(const window_operation_t *operation)
{
    return base_max(LAUNCH_MIN,
                    base_min(LAUNCH_MAX, operation->size / LAUNCHES));
}

/* Fill the pairs of one launch: pieces with a total of launch_size() bytes, or
 * one longer piece. */
static ucxpool_status_t fill_any(window_operation_t *operation,
                                 const copy_room_t *room, copy_table_t *list,
                                 uint64_t *size_p)
{
    copy_pair_t   *pairs   = room->entries;
    uint64_t       address = operation->remote->address;
    uint64_t       most    = launch_size(operation);
    uint64_t       size    = 0;
    size_t         num     = 0;
    window_piece_t piece;

    while ((num < room->size / sizeof(*pairs)) && (size < most) &&
           window_operation_next(operation, (num == 0) ? LONG_MAX : most - size,
                                 &piece)) {
        if (piece.length == 0) {
            continue;
        }
        if (piece.ours == NULL) {
            /* If the whole piece was used, next_memory is already one past
             * it. */
            return copy_fault_no_address(operation->next_memory -
                                         (operation->memory_offset == 0));
        }
        pairs[num++] = (copy_pair_t){(uintptr_t)piece.ours,
                                     address + piece.offset, piece.length};
        size += piece.length;
    }
    list->form        = COPY_PAIRS;
    list->num_entries = (uint32_t)num;
    *size_p           = size;
    return UCXPOOL_OK;
}

/* Returns true if all places have the same length, and the local memory is one
 * buffer or has pieces of this length. Then the kernel computes the tiles, and
 * lists are fast to fill.
 */
static bool is_even(const window_operation_t *operation)
{
    const copy_memory_t *memory = &operation->request->data.memory;
    uint64_t             length = operation->places.length;

    return (operation->places.places == NULL) && (length <= LAUNCH_MAX) &&
           ((memory->num == 1) ||
            (copy_memory_is_pieces(memory) && (memory->length == length)));
}

static ucxpool_status_t fill_pieces(const window_operation_t *operation,
                                    size_t num, copy_even_pair_t *pairs)
{
    void *const *pieces =
        operation->request->data.memory.addresses + operation->next_place;
    const uint64_t *offsets = operation->places.offsets + operation->next_place;
    uint64_t        address = operation->remote->address;
    bool            is_null = false;
    size_t          first   = 0;

    for (size_t i = 0; i < num; i++) {
        pairs[i] =
            (copy_even_pair_t){(uintptr_t)pieces[i], address + offsets[i]};
        is_null |= pieces[i] == NULL;
    }
    if (!is_null) {
        return UCXPOOL_OK;
    }
    while (pieces[first] != NULL) {
        first++;
    }
    return copy_fault_no_address(operation->next_place + first);
}

static void fill_buffer(const window_operation_t *operation, size_t num,
                        copy_even_pair_t *pairs)
{
    uint64_t length = operation->places.length;
    uint64_t ours =
        (uintptr_t)copy_memory_address(&operation->request->data.memory, 0) +
        operation->next_place * length;
    const uint64_t *offsets = operation->places.offsets + operation->next_place;
    uint64_t        address = operation->remote->address;

    for (size_t i = 0; i < num; i++) {
        pairs[i] = (copy_even_pair_t){ours + i * length, address + offsets[i]};
    }
}

/* Returns true if the GPU can read the caller's lists. Then the CPU neither
 * copies the lists nor checks the places. On some machines, this work takes as
 * long for each place as the link takes to transfer 512 bytes. */
static bool device_checks_places(const window_operation_t *operation)
{
    const copy_memory_t    *memory = &operation->request->data.memory;
    const ucxpool_places_t *places = &operation->places;

    return (places->length <= operation->remote->length) &&
           device_fits(operation) && is_even(operation) &&
           copy_memory_is_pieces(memory) && memory->is_pinned &&
           copy_engine_reaches_array(operation->remote->channel->pool->engine,
                                     places->offsets, places->count,
                                     sizeof(*places->offsets));
}

static void take_lists(const window_operation_t *operation, copy_table_t *list)
{
    const ucxpool_remote_window_t *remote = operation->remote;
    size_t                         first  = operation->next_place;

    list->form    = COPY_EVEN_PLACES;
    list->entries = operation->request->data.memory.addresses + first;
    list->offsets = operation->places.offsets + first;
    list->limit   = remote->length - operation->places.length;
    list->stream  = remote->address;
}

static ucxpool_status_t fill_even(window_operation_t *operation,
                                  const copy_room_t *room, copy_table_t *list,
                                  uint64_t *size_p)
{
    uint64_t         length = operation->places.length;
    size_t           left   = operation->places.count - operation->next_place;
    size_t           num    = (size_t)(launch_size(operation) / length);
    ucxpool_status_t status = UCXPOOL_OK;

    num        = base_min(base_max(num, (size_t)1), left);
    list->form = COPY_EVEN_PAIRS;
    if (operation->lists_are_read) {
        take_lists(operation, list);
    } else {
        num = base_min(num, room->size / sizeof(copy_even_pair_t));
        if (copy_memory_is_pieces(&operation->request->data.memory)) {
            status = fill_pieces(operation, num, room->entries);
        } else {
            fill_buffer(operation, num, room->entries);
        }
    }
    operation->next_place += num;
    list->num_entries = (uint32_t)num;
    list->length      = (uint32_t)length;
    *size_p           = num * length;
    return status;
}

static ucxpool_status_t launch(window_operation_t *operation, window_job_t *job)
{
    copy_engine_t *engine = operation->remote->channel->pool->engine;
    /* Use all multiprocessors, not only enough to saturate the link. With
     * is_far, a write of 8 KiB pieces reaches only 310 GB/s instead of 355 (two
     * H100). A read of 4 KiB pieces reaches only 340 GB/s instead of 361 (two
     * H200 GPUs). */
    copy_table_t     list = {.is_far = false};
    copy_room_t      room;
    uint64_t         size = 0;
    ucxpool_status_t status;

    status = copy_engine_pairs_get(engine, &job->copy, &room);
    if (status != UCXPOOL_OK) {
        return status;
    }
    list.entries    = room.entries;
    job->copy.done  = job_done;
    job->copy.first = operation->next_place;
    status = is_even(operation) ? fill_even(operation, &room, &list, &size)
                                : fill_any(operation, &room, &list, &size);
    if (status != UCXPOOL_OK) {
        copy_engine_pairs_put(engine, &job->copy);
        return status;
    }
    status = copy_engine_pairs_start(engine, &job->copy, &list, size,
                                     operation->is_write);
    if (status == UCXPOOL_INPROGRESS) {
        job->operation = operation;
        job->size      = size;
        operation->num_jobs++;
        core_link_began(&operation->work, size);
    }
    return status;
}

static ucxpool_status_t device_copy(window_operation_t *operation)
{
    ucxpool_status_t status = UCXPOOL_ERR_BUSY;
    window_job_t    *job;

    if (operation->request->stream.marker != NULL) {
        return UCXPOOL_ERR_BUSY;
    }
    while (window_operation_has_more(operation) &&
           core_link_take(&operation->work) &&
           ((job = free_job(operation)) != NULL)) {
        status = launch(operation, job);
        if (status != UCXPOOL_INPROGRESS) {
            return status;
        }
    }
    if (!window_operation_has_more(operation)) {
        core_link_leave(&operation->work);
    }
    return status;
}

/* Long operations take turns on the GPU's link: core/link.h. */
static void device_start(window_operation_t *operation)
{
    core_link_post(&operation->work, operation->remote->channel,
                   operation->is_write ? CORE_LINK_OUT : CORE_LINK_IN,
                   operation->size, go);
    window_turns_wait(operation, device_copy(operation));
}

const window_way_t window_device = {
    .id            = UCXPOOL_WAY_CUDA,
    .reach         = CORE_REACH_GPU,
    .share         = device_share,
    .unshare       = device_unshare,
    .offer         = device_offer,
    .may_touch     = device_may_touch,
    .open          = device_open,
    .close         = device_close,
    .fits          = device_fits,
    .checks_places = device_checks_places,
    .start         = device_start,
    .copy          = device_copy,
};

/* --- pinned host memory --------------------------------------------------- */

/*
 * Reads by a GPU from a window in host memory of another pool. The window is
 * mapped and pinned for the GPU, whose kernel then reads it like the memory of
 * another GPU.
 *
 * A kernel needs the window at contiguous addresses, so the window must be in
 * one part of one file. It is pinned for reading only: writes use messages.
 */

/* Returns true if the importer can pin the window. If the owner's pool is on a
 * GPU, the window's parts are GPU memory, which is not pinned. */
static bool is_shared(const window_grant_t *grant)
{
    return (grant->access & UCXPOOL_WINDOW_READ) &&
           (grant->window->num_parts == 1) &&
           (grant->window->pool->windows->reach == CORE_REACH_HOST);
}

static void pinned_offer(window_grant_t *grant, window_offer_t *offer)
{
    if (is_shared(grant)) {
        window_mapped.offer(grant, offer);
    }
}

/* The importer does not report whether it has pinned the window. */
static bool pinned_may_touch(const window_grant_t *grant)
{
    return is_shared(grant) && device_may_touch(grant);
}

/* Pin the mapped file. A window in the peer's blocks needs no pinning if the
 * channel has pinned these blocks. */
static ucxpool_status_t pin(ucxpool_remote_window_t *remote)
{
    ucxpool_channel_t *channel = remote->channel;
    const ipc_view_t  *view    = &remote->views[0].view;
    const uint8_t     *start   = view->start;
    const uint64_t     size    = view->size;
    ucxpool_status_t   status;

    if (remote->num_views != 1) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the window is not in one part of one file");
    }
    if (size == 0) {
        return channel->peer.mapping->is_pinned
                   ? UCXPOOL_OK
                   : base_error(UCXPOOL_ERR_UNSUPPORTED,
                                "the peer's blocks are not pinned");
    }
    status            = core_memory_pin_peers(channel->pool, &start, &size, 1);
    remote->is_pinned = status == UCXPOOL_OK;
    return status;
}

static void pinned_close(ucxpool_remote_window_t *remote)
{
    const uint8_t *start;
    uint64_t       size;

    if (remote->is_pinned) {
        start             = remote->views[0].view.start;
        size              = remote->views[0].view.size;
        remote->is_pinned = false;
        core_memory_unpin_peers(remote->channel->pool, &start, &size, 1);
    }
    window_mapped.close(remote);
}

static unsigned pinned_open(ucxpool_remote_window_t *remote,
                            const window_answer_t   *answer)
{
    const ucxpool_t *pool = remote->channel->pool;
    ucxpool_status_t status;

    if ((copy_engine_memory_kind(pool->engine) == UCXPOOL_MEMORY_HOST) ||
        !(remote->access & UCXPOOL_WINDOW_READ) ||
        (window_mapped.open(remote, answer) == 0)) {
        return 0;
    }
    base_error_do_at(BASE_LOG_DEBUG, status = pin(remote));
    remote->way_reason[0] = '\0';
    if (status != UCXPOOL_OK) {
        window_remote_set_reason(remote, "not pinned: %s",
                                 ucxpool_error_detail());
        pinned_close(remote);
        return 0;
    }
    remote->address = (uintptr_t)remote->views[0].address - remote->length;
    window_remote_set_reason(remote, "the GPU reads pinned host memory; writes "
                                     "use messages");
    return UCXPOOL_WINDOW_READ;
}

const window_way_t window_pinned = {
    .id            = UCXPOOL_WAY_CUDA,
    .reach         = CORE_REACH_MIXED,
    .offer         = pinned_offer,
    .may_touch     = pinned_may_touch,
    .open          = pinned_open,
    .close         = pinned_close,
    .fits          = device_fits,
    .checks_places = device_checks_places,
    .start         = device_start,
    .copy          = device_copy,
};
