/*
 * What a caller gives to a public function: data, by a ucxpool_data_t, and
 * handles that must belong together.
 */
#ifndef API_DATA_H
#define API_DATA_H

#include "copy/plan.h"

#include <ucxpool/channel.h>

#include <stdbool.h>

/* With room for the list of one buffer. */
typedef struct api_data {
    copy_memory_t     memory;
    ucxpool_segment_t buffer;
} api_data_t;

/*
 * UCXPOOL_ERR_UNSUPPORTED  of a kind that this library does not know
 */
ucxpool_status_t api_data_read(const ucxpool_data_t *data, api_data_t *caller);

/*
 * The same of what is to be written to.
 *
 * UCXPOOL_ERR_INVALID_PARAM  it is only to be read
 */
ucxpool_status_t api_data_read_target(const ucxpool_data_t *data,
                                      api_data_t           *caller);

/* Does the channel (NULL: any) belong to another pool? Then that is the error:
 * `if (api_foreign(pool, channel)) { return UCXPOOL_ERR_INVALID_PARAM; }` */
#define api_foreign(_pool, _channel) api_is_foreign(_pool, _channel, __func__)

bool api_is_foreign(const ucxpool_t *pool, const ucxpool_channel_t *channel,
                    const char *function);

#endif
