#include "core/request.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "copy/fault.h"
#include "core/wakeup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void init_links(ucxpool_request_t *request)
{
    base_list_init(&request->link);
    base_list_init(&request->run_link);
    base_list_init(&request->end_link);
    base_list_init(&request->deadline_link);
    base_list_init(&request->stream.link);
}

/* Requests are aligned to cache lines. */
static ucxpool_request_t *request_alloc(ucxpool_t           *pool,
                                        core_request_list_t *list)
{
    size_t size = base_align_up(sizeof(ucxpool_request_t) + list->state_size,
                                BASE_CACHE_LINE);
    ucxpool_request_t *request = aligned_alloc(BASE_CACHE_LINE, size);

    pool->stats.allocations++;
    if (request == NULL) {
        base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a request");
        return NULL;
    }
    memset(request, 0, size);
    request->pool  = pool;
    request->home  = list;
    request->state = request + 1;
    init_links(request);
    base_list_add_tail(&pool->requests.all, &request->all_link);
    return request;
}

/* Load the fields of the request that the next call returns. */
static void prefetch(const core_request_list_t *list)
{
    const uint8_t *next = (const uint8_t *)list->free.next;

    for (size_t at = 0; at < offsetof(ucxpool_request_t, stream);
         at += BASE_CACHE_LINE) {
        __builtin_prefetch(next + at, 1);
    }
}

static ucxpool_request_t *request_get(ucxpool_t           *pool,
                                      core_request_list_t *list)
{
    ucxpool_request_t *request =
        base_list_pop(&list->free, ucxpool_request_t, link);

    if (request == NULL) {
        return request_alloc(pool, list);
    }
    prefetch(list);
    return request;
}

/* --- plans ---------------------------------------------------------------- */

/* A copy plan. Each request has at most one. */
typedef struct plan {
    base_list_t link; /* in the free list */
    copy_plan_t plan;
} plan_t;

ucxpool_status_t core_request_make_plan(ucxpool_request_t *request)
{
    plan_t *plan = base_list_pop(&request->pool->free.plans, plan_t, link);

    if (plan == NULL) {
        plan = core_alloc(request->pool, sizeof(*plan));
        if (plan == NULL) {
            return base_error(UCXPOOL_ERR_NO_MEMORY,
                              "no memory for the copy plan of a request");
        }
        base_list_init(&plan->link);
    }
    request->plan = &plan->plan;
    copy_plan_init(request->plan, request->data.runs, request->data.num_runs,
                   &request->data.totals, &request->data.memory);
    return UCXPOOL_OK;
}

static void put_plan(ucxpool_request_t *request)
{
    plan_t *plan;

    if (request->plan != NULL) {
        plan = base_container_of(request->plan, plan_t, plan);
        base_list_add_head(&request->pool->free.plans, &plan->link);
        request->plan = NULL;
    }
}

/* --- requests ------------------------------------------------------------- */

/* Double the size of the array until it has room for `needed` elements. The
 * array is kept when the request is reused, so it rarely needs to grow
 * again. */
static ucxpool_status_t reserve(ucxpool_t *pool, void **memory, size_t *room,
                                size_t needed, size_t element)
{
    size_t size = base_max(*room, (size_t)16);
    void  *grown;

    if (needed <= *room) {
        return UCXPOOL_OK;
    }
    while (size < needed) {
        size *= 2;
    }
    grown = core_alloc(pool, size * element);
    if (grown == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for a request (%zu bytes)",
                          size * element);
    }
    free(*memory);
    *memory = grown;
    *room   = size;
    return UCXPOOL_OK;
}

ucxpool_status_t core_request_reserve_runs(ucxpool_request_t *request,
                                           size_t             num_runs)
{
    void            *runs = request->data.runs;
    ucxpool_status_t status;

    status = reserve(request->pool, &runs, &request->data.runs_size, num_runs,
                     sizeof(*request->data.runs));
    request->data.runs = runs;
    return status;
}

