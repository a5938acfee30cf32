/*
 * The pool's memory for programs that speak verbs themselves: RDMA writes and
 * reads straight from and to blocks, beside the pool's own messages.
 *
 * A pool is registered in a protection domain once, region by region; after
 * that no block ever needs a registration again:
 *
 *     protection domain a    | mr 0     | mr 1     | ...    lkey, rkey each
 *     protection domain b    | mr 0     | mr 1     | ...    others
 *     regions                | region 0 | region 1 | ...
 *     blocks                 | 0  1  2  | 3  4  5  | ...
 *
 * All blocks of a region have the region's keys. What crosses from one region
 * to the next, as a buffer of ucxpool_comm_alloc() may, is several pieces, each
 * with keys of its own:
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
 * Memory of the host is registered by ibv_reg_mr(). That of a GPU goes by
 * ibv_reg_dmabuf_mr() where the driver, the kernel and the device know dmabuf,
 * and else by ibv_reg_mr() with the GPU's addresses, for which the kernel needs
 * the module nvidia-peermem. What a pool keeps beside its blocks, such as the
 * pinned memory for a UCX that does not know the GPU, is not registered.
 *
 * libibverbs is that of the process: the one that made the protection domain,
 * by the name libibverbs.so.1. A libucxpool that was built with verbs runs on a
 * machine without it. One built without verbs answers UCXPOOL_ERR_UNSUPPORTED.
 *
 * A program that writes and reads blocks by itself must end that before it
 * gives a block or a buffer back, and before it deregisters: the pool does not
 * see it, and has no quarantine for it.
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

/* Of <infiniband/verbs.h>, which this header does not need. */
struct ibv_pd;

/* A pool's registration in one protection domain. */
typedef struct ucxpool_verbs ucxpool_verbs_t;

/*
 * Register every region of the pool in a protection domain; or take part in a
 * registration that is there: a second call for the same domain registers
 * nothing, gives the same handle, and asks for one more
 * ucxpool_verbs_deregister(). A pool may be registered in several domains at a
 * time, of one device or of several.
 *
 * pd      The caller's. It, and its device, stay open until the pool is
 *         deregistered or destroyed.
 * access  Set of IBV_ACCESS_LOCAL_WRITE and so on, as for ibv_reg_mr(). Those
 *         that a device may ignore, such as IBV_ACCESS_RELAXED_ORDERING, are
 *         left out where libibverbs is too old to know them.
 *         IBV_ACCESS_ZERO_BASED is not possible.
 * verbs_p [out] Valid until deregistered, or the pool is destroyed. Untouched
 *         after an error.
 *
 * After an error nothing is registered: what had been is not any more. The
 * detail names the region, how much had been registered, the system's reason,
 * and the limit to raise.
 *
 * UCXPOOL_ERR_INVALID_PARAM  pd or verbs_p is NULL; flags that do not go
 *                            together, or that the device refused; or the
 *                            domain is registered with other flags
 * UCXPOOL_ERR_NO_MEMORY      over the limit of locked memory (ulimit -l), or no
 *                            room in the device or in the GPU's BAR1
 * UCXPOOL_ERR_LIMIT          over the number of regions that the device or the
 *                            control group (rdma.max) allows
 * UCXPOOL_ERR_UNSUPPORTED    built without verbs; libibverbs.so.1 is not in the
 *                            process; or neither dmabuf nor nvidia-peermem is
 *                            there for memory of a GPU
 * UCXPOOL_ERR_PERMISSION     the system does not allow it
 * UCXPOOL_ERR_IO             another error of the device
 *
 * Any thread. Takes as long as pinning the pool's memory takes; transfers of
 * other threads go on meanwhile.
 */
ucxpool_status_t ucxpool_verbs_register(ucxpool_t *pool, struct ibv_pd *pd,
                                        int access, ucxpool_verbs_t **verbs_p);

/*
 * Deregister, if this was the last of the calls that registered. NULL is
 * allowed.
 *
 * UCXPOOL_OK      verbs is gone, or one user's fewer
 * UCXPOOL_ERR_IO  the device keeps regions, because memory windows are bound to
 *                 them. Others are deregistered. verbs is good for one thing
 *                 still: free the windows, and call again
 *
 * ucxpool_destroy() does this for what is registered still, whoever has asked
 * for it; then the handles are gone with the pool.
 */
ucxpool_status_t ucxpool_verbs_deregister(ucxpool_verbs_t *verbs);

/* What one scatter/gather element, or one remote address, can describe. */
typedef struct ucxpool_verbs_piece {
    uint64_t address; /* for ibv_sge.addr and wr.rdma.remote_addr. Not always
                         the address that was asked for: buffers whose blocks
                         lie apart have addresses that no device knows */
    size_t   length;  /* bytes from there on that belong to the same region */
    uint32_t lkey;
    uint32_t rkey;
    uint64_t reserved[2];
} ucxpool_verbs_piece_t;

/*
 * The keys of the first bytes of a block or of a buffer, and of how many. Of a
 * block, those are all. No system call, no allocation, no lock.
 *
 * address  In a block of ucxpool_block_get(), or a buffer of
 *          ucxpool_comm_alloc().
 * length   Bytes, 1 or more. piece_p->length is that, or less: then the rest is
 *          another piece.
 *
 * UCXPOOL_ERR_INVALID_PARAM  length is 0, or the address is not the pool's
 * UCXPOOL_ERR_CLOSED         deregistered, see ucxpool_verbs_deregister()
 */
ucxpool_status_t ucxpool_verbs_keys(const ucxpool_verbs_t *verbs,
                                    const void *address, size_t length,
                                    ucxpool_verbs_piece_t *piece_p);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
