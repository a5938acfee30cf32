/*
 * How often a test that repeats something at random does so: as the caller
 * says, unless the environment has TEST_ROUNDS. Slow builds (under valgrind,
 * say) set that lower, and a long search sets it higher.
 */
#ifndef TESTS_ROUNDS_H
#define TESTS_ROUNDS_H

#include "slow.h"

#include <stdbool.h>
#include <stdlib.h>

static inline unsigned rounds(unsigned normal)
{
    const char *text = getenv("TEST_ROUNDS");

    return (text == NULL) ? normal : (unsigned)strtoul(text, NULL, 10);
}

/*
 * What is tried at each of very many moments is tried at some of them where
 * that is slow, and in builds that are to do less than the first.
 */
static inline bool rounds_are_few(void)
{
    return slow_is() || (rounds(100) < 100);
}

#endif
