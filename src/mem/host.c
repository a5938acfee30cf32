/*
 * Regions of host memory: one memory file per region.
 *
 * A region's file is sealed. Its size cannot change, so a peer can map and read
 * it without the risk of SIGBUS. Another seal prevents other processes from
 * mapping it for writing. This seal is not set if it would prevent stitching:
 * see piece_map().
 */
#include <config.h>

#include "base/config.h"
#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "mem/memfd.h"
#include "mem/region.h"
#include "mem/system.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- stitching ------------------------------------------------------------ */

/*
 * Files are sealed against new writable mappings, so a piece is stitched by
 * duplicating its existing mapping. If the kernel cannot duplicate it, this
 * seal is not set, and the file is mapped again.
 */

/* Map a piece a second time at `target`, which replaces the mapping there. */
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

static ucxpool_status_t host_stitch(const mem_regions_t *regions,
                                    const mem_piece_t   *pieces,
                                    size_t num_pieces, void **address_p)
{
    size_t size   = mem_pieces_size(regions, pieces, num_pieces);
    size_t offset = 0;
    void  *address;
    int    error = mem_range_reserve(size, regions->page_size, &address);

    if (error != 0) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "cannot reserve %zu bytes of addresses: %s; raise "
                          "the limit of address space (ulimit -v)",
                          size, strerror(error));
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
                      "cannot map %zu pieces of regions contiguously: %s; free "
                      "other buffers or raise the sysctl vm.max_map_count",
                      num_pieces, strerror(error));
}

/* --- regions -------------------------------------------------------------- */

/* Since Linux 6.1; the C library's headers may be older. */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Determined once for all regions of a set. */
typedef struct host_plan {
    size_t page_size;        /* of the machine's base pages */
    size_t available;        /* available bytes of the requested page size */
    size_t huge_page_size;   /* 0: base pages */
    bool   is_transparent;   /* the kernel may use transparent huge pages */
    size_t transparent_size; /* 0: do not collapse pages now */
    bool   is_private;       /* seal against new writable mappings */
} host_plan_t;

/* Report why a region could not be created, and what to change. */
static ucxpool_status_t region_error(const mem_regions_t *regions,
                                     const host_plan_t *plan, unsigned index,
                                     const char *what, int error)
{
    switch (error) {
    case ENOMEM:
    case ENOSPC:
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "%s for region %u of %u: %s; %zu bytes are requested "
                          "in total, %zu are available: lower "
                          "UCXPOOL_COMM_SIZE",
                          what, index, regions->num_regions, strerror(error),
                          mem_regions_size(regions), plan->available);
    case EMFILE:
    case ENFILE:
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%s for region %u of %u: %s; each region uses a "
                          "file: raise UCXPOOL_REGION_SIZE (%zu) or the limit "
                          "of open files (ulimit -n)",
                          what, index, regions->num_regions, strerror(error),
                          regions->region_size);
    case EFBIG:
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "%s for region %u of %u: %s; lower "
                          "UCXPOOL_REGION_SIZE (%zu) or raise the file size "
                          "limit (ulimit -f)",
                          what, index, regions->num_regions, strerror(error),
                          regions->region_size);
    default:
        return base_error_errno(error, "%s for region %u of %u", what, index,
                                regions->num_regions);
    }
}

/*
 * Let the kernel back a region with huge pages. MADV_COLLAPSE creates a huge
 * page only where at least one base page is allocated, and is fastest if
 * exactly one is allocated. The function therefore allocates the first base
 * page of each huge page. If MADV_COLLAPSE fails, the region keeps its base
 * pages, and later regions do not try again.
 */
