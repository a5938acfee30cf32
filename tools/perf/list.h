/*
 * The list of tests, sides, and the commands of the tables' rows.
 */
#ifndef PERF_LIST_H
#define PERF_LIST_H

void list_print(void);

#endif
