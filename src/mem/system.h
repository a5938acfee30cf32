/*
 * What this machine has: memory that can still be had, its page sizes, and RDMA
 * devices.
 */
#ifndef MEM_SYSTEM_H
#define MEM_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mem_system {
    /* Bytes that can be taken without swapping or being killed for it: the
     * least of what the machine and the process's control groups have left.
     * SIZE_MAX where neither can be read. */
    size_t available;
    size_t page_size;
    /* Pages that an administrator has set aside (hugetlb), and how many are
     * neither used nor promised. Size 0: none on this machine. */
    size_t huge_page_size;
    size_t huge_pages_free;
    /* Size of the pages that the kernel can make out of base pages by itself;
     * 0 where it cannot. */
    size_t transparent_size;
} mem_system_t;

/* Never fails: what cannot be read is as described above. */
void mem_system_query(mem_system_t *system);

/* The last of these alone. */
size_t mem_system_transparent_size(void);

/* Is there one: a device that memory is registered with before it sends? */
bool mem_has_rdma_device(void);

#endif
