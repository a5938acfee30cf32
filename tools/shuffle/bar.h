/*
 * The progress bar: on standard error, and only when that is a terminal.
 */
#ifndef SHUFFLE_BAR_H
#define SHUFFLE_BAR_H

#include <stdbool.h>
#include <stdint.h>

typedef struct bar {
    bool     is_shown;
    uint64_t total; /* bytes to be read, and to be written again */
    uint64_t since;
} bar_t;

void bar_init(bar_t *bar, uint64_t total);
void bar_draw(const bar_t *bar, uint64_t bytes_read, uint64_t bytes_written);
/* Take it away again. */
void bar_clear(const bar_t *bar);

#endif
