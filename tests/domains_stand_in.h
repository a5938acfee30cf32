/*
 * Simulated memory domains of UCX. A list of the test replaces the domains of
 * the real context in the text that UCX prints, in the results of its lower
 * layer, and in the keys that it packs. The linker's --wrap redirects the
 * calls: add $(WRAP_DOMAINS) to the program's LDFLAGS.
 */
#ifndef TESTS_DOMAINS_STAND_IN_H
#define TESTS_DOMAINS_STAND_IN_H

#include <stdbool.h>
#include <stddef.h>

typedef struct domains_played {
    const char *name;
    const char *component;
    bool        is_network;
    bool        registers_host;
    bool        registers_gpu;
    bool        needs_keys;
    size_t      key_size;
    /* The domain silently fails to register the n-th packed region (from 1) and
     * all later regions. 0: it never fails. */
    unsigned refuses_from;
} domains_played_t;

/* Use these domains from now on, and restart the count of keys. If num is 0,
 * use UCX's own domains. */
void domains_play(const domains_played_t *domains, unsigned num);

/* Simulated functions that fail, or that return another format. */
typedef enum domains_fault {
    DOMAINS_FAULT_NONE,
    DOMAINS_FAULT_LIST,      /* no list of components */
    DOMAINS_FAULT_COMPONENT, /* a component query fails */
    DOMAINS_FAULT_CONFIG,    /* a component has no settings */
    DOMAINS_FAULT_OPEN,      /* a domain does not open */
    DOMAINS_FAULT_QUERY,     /* a domain's query fails */
    DOMAINS_FAULT_RESOURCES, /* a domain has no list of its transports */
    DOMAINS_FAULT_PRINT,     /* UCX prints the list in another format */
    DOMAINS_FAULT_HOLE,      /* UCX prints a list with a gap */
    DOMAINS_FAULT_KEY,       /* UCX packs keys in another format */
    DOMAINS_FAULT_LAST
} domains_fault_t;

void domains_fail(domains_fault_t fault);

/* Returns the number of simulated objects that were not released: lists,
 * settings, open domains, and keys. It must be 0 at the end. */
int domains_num_live(void);

#endif
