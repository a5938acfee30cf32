/*
 * What a caller describes by a ucxpool_data_t.
 */
#ifndef API_DATA_H
#define API_DATA_H

#include "copy/plan.h"

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

#endif
