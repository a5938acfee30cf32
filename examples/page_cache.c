/*
 * page_cache - a process keeps pages in its memory. Another process reads some
 * pages, writes one back, and notifies the owner. The owner posts no send or
 * receive for the pages.
 */
#include <ucxpool/ucxpool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE  ((size_t)8192)
#define PAGES 1000

enum { TAG_WINDOW = 1, TAG_WRITTEN = 2 };

static void must(ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        fprintf(stderr, "page_cache: %s: %s\n", ucxpool_status_string(status),
                ucxpool_error_detail());
        exit(1);
    }
}

static void finish(ucxpool_request_t *request)
{
    must(ucxpool_request_wait(request, UCXPOOL_FOREVER));
    ucxpool_request_release(request);
}

static char *get_pages(size_t num)
{
    char *pages = calloc(num, PAGE);

    if (pages == NULL) {
        must(UCXPOOL_ERR_NO_MEMORY);
    }
    return pages;
}

/* Import the window, read every tenth page, and write the last one. */
static int run_reader(int port_fd)
{
    enum { NUM = PAGES / 10 };
    char                     where[32] = "";
    char                     blob[UCXPOOL_WINDOW_BLOB_SIZE];
    char                    *pages = get_pages(NUM);
    uint64_t                 offsets[NUM];
    ucxpool_t               *pool;
    ucxpool_channel_t       *channel;
    ucxpool_remote_window_t *remote;
    ucxpool_request_t       *request;
    ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_NOTIFY,
        .notify_tag = TAG_WRITTEN,
    };
    ucxpool_places_t places;
    ucxpool_data_t   data = ucxpool_data_buffer(pages, NUM * PAGE);

    if (read(port_fd, where, sizeof(where) - 1) <= 0) {
        return 1;
    }
    must(ucxpool_create(NULL, &pool));
    must(ucxpool_channel_connect(pool, where, NULL, &channel));
    must(ucxpool_recv_buffer(pool, channel, blob, sizeof(blob), TAG_WINDOW,
                             UINT64_MAX, NULL, &request));
    finish(request);
    must(ucxpool_remote_window_import(channel, blob, sizeof(blob), &remote));

    for (size_t i = 0; i < NUM; i++) {
        offsets[i] = i * 10 * PAGE;
    }
    places = ucxpool_places_even(offsets, NUM, PAGE);
    must(ucxpool_remote_window_read(remote, &places, &data, NULL, &request));
    finish(request);
    for (size_t i = 0; i < NUM; i++) {
        if (pages[i * PAGE] != (char)(i * 10)) {
            return 1;
        }
    }
    printf("%d pages were read\n", NUM);
    fflush(stdout);

    memset(pages, 'w', PAGE);
    offsets[0] = (PAGES - 1) * PAGE;
    places     = ucxpool_places_even(offsets, 1, PAGE);
    data       = ucxpool_data_buffer(pages, PAGE);
    must(
        ucxpool_remote_window_write(remote, &places, &data, &params, &request));
    finish(request);
    ucxpool_remote_window_release(remote);
    ucxpool_channel_close(channel);
    ucxpool_destroy(pool);
    free(pages);
    return 0;
}

/* A process, and the pipe through which it gets the address to connect to. */
static int start_reader(void)
{
    int   fds[2];
    pid_t child;

    if ((pipe(fds) != 0) || ((child = fork()) < 0)) {
        perror("page_cache");
        exit(1);
    }
    if (child == 0) {
        close(fds[1]);
        exit(run_reader(fds[0]));
    }
    close(fds[0]);
    return fds[1];
}

static ucxpool_channel_t *meet(ucxpool_t *pool, int port_fd)
{
    char                where[32];
    ucxpool_listener_t *listener;
    ucxpool_channel_t  *channel;
    ucxpool_status_t    status;

    must(ucxpool_listener_create(pool, "127.0.0.1:0", &listener));
    snprintf(where, sizeof(where), "127.0.0.1:%u",
             ucxpool_listener_port(listener));
    if (write(port_fd, where, strlen(where)) < 0) {
        perror("page_cache: write");
        exit(1);
    }
    while ((status = ucxpool_listener_accept(listener, NULL, &channel)) ==
           UCXPOOL_INPROGRESS) {
        must(ucxpool_wait(pool, UCXPOOL_FOREVER));
    }
    must(status);
    ucxpool_listener_destroy(listener);
    return channel;
}

int main(void)
{
    int                reader = start_reader();
    char              *pages  = get_pages(PAGES);
    char               blob[UCXPOOL_WINDOW_BLOB_SIZE];
    ucxpool_t         *pool;
    ucxpool_channel_t *channel;
    ucxpool_window_t  *window;
    ucxpool_request_t *request;
    int                status;

    for (size_t i = 0; i < PAGES; i++) {
        memset(pages + i * PAGE, (char)i, PAGE);
    }
    must(ucxpool_create(NULL, &pool));
    channel = meet(pool, reader);
    must(ucxpool_window_create(pool, pages, PAGES * PAGE, NULL, &window));
    must(ucxpool_window_export(
        window, UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE, blob));
    must(ucxpool_send_buffer(channel, blob, sizeof(blob), TAG_WINDOW, NULL,
                             &request));
    finish(request);

    /* The notification arrives after the page has been written. */
    must(ucxpool_recv_buffer(pool, channel, NULL, 0, TAG_WRITTEN, UINT64_MAX,
                             NULL, &request));
    finish(request);
    printf("page %d begins with '%c'\n", PAGES - 1, pages[(PAGES - 1) * PAGE]);
    fflush(stdout);

    ucxpool_window_destroy(window);
    ucxpool_channel_close(channel);
    ucxpool_destroy(pool);
    free(pages);
    return ((wait(&status) > 0) && (status == 0)) ? 0 : 1;
}
