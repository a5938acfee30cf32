#include <config.h>

#include "tools/shuffle/bar.h"
#include "tools/shuffle/stopwatch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BAR_WIDTH 40u

void bar_init(bar_t *bar, uint64_t total)
{
    bar->is_shown = isatty(STDERR_FILENO) != 0;
    bar->total    = total;
    bar->since    = stopwatch_now();
}

void bar_draw(const bar_t *bar, uint64_t bytes_read, uint64_t bytes_written)
{
    char     line[BAR_WIDTH + 1];
    uint64_t part = 1000;
    unsigned filled;
    double   seconds;

    if (!bar->is_shown) {
        return;
    }
    if (bar->total > 0) {
        part = (uint64_t)(500.0 * ((double)bytes_read + (double)bytes_written) /
                          (double)bar->total);
    }
    /* Newlines that were added are written, but were not read. */
    part    = part > 1000 ? 1000 : part;
    filled  = (unsigned)(part * BAR_WIDTH / 1000);
    seconds = (double)(stopwatch_now() - bar->since) / 1e9;
    memset(line, '.', BAR_WIDTH);
    memset(line, '#', filled);
    line[BAR_WIDTH] = '\0';
    fprintf(stderr, "\r[%s] %3u %%  %.1f s  %.0f MB/s ", line,
            (unsigned)(part / 10), seconds,
            seconds > 0 ? (double)bytes_written / seconds / 1e6 : 0.0);
    fflush(stderr);
}

void bar_clear(const bar_t *bar)
{
    if (bar->is_shown) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
    }
}
