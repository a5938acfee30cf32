/*
 * Which GPUs the buffers lie in: the sender's and the receiver's.
 *
 *     cuda       0 and 0: two processes share it
 *     cuda:1     1 and 1
 *     cuda:0,1   0 and 1
 */
#ifndef PERF_DEVICES_H
#define PERF_DEVICES_H

#include "perf/work.h"

#define DEVICES_TEXT_SIZE 24

/* Returns 0, or -1 (nothing said) when the text is none of these. */
int devices_parse(const char *text, int32_t devices[2]);

/* The same as text; "" for host memory. */
const char *devices_text(const work_t *work, char text[DEVICES_TEXT_SIZE]);

/* The same of whose buffers lie in pageable host memory: send, recv or both. */
int         devices_parse_pageable(const char *text, uint32_t *pageable_p);
const char *devices_pageable_text(uint32_t pageable);

/*
 * Is there a driver, and are there these GPUs? Looked up in a process of its
 * own, because one that has used a GPU cannot fork.
 *
 * Returns 0 or -1, the error said.
 */
int devices_check(const int32_t devices[2]);

#endif
