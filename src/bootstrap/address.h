/*
 * The address of a listener: the text "host:port", and the socket addresses
 * that it resolves to.
 */
#ifndef BOOTSTRAP_ADDRESS_H
#define BOOTSTRAP_ADDRESS_H

#include <ucxpool/status.h>

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Size of the longest text "host:port", including the terminating NUL. */
#define BOOTSTRAP_WHERE_SIZE 272

/* The maximum number of addresses of one name; more are ignored. */
#define BOOTSTRAP_WHERE_MAX_ADDRESSES 8

/* Size of "[address%scope]:port", including the terminating NUL. */
#define BOOTSTRAP_ADDRESS_NAME_SIZE 80

typedef enum bootstrap_where_use {
    BOOTSTRAP_WHERE_CONNECT, /* needs a host, and a port other than 0 */
    BOOTSTRAP_WHERE_LISTEN   /* no host: all addresses; port 0: any free port */
} bootstrap_where_use_t;

typedef struct bootstrap_address {
    union {
        struct sockaddr     any;
        struct sockaddr_in  ipv4;
        struct sockaddr_in6 ipv6;
    };
    socklen_t length;
} bootstrap_address_t;

typedef struct bootstrap_where {
    char                text[BOOTSTRAP_WHERE_SIZE];
    size_t              num_addresses; /* at least 1 */
    bootstrap_address_t addresses[BOOTSTRAP_WHERE_MAX_ADDRESSES];
} bootstrap_where_t;

/*
 * Parse "host:port", "1.2.3.4:port", "[::1]:port" or ":port" (to listen), and
 * resolve the host. May block on the name service: call it without a lock.
 *
 * For connecting, the addresses are in the order that the system returns. For
 * listening, IPv4 addresses come first; the listener uses only the first
 * address that works. If the text has no host, the IPv6 address comes first
 * instead, because an IPv6 socket also accepts IPv4.
 *
 * UCXPOOL_ERR_INVALID_PARAM  wrong syntax, or the host has no address
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t bootstrap_where_resolve(const char           *text,
                                         bootstrap_where_use_t use,
                                         bootstrap_where_t    *where_p);

/* Returns true if only this machine can reach the address. */
bool bootstrap_address_is_loopback(const bootstrap_address_t *address);

/* Find the network device that has the address. Returns false if no device has
 * it. */
bool bootstrap_address_device(const bootstrap_address_t *address,
                              char                       name_p[IF_NAMESIZE]);

/* Get the local address that a connection to `address` would have. Returns
 * false if there is no route to `address`. Sends nothing. */
bool bootstrap_address_source(const bootstrap_address_t *address,
                              bootstrap_address_t       *source_p);

/* Returns the port, in the host's byte order. */
uint16_t bootstrap_address_port(const bootstrap_address_t *address);

/* Format the numeric address for logs: "127.0.0.1:7000", "[::1]:7000". */
void bootstrap_address_format(const bootstrap_address_t *address,
                              char name_p[BOOTSTRAP_ADDRESS_NAME_SIZE]);

/* Format the numeric local address of a connected socket. Writes "" if it is
 * unknown. */
void bootstrap_address_format_own(int  fd,
                                  char name_p[BOOTSTRAP_ADDRESS_NAME_SIZE]);

/* The numeric addresses of both ends of a connection; "" before it is
 * established. */
typedef struct bootstrap_ends {
    char local[BOOTSTRAP_ADDRESS_NAME_SIZE];
    char remote[BOOTSTRAP_ADDRESS_NAME_SIZE];
} bootstrap_ends_t;

#endif
