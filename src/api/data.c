#include "api/data.h"

#include "base/error.h"
#include "core/channel.h"

static ucxpool_status_t refuse_unknown(const ucxpool_data_t *data)
{
    return base_error(UCXPOOL_ERR_UNSUPPORTED,
                      "this library does not know data of kind %d: it is older "
                      "than the header, or the ucxpool_data_t was not set by "
                      "ucxpool_data_...() or ucxpool_source_...()",
                      (int)data->kind);
}

/* Sources are only read, but share the code with targets. */
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
                    const char *function)
{
    if ((channel == NULL) || (channel->pool == pool)) {
        return false;
    }
    (void)base_error(UCXPOOL_ERR_INVALID_PARAM,
                     "%s(): the channel belongs to pool %s, not to pool %s: "
                     "pass the pool that the channel was created with",
                     function, channel->pool->name, pool->name);
    return true;
}
