/*
 * The pages that lie behind an address.
 */
#ifndef INFO_PAGE_H
#define INFO_PAGE_H

#include <stdint.h>

/* Bytes of the pages behind an address of this process, as the kernel tells in
 * /proc/self/smaps; 0 where it does not. */
uint64_t info_page_size(const void *address);

#endif
