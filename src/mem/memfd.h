/*
 * Anonymous files that other processes may map: memory behind every page, and
 * sealed so that no page can go away again; the ranges of addresses that they
 * are mapped at; and which parts of one are taken.
 *
 * These are thin: each returns 0 or an errno, and its caller knows the words.
 */
#ifndef MEM_MEMFD_H
#define MEM_MEMFD_H

#include <stdbool.h>
#include <stddef.h>

/* --- ranges of addresses -------------------------------------------------- */

/*
 * Reserve `size` bytes of addresses (a multiple of the page) that start at a
 * multiple of `alignment` (a power of two), so that nobody else gets them, to
 * be filled with mappings. Returns 0 or an errno.
 */
int mem_range_reserve(size_t size, size_t alignment, void **address_p);

/* Give back a range with all that is mapped in it. */
void mem_range_release(void *address, size_t size);

/* --- files ---------------------------------------------------------------- */

/*
 * A file of `size` bytes, with no memory behind it yet.
 *
 * name            Shown as /memfd:NAME in /proc.
 * huge_page_size  0: base pages. Otherwise size is a multiple of it.
 *
 * EFBIG  the limit of the size of files (ulimit -f) is smaller
 */
int mem_memfd_create(const char *name, size_t size, size_t huge_page_size,
                     int *fd_p);

/*
 * Put memory behind every page of a part of the file, which grows where that
 * lies behind its end. What is missing shows here, as ENOSPC or ENOMEM, and not
 * as a signal at the first touch. After an error some pages have memory.
 *
 * EFBIG  the limit of the size of files (ulimit -f) is smaller
 */
int mem_memfd_fill(int fd, size_t start, size_t size, size_t huge_page_size);

/* Give the memory behind a part of the file back to the system. */
int mem_memfd_empty(int fd, size_t start, size_t size);

/*
 * Seal the file: its size stays, and so do its seals.
 *
 * is_private  Ask for a seal against new writable mappings too. Mappings that
 *             exist stay writable. Where the kernel has no such seal (before
 *             5.1), the others are set alone.
 */
int mem_memfd_seal(int fd, bool is_private);

/* The file is sealed against new writable mappings. */
bool mem_memfd_is_private(int fd);

/*
 * Map a part of a writable mapping a second time, writable too, at `target`
 * (which is replaced), or anywhere when that is NULL.
 *
 * The seal against new writable mappings has no effect on this: the right comes
 * from the mapping, not from the file. Not every kernel does it for every page
 * (nor does valgrind, for any), so that it is tried before the seal is set.
 */
int mem_memfd_duplicate(void *address, size_t size, void *target,
                        void **address_p);

/* The file can grow and be emptied, but never be cut short. */
int mem_memfd_seal_shrink(int fd);

/*
 * Map a file at addresses of its own; to be released by mem_range_release().
 * Its pages come into the page tables as they are touched, so that a process
 * that maps much and reads little is not charged for all. Large files start at
 * a multiple of the large pages that may be behind them, so that they can be
 * mapped as such.
 *
 * huge_page_shift  Of a file of huge pages; 0: base pages.
 */
int mem_memfd_map(int fd, size_t size, unsigned huge_page_shift,
                  bool is_writable, void **address_p);

/*
 * The same with a part of a file, which starts at a page; where it starts at a
 * large page too, and is as long, it can be mapped by large pages.
 */
int mem_memfd_map_part(int fd, size_t start, size_t size,
                       unsigned huge_page_shift, bool is_writable,
                       void **address_p);

/* --- parts of a file ------------------------------------------------------ */

/*
 * A part is taken where the first free one is
 * that is long enough, so that the file stays short.
 *
 *     | taken | free  | taken | free | taken |
 *     0                                      end
 */

typedef struct mem_file_part {
    size_t offset;
    size_t size;
} mem_file_part_t;

/* All zero: nothing is taken. */
typedef struct mem_file_space {
    mem_file_part_t *free_parts; /* by offset; none touches another, or end */
    size_t           num_free;
    size_t           max_free; /* that there is room for, > num_taken */
    size_t           num_taken;
    size_t           end; /* all behind it is free */
} mem_file_space_t;

/* With what was taken. */
void mem_file_space_cleanup(mem_file_space_t *space);

/* False: no memory for the bookkeeping, or no number for the offset. */
bool mem_file_space_take(mem_file_space_t *space, size_t size,
                         size_t *offset_p);

/* Give back a part that was taken as a whole. */
void mem_file_space_give(mem_file_space_t *space, size_t offset, size_t size);

#endif
