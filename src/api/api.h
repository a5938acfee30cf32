/* Functions that several files of public functions use. */
#ifndef API_API_H
#define API_API_H

#include "base/config.h"
#include "copy/plan.h"

#include <ucxpool/channel.h>
#include <ucxpool/config.h>
#include <ucxpool/window.h>

#include <stdbool.h>

/* --- settings ------------------------------------------------------------- */

/*
 * Copy the settings of a configuration. The configuration keeps ownership of
 * the secret.
 *
 * config  NULL: use the defaults and the environment, as ucxpool_config_read()
 *         does. In this case no secret from ucxpool_config_set_secret()
 *         applies.
 *
 * Returns the same errors as ucxpool_config_read().
 */
ucxpool_status_t api_config_values(const ucxpool_config_t *config,
                                   base_config_t          *values_p);

/* --- parameters ----------------------------------------------------------- */

/* Data of a caller. A single buffer is a list of one segment: `buffer`. */
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

/* Returns true and sets the error if the channel belongs to another pool.
 * Returns false if the channel is NULL. To check an object of a channel, such
 * as a remote window, pass the object's channel. Usage: `if (api_foreign(pool,
 * channel)) { return UCXPOOL_ERR_INVALID_PARAM; }` */
#define api_foreign(_pool, _channel) \
    api_is_foreign(_pool, _channel, "channel", __func__)

bool api_is_foreign(const ucxpool_t *pool, const ucxpool_channel_t *channel,
                    const char *object, const char *function);

/* --- posting -------------------------------------------------------------- */

/*
 * Post one operation, which may be part of a batch. The caller has checked that
 * the handles are not NULL and belong to one pool, and holds the pool's lock.
 */

/* Like ucxpool_send() and ucxpool_recv(). */
ucxpool_status_t api_post_send(ucxpool_channel_t    *channel,
                               const ucxpool_data_t *data, uint64_t tag,
                               const ucxpool_request_params_t *params,
                               ucxpool_request_t             **request_p);
ucxpool_status_t api_post_recv(ucxpool_t *pool, ucxpool_channel_t *channel,
                               const ucxpool_data_t *data, uint64_t tag,
                               uint64_t                        mask,
                               const ucxpool_request_params_t *params,
                               ucxpool_request_t             **request_p);

/* Like ucxpool_remote_window_write() if is_write is true, otherwise like
 * ucxpool_remote_window_read(). */
ucxpool_status_t api_post_operation(ucxpool_remote_window_t        *remote,
                                    bool                            is_write,
                                    const ucxpool_places_t         *places,
                                    const ucxpool_data_t           *data,
                                    const ucxpool_request_params_t *params,
                                    ucxpool_request_t             **request_p);

/* --- verbs ---------------------------------------------------------------- */

/* Deregister the regions from all protection domains. The domains' handles must
 * not be used afterwards. Called before the memory is freed; may be called
 * twice. */
void api_verbs_close(ucxpool_t *pool);

#endif
