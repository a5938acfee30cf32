/*
 * Stitching of host memory. Files are sealed against new writable mappings, so
 * that a piece is doubled from the mapping that is there; where the kernel does
 * not do that there is no such seal, and the file is mapped again.
 */
#include <config.h>

#include "base/error.h"
#include "mem/host.h"
#include "mem/memfd.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Map one piece a second time at `target`, which is replaced. */
static int piece_map(const mem_region_t *region, const mem_piece_t *piece,
                     void *target)
{
    void *address;

    if (mem_memfd_is_private(region->fd)) {
        return mem_memfd_duplicate((char *)region->address + piece->offset,
                                   piece->length, target, &address);
    }
    address = mmap(target, piece->length, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_FIXED, region->fd, (off_t)piece->offset);
    return address == MAP_FAILED ? errno : 0;
}

static size_t pieces_size(const mem_regions_t *regions,
                          const mem_piece_t *pieces, size_t num_pieces)
{
    size_t size = 0;

    for (size_t i = 0; i < num_pieces; i++) {
        assert(pieces[i].region < regions->num_regions);
        assert(pieces[i].length != 0);
        assert(pieces[i].length <= regions->region_size);
        assert(pieces[i].offset <= regions->region_size - pieces[i].length);
        assert((pieces[i].offset | pieces[i].length) % regions->page_size == 0);
        size += pieces[i].length;
    }
    return size;
}

ucxpool_status_t mem_host_stitch(const mem_regions_t *regions,
                                 const mem_piece_t *pieces, size_t num_pieces,
                                 void **address_p)
{
    size_t size   = pieces_size(regions, pieces, num_pieces);
    size_t offset = 0;
    void  *address;
    int    error;

    error = mem_range_reserve(size, regions->page_size, &address);
    if (error != 0) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "reserving %zu bytes of addresses: %s", size,
                          strerror(error));
    }
    for (size_t i = 0; i < num_pieces; i++) {
        error = piece_map(&regions->regions[pieces[i].region], &pieces[i],
                          (char *)address + offset);
        if (error != 0) {
            goto err_release;
        }
        offset += pieces[i].length;
    }
    *address_p = address;
    return UCXPOOL_OK;

err_release:
    mem_range_release(address, size);
    return base_error(UCXPOOL_ERR_NO_MEMORY,
                      "mapping %zu pieces of regions side by side: %s; free "
                      "other buffers, or raise the sysctl vm.max_map_count",
                      num_pieces, strerror(error));
}
