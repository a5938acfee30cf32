/*
 * dead_peer - two peers connect, and one of them is killed while the survivor
 * waits for its message. The library reports to the survivor which channel has
 * failed and why. The survivor frees the memory for that channel and continues
 * with the other peer.
 */
#include <ucxpool/ucxpool.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LENGTH ((size_t)64 << 20)

enum { TAG_NAME = 1, TAG_DATA = 2 };

static const char *const names[] = {"doomed", "steady"};

/* A peer, as the survivor sees it. */
typedef struct peer {
    ucxpool_channel_t *channel;
    ucxpool_request_t *request; /* receives the peer's data */
    char              *data;
    char               name[16];
} peer_t;

static void must(ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        fprintf(stderr, "dead_peer: %s: %s\n", ucxpool_status_string(status),
                ucxpool_error_detail());
        exit(1);
    }
}

static void finish(ucxpool_request_t *request)
{
    must(ucxpool_request_wait(request, UCXPOOL_FOREVER));
    ucxpool_request_release(request);
}

static void *get_memory(size_t length)
{
    void *memory = calloc(1, length);

    if (memory == NULL) {
        must(UCXPOOL_ERR_NO_MEMORY);
    }
    return memory;
}

/* Code of the peers. The survivor replies to the peer's name; after the reply,
 * the doomed peer dies instead of sending. */
static int run_peer(const char *name, int port_fd)
{
    char               where[32] = "";
    char               word[16]  = "";
    char              *data      = get_memory(LENGTH);
    ucxpool_t         *pool;
    ucxpool_channel_t *channel;
    ucxpool_request_t *request;

    if (read(port_fd, where, sizeof(where) - 1) <= 0) {
        return 1;
    }
    must(ucxpool_create(NULL, &pool));
    must(ucxpool_channel_connect(pool, where, NULL, &channel));
    must(ucxpool_send_buffer(channel, name, strlen(name) + 1, TAG_NAME, NULL,
                             &request));
    finish(request);
    must(ucxpool_recv_buffer(pool, channel, word, sizeof(word), TAG_NAME,
                             UINT64_MAX, NULL, &request));
    finish(request);
    if (strcmp(name, "doomed") == 0) {
        raise(SIGKILL);
    }
    memset(data, 's', LENGTH);
    must(ucxpool_send_buffer(channel, data, LENGTH, TAG_DATA, NULL, &request));
    finish(request);
    ucxpool_destroy(pool);
    return 0;
}

/* A process, and the pipe through which it gets the address to connect to. */
static int start_peer(const char *name)
{
    int   fds[2];
    pid_t child;

    if ((pipe(fds) != 0) || ((child = fork()) < 0)) {
        perror("dead_peer");
        exit(1);
    }
    if (child == 0) {
        close(fds[1]);
        exit(run_peer(name, fds[0]));
    }
    close(fds[0]);
    return fds[1];
}

/* Accept the next peer, and post a receive for its data. */
static void meet(ucxpool_t *pool, ucxpool_listener_t *listener, peer_t *peer)
{
    ucxpool_status_t status;

    while ((status = ucxpool_listener_accept(listener, NULL, &peer->channel)) ==
           UCXPOOL_INPROGRESS) {
        must(ucxpool_wait(pool, UCXPOOL_FOREVER));
    }
    must(status);
    must(ucxpool_recv_buffer(pool, peer->channel, peer->name,
                             sizeof(peer->name), TAG_NAME, UINT64_MAX, NULL,
                             &peer->request));
    finish(peer->request);
    peer->data = get_memory(LENGTH);
    must(ucxpool_recv_buffer(pool, peer->channel, peer->data, LENGTH, TAG_DATA,
                             UINT64_MAX, NULL, &peer->request));
}

static void let_go_on(const peer_t *peer)
{
    ucxpool_request_t *request;

    must(ucxpool_send_buffer(peer->channel, "go", 3, TAG_NAME, NULL, &request));
    finish(request);
}

/* Report the result of a peer's receive. Its memory can be freed in any case.
 */
static void conclude(peer_t *peer)
{
    ucxpool_status_t status =
        ucxpool_request_wait(peer->request, UCXPOOL_FOREVER);
    ucxpool_request_attr_t request;
    ucxpool_channel_attr_t channel;

    ucxpool_request_query(peer->request, &request, sizeof(request));
    ucxpool_channel_query(peer->channel, &channel, sizeof(channel));
    if (status == UCXPOOL_OK) {
        printf("%s: %zu bytes\n", peer->name, request.length);
    } else {
        printf("%s: %s (channel %s, %s)\n", peer->name,
               ucxpool_status_string(status), channel.name, channel.reason);
    }
    ucxpool_request_release(peer->request);
    ucxpool_channel_close(peer->channel);
    free(peer->data);
}

int main(void)
{
    int                 fds[2] = {start_peer(names[0]), start_peer(names[1])};
    char                where[32];
    peer_t              peers[2];
    ucxpool_t          *pool;
    ucxpool_listener_t *listener;

    must(ucxpool_create(NULL, &pool));
    must(ucxpool_listener_create(pool, "127.0.0.1:0", &listener));
    snprintf(where, sizeof(where), "127.0.0.1:%u",
             (unsigned)ucxpool_listener_port(listener));
    for (int i = 0; i < 2; i++) {
        dprintf(fds[i], "%s", where);
        close(fds[i]);
    }
    meet(pool, listener, &peers[0]);
    meet(pool, listener, &peers[1]);
    /* Wait for the doomed peer first, to use the other one after its death. */
    for (int turn = 0; turn < 2; turn++) {
        peer_t *peer = &peers[strcmp(peers[0].name, names[turn]) != 0];

        let_go_on(peer);
        conclude(peer);
    }
    ucxpool_listener_destroy(listener);
    ucxpool_destroy(pool);
    while (wait(NULL) > 0) {
    }
    return 0;
}
