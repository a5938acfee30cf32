/*
 * A stand-in for libibverbs: registration alone. A test finds these functions
 * by dlsym() in the loaded library.
 *
 * It takes a range if the process can read it; the addresses of a GPU, which
 * nothing in a process can read, only with a module that knows them (peermem).
 * A program that gives back memory before it deregisters it, registers a range
 * twice in one domain, or deregisters what is not registered is ended.
 */
#ifndef VERBS_STAND_IN_STAND_IN_H
#define VERBS_STAND_IN_STAND_IN_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_mr;
struct ibv_pd;

typedef struct verbs_stand_in {
    /* The n-th registration from now on (from 1) fails with that errno; n is 0:
     * none does. `only_files`: registrations by a file are counted alone. */
    void (*refuse)(unsigned n, int error, int only_files);
    /* This memory region has windows: deregistering it fails, until NULL. */
    void (*bind)(const struct ibv_mr *mr);
    void (*set_peermem)(int has_peermem);
    /* Registrations that are there, of one domain, or of all (NULL). */
    unsigned (*live)(const struct ibv_pd *pd);
    /* The one that holds an address; NULL: none. */
    const struct ibv_mr *(*find)(const struct ibv_pd *pd, const void *address);
    /*
     * What was called since the last time, each call with the number of its
     * registration, from 0: "reg0" "optional0" "dmabuf0" "dereg0", and
     * "refused". The access flags of the last registration.
     */
    const char *(*journal)(void);
    int (*access)(void);
} verbs_stand_in_t;

/* The table's name in the library. */
#define VERBS_STAND_IN_SYMBOL "verbs_stand_in"

#ifdef __cplusplus
}
#endif

#endif
