#include "bootstrap/address.h"

#include "base/error.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_PORT 65535u

/* The parsed text. */
typedef struct where_parts {
    char     host[BOOTSTRAP_WHERE_SIZE]; /* "" if the text has no host */
    uint16_t port;
} where_parts_t;

static ucxpool_status_t bad_form(const char *text, const char *hint)
{
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "\"%.80s\" is not a valid \"host:port\": %s", text, hint);
}

static bool parse_port(const char *digits, uint16_t *port_p)
{
    unsigned port = 0;

    if (*digits == '\0') {
        return false;
    }
    for (; *digits != '\0'; digits++) {
        if ((*digits < '0') || (*digits > '9')) {
            return false;
        }
        port = (port * 10) + (unsigned)(*digits - '0');
        if (port > MAX_PORT) {
            return false;
        }
    }
    *port_p = (uint16_t)port;
    return true;
}

static ucxpool_status_t split(const char *text, where_parts_t *parts_p)
{
    const char *host  = text;
    const char *colon = strrchr(text, ':');
    size_t      length;

    if (strlen(text) >= BOOTSTRAP_WHERE_SIZE) {
        return bad_form(text, "it is too long");
    }
    if (colon == NULL) {
        return bad_form(text, "the port is missing; write host:7000");
    }
    if (!parse_port(colon + 1, &parts_p->port)) {
        return bad_form(text, "the port must be a number from 0 to 65535");
    }

    length = (size_t)(colon - text);
    if (*text == '[') {
        if ((length < 3) || (colon[-1] != ']')) {
            return bad_form(text, "write an IPv6 address as [::1]:7000");
        }
        host++;
        length -= 2;
    } else if (memchr(text, ':', length) != NULL) {
        return bad_form(text, "put an IPv6 address in brackets, [::1]:7000");
    }
    memcpy(parts_p->host, host, length);
    parts_p->host[length] = '\0';
    return UCXPOOL_OK;
}

