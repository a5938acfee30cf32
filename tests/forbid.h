/*
 * Simulates a system that lets no process take another's descriptors, as ptrace
 * restrictions do. The linker's --wrap redirects the calls; WRAP_FORBID in the
 * Makefile lists them.
 */
#ifndef TESTS_FORBID_H
#define TESTS_FORBID_H

#include <stdbool.h>

/* From now on pidfd_getfd() fails with this errno (0: it works), and
 * /proc/PID/fd is unreadable on request. */
void forbid_taking(int getfd_error, bool is_proc_forbidden);

#endif