ucxpool_status_t core_request_set_metadata(ucxpool_request_t *request,
                                           const void *metadata, size_t length)
{
    void            *room = request->metadata.bytes;
    ucxpool_status_t status;

    request->metadata.length = 0;
    if (length == 0) {
        return UCXPOOL_OK;
    }
    status = reserve(request->pool, &room, &request->metadata.size, length, 1);
    request->metadata.bytes = room;
    if (status == UCXPOOL_OK) {
        memcpy(request->metadata.bytes, metadata, length);
        request->metadata.length = length;
    }
    return status;
}

void core_request_set_kind(ucxpool_request_t         *request,
                           const core_request_kind_t *kind)
{
    request->kind = kind;
    if (kind->init != NULL) {
        kind->init(request);
    }
}

ucxpool_request_t *core_request_get(ucxpool_t *pool, core_request_list_t *list,
                                    const core_request_kind_t *kind)
{
    ucxpool_request_t *request = request_get(pool, list);

    if (request == NULL) {
        return NULL;
    }
    request->channel     = NULL;
    request->any_channel = false;
    request->user_ref = true; /* the creator's handle, until it is handed out */
    request->called_back       = false;
    request->has_completion    = false;
    request->notify            = (core_notify_t){.callback = NULL};
    request->deadline          = BASE_CLOCK_FOREVER;
    request->tag               = 0;
    request->mask              = 0;
    request->operation         = CORE_OPERATION_NONE;
    request->path              = CORE_MODE_EAGER;
    request->started           = 0;
    request->data.capacity     = 0;
    request->has_host_segments = false;
    request->has_gpu_segments  = false;
    request->data.num_runs     = 0;
    request->data.totals       = (copy_totals_t){.num_segments = 0};
    request->metadata.length   = 0;
    if (request->detail != NULL) {
        request->detail[0] = '\0';
    }
    __atomic_store_n(&request->status, UCXPOOL_INPROGRESS, __ATOMIC_RELAXED);
    __atomic_store_n(&request->shown, UCXPOOL_INPROGRESS, __ATOMIC_RELAXED);
    core_request_set_kind(request, kind);
    return request;
}

static ucxpool_status_t read_metadata(ucxpool_request_t              *request,
                                      const ucxpool_request_params_t *params)
{
    size_t max = request->pool->config.max_metadata;

    if (params->metadata_length > max) {
        return base_error(UCXPOOL_ERR_LIMIT,
                          "%zu bytes of metadata exceed "
                          "UCXPOOL_MAX_METADATA=%zu: raise it on both sides, "
                          "or send them as data",
                          params->metadata_length, max);
    }
    if ((params->metadata == NULL) && (params->metadata_length != 0)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "metadata is NULL, but metadata_length is %zu",
                          params->metadata_length);
    }
    return core_request_set_metadata(request, params->metadata,
                                     params->metadata_length);
}

ucxpool_status_t core_request_set_params(ucxpool_request_t *request,
                                         const ucxpool_request_params_t *params)
{
    uint64_t fields  = (params == NULL) ? 0 : params->field_mask;
    uint64_t timeout = request->pool->config.request_timeout_ns;

    if (fields & UCXPOOL_REQUEST_PARAM_FIELD_CALLBACK) {
        request->notify.callback     = params->callback;
        request->notify.callback_arg = params->callback_arg;
    }
    if (fields & UCXPOOL_REQUEST_PARAM_FIELD_COMPLETION) {
        __atomic_store_n(&request->pool->wakeup.polls_completions, true,
                         __ATOMIC_RELAXED);
        request->has_completion        = true;
        request->notify.completion_ptr = params->completion_ptr;
    }
    if (fields & UCXPOOL_REQUEST_PARAM_FIELD_TIMEOUT) {
        timeout = params->timeout_ns;
    }
    if (timeout != UCXPOOL_FOREVER) {
        request->deadline = base_clock_deadline(timeout);
    }
    return (fields & UCXPOOL_REQUEST_PARAM_FIELD_METADATA)
               ? read_metadata(request, params)
               : UCXPOOL_OK;
}

