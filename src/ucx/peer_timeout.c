#include <config.h>

#include "ucx/peer_timeout.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "ucx/child.h"
#include "ucx/status.h"
#include "ucx/tune.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <uct/api/uct.h>

/* --- settings and their times --------------------------------------------- */

/* --- the arithmetic ------------------------------------------------------- */

#define US  UINT64_C(1000)
#define MS  UINT64_C(1000000)
#define SEC UINT64_C(1000000000)

/* The InfiniBand specification encodes a timeout as an exponent n: the time is
 * FABRIC_UNIT_NS << n, and n is at most FABRIC_MAX. A card may take
 * FABRIC_LOOSE times as long. */
#define FABRIC_UNIT_NS UINT64_C(4096)
#define FABRIC_MAX     31
#define FABRIC_LOOSE   4u

/* The RETRY_COUNT that the pool sets. Some drivers, such as Soft-RoCE's, treat
 * 7 as infinite. */
#define RETRIES 3u

/* The kernel's first retransmission timeout, which doubles with each
 * retransmission, and the maximum. */
#define TCP_FIRST_NS (200 * MS)
#define TCP_LAST_NS  (120 * SEC)

const ucx_peer_timeout_transport_t
    ucx_peer_timeout_transports[UCX_PEER_TIMEOUT_NUM_TRANSPORTS] = {
        {"tcp", "TCP_", "", UCX_PEER_TIMEOUT_TCP},
        {"rc_verbs", "RC_VERBS_", "RC_", UCX_PEER_TIMEOUT_RC},
        {"rc_mlx5", "RC_MLX5_", "RC_", UCX_PEER_TIMEOUT_RC},
        {"dc_mlx5", "DC_MLX5_", "RC_", UCX_PEER_TIMEOUT_RC},
        {"ud_verbs", "UD_VERBS_", "UD_", UCX_PEER_TIMEOUT_UD},
        {"ud_mlx5", "UD_MLX5_", "UD_", UCX_PEER_TIMEOUT_UD},
};

static uint64_t add(uint64_t a, uint64_t b)
{
    return (a > UCX_PEER_TIMEOUT_NEVER - b) ? UCX_PEER_TIMEOUT_NEVER : a + b;
}

static uint64_t multiply(uint64_t a, uint64_t b)
{
    return ((b != 0) && (a > UCX_PEER_TIMEOUT_NEVER / b))
               ? UCX_PEER_TIMEOUT_NEVER
               : a * b;
}

/* Returns the timeout that a card uses: UCX rounds to the nearest power. */
static uint64_t fabric_time(uint64_t timeout_ns)
{
    uint64_t time = FABRIC_UNIT_NS * 2;

    for (int power = 1; power < FABRIC_MAX; power++) {
        /* The nearest power on a logarithmic scale: timeout_ns may exceed it by
         * a factor of up to the square root of two. */
        if (timeout_ns / 1000 * 707 <= time) {
            return time;
        }
        time *= 2;
    }
    return UCX_PEER_TIMEOUT_NEVER;
}

/* Returns the longest timeout of a card that is at most this time. */
static uint64_t fabric_floor(uint64_t time_ns)
{
    uint64_t time = FABRIC_UNIT_NS * 2;

    while (time * 2 <= time_ns) {
        time *= 2;
    }
    return time;
}

/* A quarter of time_ns may pass until the next probe, half until its answer,
 * and a quarter is for UCX and the pool's own progress. */
ucx_peer_timeout_t ucx_peer_timeout_choose(ucx_peer_timeout_kind_t kind,
                                           uint64_t                time_ns)
{
    ucx_peer_timeout_t timeout = {.keepalive_ns = time_ns / 4};

    switch (kind) {
    case UCX_PEER_TIMEOUT_RC:
        timeout.count = RETRIES;
        timeout.timeout_ns =
            fabric_floor(time_ns / 2 / FABRIC_LOOSE / (RETRIES + 1));
        break;
    case UCX_PEER_TIMEOUT_UD:
        timeout.timeout_ns = time_ns / 2 / 4 * 3;
        break;
    case UCX_PEER_TIMEOUT_TCP:
        timeout.timeout_ns = UCX_PEER_TIMEOUT_NEVER;
        break;
    }
    return timeout;
}

