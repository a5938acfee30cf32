/*
 * Small work on text.
 */
#ifndef BASE_TEXT_H
#define BASE_TEXT_H

#include <stddef.h>

/*
 * Replace control characters by '?', in place. Text in errors and log lines
 * may come from a peer or the environment; it must neither break a line nor
 * speak to a terminal.
 */
void base_text_clean(char *text);

/*
 * How many letters must be changed, added, dropped or swapped with their
 * neighbour to turn one text into the other; case does not count. Texts longer
 * than BASE_TEXT_DISTANCE_MAX differ by SIZE_MAX from everything.
 */
#define BASE_TEXT_DISTANCE_MAX 63

size_t base_text_distance(const char *a, const char *b);

#endif
