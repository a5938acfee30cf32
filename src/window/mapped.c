/*
 * The CPU copies from and to the owner's memory, which is mapped into this
 * process. No system call is needed for a piece.
 *
 *     window      |      part 0      |  part 1  |     part 2     |
 *     mapped at   | a view of a file |   a region of the peer    | ...
 *
 * Only files that cannot shrink are mapped: an access past the end of a
 * truncated file would kill the process with SIGBUS.
 */
#include <config.h>

#include "window/way.h"

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "copy/list.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* The maximum number of bytes of one step: small enough that other operations
 * soon get a turn. */
#define STEP_SIZE ((uint64_t)1 << 20)

/* A contiguous part of a file. */
typedef struct file_part {
    int      fd;     /* owned by the pool or the window */
    uint32_t region; /* number of the pool's region, from 1; 0: no region */
    uint64_t offset;
    uint64_t length;
} file_part_t;

/* Append a part, or extend the last one. Returns false if there are already
 * PROTO_PARTS_MAX parts. */
static bool add_part(file_part_t *parts, unsigned *num_parts,
                     const file_part_t *part)
{
    file_part_t *last = (*num_parts == 0) ? NULL : &parts[*num_parts - 1];

    if ((last != NULL) && (last->fd == part->fd) &&
        (last->offset + last->length == part->offset)) {
        last->length += part->length;
        return true;
    }
    if (*num_parts == PROTO_PARTS_MAX) {
        return false;
    }
    parts[(*num_parts)++] = *part;
    return true;
}

/* --- owner: the caller's file --------------------------------------------- */

/* A line of /proc/self/maps. */
typedef struct mapping {
    uint64_t start;
    uint64_t end;
    uint64_t offset;
    uint64_t device;
    uint64_t inode;
    bool     is_shared;
} mapping_t;

static bool read_mapping(FILE *maps, char **line_p, size_t *size_p,
                         mapping_t *mapping_p)
{
    unsigned major_number, minor_number;
    char     kind;

    if ((getline(line_p, size_p, maps) < 0) ||
        (sscanf(*line_p,
                "%" SCNx64 "-%" SCNx64 " %*3s%c %" SCNx64 " %x:%x %" SCNu64,
                &mapping_p->start, &mapping_p->end, &kind, &mapping_p->offset,
                &major_number, &minor_number, &mapping_p->inode) != 7)) {
        return false;
    }
    mapping_p->device    = makedev(major_number, minor_number);
    mapping_p->is_shared = kind == 's';
    return true;
}

/* Find the parts of the caller's file that are mapped in the window. Sets the
 * number of parts to 0 if any memory of the window is not a shared mapping of
 * the file. Returns false if there are more than PROTO_PARTS_MAX parts. */
static bool find_parts(const ucxpool_window_t *window, FILE *maps,
                       const struct stat *is, file_part_t *parts,
                       unsigned *num_parts_p)
{
    uint64_t    at   = (uintptr_t)window->address;
    uint64_t    end  = at + window->length;
    char       *line = NULL;
    size_t      size = 0;
    unsigned    num  = 0;
    bool        fits = true;
    file_part_t part = {.fd = window->fd};
    mapping_t   mapping;

    while (fits && (at < end) && read_mapping(maps, &line, &size, &mapping)) {
        if (mapping.end <= at) {
            continue;
        }
        if ((mapping.start > at) || !mapping.is_shared ||
            (mapping.device != is->st_dev) || (mapping.inode != is->st_ino)) {
            break;
        }
        part.offset = mapping.offset + (at - mapping.start);
        part.length = base_min(mapping.end, end) - at;
        at += part.length;
        fits = add_part(parts, &num, &part);
    }
    free(line);
    *num_parts_p = (!fits || (at < end)) ? 0 : num;
    return fits;
}

static void no(ucxpool_window_t *window, const char *reason)
{
    snprintf(window->reason, sizeof(window->reason), "%s", reason);
}

#define TOO_MANY "the window spans too many parts of files"

static ucxpool_status_t find_in_callers(ucxpool_window_t *window,
                                        file_part_t      *parts,
                                        unsigned         *num_parts_p)
{
    struct stat is;
    FILE       *maps;
    bool        fits;

    *num_parts_p = 0;
    if (fstat(window->fd, &is) != 0) {
        return base_error_errno(errno,
                                "cannot examine the window's file "
                                "(descriptor %d)",
                                window->fd);
    }
    maps = fopen("/proc/self/maps", "re");
    if (maps == NULL) {
        no(window, "cannot read /proc/self/maps to find where the file is "
                   "mapped");
        return UCXPOOL_OK;
    }
    fits = find_parts(window, maps, &is, parts, num_parts_p);
    fclose(maps);
    if (!fits) {
        no(window, TOO_MANY);
    } else if (*num_parts_p == 0) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the %llu bytes at %p are not a shared mapping of "
                          "the file that was passed with them",
                          (unsigned long long)window->length, window->address);
    }
    return UCXPOOL_OK;
}

