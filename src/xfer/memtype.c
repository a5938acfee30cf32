#include "xfer/memtype.h"

#include "base/error.h"
#include "copy/memtype.h"
#include "copy/plan.h"
#include "xfer/stream_marker.h"

#include <assert.h>
#include <stddef.h>

static_assert((sizeof(ucxpool_segment_t) == sizeof(copy_segment_t)) &&
                  (offsetof(ucxpool_segment_t, length) ==
                   offsetof(copy_segment_t, length)),
              "a caller's segments are a list as the copy kernel reads it");

/* Pieces from which on it is asked where their array lies. */
#define PINNED_LIST_MIN 4096u

/* Memory that only some GPU reaches: is it ours? */
static ucxpool_status_t check_device(const mem_cuda_device_t *device, int other)
{
    if ((other == -1) || (other == device->ordinal)) {
        return UCXPOOL_OK;
    }
    if (other == -2) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "the segments lie on several GPUs: send those of "
                          "each GPU through a pool on it (this one is on GPU "
                          "%d)",
                          device->ordinal);
    }
    return base_error(UCXPOOL_ERR_UNSUPPORTED,
                      "the segments lie on GPU %d, and the pool is on GPU %d: "
                      "send them through a pool on their GPU",
                      other, device->ordinal);
}

static ucxpool_status_t query(const mem_cuda_driver_t *driver,
                              const copy_memory_t     *memory,
                              copy_memtypes_t         *places_p)
{
    if (copy_memory_is_pieces(memory)) {
        return copy_memtypes_of_pieces(driver, memory->addresses, memory->num,
                                       memory->length, places_p);
    }
    return copy_memtypes_query(driver, (const copy_segment_t *)memory->segments,
                               memory->num, places_p);
}

static ucxpool_status_t look(ucxpool_request_t *request, unsigned *places_p)
{
    const copy_engine_t *engine = request->pool->engine;
    copy_memtypes_t      places;
    ucxpool_status_t     status;

    status = query(engine->device->driver, &request->data.memory, &places);
    if (status != UCXPOOL_OK) {
        return status;
    }
    *places_p = places.places;
    return check_device(engine->device, places.device);
}

/* Does the caller answer for the segments? */
static bool is_told(const ucxpool_request_t        *request,
                    const ucxpool_request_params_t *params)
{
    return (request->pool->engine != NULL) && (params != NULL) &&
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

/* May the GPU read the array of the pieces itself? A short one is not worth the
 * question; and addresses of host memory are changed in the list. */
static bool is_list_pinned(const ucxpool_request_t *request)
{
    const copy_memory_t     *memory = &request->data.memory;
    const mem_cuda_driver_t *driver = request->pool->engine->device->driver;
    uint64_t                 start  = (uintptr_t)memory->addresses;
    uint64_t                 size   = memory->num * sizeof(void *);
    copy_pointer_t           pointer;

    return copy_memory_is_pieces(memory) &&
           !request->stream.has_host_segments &&
           (memory->num >= PINNED_LIST_MIN) &&
           (copy_pointer_query(driver, start, &pointer) == UCXPOOL_OK) &&
           (pointer.place == COPY_MEMTYPE_PINNED) &&
           (start - pointer.start < pointer.size) &&
           (size <= pointer.size - (start - pointer.start));
}

ucxpool_status_t xfer_memtype_look(ucxpool_request_t              *request,
                                   const ucxpool_request_params_t *params)
{
    uint64_t         fields = (params == NULL) ? 0 : params->field_mask;
    unsigned         places = COPY_MEMTYPE_DEVICE;
    void            *stream = NULL;
    ucxpool_status_t status;

    if (!is_told(request, params)) {
        status = check_pieces(request);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    if (request->pool->engine == NULL) {
        return UCXPOOL_OK;
    }
    if (!is_told(request, params)) {
        status = look(request, &places);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    request->stream.has_host_segments = (places & COPY_MEMTYPE_PAGEABLE) != 0;
    request->data.memory.is_pinned    = is_list_pinned(request);
    if (fields & UCXPOOL_REQUEST_PARAM_FIELD_STREAM) {
        stream = params->stream;
    }
    request->stream.has_gpu_segments =
        (places & ~(unsigned)COPY_MEMTYPE_PAGEABLE) != 0;
    if (!request->stream.has_gpu_segments) {
        return UCXPOOL_OK; /* nothing that a stream could be busy with */
    }
    return xfer_stream_marker_set(request, stream);
}
