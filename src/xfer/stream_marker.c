#include "xfer/stream_marker.h"

#include "base/error.h"

#include <stdio.h>

/* Looks at marks that are not reached, for one question to the driver. */
#define LOOKS_PER_CHECK ((uint32_t)1 << 14)

ucxpool_status_t xfer_stream_marker_set(ucxpool_request_t *request,
                                        void              *stream)
{
    copy_engine_t   *engine = request->pool->engine;
    ucxpool_status_t status;

    if ((engine == NULL) || (stream == UCXPOOL_STREAM_READY)) {
        return UCXPOOL_OK;
    }
    status = mem_cuda_mark_set(engine->marks, stream, &request->stream.mark);
    if (status == UCXPOOL_OK) {
        base_list_add_tail(&engine->marked, &request->stream.link);
    }
    return status;
}

static void reached(ucxpool_request_t *request)
{
    mem_cuda_mark_put(request->pool->engine->marks, request->stream.mark);
    request->stream.mark = NULL;
    base_list_del(&request->stream.link);
    if (!core_request_has_ended(request) && (request->kind->resume != NULL)) {
        request->kind->resume(request);
    }
    core_request_reuse(request);
}

/* No stream of a GPU that has failed ever comes to its mark. */
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

/* Seldom is the driver asked why a stream does not come to its mark. */
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

static unsigned progress_marks(copy_engine_t *engine)
{
    unsigned           count = 0;
    ucxpool_request_t *request;
    ucxpool_request_t *next;

    base_list_for_each_safe(request, next, &engine->marked, ucxpool_request_t,
                            stream.link) {
        if (mem_cuda_mark_is_reached(request->stream.mark)) {
            reached(request);
            count++;
        }
    }
    return count + check_gpu(engine);
}

unsigned xfer_stream_marker_progress(ucxpool_t *pool)
{
    return (pool->engine == NULL) ? 0 : progress_marks(pool->engine);
}