ucxpool_status_t core_request_create(ucxpool_t *pool, core_request_list_t *list,
                                     const core_request_kind_t      *kind,
                                     const copy_memory_t            *memory,
                                     const ucxpool_request_params_t *params,
                                     ucxpool_request_t             **request_p)
{
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    if ((memory->segments == NULL) && !copy_memory_is_pieces(memory) &&
        !copy_memory_is_ranges(memory) && (memory->num != 0)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the list of segments, pieces or ranges is NULL, but "
                          "its count is %zu; set its address, or set the count "
                          "to 0",
                          memory->num);
    }
    request = core_request_get(pool, list, kind);
    if (request == NULL) {
        return UCXPOOL_ERR_NO_MEMORY;
    }
    if (copy_memory_is_ranges(memory) && (memory->num == 1)) {
        request->data.range  = memory->ranges[0];
        request->data.memory = copy_memory_of_ranges(&request->data.range, 1);
    } else if (memory->num == 1) {
        core_request_set_buffer(request, copy_memory_address(memory, 0),
                                copy_memory_length(memory, 0));
    } else {
        request->data.memory = *memory;
    }
    status = core_request_set_params(request, params);
    if (status != UCXPOOL_OK) {
        core_request_discard(request);
        return status;
    }
    *request_p = request;
    return UCXPOOL_OK;
}

void core_request_discard(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;

    request->channel     = NULL;
    request->user_ref    = false;
    request->called_back = true;
    __atomic_store_n(&request->status, UCXPOOL_ERR_CANCELED, __ATOMIC_RELAXED);
    /* If the caller's stream has not reached the request's marker yet, the
     * request stays in use until the stream reaches it. */
    core_request_reuse(request);
    if (channel != NULL) {
        core_channel_put(channel);
    }
}

void core_request_arm(ucxpool_request_t *request)
{
    ucxpool_t *pool = request->pool;

    if (request->deadline == BASE_CLOCK_FOREVER) {
        return;
    }
    base_list_add_tail(&pool->requests.deadlines, &request->deadline_link);
    pool->requests.next_deadline =
        base_min(pool->requests.next_deadline, request->deadline);
}

void core_request_drain(ucxpool_request_t *request)
{
    base_list_del(&request->deadline_link);
    request->deadline = base_clock_deadline(request->pool->drain_ns);
    core_request_arm(request);
}

void core_request_end_drain(ucxpool_request_t *request, ucxpool_status_t status,
                            const char *what)
{
    if (base_clock_now() < request->deadline) {
        return;
    }
    if (!core_channel_has_operations(request->channel)) {
        /* Only copies by the pool's GPU are still running. Failing the channel
         * would not stop them. */
        core_request_drain(request);
        return;
    }
    if (core_channel_is_live(request->channel)) {
        core_channel_fail(request->channel, status, "%s", what);
    } else {
        core_channel_end_drain(request->channel);
    }
}

void core_request_wake(ucxpool_request_t *request)
{
    base_list_move(&request->pool->requests.runnable, &request->run_link);
}

void core_request_stall(ucxpool_request_t *request)
{
    base_list_move(&request->pool->requests.stalled, &request->run_link);
}

ucxpool_status_t core_request_shown(const ucxpool_request_t *request)
{
    int shown = __atomic_load_n(&request->shown, __ATOMIC_ACQUIRE);

    if ((shown == UCXPOOL_INPROGRESS) &&
        (__atomic_load_n(&request->notify.caller, __ATOMIC_RELAXED) ==
         &base_lock_me)) {
        return core_request_status(request);
    }
    return (ucxpool_status_t)shown;
}

/* Returns false if out of memory. */
static bool reserve_detail(ucxpool_request_t *request)
{
    if (request->detail == NULL) {
        request->detail = core_alloc(request->pool, CORE_DETAIL_SIZE);
        if (request->detail == NULL) {
            return false;
        }
        request->detail[0] = '\0';
    }
    return true;
}

void core_request_set_detail(ucxpool_request_t *request, const char *detail)
{
    if (detail == NULL) {
        detail = "";
    }
    if ((detail != request->detail) && reserve_detail(request)) {
        snprintf(request->detail, CORE_DETAIL_SIZE, "%s", detail);
    }
}

