#include "perf/pair.h"
#include "common/error.h"
#include "perf/lane.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_NS (UINT64_C(120) * 1000000000u)
#define SEND_NS    (UINT64_C(60) * 1000000000u)
#define TAG        UINT64_C(0)

/* The first message of a client. */
static const char hello_text[32] = "ucxpool_perf 11";

typedef struct remote {
    control_t          control; /* first: a control_t * is a remote_t * */
    ucxpool_t         *pool;
    ucxpool_channel_t *channel;
    ucxpool_request_t *receive; /* NULL: none is posted */
    bool               is_client;
    char               buffer[CONTROL_MAX];
} remote_t;

static int remote_send(control_t *control, const void *data, size_t length)
{
    remote_t          *remote = (remote_t *)control;
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    if (pool_check(ucxpool_send_buffer(remote->channel, data, length, TAG, NULL,
                                       &request),
                   "cannot send to the other host") != 0) {
        return -1;
    }
    status = ucxpool_request_wait(request, SEND_NS);
    ucxpool_request_release(request);
    if (status != UCXPOOL_OK) {
        return tool_error("cannot send to the other host: %s",
                          ucxpool_status_string(status));
    }
    return 0;
}

static int post_receive(remote_t *remote)
{
    if (remote->receive != NULL) {
        return 0;
    }
    return pool_check(ucxpool_recv_buffer(remote->pool, remote->channel,
                                          remote->buffer,
                                          sizeof(remote->buffer), TAG,
                                          UINT64_MAX, NULL, &remote->receive),
                      "cannot receive from the other host");
}

static int remote_poll(control_t *control, int timeout_ms, void *data,
                       size_t size, size_t *length_p)
{
    remote_t              *remote = (remote_t *)control;
    ucxpool_request_attr_t attr;
    ucxpool_status_t       status;

    if (post_receive(remote) != 0) {
        return -1;
    }
    ucxpool_progress(remote->pool);
    status = ucxpool_request_test(remote->receive);
    if ((status == UCXPOOL_INPROGRESS) && (timeout_ms != 0)) {
        ucxpool_wait(remote->pool, (uint64_t)timeout_ms * 1000000u);
        status = ucxpool_request_test(remote->receive);
    }
    if (status == UCXPOOL_INPROGRESS) {
        return 0;
    }
    ucxpool_request_query(remote->receive, &attr, sizeof(attr));
    *length_p = attr.length;
    if (status == UCXPOOL_OK) {
        memcpy(data, remote->buffer, attr.length < size ? attr.length : size);
    } else {
        tool_error(
            "the other host ended early (%s); its own message has the reason",
            ucxpool_status_string(status));
    }
    ucxpool_request_release(remote->receive);
    remote->receive = NULL;
    return status == UCXPOOL_OK ? 1 : -1;
}

/* Close the connection. ucxpool_destroy() lets the messages that were posted
 * before arrive. */
static int remote_end(control_t *control, int status)
{
    remote_t *remote = (remote_t *)control;

    if ((status == 0) && remote->is_client) {
        status = measure_end(control);
    }
    ucxpool_request_release(remote->receive);
    ucxpool_destroy(remote->pool);
    free(remote);
    return status;
}

static int remote_create(bool is_client, remote_t **remote_p)
{
    remote_t *remote = tool_calloc(1, sizeof(*remote));

    remote->control   = (control_t){.send      = remote_send,
                                    .poll      = remote_poll,
                                    .end       = remote_end,
                                    .is_remote = true};
    remote->is_client = is_client;
    *remote_p         = remote;
    return pool_create(MODE_AUTO, WORK_HOST, 0, "perf-control", &remote->pool);
}

/* Create the listener. A port without a host means all addresses if the library
 * may listen there, which requires a secret, and otherwise only this host. */
static ucxpool_status_t listen_on(remote_t *remote, const char *where,
                                  char *text, size_t size,
                                  ucxpool_listener_t **listener_p)
{
    ucxpool_status_t status;

    snprintf(text, size, "%s%s", strchr(where, ':') == NULL ? ":" : "", where);
    status = ucxpool_listener_create(remote->pool, text, listener_p);
    if ((status == UCXPOOL_ERR_PERMISSION) && (strchr(where, ':') == NULL)) {
        snprintf(text, size, "127.0.0.1:%s", where);
        status = ucxpool_listener_create(remote->pool, text, listener_p);
    }
    return status;
}

static int accept_client(remote_t *remote, const char *where, FILE *output)
{
    ucxpool_listener_t *listener;
    char                text[256];

    if (pool_check(listen_on(remote, where, text, sizeof(text), &listener),
                   text) != 0) {
        return -1;
    }
    *strrchr(text, ':') = '\0';
    fprintf(output, "listening on %s:%u\n", text,
            ucxpool_listener_port(listener));
    fflush(output);
    return pool_accept(remote->pool, listener, &remote->channel, "no client");
}

static int serve(remote_t *remote)
{
    char hello[sizeof(hello_text)];

    if (control_recv(&remote->control, hello, sizeof(hello)) != 0) {
        return -1;
    }
    if (memcmp(hello, hello_text, sizeof(hello_text)) != 0) {
        return tool_error("the client has another version: run the same "
                          "ucxpool_perf on both hosts");
    }
    return measure_follow(&remote->control);
}

int remote_serve(const char *where, FILE *output)
{
    remote_t *remote;
    int       status = (remote_create(false, &remote) != 0) ||
                         (accept_client(remote, where, output) != 0) ||
                         (serve(remote) != 0)
                           ? -1
                           : 0;

    return remote_end(&remote->control, status);
}

static int connect_server(remote_t *remote, const char *where)
{
    ucxpool_channel_attr_t attr;

    if (pool_check(ucxpool_channel_connect(remote->pool, where, NULL,
                                           &remote->channel),
                   where) != 0) {
        return -1;
    }
    if (ucxpool_channel_wait(remote->channel, CONNECT_NS) != UCXPOOL_OK) {
        ucxpool_channel_query(remote->channel, &attr, sizeof(attr));
        return tool_error("%s: %s; check that ucxpool_perf -l runs there, "
                          "with the same secret",
                          where,
                          attr.reason[0] != '\0' ? attr.reason : "no answer");
    }
    return remote_send(&remote->control, hello_text, sizeof(hello_text));
}

int remote_connect(const char *where, control_t **control_p)
{
    remote_t *remote;

    if ((remote_create(true, &remote) != 0) ||
        (connect_server(remote, where) != 0)) {
        return remote_end(&remote->control, -1);
    }
    *control_p = &remote->control;
    return 0;
}
