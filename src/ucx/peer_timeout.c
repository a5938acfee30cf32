#include "ucx/context.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* --- UCX's settings ------------------------------------------------------- */

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

/* The InfiniBand specification encodes a timeout as an exponent n: the time is
 * FABRIC_UNIT_NS << n. A card may take FABRIC_LOOSE times as long. */
#define FABRIC_UNIT_NS UINT64_C(4096)
#define FABRIC_LOOSE   4u

/* The RETRY_COUNT that the pool sets. Some drivers, such as Soft-RoCE's, treat
 * a count of 7 as infinite. */
#define RETRIES 3u

/* UCX's default of KEEPALIVE_INTERVAL. */
#define DEFAULT_KEEPALIVE_US 20000000u

/* A transport that the network card makes reliable. */
typedef struct transport {
    const char *name;   /* "rc_verbs" */
    const char *prefix; /* of the transport's settings: "RC_VERBS_" */
    const char *family; /* prefix of the transport's family: "RC_" */
} transport_t;

#define RC "RC_"
#define UD "UD_"

static const transport_t transports[] = {
    {"rc_verbs", "RC_VERBS_", RC}, {"rc_mlx5", "RC_MLX5_", RC},
    {"dc_mlx5", "DC_MLX5_", RC},   {"ud_verbs", "UD_VERBS_", UD},
    {"ud_mlx5", "UD_MLX5_", UD},
};

#define NUM_TRANSPORTS (sizeof(transports) / sizeof(transports[0]))

/* Returns the longest timeout that a card can use and that is at most
 * time_ns. */
static uint64_t fabric_floor(uint64_t time_ns)
{
    uint64_t time = FABRIC_UNIT_NS * 2;

    while (time * 2 <= time_ns) {
        time *= 2;
    }
    return time;
}

static bool is_in_environment(const char *prefix, const char *name)
{
    char variable[64];

    snprintf(variable, sizeof(variable), "UCX_%s%s", prefix, name);
    return getenv(variable) != NULL;
}

/* Returns true if UCX accepts the name of a setting with the prefix of one
 * transport. UCX before 1.17 accepts only the prefix of a family, and applies
 * the value to all transports of the family. */
static bool has_prefixes(void)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    return (major > 1) || (minor >= 17);
}

/* Returns true if the environment sets the setting for this transport or its
 * family. If UCX does not distinguish the transports of a family, a setting for
 * any of them counts. */
static bool is_set(const transport_t *transport, const char *name)
{
    bool is_found = is_in_environment(transport->prefix, name) ||
                    is_in_environment(transport->family, name);

    for (size_t i = 0; (i < NUM_TRANSPORTS) && !has_prefixes(); i++) {
        is_found = is_found ||
                   ((strcmp(transports[i].family, transport->family) == 0) &&
                    is_in_environment(transports[i].prefix, name));
    }
    return is_found;
}

static void modify(ucp_config_t *config, const char *prefix, const char *name,
                   uint64_t value, const char *unit)
{
    char key[64];
    char text[32];

    snprintf(key, sizeof(key), "%s%s", prefix, name);
    snprintf(text, sizeof(text), "%" PRIu64 "%s", value, unit);
    (void)ucp_config_modify(config, key, text);
}

static void tune_transport(ucp_config_t *config, const transport_t *transport,
                           uint64_t time_ns)
{
    const char *prefix = has_prefixes() ? transport->prefix : transport->family;
    bool        is_rc  = strcmp(transport->family, RC) == 0;
    uint64_t    timeout_ns = time_ns / 2 / 4 * 3;

    if (is_rc) {
        timeout_ns = fabric_floor(time_ns / 2 / FABRIC_LOOSE / (RETRIES + 1));
    }
    if (!is_set(transport, "TIMEOUT")) {
        modify(config, prefix, "TIMEOUT", timeout_ns / US, "us");
    }
    if (is_rc && !is_set(transport, "RETRY_COUNT")) {
        modify(config, prefix, "RETRY_COUNT", RETRIES, "");
    }
}

/* Returns the text that UCX prints about a context with these settings, or
 * NULL. The text has lines such as
 * "#  resource 1  :  md 1  dev 1  flags -- rc_verbs/mlx5_0:1". */
static char *print_context(const ucp_config_t *config)
{
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features   = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP,
    };
    ucp_context_h context;
    base_string_t string;

    if (ucp_init(&params, config, &context) != UCS_OK) {
        return NULL;
    }
    if (base_string_open(&string) != NULL) {
        ucp_context_print_info(context, string.stream);
    }
    ucp_cleanup(context);
    return base_string_close_or_warn(&string);
}

/* Tune the transports that a context with these settings uses. */
static void tune_transports(ucp_config_t *config, uint64_t time_ns)
{
    char *printed = print_context(config);
    char  mark[32];

    for (size_t i = 0; (i < NUM_TRANSPORTS) && (printed != NULL); i++) {
        snprintf(mark, sizeof(mark), " %s/", transports[i].name);
        if (strstr(printed, mark) != NULL) {
            tune_transport(config, &transports[i], time_ns);
        }
    }
    free(printed);
}

