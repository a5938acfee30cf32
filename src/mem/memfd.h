/*
 * Anonymous files that other processes may map. Memory is allocated before a
 * part of a file is used, and seals keep the file from shrinking. This header
 * also declares functions that reserve the address ranges at which files are
 * mapped, and functions that allocate parts of a file.
 *
 * The functions return 0 or an errno value, and their callers report errors.
 */
#ifndef MEM_MEMFD_H
#define MEM_MEMFD_H

#include <stdbool.h>
#include <stddef.h>

/* --- address ranges ------------------------------------------------------- */

/*
 * Reserve `size` bytes of addresses (a multiple of the page size), aligned to
 * `alignment` (a power of two). The caller maps memory there. Returns 0 or an
 * errno value.
 */
int mem_range_reserve(size_t size, size_t alignment, void **address_p);

/* Unmap and free a range. */
void mem_range_release(void *address, size_t size);

/* --- files ---------------------------------------------------------------- */

/*
 * Create a file of `size` bytes, without memory yet.
 *
 * name            Shown as /memfd:NAME in /proc.
 * huge_page_size  0: base pages. Otherwise size is a multiple of it.
 *
 * EFBIG  the file size limit (ulimit -f) is smaller
 */
int mem_memfd_create(const char *name, size_t size, size_t huge_page_size,
                     int *fd_p);

/*
 * Allocate memory for every page of a part of the file; the file grows if the
 * part is beyond its end. A lack of memory is returned as ENOSPC or ENOMEM
 * instead of causing a signal at the first access. After an error some of the
 * pages may have memory.
 *
 * EFBIG  the file size limit (ulimit -f) is smaller
 */
int mem_memfd_fill(int fd, size_t start, size_t size, size_t huge_page_size);

/* Free the memory of a part of the file. */
int mem_memfd_empty(int fd, size_t start, size_t size);

/*
 * Seal the file, so that its size and its seals can no longer change.
 *
 * is_private  Also seal against new writable mappings. Existing mappings stay
 *             writable. Kernels before 5.1 lack this seal and set only the
 *             others.
 */
int mem_memfd_seal(int fd, bool is_private);

/* Returns true if the file is sealed against new writable mappings. */
bool mem_memfd_is_private(int fd);

/*
 * Map a part of a writable mapping a second time, also writable. The new
 * mapping replaces the mapping at `target`, or is at any free address if
 * `target` is NULL.
 *
 * The seal against new writable mappings does not prevent this duplication,
 * because the access right comes from the mapping, not from the file. Some
 * kernels cannot duplicate mappings of some pages, and valgrind cannot
 * duplicate any mapping: try a duplication before setting the seal.
 */
int mem_memfd_duplicate(void *address, size_t size, void *target,
                        void **address_p);

/* Seal the file so that it can grow and be emptied, but not shrink. */
int mem_memfd_seal_shrink(int fd);

/*
 * Map a part of a file, which starts at a page boundary, at new addresses;
 * unmap it with mem_range_release(). Page tables are filled as pages are
 * touched, so a process is charged only for the pages that it touches. Huge
 * pages can be mapped with huge page table entries if the part also starts at a
 * huge page boundary and is at least one huge page long.
 *
 * huge_page_shift  log2 of the huge page size of the file; 0: base pages.
 */
int mem_memfd_map(int fd, size_t start, size_t size, unsigned huge_page_shift,
                  bool is_writable, void **address_p);

/* --- parts of a file ------------------------------------------------------ */

/*
 * Each allocation takes the first free part that is long enough, which keeps
 * the file short.
 *
 *     | taken | free  | taken | free | taken |
 *     0                                      end
 */

typedef struct mem_file_part {
    size_t offset;
    size_t size;
} mem_file_part_t;

/* A zeroed struct is an empty space. */
typedef struct mem_file_space {
    /* Sorted by offset. No two free parts are adjacent, and none is at the end
     * of the file. */
    mem_file_part_t *free_parts;
    size_t           num_free;
    size_t           max_free; /* capacity, > num_taken */
    size_t           num_taken;
    size_t           end; /* everything after it is free */
} mem_file_space_t;

/* Free the bookkeeping. All parts, including taken ones, become invalid. */
void mem_file_space_cleanup(mem_file_space_t *space);

/* Take a part. Returns false if there is no memory for the bookkeeping or if
 * the offset overflows. */
bool mem_file_space_take(mem_file_space_t *space, size_t size,
                         size_t *offset_p);

/* Free a taken part. Only the whole part can be freed. */
void mem_file_space_give(mem_file_space_t *space, size_t offset, size_t size);

#endif
