/*
 * Posting one operation, alone or in a batch. The caller has checked that the
 * handles are not NULL and belong to one pool, and holds the pool's lock.
 */
#ifndef API_POST_H
#define API_POST_H

#include <ucxpool/window.h>

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

/* Like ucxpool_remote_window_read() and ucxpool_remote_window_write(). */
ucxpool_status_t api_post_read(ucxpool_remote_window_t        *remote,
                               const ucxpool_places_t         *places,
                               const ucxpool_data_t           *data,
                               const ucxpool_request_params_t *params,
                               ucxpool_request_t             **request_p);
ucxpool_status_t api_post_write(ucxpool_remote_window_t        *remote,
                                const ucxpool_places_t         *places,
                                const ucxpool_data_t           *data,
                                const ucxpool_request_params_t *params,
                                ucxpool_request_t             **request_p);

#endif