uint64_t ucx_peer_timeout_kernel(unsigned tcp_retries2)
{
    uint64_t wait  = TCP_FIRST_NS;
    uint64_t total = 0;

    for (unsigned i = 0; i <= base_min(tcp_retries2, 255u); i++) {
        total += wait;
        wait = base_min(wait * 2, TCP_LAST_NS);
    }
    return total;
}

uint64_t ucx_peer_timeout_busy(ucx_peer_timeout_kind_t   kind,
                               const ucx_peer_timeout_t *timeout,
                               uint64_t                  tcp_ns)
{
    switch (kind) {
    case UCX_PEER_TIMEOUT_RC:
        return multiply(fabric_time(timeout->timeout_ns),
                        multiply(FABRIC_LOOSE, add(timeout->count, 1)));
    case UCX_PEER_TIMEOUT_UD:
        return add(timeout->timeout_ns,
                   (timeout->timeout_ns == UCX_PEER_TIMEOUT_NEVER)
                       ? 0
                       : timeout->timeout_ns / 3);
    default:
        return base_min(timeout->timeout_ns, tcp_ns);
    }
}

uint64_t ucx_peer_timeout_idle(ucx_peer_timeout_kind_t   kind,
                               const ucx_peer_timeout_t *timeout,
                               uint64_t                  tcp_ns)
{
    return add(timeout->keepalive_ns,
               ucx_peer_timeout_busy(kind, timeout, tcp_ns));
}

unsigned ucx_peer_timeout_settings(
    ucx_peer_timeout_kind_t    kind,
    ucx_peer_timeout_setting_t settings[UCX_PEER_TIMEOUT_MAX_SETTINGS])
{
    unsigned num = 0;

    settings[num++] = (ucx_peer_timeout_setting_t){
        (kind == UCX_PEER_TIMEOUT_TCP) ? "USER_TIMEOUT" : "TIMEOUT",
        offsetof(ucx_peer_timeout_t, timeout_ns), true};
    if (kind == UCX_PEER_TIMEOUT_RC) {
        settings[num++] = (ucx_peer_timeout_setting_t){
            "RETRY_COUNT", offsetof(ucx_peer_timeout_t, count), false};
    }
    return num;
}

uint64_t *ucx_peer_timeout_value(ucx_peer_timeout_t               *timeout,
                                 const ucx_peer_timeout_setting_t *setting)
{
    return (uint64_t *)((char *)timeout + setting->offset);
}

void ucx_peer_timeout_format(uint64_t value, bool is_time,
                             char text[UCX_PEER_TIMEOUT_VALUE_SIZE])
{
    if (value == UCX_PEER_TIMEOUT_NEVER) {
        snprintf(text, UCX_PEER_TIMEOUT_VALUE_SIZE, "inf");
    } else if (!is_time) {
        snprintf(text, UCX_PEER_TIMEOUT_VALUE_SIZE, "%" PRIu64, value);
    } else if (value % SEC == 0) {
        snprintf(text, UCX_PEER_TIMEOUT_VALUE_SIZE, "%" PRIu64 "s",
                 value / SEC);
    } else if (value % MS == 0) {
        snprintf(text, UCX_PEER_TIMEOUT_VALUE_SIZE, "%" PRIu64 "ms",
                 value / MS);
    } else {
        snprintf(text, UCX_PEER_TIMEOUT_VALUE_SIZE, "%" PRIu64 "us",
                 value / US);
    }
}

/* Parse a number and truncate its fraction. The result does not depend on the
 * locale. */
