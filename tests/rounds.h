/*
 * How often a test that repeats something at random does so: as the caller
 * says, unless the environment has TEST_ROUNDS. Slow builds (under valgrind,
 * say) set that lower, and a long search sets it higher.
 */
#ifndef TESTS_ROUNDS_H
#define TESTS_ROUNDS_H

#include <stdlib.h>

static inline unsigned rounds(unsigned normal)
{
    const char *text = getenv("TEST_ROUNDS");

    return (text == NULL) ? normal : (unsigned)strtoul(text, NULL, 10);
}

#endif
