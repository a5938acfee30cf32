/*
 * Checks of public parameters: data in a ucxpool_data_t, and handles that must
 * belong together.
 */
#ifndef API_DATA_H
#define API_DATA_H

#include "copy/plan.h"

#include <ucxpool/channel.h>

#include <stdbool.h>

/* Includes space for a list of one buffer. */
typedef struct api_data {
    copy_memory_t     memory;
    ucxpool_segment_t buffer;
} api_data_t;

/*
 * UCXPOOL_ERR_UNSUPPORTED  the library does not know this kind of data
 */
ucxpool_status_t api_data_read(const ucxpool_data_t *data, api_data_t *caller);

/*
 * The same for data that will be written.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the data is read-only
 */
ucxpool_status_t api_data_read_target(const ucxpool_data_t *data,
                                      api_data_t           *caller);

/* Does the channel (NULL: no) belong to another pool? If so, sets the error:
 * `if (api_foreign(pool, channel)) { return UCXPOOL_ERR_INVALID_PARAM; }` */
#define api_foreign(_pool, _channel) api_is_foreign(_pool, _channel, __func__)

bool api_is_foreign(const ucxpool_t *pool, const ucxpool_channel_t *channel,
                    const char *function);

#endif
