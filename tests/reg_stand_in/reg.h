/*
 * A stand-in for what limits registration: UCX's functions on memory handles,
 * with a limit in front of the real ones. It is loaded before UCX (LD_PRELOAD),
 * so that the tools run with it as they are, or linked to a test by --wrap.
 *
 * The variable REG_STAND_IN configures it, when the first call is made:
 *
 *     cuda=y,of=cuda,bytes=210m,first=2,once=y,shared=FILE,trace=FILE
 *
 * cuda    y: UCX says that it knows CUDA. A GPU's memory is then taken by the
 *         stand-in alone: over the ucx wire it must not go
 * of      the memory that the limits are for: cuda, host, any (any)
 * bytes   registered at one time, with k, m or g; more is refused
 * first   the call (from 1) from which on all are refused; 0: none (0)
 * once    y: only that call is
 * lying   y: what is refused is said to be registered, by a handle that covers
 *         nothing
 * shared  a file in which processes count their bytes together, as those do
 *         that use one GPU
 * trace   a file that gets a line when the process ends: "maps 3 refused 1
 *         peak 209715200 live 0 ns 12345", peak and live being of the memory
 *         that the limits are for
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

/* Configure it anew, and count anew; what is registered stays. */
void         reg_configure(const char *text);
reg_counts_t reg_counts(void);

#endif