bool ucx_peer_timeout_parse(const char *text, bool is_time, uint64_t *value_p)
{
    static const struct {
        const char *name;
        uint64_t    ns;
    } units[] = {{"us", US}, {"ms", MS}, {"s", SEC}, {"m", 60 * SEC}};
    char    *end;
    uint64_t number;

    if (strcmp(text, "inf") == 0) {
        *value_p = UCX_PEER_TIMEOUT_NEVER;
        return true;
    }
    if ((text[0] < '0') || (text[0] > '9')) {
        return false;
    }
    number = strtoull(text, &end, 10);
    if ((*end == '.') || (*end == ',')) {
        end += 1 + strspn(end + 1, "0123456789");
    }
    if (!is_time) {
        *value_p = number;
        return *end == '\0';
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(end, units[i].name) == 0) {
            *value_p = multiply(number, units[i].ns);
            return true;
        }
    }
    return false;
}

/* --- existing settings ---------------------------------------------------- */

#define KEEPALIVE "KEEPALIVE_INTERVAL"

/* UCX's default of KEEPALIVE_INTERVAL. */
#define DEFAULT_KEEPALIVE_NS UINT64_C(20000000000)

static bool is_in_environment(const char *prefix, const char *name)
{
    char variable[64];

    snprintf(variable, sizeof(variable), "UCX_%s%s", prefix, name);
    return getenv(variable) != NULL;
}

/* Returns true if a program may set values with the prefix of a transport. UCX
 * before 1.17 accepts only the prefix of a family, and applies the value to all
 * transports of the family. */
static bool has_prefixes(void)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    return (major > 1) || (minor >= 17);
}

static bool is_one_set(const ucx_peer_timeout_transport_t *transport,
                       const ucx_peer_timeout_setting_t   *setting)
{
    return is_in_environment(transport->prefix, setting->name) ||
           ((transport->family[0] != '\0') &&
            is_in_environment(transport->family, setting->name));
}

/* Returns true if the environment sets the setting for this transport or its
 * family. If UCX does not distinguish the transports of a family, a setting for
 * any of them counts.
 */
static bool is_set(const ucx_peer_timeout_transport_t *transport,
                   const ucx_peer_timeout_setting_t   *setting)
{
    bool found = is_one_set(transport, setting);

    for (unsigned i = 0;
         (i < UCX_PEER_TIMEOUT_NUM_TRANSPORTS) && !has_prefixes(); i++) {
        found = found ||
                ((ucx_peer_timeout_transports[i].kind == transport->kind) &&
                 is_one_set(&ucx_peer_timeout_transports[i], setting));
    }
    return found;
}

static uint64_t read_keepalive(const ucp_config_t *config)
{
    char    *text  = ucx_tune_read(config, "UCX_" KEEPALIVE);
    uint64_t value = UCX_PEER_TIMEOUT_NEVER;

    if ((text != NULL) && !ucx_peer_timeout_parse(text, true, &value)) {
        value = UCX_PEER_TIMEOUT_NEVER;
    }
    free(text);
    return value;
}

/* --- available transports ------------------------------------------------- */

static char *print_context(const ucp_config_t *config, ucs_status_t *status_p)
{
    const ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features   = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP,
    };
    ucp_context_h context;
    char         *text = NULL;
    size_t        size;
    FILE         *stream;

    *status_p = ucp_init(&params, config, &context);
    if (*status_p != UCS_OK) {
        return NULL;
    }
    stream = open_memstream(&text, &size);
    if (stream != NULL) {
        ucp_context_print_info(context, stream);
        if (fclose(stream) != 0) {
            free(text);
            text = NULL;
        }
    }
    if (text == NULL) {
        *status_p = UCS_ERR_NO_MEMORY;
    }
    ucp_cleanup(context);
    return text;
}

/* Returns true if the text has a line of the transport, such as
 * "#  resource 1  :  md 1  dev 1  flags -- tcp/lo". */
static bool has_transport(const char *printed, const char *name)
{
    char mark[32];

    snprintf(mark, sizeof(mark), " %s/", name);
    return strstr(printed, mark) != NULL;
}