static int region_collapse(host_plan_t *plan, const mem_region_t *region)
{
    size_t offset;

    for (offset = 0; offset < region->size; offset += plan->transparent_size) {
        if (fallocate(region->fd, 0, (off_t)offset, (off_t)plan->page_size) !=
            0) {
            return errno == EINTR ? 0 : errno;
        }
    }
    if (madvise(region->address, region->size, MADV_COLLAPSE) != 0) {
        base_debug("no transparent huge pages: %s", strerror(errno));
        plan->transparent_size = 0;
    }
    /* Remove the page table entries; the file keeps its pages. If the call
     * fails, the pages merely count as resident. */
    (void)madvise(region->address, region->size, MADV_DONTNEED);
    return 0;
}

/*
 * Map the region's file at its address. All memory is allocated now, so that no
 * later store fails with SIGBUS. Page tables are filled when pages are touched
 * or registered.
 */
static int region_map(host_plan_t *plan, const mem_region_t *region)
{
    void *address = mmap(region->address, region->size, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_FIXED, region->fd, 0);
    int   error   = 0;

    if (address == MAP_FAILED) {
        return errno;
    }
    if (plan->is_transparent) {
        /* A hint only: the kernel may collapse the pages later. */
        (void)madvise(address, region->size, MADV_HUGEPAGE);
    }
    if (plan->transparent_size != 0) {
        error = region_collapse(plan, region);
    }
    if (error == 0) {
        error =
            mem_memfd_fill(region->fd, 0, region->size, plan->huge_page_size);
    }
    return error;
}

/* Check whether a mapping of these pages can be duplicated. */
static bool region_can_duplicate(const mem_region_t *region, size_t page_size)
{
    void *duplicate;
    int   error =
        mem_memfd_duplicate(region->address, page_size, NULL, &duplicate);

    if (error != 0) {
        base_debug("cannot duplicate a mapping: %s", strerror(error));
        return false;
    }
    mem_range_release(duplicate, page_size);
    return true;
}

static ucxpool_status_t region_create(mem_regions_t *regions, host_plan_t *plan,
                                      unsigned index)
{
    mem_region_t    *region = &regions->regions[index];
    char             name[64];
    ucxpool_status_t status;
    int              error;

    region->size    = regions->region_size;
    region->address = (char *)regions->address + index * region->size;
    snprintf(name, sizeof(name), "ucxpool:%d:%u", (int)getpid(), index);

    error =
        mem_memfd_create(name, region->size, plan->huge_page_size, &region->fd);
    if (error != 0) {
        return region_error(regions, plan, index, "creating a memory file",
                            error);
    }
    error = region_map(plan, region);
    if (error != 0) {
        status = region_error(regions, plan, index, "allocating memory", error);
        goto err_close;
    }
    if (index == 0) {
        plan->is_private = region_can_duplicate(region, regions->page_size);
    }
    error = mem_memfd_seal(region->fd, plan->is_private);
    if (error != 0) {
        status = region_error(regions, plan, index, "sealing the memory file",
                              error);
        goto err_close;
    }
    return UCXPOOL_OK;

err_close:
    /* The caller unmaps the whole range. */
    close(region->fd);
    region->fd = -1;
    return status;
}

static void regions_close(mem_regions_t *regions, unsigned num_regions)
{
    while (num_regions > 0) {
        num_regions--;
        close(regions->regions[num_regions].fd);
    }
}

static ucxpool_status_t regions_create(mem_regions_t *regions,
                                       host_plan_t   *plan)
{
    size_t size      = mem_regions_size(regions);
    size_t alignment = base_max(plan->huge_page_size, plan->transparent_size);
    ucxpool_status_t status;
    unsigned         index;
    int              error;

    error = mem_range_reserve(size, base_max(alignment, regions->page_size),
                              &regions->address);
    if (error != 0) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "cannot reserve %zu bytes of addresses: %s; lower "
                          "UCXPOOL_COMM_SIZE or raise the limit of address "
                          "space (ulimit -v)",
                          size, strerror(error));
    }
    for (index = 0; index < regions->num_regions; index++) {
        status = region_create(regions, plan, index);
        if (status != UCXPOOL_OK) {
            goto err_close_regions;
        }
    }
    return UCXPOOL_OK;

