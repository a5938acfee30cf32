/*
 * Marks memory as inaccessible for memory checkers. Only this process's view is
 * poisoned: a peer that maps the same pages is not affected.
 */
#ifndef BASE_MEMCHECK_H
#define BASE_MEMCHECK_H

#include <config.h>

#include <stdbool.h>
#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define BASE_MEMCHECK_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BASE_MEMCHECK_ASAN 1
#endif
#endif

#ifdef BASE_MEMCHECK_ASAN
#include <sanitizer/asan_interface.h>
#define base_memcheck_asan(_verb, _address, _size) \
    __asan_##_verb##_memory_region(_address, _size)
#else
#define base_memcheck_asan(_verb, _address, _size) ((void)0)
#endif

#ifdef HAVE_VALGRIND_MEMCHECK_H
#include <valgrind/memcheck.h>
#define base_memcheck_valgrind(_verb, _address, _size) \
    ((void)VALGRIND_MAKE_MEM_##_verb(_address, _size))
#else
#define base_memcheck_valgrind(_verb, _address, _size) ((void)0)
#endif

/* Returns true if a memory checker is active. The result is constant during a
 * process's lifetime. */
static inline bool base_memcheck_is_on(void)
{
#if defined(BASE_MEMCHECK_ASAN)
    return true;
#elif defined(HAVE_VALGRIND_MEMCHECK_H)
    return RUNNING_ON_VALGRIND != 0;
#else
    return false;
#endif
}

/* Make the memory checker report any access to [address, address + size). */
static inline void base_memcheck_poison(void *address, size_t size)
{
    base_memcheck_asan(poison, address, size);
    base_memcheck_valgrind(NOACCESS, address, size);
}

/* Make accesses valid again. The bytes are treated as initialized, because
 * mapped pages always have contents, and because the library also sends padding
 * that was never written. */
static inline void base_memcheck_unpoison(void *address, size_t size)
{
    base_memcheck_asan(unpoison, address, size);
    base_memcheck_valgrind(DEFINED, address, size);
}

#endif