/* --- settings of the pool's own contexts ---------------------------------- */

static void modify(ucp_config_t *config, const char *prefix, const char *name,
                   uint64_t value, bool is_time)
{
    char key[64];
    char text[UCX_PEER_TIMEOUT_VALUE_SIZE];

    snprintf(key, sizeof(key), "%s%s", prefix, name);
    ucx_peer_timeout_format(value, is_time, text);
    (void)ucp_config_modify(config, key, text);
}

static void tune_transport(ucp_config_t                       *config,
                           const ucx_peer_timeout_transport_t *transport,
                           uint64_t                            time_ns)
{
    ucx_peer_timeout_t timeout =
        ucx_peer_timeout_choose(transport->kind, time_ns);
    ucx_peer_timeout_setting_t settings[UCX_PEER_TIMEOUT_MAX_SETTINGS];
    unsigned num = ucx_peer_timeout_settings(transport->kind, settings);

    for (unsigned i = 0; i < num; i++) {
        if (!is_set(transport, &settings[i])) {
            modify(config,
                   has_prefixes() ? transport->prefix : transport->family,
                   settings[i].name,
                   *ucx_peer_timeout_value(&timeout, &settings[i]),
                   settings[i].is_time);
        }
    }
}

void ucx_peer_timeout_tune(ucp_config_t *config, uint64_t time_ns,
                           bool has_rdma)
{
    char        *printed = NULL;
    ucs_status_t status;

    if (time_ns == UCX_PEER_TIMEOUT_NEVER) {
        return;
    }
    if (has_rdma) {
        printed = print_context(config, &status);
    }
    if (read_keepalive(config) == DEFAULT_KEEPALIVE_NS) {
        modify(config, "", KEEPALIVE, time_ns / 4, true);
    }
    for (unsigned i = 0; i < UCX_PEER_TIMEOUT_NUM_TRANSPORTS; i++) {
        const ucx_peer_timeout_transport_t *transport =
            &ucx_peer_timeout_transports[i];

        if ((printed != NULL) && (transport->kind != UCX_PEER_TIMEOUT_TCP) &&
            has_transport(printed, transport->name)) {
            tune_transport(config, transport, time_ns);
        }
    }
    free(printed);
}

/* --- settings of a borrowed context --------------------------------------- */

unsigned ucx_peer_timeout_sysctl(const char *name, unsigned fallback)
{
    char     path[96];
    unsigned value = fallback;
    FILE    *file;

    snprintf(path, sizeof(path), "/proc/sys/net/ipv4/%s", name);
    file = fopen(path, "re");
    if (file != NULL) {
        if (fscanf(file, "%u", &value) != 1) {
            value = fallback;
        }
        fclose(file);
    }
    return value;
}

/* Get the value of a setting. UCX nests its tables of settings, differently for
 * each transport. */
static bool get_value(const uct_iface_config_t         *config,
                      const ucx_peer_timeout_setting_t *setting,
                      uint64_t                         *value_p)
{
    static const char *const tables[] = {"RC_RC_", "DC_RC_", "UD_", ""};
    char                     name[64];
    char                     text[64];

    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        snprintf(name, sizeof(name), "%s%s", tables[i], setting->name);
        if (uct_config_get((void *)(uintptr_t)config, name, text,
                           sizeof(text)) == UCS_OK) {
            return ucx_peer_timeout_parse(text, setting->is_time, value_p);
        }
    }
    return false;
}

