/*
 * A stand-in for the registration functions of libibverbs. A test finds the
 * functions below by dlsym() in the loaded library.
 *
 * A range can be registered if the process can read it. Addresses of GPU
 * memory, which a process cannot read, can be registered only if a kernel
 * module knows them (peermem). A program is aborted if it frees memory before
 * deregistering it, registers a range twice in one domain, or deregisters an
 * unregistered range.
 */
#ifndef VERBS_STAND_IN_STAND_IN_H
#define VERBS_STAND_IN_STAND_IN_H

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_mr;
struct ibv_pd;

typedef struct verbs_stand_in {
    /* The n-th registration from now (from 1) fails with this errno; 0: none
     * fails. `only_files`: only registrations of files count. */
    void (*refuse)(unsigned n, int error, int only_files);
    /* Deregistering this memory region fails because it has memory windows,
     * until this is called with NULL. */
    void (*bind)(const struct ibv_mr *mr);
    void (*set_peermem)(int has_peermem);
    /* Number of registrations, in one domain or in all (NULL). */
    unsigned (*live)(const struct ibv_pd *pd);
    /* The registration that contains an address; NULL: none. */
    const struct ibv_mr *(*find)(const struct ibv_pd *pd, const void *address);
    /*
     * Calls since the last query, each with the number of its registration,
     * from 0: "reg0" "optional0" "dmabuf0" "dereg0", and "refused". The access
     * flags of the last registration.
     */
    const char *(*journal)(void);
    int (*access)(void);
    /* Forget all registrations, the journal, and what the calls above have
     * set. */
    void (*reset)(void);
} verbs_stand_in_t;

/* Name of this table in the library. */
#define VERBS_STAND_IN_SYMBOL "verbs_stand_in"

#ifdef __cplusplus
}
#endif

#endif
