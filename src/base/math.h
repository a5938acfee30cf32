/* Checked arithmetic for sizes that come from a user or a peer. */
#ifndef BASE_MATH_H
#define BASE_MATH_H

#include <stdbool.h>
#include <stddef.h>

/* Return false if the result overflows. *result_p must then not be used. */
#define base_add(_a, _b, _result_p) (!__builtin_add_overflow(_a, _b, _result_p))
#define base_mul(_a, _b, _result_p) (!__builtin_mul_overflow(_a, _b, _result_p))

/* Either argument may be evaluated twice. */
#define base_min(_a, _b) ((_a) < (_b) ? (_a) : (_b))
#define base_max(_a, _b) ((_a) > (_b) ? (_a) : (_b))

/* Round _n up to a multiple of _alignment, a power of two. The caller ensures
 * that the result fits. The mask has the type of _n, not the type of
 * _alignment. */
#define base_align_up(_n, _alignment) \
    (((_n) + ((_alignment)-1)) & ~((__typeof__((_n) + 0))(_alignment)-1))

/* The size of a cache line, in bytes. */
#define BASE_CACHE_LINE ((size_t)64)

#define base_container_of(_pointer, _type, _member) \
    ((_type *)((char *)(_pointer)-offsetof(_type, _member)))

static inline bool base_is_pow2(size_t n)
{
    return (n != 0) && ((n & (n - 1)) == 0);
}

#endif
