/*
 * These functions register the pool's memory for programs that use verbs
 * directly. Such a program can read and write blocks with its own RDMA
 * operations, and the pool can send messages at the same time.
 *
 * A pool is registered in a protection domain once, region by region. The
 * blocks then need no separate registration:
 *
 *     protection domain a    | mr 0     | mr 1     | ...    lkey, rkey each
 *     protection domain b    | mr 0     | mr 1     | ...    other keys
 *     regions                | region 0 | region 1 | ...
 *     blocks                 | 0  1  2  | 3  4  5  | ...
 *
 * All blocks of a region have the same keys. A buffer from ucxpool_comm_alloc()
 * may span several regions. It then consists of several pieces with different
 * keys:
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
 * for example the pinned memory that the pool uses if UCX has no GPU support.
 *
 * The library uses the libibverbs.so.1 that the process has loaded, because the
 * protection domain was created with it. A libucxpool built with verbs also
 * runs on a machine without libibverbs. If it is built without verbs, these
 * functions return UCXPOOL_ERR_UNSUPPORTED.
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
 * already registered in this domain, the call registers nothing and returns the
 * same handle. Each call returns one reference to the handle, which
 * ucxpool_verbs_deregister() releases. A pool may be registered in several
 * domains at the same time, of one device or of several.
 *
 * pd      The domain belongs to the caller. The domain and its device must stay
 *         open until the pool is deregistered or destroyed.
 * access  Set of IBV_ACCESS_LOCAL_WRITE and so on, as for ibv_reg_mr(). If
 *         libibverbs is too old for a flag that a device may ignore, such as
 *         IBV_ACCESS_RELAXED_ORDERING, the library does not pass this flag.
 *         IBV_ACCESS_ZERO_BASED is not supported.
 * verbs_p [out] Valid until deregistered, or until the pool is destroyed.
 *         Unchanged after an error.
 *
 * After an error, no region is registered: any regions that had already been
 * registered are deregistered. The error detail names the region, the system's
 * reason, and what to change.
 *
 * UCXPOOL_ERR_INVALID_PARAM  pd or verbs_p is NULL; the flags contradict each
 *                            other, or the device rejected them; or the pool is
 *                            registered in the domain with other flags
 * UCXPOOL_ERR_NO_MEMORY      the limit of locked memory (ulimit -l) is
 *                            exceeded, or there is no room in the device or in
 *                            the GPU's BAR1
 * UCXPOOL_ERR_LIMIT          the device or the control group (rdma.max) allows
 *                            fewer regions
 * UCXPOOL_ERR_UNSUPPORTED    built without verbs; libibverbs.so.1 is not loaded
 *                            in the process; or the pool is on a GPU and
 *                            neither dmabuf nor nvidia-peermem is available
 * UCXPOOL_ERR_PERMISSION     the system does not allow the registration
 * UCXPOOL_ERR_IO             any other error of the device
 *
 * May be called from any thread. The call blocks until the pool's memory has
 * been pinned. Transfers in other threads continue during this time.
 */
ucxpool_status_t ucxpool_verbs_register(ucxpool_t *pool, struct ibv_pd *pd,
                                        int access, ucxpool_verbs_t **verbs_p);

/*
 * Release one reference from ucxpool_verbs_register(). Releasing the last one
 * deregisters the pool. NULL is allowed.
 *
 * UCXPOOL_OK      one reference is released. If it was the last one, the pool
 *                 is deregistered and the handle is freed
 * UCXPOOL_ERR_IO  some regions cannot be deregistered, because memory windows
 *                 are bound to them. All other regions are deregistered. Free
 *                 the memory windows and call this function again. The handle
 *                 must not be used in any other way
 *
 * ucxpool_destroy() deregisters everything that is still registered, regardless
 * of the number of references, and frees the handles.
 */
ucxpool_status_t ucxpool_verbs_deregister(ucxpool_verbs_t *verbs);

/* Memory that one scatter/gather element, or one remote address, can cover. */
typedef struct ucxpool_verbs_piece {
    uint64_t address; /* for ibv_sge.addr and wr.rdma.remote_addr. May differ
                         from the requested address: the device does not know
                         the addresses of buffers with scattered blocks */
    size_t   length;  /* number of bytes to which the keys apply */
    uint32_t lkey;
    uint32_t rkey;
    uint64_t reserved[2];
} ucxpool_verbs_piece_t;

/*
 * Get the keys for an address in a block or buffer, and the number of bytes
 * from this address to which the keys apply. In a block, the keys apply up to
 * the block's end. Makes no system call, allocates no memory and takes no lock.
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
