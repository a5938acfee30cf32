/*
 * Memory domains of UCX, played: those that the context at hand has are hidden
 * behind a list of the test's, in what UCX prints, in what its lower layer
 * answers, and in the keys that it packs. The linker's --wrap puts these calls
 * in the way of the real ones: $(WRAP_DOMAINS) in a program's LDFLAGS.
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
    /* It refuses the n-th region that is packed (from 1), and all that follow,
     * in silence. 0: none. */
    unsigned refuses_from;
} domains_played_t;

/* From now on; keys are counted anew. num 0: UCX answers for itself. */
void domains_play(const domains_played_t *domains, unsigned num);

/* What fails, or comes in another form, of what the test plays. */
typedef enum domains_fault {
    DOMAINS_FAULT_NONE,
    DOMAINS_FAULT_LIST,      /* no list of components */
    DOMAINS_FAULT_COMPONENT, /* a component does not answer */
    DOMAINS_FAULT_CONFIG,    /* has no settings */
    DOMAINS_FAULT_OPEN,      /* a domain does not open */
    DOMAINS_FAULT_QUERY,     /* does not answer */
    DOMAINS_FAULT_RESOURCES, /* has no list of its transports */
    DOMAINS_FAULT_PRINT,     /* UCX prints the list in another form */
    DOMAINS_FAULT_HOLE,      /* or one with a hole */
    DOMAINS_FAULT_KEY,       /* or packs keys in another form */
    DOMAINS_FAULT_LAST
} domains_fault_t;

void domains_fail(domains_fault_t fault);

/* What was given and not yet taken back: lists, settings, open domains, keys.
 * Must be 0 in the end. */
int domains_num_live(void);

#endif
