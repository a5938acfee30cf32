/*
 * The file descriptors of this process.
 */
#ifndef TESTS_FDS_H
#define TESTS_FDS_H

#include <stdint.h>

/* Returns the number of open descriptors. */
unsigned fds_count(void);

/* Let this process open only descriptors below `num`, but at most as many as
 * the system allows. Returns the former limit. */
uint64_t fds_limit(uint64_t num);

#define FDS_ALL UINT64_MAX

#endif