void core_request_stop(ucxpool_request_t *request, ucxpool_status_t status,
                       const char *detail)
{
    request->kind->stop(request, status, detail);
}

void core_request_cancel(ucxpool_request_t *request)
{
    if (!core_request_has_ended(request)) {
        core_request_stop(request, UCXPOOL_ERR_CANCELED,
                          "the request was canceled");
    }
}

bool core_request_cancel_all(ucxpool_t *pool)
{
    ucxpool_request_t *request;
    bool               any = false;

    base_list_for_each(request, &pool->requests.all, ucxpool_request_t,
                       all_link) {
        core_request_cancel(request);
        any |= !core_request_has_ended(request);
    }
    return any;
}

static void show(ucxpool_request_t *request)
{
    request->called_back = true;
    if (request->has_completion) {
        base_list_add_tail(&request->pool->requests.to_report,
                           &request->end_link);
    } else {
        core_event_count(request->pool);
    }
    /* After this store, the caller may read the request without a lock. */
    __atomic_store_n(&request->shown, core_request_status(request),
                     __ATOMIC_RELEASE);
}

void core_request_call_back(ucxpool_request_t *request)
{
    ucxpool_t           *pool     = request->pool;
    ucxpool_request_cb_t callback = request->notify.callback;
    void                *arg      = request->notify.callback_arg;

    base_list_del(&request->end_link);
    __atomic_store_n(&request->notify.caller, (const char *)&base_lock_me,
                     __ATOMIC_RELAXED);
    core_unlock(pool);
    callback(request, core_request_status(request), arg);
    core_lock(pool);
    __atomic_store_n(&request->notify.caller, (const char *)NULL,
                     __ATOMIC_RELAXED);
    show(request);
    core_request_reuse(request);
    if (pool->wakeup.is_armed) {
        core_wake(pool); /* another thread may sleep until the end is shown */
    }
}

void core_request_end(ucxpool_request_t *request, ucxpool_status_t status,
                      const char *detail)
{
    if (core_request_has_ended(request)) {
        return;
    }
    if ((status != UCXPOOL_OK) && reserve_detail(request)) {
        base_error_detail(request->detail, CORE_DETAIL_SIZE, status, detail);
    }
    base_list_del(&request->link);
    base_list_del(&request->run_link);
    if (request->deadline != BASE_CLOCK_FOREVER) {
        base_list_del(&request->deadline_link);
    }
    if (request->kind->ended != NULL) {
        request->kind->ended(request, status);
    }
    if (request->notify.hook != NULL) {
        request->notify.hook(request, status, request->notify.hook_arg);
    }
    if (status == UCXPOOL_OK) {
        core_latency_end(&request->pool->latency, request->channel->latency,
                         request->operation, request->path, request->started,
                         1);
    }
    __atomic_store_n(&request->status, status, __ATOMIC_RELAXED);
    if (request->notify.callback != NULL) {
        base_list_add_tail(&request->pool->requests.completed,
                           &request->end_link);
    } else {
        show(request);
    }
}

static bool is_busy(const ucxpool_request_t *request)
{
    const core_request_kind_t *kind = request->kind;

    return (request->stream.marker != NULL) ||
           !base_list_is_empty(&request->end_link) ||
           ((kind->is_busy != NULL) && kind->is_busy(request));
}

void core_request_reuse(ucxpool_request_t *request)
{
    ucxpool_channel_t *channel = request->channel;

    if (!core_request_has_ended(request) || request->user_ref ||
        !request->called_back || is_busy(request)) {
        return;
    }
    request->channel     = NULL;
    request->called_back = false; /* a second call returns early */
    base_list_del(&request->run_link);
    put_plan(request);
    base_list_add_head(&request->home->free, &request->link);
    if (channel != NULL) {
        core_channel_put(channel);
    }
}

void core_request_release(ucxpool_request_t *request)
{
    request->user_ref       = false;
    request->has_completion = false;
    if (request->called_back) {
        base_list_del(&request->end_link); /* from to_report */
    }
    core_request_reuse(request);
}

