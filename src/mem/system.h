/* Resources of the machine: available memory, page sizes, and RDMA devices. */
#ifndef MEM_SYSTEM_H
#define MEM_SYSTEM_H

#include <stdbool.h>
#include <stddef.h>

typedef struct mem_system {
    /* Bytes that can be allocated without swapping or an OOM kill: the minimum
     * of the machine's and the control groups' available memory. SIZE_MAX if
     * neither can be read. */
    size_t available;
    size_t page_size;
    /* Huge pages that the administrator set aside (hugetlb): their size, and
     * the number that no process uses or has reserved. Size 0: the machine has
     * none. */
    size_t huge_page_size;
    size_t huge_pages_free;
    /* Size of transparent huge pages; 0 if not supported. */
    size_t transparent_size;
} mem_system_t;

/* Query the resources. Never fails: values that cannot be read are set as
 * described above. */
void mem_system_query(mem_system_t *system);

/* Query transparent_size only. */
size_t mem_system_transparent_size(void);

/* Returns true if the machine has an RDMA device, which requires registered
 * memory. */
bool mem_has_rdma_device(void);

#endif
