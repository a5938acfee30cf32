/*
 * Functions that send and receive messages of segments and of pieces in one
 * call.
 */
#ifndef TESTS_SEGMENTS_H
#define TESTS_SEGMENTS_H

#include <ucxpool/transfer.h>

#include <stdint.h>
#include <stdlib.h>

/* Cut `length` bytes at random into at most `max` segments, some of them empty,
 * with `gap` other bytes between them. All but the last one are shorter than
 * `longest`. Returns their number. */
static inline size_t cut_segments(uint8_t *bytes, size_t length, size_t longest,
                                  size_t gap, ucxpool_segment_t *segments,
                                  size_t max)
{
    size_t count = 0;
    size_t part;

    for (; (length > 0) && (count < max - 1); count++) {
        part            = (rand() % 8 == 0) ? 0 : (size_t)rand() % longest;
        part            = (part < length) ? part : length;
        segments[count] = (ucxpool_segment_t){bytes, part};
        bytes += part + gap;
        length -= part;
    }
    segments[count] = (ucxpool_segment_t){bytes, length};
    return count + 1;
}

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
