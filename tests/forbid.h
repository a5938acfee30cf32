/*
 * Simulates a system that does not allow a process to take descriptors of
 * another process, for example because of ptrace restrictions. The linker's
 * --wrap redirects the calls; WRAP_FORBID in the Makefile lists them.
 */
#ifndef TESTS_FORBID_H
#define TESTS_FORBID_H

#include <stdbool.h>

/* From now on, pidfd_getfd() fails with this errno (0: it works). If
 * is_proc_forbidden is true, /proc/PID/fd cannot be read. */
void forbid_taking(int getfd_error, bool is_proc_forbidden);

#endif