/* --- owner: the pool's files ---------------------------------------------- */

static bool find_in_comm(const ucxpool_t *pool, const void *address,
                         uint64_t length, file_part_t *part_p)
{
    const mem_regions_t *regions = &pool->memory.regions;
    block_comm_buffer_t *buffer;
    mem_piece_t          piece;

    if ((pool->memory.comm == NULL) || !regions->kind->shares_by_fd ||
        mem_regions_are_on_gpu(regions) ||
        !block_comm_find(pool->memory.comm, address, length, &piece, &buffer)) {
        return false;
    }
    *part_p = (file_part_t){
        .fd     = regions->regions[piece.region].fd,
        .region = piece.region + 1,
        .offset = piece.offset,
        .length = piece.length,
    };
    return true;
}

static bool find_in_heap(const ucxpool_t *pool, const void *address,
                         uint64_t length, file_part_t *part_p)
{
    heap_t     *heap = __atomic_load_n(&pool->heap, __ATOMIC_ACQUIRE);
    heap_file_t file;

    if ((heap == NULL) || !heap_file(heap, address, length, &file)) {
        return false;
    }
    *part_p = (file_part_t){
        .fd     = file.fd,
        .offset = file.offset,
        .length = file.length,
    };
    return true;
}

/*
 * Find the parts of the window in the pool's regions and in the heap's file.
 * Sets the number of parts to 0 if some of the memory does not belong to the
 * pool, or has no file. Returns false if there are more than PROTO_PARTS_MAX
 * parts.
 */
static bool find_in_pool(const ucxpool_window_t *window, file_part_t *parts,
                         unsigned *num_parts_p)
{
    const ucxpool_t *pool = window->pool;
    const char      *at   = window->address;
    unsigned         num  = 0;
    file_part_t      part;

    *num_parts_p = 0;
    for (uint64_t done = 0; done < window->length; done += part.length) {
        if (!find_in_comm(pool, at + done, window->length - done, &part) &&
            !find_in_heap(pool, at + done, window->length - done, &part)) {
            return true;
        }
        if (!add_part(parts, &num, &part)) {
            return false;
        }
    }
    *num_parts_p = num;
    return true;
}

/* --- owner: all files ----------------------------------------------------- */

static ucxpool_status_t find_files(ucxpool_window_t *window, file_part_t *parts,
                                   unsigned *num_parts_p)
{
    if (window->fd >= 0) {
        return find_in_callers(window, parts, num_parts_p);
    }
    if (!find_in_pool(window, parts, num_parts_p)) {
        no(window, TOO_MANY);
    }
    return UCXPOOL_OK;
}

static bool is_sealed(const file_part_t *part)
{
    int seals = fcntl(part->fd, F_GET_SEALS);

    return (seals >= 0) && (seals & F_SEAL_SHRINK);
}

