/*
 * These functions register the pool's memory for programs that use verbs
 * directly. Such a program can read and write blocks by RDMA, next to the
 * pool's own messages.
 *
 * A pool is registered in a protection domain once, region by region. The
 * blocks then need no registration of their own:
 *
 *     protection domain a    | mr 0     | mr 1     | ...    lkey, rkey each
 *     protection domain b    | mr 0     | mr 1     | ...    other keys
 *     regions                | region 0 | region 1 | ...
 *     blocks                 | 0  1  2  | 3  4  5  | ...
 *
 * All blocks of a region have the region's keys. A buffer from
 * ucxpool_comm_alloc() may span several regions. It then consists of several
 * pieces with different keys:
 *
 *     ucxpool_verbs_register(pool, pd,
 *                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
 *                            &verbs);
 *     for (done = 0; done < length; done += piece.length) {
 *         ucxpool_verbs_keys(verbs, buffer + done, length - done, &piece);
 *         sge.addr   = piece.address;
 *         sge.length = (uint32_t)piece.length;
 *         sge.lkey   = piece.lkey;
 *         ...
 *     }
 *     ucxpool_verbs_deregister(verbs);
 *
 * Host memory is registered by ibv_reg_mr(). GPU memory is registered by
 * ibv_reg_dmabuf_mr() if the driver, the kernel and the device support dmabuf.
 * Otherwise it is registered by ibv_reg_mr() with GPU addresses, which needs
 * the kernel module nvidia-peermem. Other memory of the pool is not registered,
 * such as the pinned memory that it uses if UCX has no GPU support.
 *
 * The library uses the libibverbs.so.1 that the process has loaded, because the
 * process created the protection domain with it. A libucxpool built with verbs
 * also runs on a machine without libibverbs. If it is built without verbs,
 * these functions return UCXPOOL_ERR_UNSUPPORTED.
 *
 * The pool does not track the application's own RDMA operations and does not
 * quarantine blocks for them. These operations must complete before the
 * application puts the block, frees the buffer, or deregisters the pool.
 */
#ifndef UCXPOOL_VERBS_H
#define UCXPOOL_VERBS_H

#include <ucxpool/pool.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Declared in <infiniband/verbs.h>, which this header does not include. */
struct ibv_pd;

/* A pool's registration in one protection domain. */
typedef struct ucxpool_verbs ucxpool_verbs_t;

/*
 * Register every region of the pool in a protection domain. If the pool is
 * registered in this domain already, nothing is registered again: the call
 * returns the same handle, which then needs one more
 * ucxpool_verbs_deregister(). A pool may be registered in several domains at a
 * time, of one device or of several.
 *
 * pd      The domain belongs to the caller. The domain and its device must stay
 *         open until the pool is deregistered or destroyed.
 * access  Set of IBV_ACCESS_LOCAL_WRITE and so on, as for ibv_reg_mr(). Flags
 *         that a device may ignore, such as IBV_ACCESS_RELAXED_ORDERING, are
 *         left out if libibverbs is too old to know them.
 *         IBV_ACCESS_ZERO_BASED is not supported.
 * verbs_p [out] Valid until deregistered, or until the pool is destroyed.
 *         Unchanged after an error.
 *
 * After an error nothing is registered; regions that had been registered are
 * deregistered again. The error detail names the region, the size registered so
 * far, the system's reason, and the limit to raise.
 *
 * UCXPOOL_ERR_INVALID_PARAM  pd or verbs_p is NULL; the flags contradict each
 *                            other, or the device rejected them; or the pool is
 *                            registered in the domain with other flags
 * UCXPOOL_ERR_NO_MEMORY      over the limit of locked memory (ulimit -l), or no
 *                            room in the device or in the GPU's BAR1
 * UCXPOOL_ERR_LIMIT          over the number of regions that the device or the
 *                            control group (rdma.max) allows
 * UCXPOOL_ERR_UNSUPPORTED    built without verbs; libibverbs.so.1 is not loaded
 *                            in the process; or the pool is on a GPU and
 *                            neither dmabuf nor nvidia-peermem is available
 * UCXPOOL_ERR_PERMISSION     the system does not allow it
 * UCXPOOL_ERR_IO             another error of the device
 *
 * May be called from any thread. Blocks while the pool's memory is pinned;
 * transfers in other threads continue.
 */
ucxpool_status_t ucxpool_verbs_register(ucxpool_t *pool, struct ibv_pd *pd,
                                        int access, ucxpool_verbs_t **verbs_p);

/*
 * Undo one ucxpool_verbs_register(). The last call deregisters the pool. NULL
 * is allowed.
 *
 * UCXPOOL_OK      the pool is deregistered and the handle is released, or other
 *                 ucxpool_verbs_register() calls are still to be undone
 * UCXPOOL_ERR_IO  some regions cannot be deregistered, because memory windows
 *                 are bound to them. All others are deregistered. Free the
 *                 windows and call this function again; the handle has no other
 *                 use
 *
 * ucxpool_destroy() deregisters everything that is still registered, regardless
 * of the number of calls, and releases the handles.
 */
ucxpool_status_t ucxpool_verbs_deregister(ucxpool_verbs_t *verbs);

/* Memory that one scatter/gather element, or one remote address, can cover. */
typedef struct ucxpool_verbs_piece {
    uint64_t address; /* for ibv_sge.addr and wr.rdma.remote_addr. May differ
                         from the requested address: the device does not know
                         the addresses of buffers with scattered blocks */
    size_t   length;  /* bytes from the address that are in the same region */
    uint32_t lkey;
    uint32_t rkey;
    uint64_t reserved[2];
} ucxpool_verbs_piece_t;

/*
 * Get the keys for an address in a block or buffer, and the number of bytes to
 * which they apply, counted from the address. In a block, the keys apply up to
 * the block's end. Makes no system call, allocates nothing and takes no lock.
 *
 * address  In a block from ucxpool_block_get(), or in a buffer from
 *          ucxpool_comm_alloc().
 * length   Bytes, 1 or more. If piece_p->length is less, call again for the
 *          rest.
 *
 * UCXPOOL_ERR_INVALID_PARAM  length is 0, or the address is not in the pool
 * UCXPOOL_ERR_CLOSED         the pool has been deregistered, see
 *                            ucxpool_verbs_deregister()
 */
ucxpool_status_t ucxpool_verbs_keys(const ucxpool_verbs_t *verbs,
                                    const void *address, size_t length,
                                    ucxpool_verbs_piece_t *piece_p);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
