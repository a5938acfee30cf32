/*
 * C++ exceptions, thrown from C: by functions that throw them, in libraries
 * that a C++ program has loaded. Nothing here links with C++.
 *
 * What calls these is compiled with -fexceptions, so that they pass.
 */
#ifndef FRAMEWORK_THROW_H
#define FRAMEWORK_THROW_H

#include <ucxpool/status.h>

/* std::bad_alloc. Returns where there is no C++ library. */
void framework_throw(void);

/* PyTorch's own error, with the calling thread's detail in it, so that Python
 * sees a RuntimeError; where there is no PyTorch, as framework_throw(). */
void framework_throw_torch(ucxpool_status_t status);

#endif
