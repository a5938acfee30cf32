/*
 * slow_is() returns true under a sanitizer or valgrind, where the code is many
 * times slower. Times measured there say nothing about normal use.
 */
#ifndef TESTS_SLOW_H
#define TESTS_SLOW_H

#include <config.h>

#include <stdbool.h>

#ifdef HAVE_VALGRIND_MEMCHECK_H
#include <valgrind/valgrind.h>
#else
#define RUNNING_ON_VALGRIND 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW_SANITIZER true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SLOW_SANITIZER true
#endif
#endif
#ifndef SLOW_SANITIZER
#define SLOW_SANITIZER false
#endif

static inline bool slow_is(void)
{
    return SLOW_SANITIZER || (RUNNING_ON_VALGRIND != 0);
}

#endif
