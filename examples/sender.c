/* sender HOST:PORT WORD... - send scattered words as one message. */
#include <ucxpool/ucxpool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        fprintf(stderr, "sender: %s: %s\n", ucxpool_status_string(status),
                ucxpool_error_detail());
        exit(1);
    }
}

int main(int argc, char **argv)
{
    const char             *where = argc > 1 ? argv[1] : "";
    ucxpool_const_segment_t words[64];
    ucxpool_data_t          data;
    size_t                  num_words = 0;
    ucxpool_t              *pool;
    ucxpool_channel_t      *channel;
    ucxpool_request_t      *request;

    for (int i = 2; i < argc && num_words < 64; i++) {
        words[num_words++] =
            (ucxpool_const_segment_t){argv[i], strlen(argv[i])};
    }
    must(ucxpool_create(NULL, &pool));
    must(ucxpool_channel_connect(pool, where, NULL, &channel));
    data = ucxpool_source_segments(words, num_words);
    must(ucxpool_send(channel, &data, 1, NULL, &request));
    must(ucxpool_request_wait(request, UCXPOOL_FOREVER));
    ucxpool_request_release(request);
    ucxpool_destroy(pool);
    return 0;
}
