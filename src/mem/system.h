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
    /* Pages reserved by the administrator (hugetlb): their size, and how many
     * are neither used nor reserved. Size 0: none on this machine. */
    size_t huge_page_size;
    size_t huge_pages_free;
    /* Size of transparent huge pages; 0 if not supported. */
    size_t transparent_size;
} mem_system_t;

/* Never fails: values that cannot be read are set as described above. */
void mem_system_query(mem_system_t *system);

/* Query transparent_size only. */
size_t mem_system_transparent_size(void);

/* Whether the machine has an RDMA device, which requires registered memory. */
bool mem_has_rdma_device(void);

#endif
