/*
 * Simulated memory domains of UCX. A list of the test replaces the domains of
 * the real context: in the text that UCX prints, in the answers of its lower
 * layer, and in the keys that it packs. The linker's --wrap redirects the
 * calls: $(WRAP_DOMAINS) in a program's LDFLAGS.
 */
#ifndef TESTS_DOMAINS_STAND_IN_H
#define TESTS_DOMAINS_STAND_IN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct domains_played {
    const char *name;
    const char *component;
    bool        is_network;
    bool        registers_host;
    bool        registers_gpu;
    bool        needs_keys;
    size_t      key_size;
    /* It silently fails for the n-th packed region (from 1) and all later ones.
     * 0: none. */
    unsigned refuses_from;
} domains_played_t;

/* From now on; restarts the count of keys. num 0: use UCX's own domains. */
void domains_play(const domains_played_t *domains, unsigned num);

/* Simulated functions that fail, or that return another format. */
typedef enum domains_fault {
    DOMAINS_FAULT_NONE,
    DOMAINS_FAULT_LIST,      /* no list of components */
    DOMAINS_FAULT_COMPONENT, /* a component query fails */
    DOMAINS_FAULT_CONFIG,    /* it has no settings */
    DOMAINS_FAULT_OPEN,      /* a domain does not open */
    DOMAINS_FAULT_QUERY,     /* its query fails */
    DOMAINS_FAULT_RESOURCES, /* it has no list of its transports */
    DOMAINS_FAULT_PRINT,     /* UCX prints the list in another format */
    DOMAINS_FAULT_HOLE,      /* or one with a gap */
    DOMAINS_FAULT_KEY,       /* or packs keys in another format */
    DOMAINS_FAULT_LAST
} domains_fault_t;

void domains_fail(domains_fault_t fault);

/* Simulated objects that were not released: lists, settings, open domains,
 * keys. Must be 0 at the end. */
int domains_num_live(void);

#endif
