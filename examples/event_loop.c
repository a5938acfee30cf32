/*
 * event_loop - a server that sleeps in epoll, together with the program's other
 * descriptors, and returns each message to its sender. The client is a child
 * process.
 */
#include <ucxpool/ucxpool.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUM_ROUNDS 1000
#define TAG        1

static void must(ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        fprintf(stderr, "event_loop: %s: %s\n", ucxpool_status_string(status),
                ucxpool_error_detail());
        exit(1);
    }
}

static void finish(ucxpool_request_t *request)
{
    must(ucxpool_request_wait(request, UCXPOOL_FOREVER));
    ucxpool_request_release(request);
}

static int run_client(int port_fd)
{
    char               where[32] = "";
    ucxpool_t         *pool;
    ucxpool_channel_t *channel;
    ucxpool_request_t *request;

    if (read(port_fd, where, sizeof(where) - 1) <= 0) {
        return 1;
    }
    must(ucxpool_create(NULL, &pool));
    must(ucxpool_channel_connect(pool, where, NULL, &channel));
    for (int i = 0; i < NUM_ROUNDS; i++) {
        int answer = -1;

        must(ucxpool_send_buffer(channel, &i, sizeof(i), TAG, NULL, &request));
        finish(request);
        must(ucxpool_recv_buffer(pool, channel, &answer, sizeof(answer), TAG,
                                 UINT64_MAX, NULL, &request));
        finish(request);
        if (answer != i) {
            return 1;
        }
    }
    ucxpool_destroy(pool);
    return 0;
}

/* Return one message to its sender. Returns false if the channel has none. */
static bool echo_message(ucxpool_t *pool, ucxpool_channel_t *channel)
{
    int                number;
    ucxpool_data_t     data = ucxpool_data_buffer(&number, sizeof(number));
    ucxpool_message_t *message;
    ucxpool_request_t *request;

    if (ucxpool_probe(pool, channel, 0, 0, &message) != UCXPOOL_OK) {
        return false;
    }
    must(ucxpool_message_recv(message, &data, NULL, &request));
    finish(request); /* four bytes have arrived with their message */
    must(ucxpool_send_buffer(channel, &number, sizeof(number), TAG, NULL,
                             &request));
    finish(request); /* the bytes are copied */
    return true;
}

static void release_if_ended(ucxpool_channel_t *channel)
{
    ucxpool_channel_attr_t attr;

    ucxpool_channel_query(channel, &attr, sizeof(attr));
    if (attr.state > UCXPOOL_CHANNEL_OPEN) {
        ucxpool_channel_close(channel);
    }
}

/* Handle the channel or the listener. Returns the number of messages sent. */
static int handle_event(ucxpool_t *pool, const ucxpool_event_t *event)
{
    int                count = 0;
    ucxpool_channel_t *channel;

    if (event->kinds & UCXPOOL_EVENT_CALLER) {
        while (ucxpool_listener_accept(event->listener, NULL, &channel) ==
               UCXPOOL_OK) {
            /* The channel's events are handled when they are reported. */
        }
    }
    if (event->kinds & UCXPOOL_EVENT_MESSAGE) {
        while (echo_message(pool, event->channel)) {
            count++;
        }
    }
    if (event->kinds & UCXPOOL_EVENT_STATE) {
        release_if_ended(event->channel);
    }
    return count;
}

/* Handle up to sixteen events; the next iteration of the loop gets the rest. */
static int handle_events(ucxpool_t *pool)
{
    int             count = 0;
    size_t          num;
    ucxpool_event_t events[16];

    must(ucxpool_event_get(pool, events, 16, &num));
    for (size_t i = 0; i < num; i++) {
        count += handle_event(pool, &events[i]);
    }
    return count;
}

static void run_server(ucxpool_t *pool)
{
    struct epoll_event event    = {.events = EPOLLIN};
    int                count    = 0;
    int                epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int                pool_fd;

    must(ucxpool_event_fd(pool, &pool_fd));
    if ((epoll_fd < 0) ||
        (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, pool_fd, &event) != 0)) {
        perror("event_loop: epoll");
        exit(1);
    }
    for (;;) {
        count += handle_events(pool);
        if (count == NUM_ROUNDS) {
            break;
        }
        while (ucxpool_arm(pool) == UCXPOOL_ERR_BUSY) {
            ucxpool_progress(pool);
        }
        epoll_wait(epoll_fd, &event, 1, -1);
        ucxpool_progress(pool);
    }
    close(epoll_fd);
}

int main(void)
{
    int                 port[2];
    int                 status;
    char                where[32];
    pid_t               client;
    ucxpool_t          *pool;
    ucxpool_listener_t *listener;

    /* Fork before the pool is created: a forked child cannot use a pool. */
    if ((pipe(port) != 0) || ((client = fork()) < 0)) {
        perror("event_loop");
        return 1;
    }
    /* Each process closes the other's end, to detect when the other exits. */
    if (client == 0) {
        close(port[1]);
        return run_client(port[0]);
    }
    close(port[0]);
    must(ucxpool_create(NULL, &pool));
    must(ucxpool_listener_create(pool, "127.0.0.1:0", &listener));
    snprintf(where, sizeof(where), "127.0.0.1:%u",
             ucxpool_listener_port(listener));
    if (write(port[1], where, strlen(where)) < 0) {
        perror("event_loop");
        return 1;
    }
    run_server(pool);
    ucxpool_destroy(pool);
    waitpid(client, &status, 0);
    if (status != 0) {
        fprintf(stderr, "event_loop: the client failed\n");
        return 1;
    }
    printf("%d messages were returned\n", NUM_ROUNDS);
    return 0;
}
