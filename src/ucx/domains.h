/*
 * The memory domains of a UCX context: the parts of UCX that register memory,
 * such as one network card, in the context's own order. UCX tells their names
 * in print only; what each of them needs is asked of its lower layer (UCT),
 * which opens it a second time for a moment.
 */
#ifndef UCX_DOMAINS_H
#define UCX_DOMAINS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ucp_context;

/* UCX has a bit for each in 64. */
#define UCX_MAX_DOMAINS 64u

typedef struct ucx_domain {
    char name[64];      /* "mlx5_0", "tcp" */
    char component[32]; /* "ib", "tcp" */
    bool is_known;      /* UCX has told what follows */
    bool is_network;    /* carries bytes between hosts */
    bool registers;     /* takes memory of the kind that was asked about */
    bool needs_keys;    /* moves nothing that it has not registered */
} ucx_domain_t;

typedef struct ucx_domains {
    unsigned num; /* 0: this UCX does not tell */
    /* A bit for each one without which the `ucx` wire would fail: a network
     * that takes such memory and needs keys for it. */
    uint64_t     needed;
    ucx_domain_t domains[UCX_MAX_DOMAINS];
} ucx_domains_t;

/*
 * Never fails: what UCX does not tell is not known, and not needed.
 *
 * for_gpu  The question is for memory of a GPU; else for the host's.
 */
void ucx_domains_read(struct ucp_context *context, bool for_gpu,
                      ucx_domains_t *domains_p);

/* Room for what ucx_domains_format() writes. */
#define UCX_DOMAINS_TEXT 256

/* The names of a set, with commas; "none"; "..." where there are too many. */
void ucx_domains_format(const ucx_domains_t *domains, uint64_t set,
                        char text[UCX_DOMAINS_TEXT]);

#endif
