#include "ucx/peer_timeout.h"

#include "base/math.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define US  UINT64_C(1000)
#define MS  UINT64_C(1000000)
#define SEC UINT64_C(1000000000)

/* The InfiniBand specification counts a card's time-out as a power of two of
 * this, up to this power, and lets it take as many times longer. */
#define FABRIC_UNIT_NS UINT64_C(4096)
#define FABRIC_MAX     31
#define FABRIC_LOOSE   4u

/* 7 means "for ever" to some drivers, Soft-RoCE's among them. */
#define RETRIES 3u

/* The kernel's first wait for an acknowledgement, which doubles, and the
 * longest. */
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

/* What a card makes of a time-out: UCX takes the nearest power. */
static uint64_t fabric_time(uint64_t timeout_ns)
{
    uint64_t time = FABRIC_UNIT_NS * 2;

    for (int power = 1; power < FABRIC_MAX; power++) {
        /* Nearest by the logarithm: up to the root of two above it. */
        if (timeout_ns / 1000 * 707 <= time) {
            return time;
        }
        time *= 2;
    }
    return UCX_PEER_TIMEOUT_NEVER;
}

/* The longest one of a card within this time. */
static uint64_t fabric_floor(uint64_t time_ns)
{
    uint64_t time = FABRIC_UNIT_NS * 2;

    while (time * 2 <= time_ns) {
        time *= 2;
    }
    return time;
}

/* A quarter for the wait until the next probe, half for the answer to it, and a
 * quarter for UCX and for our own progress. */
ucx_peer_timeout_t ucx_peer_timeout_choose(ucx_peer_timeout_kind_t kind,
                                           uint64_t                time_ns)
{
    ucx_peer_timeout_t notice = {.keepalive_ns = time_ns / 4};

    switch (kind) {
    case UCX_PEER_TIMEOUT_RC:
        notice.count = RETRIES;
        notice.timeout_ns =
            fabric_floor(time_ns / 2 / FABRIC_LOOSE / (RETRIES + 1));
        break;
    case UCX_PEER_TIMEOUT_UD:
        notice.timeout_ns = time_ns / 2 / 4 * 3;
        break;
    case UCX_PEER_TIMEOUT_TCP:
        notice.timeout_ns = UCX_PEER_TIMEOUT_NEVER;
        break;
    }
    return notice;
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
                               const ucx_peer_timeout_t *notice,
                               uint64_t                  tcp_ns)
{
    switch (kind) {
    case UCX_PEER_TIMEOUT_RC:
        return multiply(fabric_time(notice->timeout_ns),
                        multiply(FABRIC_LOOSE, add(notice->count, 1)));
    case UCX_PEER_TIMEOUT_UD:
        return add(notice->timeout_ns,
                   (notice->timeout_ns == UCX_PEER_TIMEOUT_NEVER)
                       ? 0
                       : notice->timeout_ns / 3);
    default:
        return base_min(notice->timeout_ns, tcp_ns);
    }
}

uint64_t ucx_peer_timeout_idle(ucx_peer_timeout_kind_t   kind,
                               const ucx_peer_timeout_t *notice,
                               uint64_t                  tcp_ns)
{
    return add(notice->keepalive_ns,
               ucx_peer_timeout_busy(kind, notice, tcp_ns));
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

uint64_t *ucx_peer_timeout_value(ucx_peer_timeout_t               *notice,
                                 const ucx_peer_timeout_setting_t *setting)
{
    return (uint64_t *)((char *)notice + setting->offset);
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

/* A number with a fraction, which is cut, in any language's locale. */
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
