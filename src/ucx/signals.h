/*
 * Signals that UCX takes for itself when it is loaded: SIGILL, SIGSEGV, SIGBUS
 * and SIGFPE to print a backtrace and end the process, and SIGHUP to print a
 * profile. Programs use these, too: a Java virtual machine's SIGSEGV is
 * everyday work.
 */
#ifndef UCX_SIGNALS_H
#define UCX_SIGNALS_H

/*
 * Put back what stood there before UCX, where UCX's handler still stands and
 * the environment does not ask for it (UCX_HANDLE_ERRORS, UCX_ERROR_SIGNALS;
 * UCX_DEBUG_SIGNO). Called when the library is loaded and when a pool is
 * created.
 */
void ucx_signals_give_back(void);

#endif
