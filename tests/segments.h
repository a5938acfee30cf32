/*
 * Functions that send and receive messages of segments and of pieces in one
 * call.
 */
#ifndef TESTS_SEGMENTS_H
#define TESTS_SEGMENTS_H

#include <ucxpool/transfer.h>

static inline ucxpool_status_t
send_segments(ucxpool_channel_t *channel, const ucxpool_segment_t *segments,
              size_t count, uint64_t tag,
              const ucxpool_request_params_t *params,
              ucxpool_request_t             **request_p)
{
    ucxpool_data_t data = ucxpool_data_segments(segments, count);

    return ucxpool_send(channel, &data, tag, params, request_p);
}

static inline ucxpool_status_t
send_pieces(ucxpool_channel_t *channel, void *const *addresses, size_t count,
            size_t length, uint64_t tag, const ucxpool_request_params_t *params,
            ucxpool_request_t **request_p)
{
    ucxpool_data_t data = ucxpool_data_pieces(addresses, count, length);

    return ucxpool_send(channel, &data, tag, params, request_p);
}

static inline ucxpool_status_t
recv_segments(ucxpool_t *pool, ucxpool_channel_t *channel,
              const ucxpool_segment_t *segments, size_t count, uint64_t tag,
              uint64_t mask, const ucxpool_request_params_t *params,
              ucxpool_request_t **request_p)
{
    ucxpool_data_t data = ucxpool_data_segments(segments, count);

    return ucxpool_recv(pool, channel, &data, tag, mask, params, request_p);
}

static inline ucxpool_status_t
recv_pieces(ucxpool_t *pool, ucxpool_channel_t *channel, void *const *addresses,
            size_t count, size_t length, uint64_t tag, uint64_t mask,
            const ucxpool_request_params_t *params,
            ucxpool_request_t             **request_p)
{
    ucxpool_data_t data = ucxpool_data_pieces(addresses, count, length);

    return ucxpool_recv(pool, channel, &data, tag, mask, params, request_p);
}

static inline ucxpool_status_t message_recv_segments(
    ucxpool_message_t *message, const ucxpool_segment_t *segments, size_t count,
    const ucxpool_request_params_t *params, ucxpool_request_t **request_p)
{
    ucxpool_data_t data = ucxpool_data_segments(segments, count);

    return ucxpool_message_recv(message, &data, params, request_p);
}

static inline ucxpool_status_t
message_recv_pieces(ucxpool_message_t *message, void *const *addresses,
                    size_t count, size_t length,
                    const ucxpool_request_params_t *params,
                    ucxpool_request_t             **request_p)
{
    ucxpool_data_t data = ucxpool_data_pieces(addresses, count, length);

    return ucxpool_message_recv(message, &data, params, request_p);
}

#endif
