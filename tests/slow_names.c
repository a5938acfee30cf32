/*
 * To be loaded before libc (LD_PRELOAD). The lookup of the name "waits.test"
 * blocks until the FIFO $SLOW_NAMES has been written to, like a slow name
 * server.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int (*getaddrinfo_t)(const char *node, const char *service,
                             const struct addrinfo *hints,
                             struct addrinfo      **list_p);

__attribute__((visibility("default"))) int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
            struct addrinfo **list_p)
{
    getaddrinfo_t next = (getaddrinfo_t)dlsym(RTLD_NEXT, "getaddrinfo");

    if ((node != NULL) && (strcmp(node, "waits.test") == 0)) {
        char byte;
        int  fd = open(getenv("SLOW_NAMES"), O_RDONLY);

        while (read(fd, &byte, 1) > 0) {
        }
        close(fd);
        node = "127.0.0.1";
    }
    return next(node, service, hints, list_p);
}