static bool read_transport(uct_md_h                            md,
                           const ucx_peer_timeout_transport_t *transport,
                           ucx_peer_timeout_t                 *now_p)
{
    ucx_peer_timeout_setting_t settings[UCX_PEER_TIMEOUT_MAX_SETTINGS];
    unsigned num = ucx_peer_timeout_settings(transport->kind, settings);
    uct_iface_config_t *config;
    bool                is_known = true;

    if (uct_md_iface_config_read(md, transport->name, NULL, NULL, &config) !=
        UCS_OK) {
        return false;
    }
    if (transport->kind == UCX_PEER_TIMEOUT_TCP) {
        /* The value remains for "auto", and for a UCX before 1.22, which lacks
         * the setting. */
        now_p->timeout_ns = UCX_PEER_TIMEOUT_NEVER;
        (void)get_value(config, &settings[0], &now_p->timeout_ns);
        num = 0;
    }
    for (unsigned i = 0; (i < num) && is_known; i++) {
        is_known = get_value(config, &settings[i],
                             ucx_peer_timeout_value(now_p, &settings[i]));
    }
    uct_config_release(config);
    return is_known;
}

/* Fill in the values of the transports of one memory domain. */
static void read_domain(uct_component_h component, const char *name,
                        bool is_tcp, ucx_peer_timeout_facts_t *facts,
                        unsigned num)
{
    uct_md_config_t *config;
    uct_md_h         md;
    ucs_status_t     status;

    if (uct_md_config_read(component, NULL, NULL, &config) != UCS_OK) {
        return;
    }
    status = uct_md_open(component, name, config, &md);
    uct_config_release(config);
    if (status != UCS_OK) {
        return;
    }
    for (unsigned i = 0; i < num; i++) {
        if ((facts[i].transport->kind == UCX_PEER_TIMEOUT_TCP) == is_tcp) {
            facts[i].is_known =
                read_transport(md, facts[i].transport, &facts[i].now);
        }
    }
    uct_md_close(md);
}

static void read_component(uct_component_h           component,
                           ucx_peer_timeout_facts_t *facts, unsigned num)
{
    uct_component_attr_t attr = {
        .field_mask = UCT_COMPONENT_ATTR_FIELD_NAME |
                      UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};

    bool is_tcp;

    /* The library knows no transports of other components. */
    if ((uct_component_query(component, &attr) != UCS_OK) ||
        (attr.md_resource_count == 0) ||
        ((strcmp(attr.name, "tcp") != 0) && (strcmp(attr.name, "ib") != 0))) {
        return;
    }
    is_tcp = strcmp(attr.name, "tcp") == 0;
    attr.md_resources =
        calloc(attr.md_resource_count, sizeof(*attr.md_resources));
    attr.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    if ((attr.md_resources != NULL) &&
        (uct_component_query(component, &attr) == UCS_OK)) {
        /* All cards have the same settings. */
        read_domain(component, attr.md_resources[0].md_name, is_tcp, facts,
                    num);
    }
    free(attr.md_resources);
}

static void read_all(ucx_peer_timeout_facts_t *facts, unsigned num)
{
    uct_component_h *components;
    unsigned         num_components;

    if (uct_query_components(&components, &num_components) != UCS_OK) {
        return;
    }
    for (unsigned i = 0; i < num_components; i++) {
        read_component(components[i], facts, num);
    }
    uct_release_component_list(components);
}

static void add_text(char *text, size_t size, const char *prefix,
                     const char *name, uint64_t value, bool is_time)
{
    size_t length = strlen(text);
    char   number[UCX_PEER_TIMEOUT_VALUE_SIZE];

    ucx_peer_timeout_format(value, is_time, number);
    snprintf(text + length, size - length, "%sUCX_%s%s=%s",
             (length == 0) ? "" : " ", prefix, name, number);
}

