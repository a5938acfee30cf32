/*
 * borrowed HOST:PORT WORD... - like examples/sender, but for a program with
 * its own UCX context and worker, which the pool borrows. The program can still
 * use both, except the active-message ids AM_ID and AM_ID + 1.
 */
#include <ucxpool/ucxpool.h>

#include <ucp/api/ucp.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        fprintf(stderr, "borrowed: %s: %s\n", ucxpool_status_string(status),
                ucxpool_error_detail());
        exit(1);
    }
}

static void must_ucx(ucs_status_t status)
{
    if (status != UCS_OK) {
        fprintf(stderr, "borrowed: UCX: %s\n", ucs_status_string(status));
        exit(1);
    }
}

/* The features that a pool needs; WAKEUP lets it sleep while it waits. */
static ucp_context_h make_context(void)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features   = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP,
    };
    ucp_context_h context;

    must_ucx(ucp_init(&params, NULL, &context));
    return context;
}

/* Only one thread at a time may use the worker. The pool's lock ensures this
 * for the pool; the program must ensure it for its own calls. */
static ucp_worker_h make_worker(ucp_context_h context)
{
    ucp_worker_params_t params = {
        .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
    };
    ucp_worker_h worker;

    must_ucx(ucp_worker_create(context, &params, &worker));
    return worker;
}

static void send_words(ucxpool_t *pool, const char *where, char **words,
                       int num_words)
{
    ucxpool_const_segment_t segments[64];
    ucxpool_data_t          data;
    size_t                  num = 0;
    ucxpool_channel_t      *channel;
    ucxpool_request_t      *request;

    for (int i = 0; i < num_words && num < 64; i++) {
        segments[num++] = (ucxpool_const_segment_t){words[i], strlen(words[i])};
    }
    must(ucxpool_channel_connect(pool, where, NULL, &channel));
    data = ucxpool_source_segments(segments, num);
    must(ucxpool_send(channel, &data, 1, NULL, &request));
    must(ucxpool_request_wait(request, UCXPOOL_FOREVER));
    ucxpool_request_release(request);
}

int main(int argc, char **argv)
{
    ucp_context_h    context = make_context();
    ucp_worker_h     worker  = make_worker(context);
    ucxpool_params_t params  = {
         .field_mask = UCXPOOL_PARAM_FIELD_CONTEXT | UCXPOOL_PARAM_FIELD_WORKER,
         .context    = context,
         .worker     = worker,
    };
    ucxpool_t *pool;

    must(ucxpool_create(&params, &pool));
    send_words(pool, argc > 1 ? argv[1] : "", argv + 2, argc - 2);
    /* Destroy the pool first: it uses the worker and the context. */
    ucxpool_destroy(pool);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}
