/*
 * Checks of public parameters: the data in a ucxpool_data_t, and handles that
 * must belong to the same pool.
 */
#ifndef API_DATA_H
#define API_DATA_H

#include "copy/plan.h"

#include <ucxpool/channel.h>

#include <stdbool.h>

/* Data of a caller. `buffer` is the list of data that is a single buffer. */
typedef struct api_data {
    copy_memory_t     memory;
    ucxpool_segment_t buffer;
} api_data_t;

/*
 * Convert the data of a caller.
 *
 * UCXPOOL_ERR_UNSUPPORTED  the library does not know this kind of data
 */
ucxpool_status_t api_data_read(const ucxpool_data_t *data, api_data_t *caller);

/*
 * The same as api_data_read(), for data that will be written.
 *
 * UCXPOOL_ERR_INVALID_PARAM  the data is read-only
 */
ucxpool_status_t api_data_read_target(const ucxpool_data_t *data,
                                      api_data_t           *caller);

/* Returns true, and sets the error, if the channel belongs to another pool.
 * Returns false if the channel is NULL. To be used like this:
 * `if (api_foreign(pool, channel)) { return UCXPOOL_ERR_INVALID_PARAM; }` */
#define api_foreign(_pool, _channel) api_is_foreign(_pool, _channel, __func__)

bool api_is_foreign(const ucxpool_t *pool, const ucxpool_channel_t *channel,
                    const char *function);

#endif
