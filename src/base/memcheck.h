/*
 * What memory checkers are told about memory that nobody may touch. Poisoning
 * is this process's view only: a peer that has mapped the same pages does not
 * see it.
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

/* Does anybody listen? It never changes while a process runs. */
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

/* From here on, touching [address, address + size) is an error. */
static inline void base_memcheck_poison(void *address, size_t size)
{
    base_memcheck_asan(poison, address, size);
    base_memcheck_valgrind(NOACCESS, address, size);
}

/*
 * From here on it is not. The bytes count as initialised: mapped pages always
 * hold something, and padding that is never written is sent with the rest.
 */
static inline void base_memcheck_unpoison(void *address, size_t size)
{
    base_memcheck_asan(unpoison, address, size);
    base_memcheck_valgrind(DEFINED, address, size);
}

#endif