static ucxpool_status_t check_use(const char *text, const where_parts_t *parts,
                                  bootstrap_where_use_t use)
{
    if (use == BOOTSTRAP_WHERE_LISTEN) {
        return UCXPOOL_OK;
    }
    if (parts->host[0] == '\0') {
        return bad_form(text, "a host is needed to connect");
    }
    if (parts->port == 0) {
        return bad_form(text, "the port must not be 0 to connect");
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t look_up(const char *text, const where_parts_t *parts,
                                struct addrinfo **list_p)
{
    const char           *host  = parts->host[0] != '\0' ? parts->host : NULL;
    const struct addrinfo hints = {
        .ai_family   = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags    = AI_NUMERICSERV | (host == NULL ? AI_PASSIVE : 0),
    };
    char port[8];
    int  error;

    snprintf(port, sizeof(port), "%u", (unsigned)parts->port);
    error = getaddrinfo(host, port, &hints, list_p);
    if (error == 0) {
        return UCXPOOL_OK;
    }
    if (error == EAI_SYSTEM) {
        return base_error_errno(errno, "cannot look up the host of \"%s\"",
                                text);
    }
    return base_error(error == EAI_MEMORY ? UCXPOOL_ERR_NO_MEMORY
                                          : UCXPOOL_ERR_INVALID_PARAM,
                      "cannot resolve the host of \"%s\": %s; use a host name "
                      "that this machine can resolve, or an address",
                      text, gai_strerror(error));
}

static void keep_family(const struct addrinfo *list, int family,
                        bootstrap_where_t *where_p)
{
    const struct addrinfo *info;
    bootstrap_address_t   *address;

    for (info = list; info != NULL; info = info->ai_next) {
        if ((where_p->num_addresses == BOOTSTRAP_WHERE_MAX_ADDRESSES) ||
            ((family != AF_UNSPEC) && (info->ai_family != family)) ||
            ((info->ai_family != AF_INET) && (info->ai_family != AF_INET6))) {
            continue;
        }
        address = &where_p->addresses[where_p->num_addresses++];
        memcpy(&address->any, info->ai_addr, info->ai_addrlen);
        address->length = info->ai_addrlen;
    }
}

ucxpool_status_t bootstrap_where_resolve(const char           *text,
                                         bootstrap_where_use_t use,
                                         bootstrap_where_t    *where_p)
{
    struct addrinfo *list;
    where_parts_t    parts;
    ucxpool_status_t status = split(text, &parts);

    if (status != UCXPOOL_OK) {
        return status;
    }
    status = check_use(text, &parts, use);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = look_up(text, &parts, &list);
    if (status != UCXPOOL_OK) {
        return status;
    }

    memset(where_p, 0, sizeof(*where_p));
    memcpy(where_p->text, text, strlen(text) + 1);
    if (use == BOOTSTRAP_WHERE_CONNECT) {
        keep_family(list, AF_UNSPEC, where_p);
    } else if (parts.host[0] == '\0') {
        keep_family(list, AF_INET6, where_p);
        keep_family(list, AF_INET, where_p);
    } else {
        keep_family(list, AF_INET, where_p);
        keep_family(list, AF_INET6, where_p);
    }
    freeaddrinfo(list);
    if (where_p->num_addresses == 0) {
        return bad_form(text, "the host has no IPv4 or IPv6 address");
    }
    return UCXPOOL_OK;
}

/* Get the IPv4 address of an IPv4 or IPv4-mapped IPv6 address (::ffff:a.b.c.d),
 * in the host's byte order. Returns false for other IPv6 addresses. */
static bool as_ipv4(const bootstrap_address_t *address, uint32_t *ipv4_p)
{
    uint32_t ipv4;

    if (address->any.sa_family == AF_INET) {
        ipv4 = address->ipv4.sin_addr.s_addr;
    } else if (IN6_IS_ADDR_V4MAPPED(&address->ipv6.sin6_addr)) {
        memcpy(&ipv4, &address->ipv6.sin6_addr.s6_addr[12], sizeof(ipv4));
    } else {
        return false;
    }
    *ipv4_p = ntohl(ipv4);
    return true;
}

bool bootstrap_address_is_loopback(const bootstrap_address_t *address)
{
    uint32_t ipv4;

    if (as_ipv4(address, &ipv4)) {
        return (ipv4 >> 24) == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&address->ipv6.sin6_addr);
}

/* Returns true if the addresses are equal, whatever their ports. */
static bool is_same_host(const bootstrap_address_t *a,
                         const bootstrap_address_t *b)
{
    uint32_t ipv4_a;
    uint32_t ipv4_b;
    bool     is_ipv4 = as_ipv4(a, &ipv4_a);

    if (is_ipv4 != as_ipv4(b, &ipv4_b)) {
        return false;
    }
    return is_ipv4 ? (ipv4_a == ipv4_b)
                   : IN6_ARE_ADDR_EQUAL(&a->ipv6.sin6_addr, &b->ipv6.sin6_addr);
}

static bool is_address_of(const struct ifaddrs      *device,
                          const bootstrap_address_t *address)
{
    bootstrap_address_t own = {.length = 0};
    sa_family_t         family;

    if (device->ifa_addr == NULL) {
        return false;
    }
    family = device->ifa_addr->sa_family;
    if ((family != AF_INET) && (family != AF_INET6)) {
        return false;
    }
    own.length = (family == AF_INET) ? sizeof(own.ipv4) : sizeof(own.ipv6);
    memcpy(&own.any, device->ifa_addr, own.length);
    return is_same_host(&own, address);
}

bool bootstrap_address_device(const bootstrap_address_t *address,
                              char                       name_p[IF_NAMESIZE])
{
    struct ifaddrs *all;
    bool            found = false;

    if (getifaddrs(&all) != 0) {
        return false;
    }
    for (const struct ifaddrs *one = all; (one != NULL) && !found;
         one                       = one->ifa_next) {
        found = is_address_of(one, address);
        if (found) {
            snprintf(name_p, IF_NAMESIZE, "%s", one->ifa_name);
            /* Strip the alias label: "eth0:1" becomes "eth0". */
            name_p[strcspn(name_p, ":")] = '\0';
        }
    }
    freeifaddrs(all);
    return found;
}

bool bootstrap_address_source(const bootstrap_address_t *address,
                              bootstrap_address_t       *source_p)
{
    int  fd = socket(address->any.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_known;

    if (fd < 0) {
        return false;
    }
    source_p->length = sizeof(source_p->ipv6);
    is_known         = (connect(fd, &address->any, address->length) == 0) &&
               (getsockname(fd, &source_p->any, &source_p->length) == 0);
    close(fd);
    return is_known;
}

uint16_t bootstrap_address_port(const bootstrap_address_t *address)
{
    return ntohs(address->any.sa_family == AF_INET ? address->ipv4.sin_port
                                                   : address->ipv6.sin6_port);
}

void bootstrap_address_format(const bootstrap_address_t *address,
                              char name_p[BOOTSTRAP_ADDRESS_NAME_SIZE])
{
    unsigned port                   = bootstrap_address_port(address);
    char     host[INET6_ADDRSTRLEN] = "?";
    uint32_t ipv4;

    if (as_ipv4(address, &ipv4)) {
        snprintf(name_p, BOOTSTRAP_ADDRESS_NAME_SIZE, "%u.%u.%u.%u:%u",
                 ipv4 >> 24, (ipv4 >> 16) & 255, (ipv4 >> 8) & 255, ipv4 & 255,
                 port);
        return;
    }
    (void)inet_ntop(AF_INET6, &address->ipv6.sin6_addr, host, sizeof(host));
    snprintf(name_p, BOOTSTRAP_ADDRESS_NAME_SIZE, "[%s]:%u", host, port);
}

void bootstrap_address_format_own(int  fd,
                                  char name_p[BOOTSTRAP_ADDRESS_NAME_SIZE])
{
    bootstrap_address_t own = {.length = sizeof(own.ipv6)};

    name_p[0] = '\0';
    if (getsockname(fd, &own.any, &own.length) == 0) {
        bootstrap_address_format(&own, name_p);
    }
}
