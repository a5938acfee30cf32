/*
 * The number of rounds of a randomized test: the caller's value, unless
 * TEST_ROUNDS is set in the environment. Slow builds (under valgrind, for
 * example) use fewer rounds, and a long search for errors uses more.
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
 * Returns true if a test that tries an event at many steps should try only some
 * of them: in slow builds, and in builds that run fewer rounds than the first
 * one.
 */
static inline bool rounds_are_few(void)
{
    return slow_is() || (rounds(100) < 100);
}

#endif
