/*
 * Where a listener is: "host:port" as text, and the addresses it stands for.
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

/* Bytes of the longest text "host:port", its final 0 included. */
#define BOOTSTRAP_WHERE_SIZE 272

/* Addresses of one name that are kept. */
#define BOOTSTRAP_WHERE_MAX_ADDRESSES 8

/* Bytes of "[address%scope]:port", the final 0 included. */
#define BOOTSTRAP_ADDRESS_NAME_SIZE 80

typedef enum bootstrap_where_use {
    BOOTSTRAP_WHERE_CONNECT, /* a host is needed, and a port other than 0 */
    BOOTSTRAP_WHERE_LISTEN   /* no host: all addresses; port 0: a free one */
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
    size_t              num_addresses; /* 1 at least */
    bootstrap_address_t addresses[BOOTSTRAP_WHERE_MAX_ADDRESSES];
} bootstrap_where_t;

/*
 * Read "host:port", "1.2.3.4:port", "[::1]:port" or ":port" (to listen) and
 * look the host up. May block for the name service: to be called without a
 * lock.
 *
 * To connect, the addresses stand in the order of the system. To listen, one
 * address is used: the first that works, IPv4 first; without a host, IPv6
 * first, because such a socket takes IPv4 as well.
 *
 * UCXPOOL_ERR_INVALID_PARAM  not of that form, or the host has no address
 * UCXPOOL_ERR_NO_MEMORY
 */
ucxpool_status_t bootstrap_where_resolve(const char           *text,
                                         bootstrap_where_use_t use,
                                         bootstrap_where_t    *where_p);

/* Whether only this machine can reach the address. */
bool bootstrap_address_is_loopback(const bootstrap_address_t *address);

/* Whether it stands for all addresses of the machine. */
bool bootstrap_address_is_any(const bootstrap_address_t *address);

/* The network device that has the address; false: none has. */
bool bootstrap_address_device(const bootstrap_address_t *address,
                              char                       name_p[IF_NAMESIZE]);

/* The address from which this machine would connect to one; false: there is no
 * way to it. Sends nothing. */
bool bootstrap_address_source(const bootstrap_address_t *address,
                              bootstrap_address_t       *source_p);

/* The port, in the host's byte order. */
uint16_t bootstrap_address_port(const bootstrap_address_t *address);

/* The address in numbers, for logs: "127.0.0.1:7000", "[::1]:7000". */
void bootstrap_address_format(const bootstrap_address_t *address,
                              char name_p[BOOTSTRAP_ADDRESS_NAME_SIZE]);

/* The same of a connected socket's own end; "" where it is not to be known. */
void bootstrap_address_format_own(int  fd,
                                  char name_p[BOOTSTRAP_ADDRESS_NAME_SIZE]);

/* Both ends of a connection, in numbers; "" before it stands. */
typedef struct bootstrap_ends {
    char local[BOOTSTRAP_ADDRESS_NAME_SIZE];
    char remote[BOOTSTRAP_ADDRESS_NAME_SIZE];
} bootstrap_ends_t;

#endif
