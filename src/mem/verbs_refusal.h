/*
 * A device that does not take a region: what it said, as ours, and what to
 * change.
 */
#ifndef MEM_VERBS_REFUSAL_H
#define MEM_VERBS_REFUSAL_H

#include "mem/reg_verbs.h"

typedef struct mem_verbs_refusal {
    const mem_regions_t *regions;
    unsigned             index;  /* of the region; those before it were taken */
    mem_verbs_way_t      way;    /* that was tried last */
    const char          *device; /* its name */
    int                  access;
    int                  error; /* errno */
    /* The driver said no, not the device: errno is not set. NULL: it did. */
    const char *driver_words;
    /* MEM_VERBS_PEER: why the memory does not go by a file. */
    const char *why_no_file;
} mem_verbs_refusal_t;

/* Record it as the thread's error. The status is that of mem_verbs_create(). */
ucxpool_status_t mem_verbs_refused(const mem_verbs_refusal_t *refusal);

#endif
