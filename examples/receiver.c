/*
 * receiver HOST:PORT - wait for one message of examples/sender and print its
 * segments, one per line. Port 0 selects a free port, which is printed first.
 */
#include <ucxpool/ucxpool.h>

#include <stdio.h>
#include <stdlib.h>

static void must(ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        fprintf(stderr, "receiver: %s: %s\n", ucxpool_status_string(status),
                ucxpool_error_detail());
        exit(1);
    }
}

/* Accept the next peer that has proved that it knows the secret. */
static ucxpool_channel_t *accept_peer(ucxpool_t          *pool,
                                      ucxpool_listener_t *listener)
{
    ucxpool_channel_t *channel;
    ucxpool_status_t   status;

    while ((status = ucxpool_listener_accept(listener, NULL, &channel)) ==
           UCXPOOL_INPROGRESS) {
        must(ucxpool_wait(pool, UCXPOOL_FOREVER));
    }
    must(status);
    return channel;
}

/* Get the next message without receiving it; exits if the peer disconnects
 * without sending one. */
static ucxpool_message_t *next_message(ucxpool_t         *pool,
                                       ucxpool_channel_t *channel)
{
    ucxpool_message_t     *message;
    ucxpool_channel_attr_t peer;

    while (ucxpool_probe(pool, channel, 0, 0, &message) ==
           UCXPOOL_ERR_NO_MESSAGE) {
        ucxpool_channel_query(channel, &peer, sizeof(peer));
        if (peer.state == UCXPOOL_CHANNEL_FAILED ||
            peer.state == UCXPOOL_CHANNEL_CLOSED) {
            fprintf(stderr, "receiver: the peer disconnected: %s\n",
                    peer.reason);
            exit(1);
        }
        must(ucxpool_wait(pool, UCXPOOL_FOREVER));
    }
    return message;
}

/* Receive the message into one buffer, and print it segment by segment. */
static void print_message(ucxpool_message_t *message)
{
    ucxpool_message_attr_t attr;
    ucxpool_request_t     *request;
    ucxpool_data_t         data;
    size_t                 length, offset = 0;
    size_t                *lengths;
    char                  *text;

    ucxpool_message_query(message, &attr, sizeof(attr));
    text    = malloc(attr.length + 1);
    lengths = malloc((attr.num_segments + 1) * sizeof(*lengths));
    if (text == NULL || lengths == NULL) {
        must(UCXPOOL_ERR_NO_MEMORY);
    }
    ucxpool_message_lengths(message, 0, attr.num_segments, lengths);
    data = ucxpool_data_buffer(text, attr.length);
    must(ucxpool_message_recv(message, &data, NULL, &request));
    must(ucxpool_request_wait(request, UCXPOOL_FOREVER));
    for (size_t i = 0; i < attr.num_segments; i++) {
        length = lengths[i];
        printf("%.*s\n", (int)length, text + offset);
        offset += length;
    }
    ucxpool_request_release(request);
    free(lengths);
    free(text);
}

int main(int argc, char **argv)
{
    ucxpool_t          *pool;
    ucxpool_listener_t *listener;

    must(ucxpool_create(NULL, &pool));
    must(ucxpool_listener_create(pool, argc > 1 ? argv[1] : "127.0.0.1:0",
                                 &listener));
    printf("port %u\n", (unsigned)ucxpool_listener_port(listener));
    fflush(stdout);
    print_message(next_message(pool, accept_peer(pool, listener)));
    ucxpool_listener_destroy(listener);
    ucxpool_destroy(pool);
    return 0;
}