/* Returns true if KEEPALIVE_INTERVAL, which UCX prints as "20000000.00us", has
 * UCX's default. */
static bool has_default_keepalive(const ucp_config_t *config)
{
    char *text = ucx_tune_read(config, "UCX_KEEPALIVE_INTERVAL");
    bool  is_default =
        (text != NULL) && (strtoul(text, NULL, 10) == DEFAULT_KEEPALIVE_US);

    free(text);
    return is_default;
}

void ucx_peer_timeout_tune(ucp_config_t *config, uint64_t time_ns,
                           bool has_rdma)
{
    if (time_ns == BASE_CLOCK_FOREVER) {
        return;
    }
    if (!is_in_environment("", "KEEPALIVE_INTERVAL") &&
        has_default_keepalive(config)) {
        modify(config, "", "KEEPALIVE_INTERVAL", time_ns / 4 / US, "us");
    }
    if (has_rdma) {
        tune_transports(config, time_ns);
    }
}

/* --- watching TCP connections --------------------------------------------- */

/* Number of checks within PEER_TIMEOUT. */
#define NUM_CHECKS 8u

/* A peer has failed if it was silent for half of PEER_TIMEOUT, and this many
 * tries followed the first unanswered one. */
#define MORE_TRIES 2u

typedef struct suspect {
    base_list_t link;
    int         fd;
    uint64_t    since;
    unsigned    num_tries; /* tries counted at the time `since` */
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

    base_list_find(suspect, &watch->suspects, suspect_t, link,
                   suspect->fd == fd);
    return suspect;
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

/* --- a single connection -------------------------------------------------- */

static unsigned num_tries_of(const struct tcp_info *info)
{
    return (unsigned)info->tcpi_retransmits + info->tcpi_probes;
}

/* Returns true if a retransmission or probe of an open connection has not been
 * acknowledged. tcpi_last_data_sent and tcpi_last_data_recv do not show this:
 * without a route, the kernel counts retransmissions but sends nothing. */
static bool is_unanswered(const struct tcp_info *info)
{
    bool is_open = (info->tcpi_state == TCP_ESTABLISHED) ||
                   (info->tcpi_state == TCP_CLOSE_WAIT);

    return is_open && (num_tries_of(info) != 0);
}

/* Returns true if the descriptor still refers to the suspected connection, and
 * the connection has received nothing since it became a suspect. */
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

    if (suspect != NULL) { /* if out of memory, the next check retries */
        *suspect = (suspect_t){.fd        = fd,
                               .since     = now,
                               .num_tries = num_tries_of(info),
                               .seen      = now};
        base_list_add_tail(&watch->suspects, &suspect->link);
    }
}

/* Judge a connection at the time `now`, from the kernel's description of it.
 * Returns true if its peer has failed. */
static bool judge_connection(ucx_tcp_watch_t *watch, int fd,
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

/* Free the suspects whose connection UCX has closed. */
static void remove_closed(ucx_tcp_watch_t *watch, uint64_t now)
{
    suspect_t *suspect;
    suspect_t *next;

    base_list_for_each_safe(suspect, next, &watch->suspects, suspect_t, link) {
        if (suspect->seen != now) {
            forget(suspect);
        }
    }
}

/* --- all UCX connections -------------------------------------------------- */

typedef struct check {
    ucx_tcp_watch_t *watch;
    uint64_t         now;
    unsigned         num_ended;
} check_t;

static void check_connection(int fd, void *arg)
{
    check_t        *check = arg;
    struct tcp_info info;
    socklen_t       size = sizeof(info);

    if ((getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) &&
        judge_connection(check->watch, fd, &info, check->now)) {
        base_info("%s: closed a UCX TCP connection, because the peer's host "
                  "does not answer",
                  check->watch->name);
        (void)shutdown(fd, SHUT_RDWR);
        check->num_ended++;
    }
}

/* Returns true if the watch is active. Without UCP_FEATURE_WAKEUP, the
 * connections cannot be found. */
static bool is_on(const ucx_tcp_watch_t *watch)
{
    return (watch->timeout_ns != BASE_CLOCK_FOREVER) && (watch->worker_fd >= 0);
}

unsigned ucx_tcp_watch_progress(ucx_tcp_watch_t *watch)
{
    check_t check = {.watch = watch};

    if (!is_on(watch)) {
        return 0;
    }
    check.now = base_clock_now();
    if (check.now < watch->next_check) {
        return 0;
    }
    watch->next_check = check.now + watch->timeout_ns / NUM_CHECKS;
    ucx_epoll_visit(watch->worker_fd, check_connection, &check);
    remove_closed(watch, check.now);
    return check.num_ended;
}

uint64_t ucx_tcp_watch_deadline(const ucx_tcp_watch_t *watch)
{
    return is_on(watch) ? watch->next_check : BASE_CLOCK_FOREVER;
}