size_t core_request_report(ucxpool_t *pool, ucxpool_completion_t *completions,
                           size_t max)
{
    ucxpool_request_t *request;
    size_t             num = 0;

    while ((num < max) &&
           ((request = base_list_pop(&pool->requests.to_report,
                                     ucxpool_request_t, end_link)) != NULL)) {
        completions[num++] = (ucxpool_completion_t){
            .request        = request->user_ref ? request : NULL,
            .completion_ptr = request->notify.completion_ptr,
            .status         = core_request_status(request),
            .tag            = request->tag,
            .length         = request->data.totals.payload_size,
        };
        core_request_reuse(request);
    }
    return num;
}

void core_request_destroy_all(ucxpool_t *pool)
{
    ucxpool_request_t *request;
    plan_t            *plan;

    while ((request = base_list_pop(&pool->requests.all, ucxpool_request_t,
                                    all_link)) != NULL) {
        free(request->data.runs);
        free(request->metadata.bytes);
        free(request->detail);
        put_plan(request);
        free(request);
    }
    while ((plan = base_list_pop(&pool->free.plans, plan_t, link)) != NULL) {
        free(plan);
    }
}

/* While a marker is not reached, one in this many checks of the markers also
 * queries the driver. */
#define POLLS_PER_CHECK ((uint32_t)1 << 14)

/* --- the caller's memory -------------------------------------------------- */

static ucxpool_segments_kind_t
declared_kind(const ucxpool_request_params_t *params)
{
    if ((params == NULL) ||
        !(params->field_mask & UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS)) {
        return UCXPOOL_SEGMENTS_ANY;
    }
    return params->segments_kind;
}

static bool declares_gpu_access(const ucxpool_request_params_t *params)
{
    ucxpool_segments_kind_t kind = declared_kind(params);

    return (kind == UCXPOOL_SEGMENTS_CUDA) || (kind == UCXPOOL_SEGMENTS_EVEN);
}

/* Check that no piece is NULL. Segments were checked when their lengths were
 * added up. */
static ucxpool_status_t check_pieces(const ucxpool_request_t *request)
{
    const copy_memory_t *memory = &request->data.memory;
    size_t               num;

    if (!copy_memory_is_pieces(memory) || (memory->length == 0)) {
        return UCXPOOL_OK;
    }
    num = copy_pairs_present(memory->addresses, memory->num);
    return (num == memory->num) ? UCXPOOL_OK : copy_fault_no_address(num);
}

static ucxpool_status_t set_marker(ucxpool_request_t *request, void *stream)
{
    copy_engine_t   *engine = request->pool->engine;
    ucxpool_status_t status;

    if (stream == UCXPOOL_STREAM_READY) {
        return UCXPOOL_OK;
    }
    status =
        mem_cuda_marker_set(engine->markers, stream, &request->stream.marker);
    if (status == UCXPOOL_OK) {
        base_list_add_tail(&engine->marked, &request->stream.link);
    }
    return status;
}

void core_request_find_length(ucxpool_request_t              *request,
                              const ucxpool_request_params_t *params)
{
    const copy_engine_t *engine = request->pool->engine;
    copy_memory_t       *memory = &request->data.memory;

    if (memory->num == 1) {
        return;
    }
    memory->is_unseen = (declared_kind(params) == UCXPOOL_SEGMENTS_EVEN) &&
                        copy_engine_takes_even(engine, memory);
    if (memory->is_unseen ||
        copy_engine_is_even(engine, memory, declares_gpu_access(params))) {
        memory->length = memory->segments[0].length;
    }
}

ucxpool_status_t core_request_check_even(ucxpool_request_t *request)
{
    copy_memory_t *memory = &request->data.memory;

    if (!memory->is_unseen) {
        return UCXPOOL_OK;
    }
    memory->is_unseen = false;
    return copy_fault_find(memory, 0, memory->num);
}

/* Returns the memory to query: only the first segment if all have the same
 * length. */
static copy_memory_t to_be_asked_for(const copy_memory_t *memory)
{
    return (copy_memory_is_even(memory) && !copy_memory_is_pieces(memory))
               ? copy_memory_of_segments(memory->segments, 1)
               : *memory;
}

/* Find the types of the memory. Queries the driver, unless the caller declared
 * the kind. */
