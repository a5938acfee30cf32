/*
 * Windows: application memory that peers read and write directly
 * (docs/internals/windows.md).
 *
 *     owner                                     peer
 *
 *     window  (pool->windows->all)
 *       grants --> grant  <-- one of a channel --> remote
 *                    |                              |
 *                    +-- served <------ CALL ------ operation --> request
 *
 * window     the memory, the keys of its blobs, and its grants
 * grant      one import of a window, on the owner's side
 * remote     the same import, on the importer's side: a remote window
 * operation  a read or write of a remote window, on the importer's side
 * served     an operation whose data is sent in messages, on the owner's side
 *
 * A grant exists for as long as its importer may access the memory.
 */
#ifndef WINDOW_WINDOW_H
#define WINDOW_WINDOW_H

#include "base/crc32c.h"
#include "core/channel.h"
#include "ipc/virtual.h"
#include "ucx/reg.h"

#include <ucxpool/window.h>

#include <stddef.h>

#define WINDOW_KEY_SIZE 16u

#define WINDOW_BLOB_MAGIC 0x77786375u /* "ucxw" */

/* The blob that ucxpool_window_export() writes, in little-endian. */
typedef struct window_blob {
    uint32_t magic;
    uint16_t version;
    uint16_t access;
    uint8_t  pool[CORE_ID_SIZE];
    uint64_t window;
    uint8_t  key[WINDOW_KEY_SIZE];
    uint64_t length;
    uint32_t checksum; /* CRC32C of the blob with this field set to 0; the
                          rule is the same in every version */
    uint32_t reserved; /* always 0 */
} window_blob_t;

static inline uint32_t window_blob_checksum(const window_blob_t *blob)
{
    return base_crc32c_of_record(blob, sizeof(*blob),
                                 offsetof(window_blob_t, checksum));
}

static_assert(sizeof(window_blob_t) == UCXPOOL_WINDOW_BLOB_SIZE,
              "the size of a blob is public");

struct ucxpool_window {
    base_list_t link;
    ucxpool_t  *pool;
    uint64_t    number;
    char        name[CORE_NAME_SIZE];
    void       *address;
    uint64_t    length;
    /* One key for each combination of access flags: a blob that allows `access`
     * holds key[access - 1]. */
    uint8_t key[UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE][WINDOW_KEY_SIZE];
    bool    is_revoked;
    bool    is_destroyed; /* by the caller; the window is freed with its last
                             grant */
    base_list_t grants;
    /* How peers map GPU memory. `way` is 0 if the memory is not mapped as one
     * allocation. */
    proto_window_cuda_t  cuda;
    ipc_virtual_memory_t memory; /* the allocations of virtual memory; num 0:
                                    none */
    /* The parts of files that make up the window, in address order. If peers
     * cannot map the window, `reason` says why; an empty reason means that the
     * memory is not in a known file. */
    proto_window_part_t *parts;
    unsigned             num_parts;
    int  fd; /* duplicate of the caller's descriptor; -1: none */
    char reason[PROTO_TEXT_MAX + 1];
    /* The window is registered with UCX when a peer first asks for the key. If
     * registration fails, not_registered says why. It is empty until
     * registration has failed. */
    ucx_rma_memory_t registered;
    char             not_registered[CORE_REASON_SIZE];
};

typedef struct window_grant {
    base_list_t        link; /* in window->grants */
    base_list_t        channel_link;
    ucxpool_window_t  *window;
    ucxpool_channel_t *channel; /* lists this grant; no reference is held */
    uint64_t           number;
    uint64_t           remote; /* the importer's ID for the remote window */
    unsigned           access;
    unsigned           num_served;  /* served operations that use the grant */
    bool               is_released; /* released: freed when num_served is 0 */
    bool               wants_key;   /* the importer asked for UCX's key */
    bool               has_key;     /* the importer may have UCX's key */
} window_grant_t;

/* Implements ucxpool_window_create(). */
ucxpool_status_t window_create(ucxpool_t *pool, void *address, size_t length,
                               const ucxpool_window_params_t *params,
                               ucxpool_window_t             **window_p);

/* The window must have no grants. */
void window_free(ucxpool_window_t *window);

/* Mark the window as destroyed by the caller. Frees it now, or together with
 * its last grant. */
void window_destroy(ucxpool_window_t *window);

/* Implements ucxpool_window_export(). */
ucxpool_status_t window_export(const ucxpool_window_t *window, unsigned access,
                               void *blob);

/* Reject further imports, cancel served operations, and ask all importers to
 * release the window. Each call also releases the grants of importers that can
 * no longer access the memory. Call this function repeatedly until
 * window_is_free() returns true. */
void window_revoke(ucxpool_window_t *window);

/* Revoke all windows that have not been destroyed. */
void window_revoke_all(ucxpool_t *pool);

/* window_is_free() returns true if no importer can access the memory of the
 * window. window_all_are_free() returns true if all windows of the pool are
 * free; it ignores destroyed windows. */
bool window_is_free(const ucxpool_window_t *window);
bool window_all_are_free(const ucxpool_t *pool);

/* Log the importers that have not released the window in time, and fail those
 * of their channels that use the `ucx` wire. Returns true if a channel was
 * failed. The window then becomes free when the channel's endpoint closes. */
bool window_abandon(const ucxpool_window_t *window);
void window_abandon_all(const ucxpool_t *pool);

/* Grant or refuse the peer's request to import a window. */
void window_grant_open(ucxpool_channel_t         *channel,
                       const proto_window_open_t *open);

/* Returns the channel's grant with this number, or NULL. */
window_grant_t *window_grant_find(const ucxpool_channel_t *channel,
                                  uint64_t                 number);

/*
 * window_grant_num_files() returns the number of files of a grant's window: one
 * for each part outside the pool's regions, or for each allocation of virtual
 * memory. It returns 0 if no such grant exists, or the window is revoked.
 * window_grant_files() gets the descriptors of `num` of these files, starting
 * with number `first`. These files must exist. The caller closes them if
 * *are_new_p is true; otherwise the window owns them. Errors: see
 * ipc_virtual_export().
 */
uint32_t         window_grant_num_files(const ucxpool_channel_t *channel,
                                        uint64_t                 number);
ucxpool_status_t window_grant_files(const ucxpool_channel_t *channel,
                                    uint64_t number, uint32_t first,
                                    uint32_t num, int *fds, bool *are_new_p);

/* Release a grant whose importer no longer accesses the memory. Cancels the
 * grant's served operations. May free the grant. */
void window_grant_release(window_grant_t *grant);

/* Release grants of a channel that has ended. Releases only the grants whose
 * importer can no longer access the memory, or all of them if are_touched is
 * true. */
void window_grants_release(ucxpool_channel_t *channel, bool are_touched);

/* Returns true if the importer's CPU may be copying, according to the channel's
 * ring. */
bool window_grant_may_copy(const window_grant_t *grant);

/* Record that a served operation of the grant has ended. May free the grant. */
void window_grant_put(window_grant_t *grant);

#endif
