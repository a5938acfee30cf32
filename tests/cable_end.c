/*
 * cable_end - one end of a channel over a cable that test_cable.sh cuts.
 *
 * usage: cable_end listen|deaf WHERE
 *        cable_end idle|busy WHERE
 *
 * WHERE is an address and a port, or a directory ("/...") in which the two ends
 * exchange their pools' addresses.
 *
 * The listener receives all messages; a deaf one accepts the caller and does
 * nothing more. An idle caller sends nothing, a busy one sends messages without
 * a pause. At SIGTERM the caller sends a last message and closes the channel.
 * Each end prints how the channel ended. The exit code is 0 if the channel was
 * closed and 3 if the peer was lost. SIGALRM ends a process whose channel never
 * ends.
 */
#include <ucxpool/ucxpool.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LENGTH  ((size_t)1 << 20)
#define TICK_NS UINT64_C(50000000)

/* Less than UCX's own timeout, and enough for a slow machine. */
#define PATIENCE_S 600

static volatile sig_atomic_t is_over;
static char                  data[LENGTH];

static void end(int signal_number)
{
    is_over = 1;
}

static void must(ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        printf("cable_end: %s: %s\n", ucxpool_status_string(status),
               ucxpool_error_detail());
        exit(1);
    }
}

/* If the channel has ended, print how, and exit. */
static void look(const ucxpool_channel_t *channel, unsigned count)
{
    ucxpool_channel_attr_t attr;
    int                    code;

    ucxpool_channel_query(channel, &attr, sizeof(attr));
    if (attr.state <= UCXPOOL_CHANNEL_OPEN) {
        return;
    }
    printf("%s after %u messages: %s: %s\n", attr.name, count,
           ucxpool_status_string(attr.status), attr.reason);
    code = (attr.state == UCXPOOL_CHANNEL_CLOSED) ? 0 : 3;
    ucxpool_destroy(attr.pool);
    exit(code);
}

/* Until the request or the channel has ended. */
static void finish(ucxpool_channel_t *channel, ucxpool_request_t *request,
                   unsigned count)
{
    ucxpool_status_t status = ucxpool_request_wait(request, UCXPOOL_FOREVER);

    ucxpool_request_release(request);
    if (status != UCXPOOL_OK) {
        look(channel, count);
        must(status);
    }
}

static void send_one(ucxpool_channel_t *channel, unsigned count)
{
    ucxpool_request_t *request;

    look(channel, count);
    must(ucxpool_send_buffer(channel, data, LENGTH, 0, NULL, &request));
    finish(channel, request, count);
}

/* --- exchange of addresses ----------------------------------------------- */

static void must_not_fail(bool is_good, const char *path)
{
    if (!is_good) {
        printf("cable_end: %s: %s\n", path, strerror(errno));
        exit(1);
    }
}

static void leave_address(ucxpool_t *pool, const char *path)
{
    char   unfinished[64];
    void  *address;
    size_t length;
    FILE  *file;

    snprintf(unfinished, sizeof(unfinished), "%.32s.part", path);
    must(ucxpool_address_get(pool, &address, &length));
    file = fopen(unfinished, "w");
    must_not_fail(file != NULL, unfinished);
    must_not_fail(fwrite(address, 1, length, file) == length, unfinished);
    must_not_fail(fclose(file) == 0, unfinished);
    must_not_fail(rename(unfinished, path) == 0, path);
    ucxpool_address_release(address);
}

static ucxpool_channel_t *exchange(ucxpool_t *pool, const char *folder,
                                   const char *own, const char *others)
{
    static char              address[65536];
    ucxpool_channel_params_t params = {
        .field_mask = UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS,
        .address    = address,
    };
    ucxpool_channel_t *channel;
    FILE              *file;

    must_not_fail(chdir(folder) == 0, folder);
    leave_address(pool, own);
    while (access(others, R_OK) != 0) {
        (void)ucxpool_wait(pool, TICK_NS);
    }
    file = fopen(others, "r");
    must_not_fail(file != NULL, others);
    params.address_length = fread(address, 1, sizeof(address), file);
    fclose(file);
    must(ucxpool_channel_create(pool, &params, &channel));
    return channel;
}

/* --- the two ends -------------------------------------------------------- */

static ucxpool_channel_t *call(ucxpool_t *pool, const char *where)
{
    ucxpool_channel_t *channel;

    if (where[0] == '/') {
        return exchange(pool, where, "caller.address", "listener.address");
    }
    must(ucxpool_channel_connect(pool, where, NULL, &channel));
    return channel;
}

static void run_caller(ucxpool_t *pool, const char *where, bool is_busy)
{
    ucxpool_channel_t *channel = call(pool, where);
    unsigned           count   = 0;

    if (ucxpool_channel_wait(channel, UCXPOOL_FOREVER) != UCXPOOL_OK) {
        look(channel, count);
    }
    printf("open\n");
    while (!is_over) {
        if (is_busy) {
            send_one(channel, count++);
        } else {
            (void)ucxpool_wait(pool, TICK_NS);
            look(channel, count);
        }
    }
    send_one(channel, count++);
    ucxpool_channel_close(channel);
    printf("closed after %u messages\n", count);
}

static ucxpool_channel_t *hear(ucxpool_t *pool, const char *where)
{
    ucxpool_listener_t *listener;
    ucxpool_channel_t  *channel;
    ucxpool_status_t    status;

    if (where[0] == '/') {
        printf("listening on port 0\n");
        return exchange(pool, where, "listener.address", "caller.address");
    }
    must(ucxpool_listener_create(pool, where, &listener));
    printf("listening on port %u\n", ucxpool_listener_port(listener));
    while ((status = ucxpool_listener_accept(listener, NULL, &channel)) ==
           UCXPOOL_INPROGRESS) {
        must(ucxpool_wait(pool, UCXPOOL_FOREVER));
    }
    must(status);
    return channel;
}

static void run_listener(ucxpool_t *pool, const char *where, bool is_deaf)
{
    ucxpool_channel_t *channel = hear(pool, where);
    ucxpool_request_t *request;

    if (is_deaf) {
        printf("accepted\n");
        pause();
    }
    for (unsigned count = 0;; count++) {
        look(channel, count);
        must(ucxpool_recv_buffer(pool, channel, data, LENGTH, 0, UINT64_MAX,
                                 NULL, &request));
        finish(channel, request, count);
    }
}

int main(int argc, char **argv)
{
    ucxpool_t *pool;

    if (argc != 3) {
        fprintf(stderr, "usage: cable_end listen|deaf|idle|busy WHERE\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGTERM, end);
    alarm(PATIENCE_S);
    must(ucxpool_create(NULL, &pool));
    if ((strcmp(argv[1], "listen") == 0) || (strcmp(argv[1], "deaf") == 0)) {
        run_listener(pool, argv[2], strcmp(argv[1], "deaf") == 0);
    } else {
        run_caller(pool, argv[2], strcmp(argv[1], "busy") == 0);
    }
    ucxpool_destroy(pool);
    return 0;
}