static ucxpool_status_t find_memtypes(const ucxpool_request_t        *request,
                                      const ucxpool_request_params_t *params,
                                      unsigned *memtypes_p)
{
    copy_memory_t memory = to_be_asked_for(&request->data.memory);

    if (declared_kind(params) == UCXPOOL_SEGMENTS_HOST) {
        *memtypes_p = COPY_MEMTYPE_PAGEABLE;
        return UCXPOOL_OK;
    }
    return copy_engine_memtypes(request->pool->engine, &memory, memtypes_p);
}

ucxpool_status_t
core_request_find_memtypes(ucxpool_request_t              *request,
                           const ucxpool_request_params_t *params)
{
    const copy_engine_t *engine   = request->pool->engine;
    uint64_t             fields   = (params == NULL) ? 0 : params->field_mask;
    unsigned             memtypes = COPY_MEMTYPE_DEVICE;
    void                *stream   = NULL;
    ucxpool_status_t     status;

    if (copy_engine_memory_kind(engine) == UCXPOOL_MEMORY_HOST) {
        return check_pieces(request); /* the CPU can access all memory */
    }
    if (!declares_gpu_access(params)) {
        status = check_pieces(request);
        if (status == UCXPOOL_OK) {
            status = find_memtypes(request, params, &memtypes);
        }
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    request->has_host_segments = (memtypes & COPY_MEMTYPE_PAGEABLE) != 0;
    request->has_gpu_segments =
        (memtypes & ~(unsigned)COPY_MEMTYPE_PAGEABLE) != 0;
    /* The library must replace the addresses of host segments. If there are
     * any, the GPU cannot use the caller's array. */
    request->data.memory.is_pinned =
        !request->has_host_segments &&
        copy_engine_reaches_list(engine, &request->data.memory);
    if (fields & UCXPOOL_REQUEST_PARAM_FIELD_STREAM) {
        stream = params->stream;
    }
    if (!request->has_gpu_segments) {
        return UCXPOOL_OK; /* no memory that a stream could use */
    }
    return set_marker(request, stream);
}

/* --- the caller's stream -------------------------------------------------- */

static void reached(ucxpool_request_t *request)
{
    mem_cuda_marker_put(request->pool->engine->markers, request->stream.marker);
    request->stream.marker = NULL;
    base_list_del(&request->stream.link);
    if (!core_request_has_ended(request) && (request->kind->resume != NULL)) {
        request->kind->resume(request);
    }
    core_request_reuse(request);
}

/* End the requests that wait for streams of a GPU that has failed. These
 * streams never reach their markers. */
static unsigned fail_marked(copy_engine_t *engine, ucxpool_status_t status)
{
    unsigned           count = 0;
    ucxpool_request_t *request, *next;
    char               detail[BASE_ERROR_SIZE];

    snprintf(detail, sizeof(detail), "%s", ucxpool_error_detail());
    base_list_for_each_safe(request, next, &engine->marked, ucxpool_request_t,
                            stream.link) {
        if (!core_request_has_ended(request)) {
            core_request_stop(request, status, detail);
            count++;
        }
    }
    return count;
}

/* While a stream has not reached its marker, query the driver from time to
 * time, to find out whether the GPU has failed. */
static unsigned check_gpu(copy_engine_t *engine)
{
    ucxpool_status_t status;

    if (base_list_is_empty(&engine->marked) ||
        (++engine->num_checks % POLLS_PER_CHECK != 0)) {
        return 0;
    }
    status = copy_cuda_copier_check(engine->copier);
    return (status == UCXPOOL_OK) ? 0 : fail_marked(engine, status);
}

unsigned core_request_markers_progress(ucxpool_t *pool)
{
    copy_engine_t     *engine = pool->engine;
    unsigned           count  = 0;
    ucxpool_request_t *request, *next;

    base_list_for_each_safe(request, next, &engine->marked, ucxpool_request_t,
                            stream.link) {
        if (mem_cuda_marker_is_reached(request->stream.marker)) {
            reached(request);
            count++;
        }
    }
    return count + check_gpu(engine);
}
