/*
 * A system that lets no process take another's descriptors, as the rules on
 * debugging may have it. The linker's --wrap puts these in the way of the real
 * calls; the Makefile's WRAP_FORBID names them all.
 */
#ifndef TESTS_FORBID_H
#define TESTS_FORBID_H

#include <stdbool.h>

/* From now on pidfd_getfd() fails with this errno (0: it does not), and
 * /proc/PID/fd cannot be read, if it is not to be. */
void forbid_taking(int getfd_error, bool is_proc_forbidden);

#endif