/* Set the parts that are sent to importers. */
static ucxpool_status_t fill_parts(ucxpool_window_t  *window,
                                   const file_part_t *found, unsigned num)
{
    ucxpool_status_t status;

    window->parts = calloc(num, sizeof(window->parts[0]));
    if (window->parts == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for a window's %u parts", num);
    }
    for (unsigned i = 0; i < num; i++) {
        window->parts[i] = (proto_window_part_t){
            .file   = {.fd = -1},
            .offset = found[i].offset,
            .length = found[i].length,
            .region = found[i].region,
        };
        if (found[i].region != 0) {
            continue;
        }
        status = ipc_file_fill(found[i].fd, &window->parts[i].file);
        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    window->num_parts = num;
    return UCXPOOL_OK;
}

static ucxpool_status_t mapped_share(ucxpool_window_t *window)
{
    file_part_t      parts[PROTO_PARTS_MAX];
    unsigned         num    = 0;
    ucxpool_status_t status = find_files(window, parts, &num);

    if ((status != UCXPOOL_OK) || (num == 0)) {
        return status;
    }
    if (!is_sealed(&parts[0])) {
        no(window, "its file can shrink: seal it (F_ADD_SEALS, "
                   "F_SEAL_SHRINK)");
        return UCXPOOL_OK;
    }
    return fill_parts(window, parts, num);
}

static void mapped_offer(window_grant_t *grant, window_offer_t *offer)
{
    const ucxpool_window_t *window = grant->window;

    if (window->num_parts != 0) {
        offer->flags |= PROTO_OPENED_PARTS;
        offer->data = window->parts;
        offer->size = window->num_parts * sizeof(window->parts[0]);
    }
}

/* --- importer: views ------------------------------------------------------ */

/* An attempt to map a window. */
typedef struct attempt {
    ucxpool_remote_window_t *remote;
    const window_answer_t   *answer;
    unsigned                 num_files; /* files tried so far */
} attempt_t;

static bool not_mapped(ucxpool_remote_window_t *remote, const char *reason)
{
    window_remote_set_reason(remote, "not mapped: %s", reason);
    return false;
}

/* View a part that is in one of the peer's regions. These regions are already
 * mapped read-only. */
static bool view_region(const attempt_t           *attempt,
                        const proto_window_part_t *part, window_view_t *view)
{
    const core_mapping_t *mapping = attempt->remote->channel->peer.mapping;
    uint32_t              index   = part->region - 1;

    if (!(attempt->remote->access & UCXPOOL_WINDOW_READ)) {
        return not_mapped(attempt->remote,
                          "the pool's blocks are mapped read-only");
    }
    if ((index >= mapping->num_regions) ||
        (part->length > mapping->region_sizes[index]) ||
        (part->offset > mapping->region_sizes[index] - part->length)) {
        return not_mapped(attempt->remote,
                          "the owner's window exceeds its regions");
    }
    view->address =
        (uint8_t *)(uintptr_t)mapping->regions[index] + part->offset;
    attempt->remote->can_write = false;
    return true;
}

/* Map the part for reading and writing, or only for reading if the blob or the
 * file does not allow writing. */
static bool view_file(attempt_t *attempt, const proto_window_part_t *part,
                      window_view_t *view)
{
    ucxpool_remote_window_t *remote = attempt->remote;
    const ipc_host_t        *host   = &remote->channel->peer.host;
    const int               *fds    = attempt->answer->fds;
    int              given  = (fds == NULL) ? -1 : fds[attempt->num_files];
    ipc_part_t       wanted = {part->offset, part->length, remote->can_write};
    char             reason[CORE_REASON_SIZE] = "";
    base_log_level_t level = base_error_log_at(BASE_LOG_DEBUG);
    ucxpool_status_t status;

    status = ipc_view_map(host, &part->file, given, &wanted, &view->view,
                          reason, sizeof(reason));
    if ((status == UCXPOOL_ERR_PERMISSION) && wanted.is_writable &&
        (remote->access & UCXPOOL_WINDOW_READ)) {
        wanted.is_writable = false;
        status = ipc_view_map(host, &part->file, given, &wanted, &view->view,
                              reason, sizeof(reason));
    }
    base_error_log_at(level);
    remote->can_write = wanted.is_writable;
    /* The owner must send its files if this process cannot open them. */
    remote->needs_files =
        (fds == NULL) && ((status == UCXPOOL_ERR_PERMISSION) ||
                          (status == UCXPOOL_ERR_UNSUPPORTED));
    view->address = view->view.address;
    attempt->num_files++;
    return (status == UCXPOOL_OK) || not_mapped(remote, reason);
}

#define WRONG_LENGTH \
    "the parts of the owner's window do not add up to the window's length"

static bool view_part(attempt_t *attempt, const proto_window_part_t *part)
{
    ucxpool_remote_window_t *remote = attempt->remote;
    uint64_t                 start =
        (remote->num_views == 0) ? 0 : remote->views[remote->num_views - 1].end;
    window_view_t view = {.view = {.size = 0}};

    if ((part->length == 0) || (part->length > remote->length - start)) {
        return not_mapped(remote, WRONG_LENGTH);
    }
    if (!((part->region != 0) ? view_region(attempt, part, &view)
                              : view_file(attempt, part, &view))) {
        return false;
    }
    view.end = start + part->length;
    view.address += part->length;
    remote->views[remote->num_views++] = view;
    return true;
}

static bool view_all(attempt_t *attempt)
{
    ucxpool_remote_window_t *remote = attempt->remote;
    const window_answer_t   *answer = attempt->answer;

    for (size_t i = 0; i < answer->num_parts; i++) {
        if (!view_part(attempt, &answer->parts[i])) {
            return false;
        }
    }
    return (remote->views[answer->num_parts - 1].end == remote->length) ||
           not_mapped(remote, WRONG_LENGTH);
}

static void mapped_close(ucxpool_remote_window_t *remote)
{
    for (unsigned i = 0; i < remote->num_views; i++) {
        ipc_view_unmap(&remote->views[i].view);
    }
    free(remote->views);
    remote->views     = NULL;
    remote->num_views = 0;
    remote->can_write = false;
}

static bool map(ucxpool_remote_window_t *remote, const window_answer_t *answer)
{
    attempt_t attempt = {remote, answer, 0};

    if (answer->num_parts == 0) {
        return not_mapped(remote,
                          (answer->reason[0] != '\0')
                              ? answer->reason
                              : "the window is neither the pool's memory nor "
                                "memory of a file that was passed with it");
    }
    remote->views = calloc(answer->num_parts, sizeof(remote->views[0]));
    if (remote->views == NULL) {
        return not_mapped(remote, "no memory");
    }
    remote->can_write = (remote->access & UCXPOOL_WINDOW_WRITE) != 0;
    if (!view_all(&attempt)) {
        mapped_close(remote);
        return false;
    }
    return true;
}

static unsigned mapped_open(ucxpool_remote_window_t *remote,
                            const window_answer_t   *answer)
{
    if (!map(remote, answer)) {
        return 0;
    }
    if ((remote->access & UCXPOOL_WINDOW_WRITE) && !remote->can_write) {
        window_remote_set_reason(remote,
                                 "mapped read-only; writes use another way");
        return UCXPOOL_WINDOW_READ;
    }
    window_remote_set_reason(remote, "same host and user");
    return UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE;
}

/* --- importer: copying ---------------------------------------------------- */

/* Find the view that contains a byte of the window. */
static const window_view_t *find_view(const ucxpool_remote_window_t *remote,
                                      uint64_t                       offset)
{
    unsigned low  = 0;
    unsigned high = remote->num_views - 1;

    while (low < high) {
        unsigned middle = (low + high) / 2;

        if (offset < remote->views[middle].end) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return &remote->views[low];
}

/* Copies are collected in a list, so that copy_list() can prefetch the next
 * pieces. */
#define MAX_COPIES 256u

typedef struct copies {
    copy_entry_t entries[MAX_COPIES];
    size_t       num;
    uint64_t     size;
} copies_t;

/* Add an entry that copies the piece after its first `done` bytes, at most up
 * to the end of the view. *length_p is the length of the entry. */
static void add_copy(copies_t *copies, const window_operation_t *operation,
                     const window_piece_t *piece, uint64_t done,
                     uint64_t *length_p)
{
    uint64_t             offset = piece->offset + done;
    const window_view_t *view   = find_view(operation->remote, offset);
    copy_entry_t        *entry  = &copies->entries[copies->num++];
    char                *theirs = (char *)view->address - (view->end - offset);
    char                *ours   = piece->ours + done;

    entry->target = operation->is_write ? theirs : ours;
    entry->source = operation->is_write ? ours : theirs;
    entry->length = base_min(view->end - offset, piece->length - done);
    *length_p     = entry->length;
}

/* Do the collected copies, without non-temporal stores, which are slower if the
 * pieces are scattered on both sides. */
static void copy_all(copies_t *copies)
{
    copy_list(copies->entries, copies->num);
    copies->num = 0;
}

static ucxpool_status_t mapped_copy(window_operation_t *operation)
{
    copies_t       copies;
    window_piece_t piece;
    uint64_t       length;

    copies.num  = 0;
    copies.size = 0;
    while ((copies.size < STEP_SIZE) &&
           window_operation_next(operation, STEP_SIZE - copies.size, &piece)) {
        if ((piece.ours == NULL) && (piece.length != 0)) {
            return base_error(UCXPOOL_ERR_INVALID_PARAM,
                              "a piece has a length but no address; set its "
                              "address");
        }
        for (uint64_t done = 0; done < piece.length; done += length) {
            if (copies.num == MAX_COPIES) {
                copy_all(&copies);
            }
            add_copy(&copies, operation, &piece, done, &length);
        }
        copies.size += piece.length;
    }
    copy_all(&copies);
    return (operation->next_place == operation->places.count)
               ? UCXPOOL_OK
               : UCXPOOL_INPROGRESS;
}

const window_way_t window_mapped = {
    .id        = UCXPOOL_WAY_MAPPED,
    .reach     = CORE_REACH_HOST,
    .share     = mapped_share,
    .offer     = mapped_offer,
    .is_on_cpu = true,
    .may_touch = window_grant_may_copy,
    .open      = mapped_open,
    .close     = mapped_close,
    .start     = window_turns_start,
    .copy      = mapped_copy,
};
