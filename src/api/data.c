#include "api/api.h"

#include "base/error.h"
#include "core/channel.h"

#include <assert.h>
#include <stddef.h>
#include <sys/uio.h>

static_assert((sizeof(ucxpool_segment_t) == sizeof(struct iovec)) &&
                  (offsetof(ucxpool_segment_t, address) ==
                   offsetof(struct iovec, iov_base)) &&
                  (offsetof(ucxpool_segment_t, length) ==
                   offsetof(struct iovec, iov_len)),
              "segments have the layout of struct iovec");
static_assert((sizeof(ucxpool_segment_t) == sizeof(ucxpool_const_segment_t)) &&
                  (offsetof(ucxpool_segment_t, length) ==
                   offsetof(ucxpool_const_segment_t, length)),
              "segments and const segments have the same layout");

ucxpool_data_t ucxpool_source_buffer(const void *address, size_t length)
{
    return (ucxpool_data_t){.kind      = UCXPOOL_DATA_BUFFER,
                            .is_source = 1,
                            .at.buffer = address,
                            .count     = 1,
                            .length    = length};
}

ucxpool_data_t ucxpool_source_segments(const ucxpool_const_segment_t *segments,
                                       size_t                         count)
{
    return (ucxpool_data_t){.kind        = UCXPOOL_DATA_SEGMENTS,
                            .is_source   = 1,
                            .at.segments = segments,
                            .count       = count};
}

ucxpool_data_t ucxpool_source_pieces(const void *const *addresses, size_t count,
                                     size_t length)
{
    return (ucxpool_data_t){.kind      = UCXPOOL_DATA_PIECES,
                            .is_source = 1,
                            .at.pieces = addresses,
                            .count     = count,
                            .length    = length};
}

ucxpool_data_t ucxpool_source_ranges(const ucxpool_range_t *ranges,
                                     size_t                 count)
{
    return (ucxpool_data_t){.kind      = UCXPOOL_DATA_RANGES,
                            .is_source = 1,
                            .at.ranges = ranges,
                            .count     = count};
}

ucxpool_data_t ucxpool_data_buffer(void *address, size_t length)
{
    return (ucxpool_data_t){.kind      = UCXPOOL_DATA_BUFFER,
                            .at.buffer = address,
                            .count     = 1,
                            .length    = length};
}

ucxpool_data_t ucxpool_data_segments(const ucxpool_segment_t *segments,
                                     size_t                   count)
{
    return (ucxpool_data_t){.kind = UCXPOOL_DATA_SEGMENTS,
                            .at.segments =
                                (const ucxpool_const_segment_t *)segments,
                            .count = count};
}

ucxpool_data_t ucxpool_data_pieces(void *const *addresses, size_t count,
                                   size_t length)
{
    return (ucxpool_data_t){.kind      = UCXPOOL_DATA_PIECES,
                            .at.pieces = (const void *const *)addresses,
                            .count     = count,
                            .length    = length};
}

ucxpool_range_t ucxpool_range_memory(const void *address, size_t length)
{
    return (ucxpool_range_t){.kind       = UCXPOOL_RANGE_MEMORY,
                             .fd         = -1,
                             .at.address = address,
                             .length     = length};
}

ucxpool_range_t ucxpool_range_file(int fd, int64_t offset, size_t length,
                                   const char *name)
{
    return (ucxpool_range_t){.kind      = UCXPOOL_RANGE_FILE,
                             .fd        = fd,
                             .at.offset = offset,
                             .length    = length,
                             .name      = name};
}

static ucxpool_status_t refuse_unknown(const ucxpool_data_t *data)
{
    return base_error(UCXPOOL_ERR_UNSUPPORTED,
                      "this library does not know this ucxpool_data_t (kind "
                      "%d): the library is older than the header, or the data "
                      "was not set by ucxpool_data_...() or "
                      "ucxpool_source_...()",
                      (int)data->kind);
}

/* Casts away const, because sources and targets share the code. Sources are
 * only read. */
ucxpool_status_t api_data_read(const ucxpool_data_t *data, api_data_t *caller)
{
    for (size_t i = 0; i < sizeof(data->reserved) / sizeof(data->reserved[0]);
         i++) {
        if (data->reserved[i] != 0) {
            return refuse_unknown(data);
        }
    }
    switch (data->kind) {
    case UCXPOOL_DATA_BUFFER:
        caller->buffer.address = (void *)data->at.buffer;
        caller->buffer.length  = data->length;
        caller->memory         = copy_memory_of_segments(&caller->buffer, 1);
        return UCXPOOL_OK;
    case UCXPOOL_DATA_SEGMENTS:
        caller->memory = copy_memory_of_segments(
            (const ucxpool_segment_t *)data->at.segments, data->count);
        return UCXPOOL_OK;
    case UCXPOOL_DATA_PIECES:
        caller->memory = copy_memory_of_pieces((void *const *)data->at.pieces,
                                               data->count, data->length);
        return UCXPOOL_OK;
    case UCXPOOL_DATA_RANGES:
        caller->memory = copy_memory_of_ranges(data->at.ranges, data->count);
        return UCXPOOL_OK;
    }
    return refuse_unknown(data);
}

ucxpool_status_t api_data_read_target(const ucxpool_data_t *data,
                                      api_data_t           *caller)
{
    if (data->is_source || (data->kind == UCXPOOL_DATA_RANGES)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "cannot receive into data made by "
                          "ucxpool_source_...(): use ucxpool_data_...()");
    }
    return api_data_read(data, caller);
}

bool api_is_foreign(const ucxpool_t *pool, const ucxpool_channel_t *channel,
                    const char *object, const char *function)
{
    if ((channel == NULL) || (channel->pool == pool)) {
        return false;
    }
    (void)base_error(UCXPOOL_ERR_INVALID_PARAM,
                     "%s(): the %s belongs to pool %s, not to pool %s: pass "
                     "the pool that it was created with",
                     function, object, channel->pool->name, pool->name);
    return true;
}
