/*
 * A function that takes the place of another one, which the linker renames
 * (-Wl,--wrap=fstat):
 *
 *     REPLACE(int, fstat, int fd, struct stat *is)
 *     {
 *         return is_due() ? -1 : __real_fstat(fd, is);
 *     }
 */
#ifndef TESTS_REPLACE_H
#define TESTS_REPLACE_H

#define REPLACE(_type, _name, ...) \
    _type __real_##_name(__VA_ARGS__); \
    _type __wrap_##_name(__VA_ARGS__); \
    _type __wrap_##_name(__VA_ARGS__)

#endif