static void choose_values(ucx_peer_timeout_facts_t *facts, uint64_t time_ns)
{
    const ucx_peer_timeout_transport_t *transport = facts->transport;
    ucx_peer_timeout_setting_t          settings[UCX_PEER_TIMEOUT_MAX_SETTINGS];
    unsigned num = ucx_peer_timeout_settings(transport->kind, settings);

    if (time_ns == UCX_PEER_TIMEOUT_NEVER) {
        facts->own = facts->now;
        return;
    }
    facts->own = ucx_peer_timeout_choose(transport->kind, time_ns);
    if (facts->now.keepalive_ns != DEFAULT_KEEPALIVE_NS) {
        facts->own.keepalive_ns = facts->now.keepalive_ns;
    } else {
        add_text(facts->settings, sizeof(facts->settings), "", KEEPALIVE,
                 facts->own.keepalive_ns, true);
    }
    for (unsigned i = 0; i < num; i++) {
        uint64_t *value = ucx_peer_timeout_value(&facts->own, &settings[i]);

        if ((transport->kind == UCX_PEER_TIMEOUT_TCP) ||
            is_set(transport, &settings[i])) {
            *value = *ucx_peer_timeout_value(&facts->now, &settings[i]);
        } else {
            add_text(facts->settings, sizeof(facts->settings),
                     transport->prefix, settings[i].name, *value,
                     settings[i].is_time);
        }
    }
}

ucxpool_status_t ucx_peer_timeout_query(
    uint64_t                 time_ns,
    ucx_peer_timeout_facts_t facts[UCX_PEER_TIMEOUT_NUM_TRANSPORTS],
    unsigned                *num_p)
{
    ucp_config_t *config;
    uint64_t      keepalive_ns;
    char         *printed;
    ucs_status_t  status;
    unsigned      num = 0;

    status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) {
        return base_error(ucx_status(status),
                          "UCX could not read its settings: %s",
                          ucs_status_string(status));
    }
    ucx_tune(config, false);
    keepalive_ns = read_keepalive(config);
    printed      = print_context(config, &status);
    ucp_config_release(config);
    if (printed == NULL) {
        return base_error(
            ucx_status(status),
            "UCX failed to start: %s (check UCX_TLS and UCX_NET_DEVICES)",
            ucs_status_string(status));
    }
    memset(facts, 0, UCX_PEER_TIMEOUT_NUM_TRANSPORTS * sizeof(*facts));
    for (unsigned i = 0; i < UCX_PEER_TIMEOUT_NUM_TRANSPORTS; i++) {
        if (has_transport(printed, ucx_peer_timeout_transports[i].name)) {
            facts[num].transport        = &ucx_peer_timeout_transports[i];
            facts[num].now.keepalive_ns = keepalive_ns;
            num++;
        }
    }
    free(printed);
    read_all(facts, num);
    for (unsigned i = 0; i < num; i++) {
        choose_values(&facts[i], time_ns);
    }
    *num_p = num;
    return UCXPOOL_OK;
}

/* --- watching TCP connections --------------------------------------------- */

#define MS UINT64_C(1000000)

/* Number of checks within PEER_TIMEOUT. */
#define NUM_CHECKS 8u

/* A peer has failed if this many more tries after the first one are unanswered,
 * over half of PEER_TIMEOUT. */
#define MORE_TRIES 2u

typedef struct suspect {
    base_list_t link;
    int         fd;
    uint64_t    since;
    unsigned    num_tries; /* at the time `since` */
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
               : timeout_ns / 2 + 2 * (timeout_ns / NUM_CHECKS);
}

/* --- a single connection -------------------------------------------------- */

static unsigned num_tries_of(const struct tcp_info *info)
{
    return (unsigned)info->tcpi_retransmits + info->tcpi_probes;
}

/* Returns true if a try is unacknowledged. The times of the last data sent and
 * received do not show this, because without a route the kernel counts its
 * tries but sends nothing. */
static bool is_unanswered(const struct tcp_info *info)
{
    bool is_open = (info->tcpi_state == TCP_ESTABLISHED) ||
                   (info->tcpi_state == TCP_CLOSE_WAIT);

    return is_open && (num_tries_of(info) != 0);
}

/* Returns true if this is still the same connection, and it has received
 * nothing since then. */
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

/* Forget suspects whose connection UCX has closed. */
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

/* --- all connections of UCX ----------------------------------------------- */

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
        ucx_tcp_watch_judge(check->watch, fd, &info, check->now)) {
        base_info("%s: closed a TCP connection of UCX, because the peer's host "
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
