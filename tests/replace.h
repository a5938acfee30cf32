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

/* The same for a function that fails while _fails(_call), and is called
 * otherwise. */
#define REPLACE_FAILING(_fails, _call, _type, _name, _failure, _parameters, \
                        _arguments) \
    _type __real_##_name _parameters; \
    _type __wrap_##_name _parameters; \
    _type __wrap_##_name _parameters \
    { \
        return _fails(_call) ? (_failure) : __real_##_name _arguments; \
    }

#endif
