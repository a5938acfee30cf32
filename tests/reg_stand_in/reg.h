/*
 * A stand-in for limits of memory registration: UCX's functions on memory
 * handles, with a limit in front of the real ones. It is loaded before UCX
 * (LD_PRELOAD), so that the tools need not be changed, or linked to a test by
 * --wrap.
 *
 * The variable REG_STAND_IN configures it when the first call is made:
 *
 *     cuda=y,of=cuda,bytes=210m,first=2,once=y,shared=FILE,trace=FILE
 *
 * cuda    y: UCX reports support for CUDA. Only the stand-in then registers GPU
 *         memory, so it must not be sent over the ucx wire.
 * of      memory to which the limits apply: cuda, host, any (any)
 * bytes   maximum registered at one time, with k, m or g
 * first   the first call (from 1) to fail, with all later ones; 0: none (0)
 * once    y: only that call fails
 * lying   y: refused registrations succeed, with a handle that covers nothing
 * shared  a file in which processes add up their bytes, like processes on one
 *         GPU
 * trace   a file that gets a line when the process ends: "maps 3 refused 1
 *         peak 209715200 live 0 ns 12345". peak and live count the memory to
 *         which the limits apply.
 */
#ifndef REG_STAND_IN_REG_H
#define REG_STAND_IN_REG_H

#include <stdint.h>

typedef struct reg_counts {
    uint64_t num_maps;    /* calls */
    uint64_t num_refused; /* of these */
    uint64_t peak;        /* most bytes registered at one time */
    uint64_t live;        /* bytes registered now */
    uint64_t ns;          /* time in the calls */
} reg_counts_t;

/* Change the configuration, and reset the counts. Registered memory stays
 * registered. */
void         reg_configure(const char *text);
reg_counts_t reg_counts(void);

#endif
