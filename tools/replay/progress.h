/*
 * How far the work has come, in one line on the standard error, and only where
 * that is a terminal.
 */
#ifndef REPLAY_PROGRESS_H
#define REPLAY_PROGRESS_H

/* What is done now, in the place of what was said before. */
void progress_say(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

/* Take the line away, before something else is printed. */
void progress_clear(void);

#endif