err_close_regions:
    regions_close(regions, index);
    mem_range_release(regions->address, size);
    regions->address = NULL;
    return status;
}

static ucxpool_status_t create_with_huge_pages(mem_regions_t      *regions,
                                               const mem_system_t *system)
{
    host_plan_t plan = {
        .page_size      = system->page_size,
        .available      = system->huge_pages_free * system->huge_page_size,
        .huge_page_size = system->huge_page_size,
    };

    regions->page_size = system->huge_page_size;
    return regions_create(regions, &plan);
}

static ucxpool_status_t create_with_base_pages(mem_regions_t      *regions,
                                               const mem_system_t *system,
                                               bool is_transparent)
{
    host_plan_t plan = {
        .page_size      = system->page_size,
        .available      = system->available,
        .is_transparent = is_transparent,
    };

    if (mem_regions_size(regions) > system->available) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "%zu bytes are requested, %zu are available: lower "
                          "UCXPOOL_COMM_SIZE",
                          mem_regions_size(regions), system->available);
    }
    if (is_transparent && (system->transparent_size != 0) &&
        (regions->region_size % system->transparent_size == 0)) {
        plan.transparent_size = system->transparent_size;
    }
    regions->page_size = system->page_size;
    return regions_create(regions, &plan);
}

/* Returns the reason why huge pages are not available, or "" if they are. */
static const char *huge_pages_obstacle(const mem_regions_t *regions,
                                       const mem_system_t  *system)
{
    if (system->huge_page_size == 0) {
        return "this machine has none: set UCXPOOL_HUGE_PAGES=try";
    }
    if (regions->region_size % system->huge_page_size != 0) {
        return "UCXPOOL_REGION_SIZE must be a multiple of their size";
    }
    if (mem_regions_size(regions) / system->huge_page_size >
        system->huge_pages_free) {
        return "raise the sysctl vm.nr_hugepages, lower UCXPOOL_COMM_SIZE, or "
               "set UCXPOOL_HUGE_PAGES=try";
    }
    return "";
}

static ucxpool_status_t host_create(mem_regions_t *regions, int huge_pages)
{
    mem_system_t system;
    const char  *obstacle;

    mem_system_query(&system);
    if (regions->region_size % system.page_size != 0) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "invalid region size of %zu bytes: "
                          "UCXPOOL_REGION_SIZE must be a multiple of the page "
                          "size, %zu",
                          regions->region_size, system.page_size);
    }
    if (huge_pages == BASE_SWITCH_NO) {
        return create_with_base_pages(regions, &system, false);
    }
    obstacle = huge_pages_obstacle(regions, &system);
    if (huge_pages == BASE_SWITCH_TRY) {
        /* Another process may take the huge pages first. */
        if ((*obstacle == '\0') &&
            (create_with_huge_pages(regions, &system) == UCXPOOL_OK)) {
            return UCXPOOL_OK;
        }
        return create_with_base_pages(regions, &system, true);
    }
    if (*obstacle != '\0') {
        return base_error(
            system.huge_page_size != 0 &&
                    regions->region_size % system.huge_page_size != 0
                ? UCXPOOL_ERR_INVALID_PARAM
                : UCXPOOL_ERR_NO_MEMORY,
            "cannot allocate %zu bytes in huge pages of %zu bytes (%zu free): "
            "%s",
            mem_regions_size(regions), system.huge_page_size,
            system.huge_pages_free, obstacle);
    }
    return create_with_huge_pages(regions, &system);
}

static void host_destroy(mem_regions_t *regions)
{
    mem_range_release(regions->address, mem_regions_size(regions));
    regions_close(regions, regions->num_regions);
}

static void host_unstitch(const mem_regions_t *regions, void *address,
                          size_t size)
{
    mem_range_release(address, size);
}

const mem_kind_t mem_kind_host = {
    .name         = "host",
    .shares_by_fd = true,
    .create       = host_create,
    .destroy      = host_destroy,
    .stitch       = host_stitch,
    .unstitch     = host_unstitch,
};
