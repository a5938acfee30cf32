/*
 * A picture of memory over time.
 */
#ifndef REPLAY_PICTURE_H
#define REPLAY_PICTURE_H

#include "replay/report.h"

/* Is gnuplot there? 0, or -1 after having said what to do. */
int picture_check(void);

/* Draw to a stream, as SVG, or as PNG where the path of its file ends so. 0, or
 * -1 after having said why not. */
int picture_draw(const report_t *report, const char *path, FILE *stream);

#endif
