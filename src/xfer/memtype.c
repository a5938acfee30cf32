#include "xfer/memtype.h"

#include "base/error.h"
#include "copy/plan.h"

#include <stdio.h>

/* Looks at markers that are not reached, for one question to the driver. */
#define LOOKS_PER_CHECK ((uint32_t)1 << 14)

/* --- the caller's memory -----------------------------------------------------
 */

/* Does the caller answer for the segments? */
static bool is_told(const ucxpool_request_t        *request,
                    const ucxpool_request_params_t *params)
{
    return (copy_engine_memory_kind(request->pool->engine) ==
            UCXPOOL_MEMORY_CUDA) &&
           (params != NULL) &&
           (params->field_mask & UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS) &&
           (params->segments_kind == UCXPOOL_SEGMENTS_CUDA);
}

/* Segments have been looked through when their lengths were added up. */
static ucxpool_status_t check_pieces(const ucxpool_request_t *request)
{
    const copy_memory_t *memory = &request->data.memory;
    size_t               num;

    if (!copy_memory_is_pieces(memory) || (memory->length == 0)) {
        return UCXPOOL_OK;
    }
    num = copy_pairs_present(memory->addresses, memory->num);
    if (num == memory->num) {
        return UCXPOOL_OK;
    }
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "piece %zu has no address; give it memory", num);
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

ucxpool_status_t xfer_memtype_look(ucxpool_request_t              *request,
                                   const ucxpool_request_params_t *params)
{
    const copy_engine_t *engine   = request->pool->engine;
    uint64_t             fields   = (params == NULL) ? 0 : params->field_mask;
    unsigned             memtypes = COPY_MEMTYPE_DEVICE;
    void                *stream   = NULL;
    ucxpool_status_t     status;

    if (!is_told(request, params)) {
        status = check_pieces(request);
        if (status != UCXPOOL_OK) {
            return status;
        }
        status = copy_engine_memtypes(engine, &request->data.memory, &memtypes);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    request->stream.has_host_segments = (memtypes & COPY_MEMTYPE_PAGEABLE) != 0;
    request->stream.has_gpu_segments =
        (memtypes & ~(unsigned)COPY_MEMTYPE_PAGEABLE) != 0;
    /* Addresses of host memory are changed in the list. */
    request->data.memory.is_pinned =
        !request->stream.has_host_segments &&
        copy_engine_reaches_list(engine, &request->data.memory);
    if (fields & UCXPOOL_REQUEST_PARAM_FIELD_STREAM) {
        stream = params->stream;
    }
    if (!request->stream.has_gpu_segments) {
        return UCXPOOL_OK; /* nothing that a stream could be busy with */
    }
    return set_marker(request, stream);
}

/* --- the caller's stream -----------------------------------------------------
 */

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

/* No stream of a GPU that has failed ever comes to its marker. */
static unsigned fail_marked(copy_engine_t *engine, ucxpool_status_t status)
{
    unsigned           count = 0;
    ucxpool_request_t *request;
    ucxpool_request_t *next;
    char               detail[BASE_ERROR_SIZE];

    snprintf(detail, sizeof(detail), "%s", ucxpool_error_detail());
    base_list_for_each_safe(request, next, &engine->marked, ucxpool_request_t,
                            stream.link) {
        if (core_request_has_ended(request)) {
            continue;
        }
        core_request_stop(request, status, detail);
        count++;
    }
    return count;
}

/* Seldom is the driver asked why a stream does not come to its marker. */
static unsigned check_gpu(copy_engine_t *engine)
{
    ucxpool_status_t status;

    if (base_list_is_empty(&engine->marked) ||
        (++engine->num_looks % LOOKS_PER_CHECK != 0)) {
        return 0;
    }
    status = copy_cuda_copier_check(engine->copier);
    return (status == UCXPOOL_OK) ? 0 : fail_marked(engine, status);
}

unsigned xfer_stream_marker_progress(ucxpool_t *pool)
{
    copy_engine_t     *engine = pool->engine;
    unsigned           count  = 0;
    ucxpool_request_t *request;
    ucxpool_request_t *next;

    base_list_for_each_safe(request, next, &engine->marked, ucxpool_request_t,
                            stream.link) {
        if (mem_cuda_marker_is_reached(request->stream.marker)) {
            reached(request);
            count++;
        }
    }
    return count + check_gpu(engine);
}
