/*
 * What --help and --version print.
 */
#ifndef REPLAY_HELP_H
#define REPLAY_HELP_H

void help_print(void);
void help_print_version(void);

#endif
