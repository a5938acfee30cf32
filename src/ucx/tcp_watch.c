#include <config.h>

#include "ucx/tcp_watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "ucx/child.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#define MS UINT64_C(1000000)

/* Looks within PEER_TIMEOUT. */
#define NUM_LOOKS 8u

/* So many unanswered tries after the first one, over half of PEER_TIMEOUT. */
#define MORE_TRIES 2u

typedef struct suspect {
    base_list_t link;
    int         fd;
    uint64_t    since;
    unsigned    num_tries; /* at that moment */
    uint64_t    seen;
} suspect_t;

void ucx_tcp_watch_init(ucx_tcp_watch_t *watch, const char *name, int worker_fd,
                        uint64_t timeout_ns)
{
    *watch = (ucx_tcp_watch_t){
        .name       = name,
        .worker_fd  = worker_fd,
        .timeout_ns = timeout_ns,
    };
    base_list_init(&watch->suspects);
}

static suspect_t *find(ucx_tcp_watch_t *watch, int fd)
{
    suspect_t *suspect;

    base_list_for_each(suspect, &watch->suspects, suspect_t, link) {
        if (suspect->fd == fd) {
            return suspect;
        }
    }
    return NULL;
}

static void forget(suspect_t *suspect)
{
    if (suspect != NULL) {
        base_list_del(&suspect->link);
        free(suspect);
    }
}

void ucx_tcp_watch_cleanup(ucx_tcp_watch_t *watch)
{
    while (!base_list_is_empty(&watch->suspects)) {
        forget(base_list_head(&watch->suspects, suspect_t, link));
    }
}

uint64_t ucx_tcp_watch_detection_time(uint64_t timeout_ns)
{
    return (timeout_ns == BASE_CLOCK_FOREVER)
               ? UINT64_MAX
               : timeout_ns / 2 + 2 * (timeout_ns / NUM_LOOKS);
}

/* --- one connection ------------------------------------------------------- */

static unsigned num_tries_of(const struct tcp_info *info)
{
    return (unsigned)info->tcpi_retransmits + info->tcpi_probes;
}

/* Has something been tried that is not acknowledged? The times of the last data
 * and of the last word from the peer do not tell: without a route the kernel
 * counts its tries and sends nothing. */
static bool is_unanswered(const struct tcp_info *info)
{
    bool is_open = (info->tcpi_state == TCP_ESTABLISHED) ||
                   (info->tcpi_state == TCP_CLOSE_WAIT);

    return is_open && (num_tries_of(info) != 0);
}

/* Is it this connection still, and nothing has been heard since? */
static bool is_same(const suspect_t *suspect, const struct tcp_info *info,
                    uint64_t now)
{
    uint64_t heard_ago = info->tcpi_last_ack_recv * MS;

    return (num_tries_of(info) >= suspect->num_tries) &&
           (heard_ago >= now - suspect->since);
}

static void suspect_add(ucx_tcp_watch_t *watch, int fd,
                        const struct tcp_info *info, uint64_t now)
{
    suspect_t *suspect = malloc(sizeof(*suspect));

    if (suspect != NULL) { /* else at the next look */
        *suspect = (suspect_t){.fd        = fd,
                               .since     = now,
                               .num_tries = num_tries_of(info),
                               .seen      = now};
        base_list_add_tail(&watch->suspects, &suspect->link);
    }
}

bool ucx_tcp_watch_judge(ucx_tcp_watch_t *watch, int fd,
                         const struct tcp_info *info, uint64_t now)
{
    suspect_t *suspect = find(watch, fd);

    if (!is_unanswered(info)) {
        forget(suspect);
        return false;
    }
    if ((suspect == NULL) || !is_same(suspect, info, now)) {
        forget(suspect);
        suspect_add(watch, fd, info, now);
        return false;
    }
    suspect->seen = now;
    return (now - suspect->since >= watch->timeout_ns / 2) &&
           (num_tries_of(info) >= suspect->num_tries + MORE_TRIES);
}

/* Those whose connection UCX has closed. */
static void forget_unseen(ucx_tcp_watch_t *watch, uint64_t now)
{
    suspect_t *suspect;
    suspect_t *next;

    base_list_for_each_safe(suspect, next, &watch->suspects, suspect_t, link) {
        if (suspect->seen != now) {
            forget(suspect);
        }
    }
}

/* --- all of UCX's --------------------------------------------------------- */

typedef struct look {
    ucx_tcp_watch_t *watch;
    uint64_t         now;
    unsigned         num_ended;
} look_t;

static void look_at(int fd, void *arg)
{
    look_t         *look = arg;
    struct tcp_info info;
    socklen_t       size = sizeof(info);

    if ((getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) &&
        ucx_tcp_watch_judge(look->watch, fd, &info, look->now)) {
        base_info("%s: a connection of UCX's is ended, since the peer's host "
                  "does not answer",
                  look->watch->name);
        (void)shutdown(fd, SHUT_RDWR);
        look->num_ended++;
    }
}

/* Without UCP_FEATURE_WAKEUP they cannot be found. */
static bool is_on(const ucx_tcp_watch_t *watch)
{
    return (watch->timeout_ns != BASE_CLOCK_FOREVER) && (watch->worker_fd >= 0);
}

unsigned ucx_tcp_watch_progress(ucx_tcp_watch_t *watch)
{
    look_t look = {.watch = watch};

    if (!is_on(watch)) {
        return 0;
    }
    look.now = base_clock_now();
    if (look.now < watch->next_look) {
        return 0;
    }
    watch->next_look = look.now + watch->timeout_ns / NUM_LOOKS;
    ucx_epoll_visit(watch->worker_fd, look_at, &look);
    forget_unseen(watch, look.now);
    return look.num_ended;
}

uint64_t ucx_tcp_watch_deadline(const ucx_tcp_watch_t *watch)
{
    return is_on(watch) ? watch->next_look : BASE_CLOCK_FOREVER;
}
