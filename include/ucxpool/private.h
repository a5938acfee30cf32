/*
 * Functions that ucxpool_info and libucxpool-framework need in addition to the
 * API. This header is not installed, and the functions are exported with the
 * symbol version UCXPOOL_PRIVATE, so they may change with every release.
 * ucxpool_info and libucxpool-framework are always from the same build as the
 * library.
 */
#ifndef UCXPOOL_PRIVATE_H
#define UCXPOOL_PRIVATE_H

#include <ucxpool/device.h>
#include <ucxpool/pool.h>
#include <ucxpool/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* --- errors -----------------------------------------------------------------
 */

/* Set the result of ucxpool_error_detail() in the calling thread, log it, and
 * return the status. */
ucxpool_status_t ucxpool_error_set(ucxpool_status_t status, const char *format,
                                   ...) __attribute__((format(printf, 2, 3)));

/* The level at which the calling thread's errors are logged. */
typedef enum ucxpool_error_level {
    UCXPOOL_ERROR_LEVEL_WARN  = 2, /* no caller can see the errors */
    UCXPOOL_ERROR_LEVEL_INFO  = 3, /* the caller handles them: default */
    UCXPOOL_ERROR_LEVEL_DEBUG = 4  /* the caller expects errors */
} ucxpool_error_level_t;

/* Set the level for the calling thread. Returns the previous level, which the
 * caller restores afterwards. */
ucxpool_error_level_t ucxpool_error_set_level(ucxpool_error_level_t level);

/* --- streams ----------------------------------------------------------------
 */

/*
 * Make one of the library's streams on a GPU wait for all work queued so far in
 * `stream` and in the num_streams `streams`. Memory that is freed in the
 * returned stream can be reused after this work. The streams of the caller do
 * not wait.
 *
 * stream_p [out]  The library's stream, which exists until the process ends.
 *
 * UCXPOOL_ERR_INVALID_PARAM  no such GPU
 * others                     the driver failed; the stream may then wait for a
 *                            part of the work
 */
ucxpool_status_t ucxpool_device_join_streams(int device, void *stream,
                                             void *const *streams,
                                             size_t       num_streams,
                                             void       **stream_p);

/* Wait for all work on a GPU. */
void ucxpool_device_synchronize(int device);

/* --- forks ------------------------------------------------------------------
 */

/* Returns true in a forked child of the process that owns the pool. */
bool ucxpool_is_foreign(const ucxpool_t *pool);

/* --- memory domains ---------------------------------------------------------
 */

/* Properties of a UCX memory domain. */
typedef enum ucxpool_domain_flags {
    /*
     * UCX has reported the properties below. If this flag is clear, the flags
     * below are meaningless
     */
    UCXPOOL_DOMAIN_KNOWN = 1u << 0,
    /* can transfer data between hosts */
    UCXPOOL_DOMAIN_NETWORK = 1u << 1,
    /* can register memory of the kind that this pool passes to UCX */
    UCXPOOL_DOMAIN_REGISTERS = 1u << 2,
    /* can only transfer memory that it has registered */
    UCXPOOL_DOMAIN_NEEDS_KEYS = 1u << 3,
    /* must register every region, or ucxpool_create() fails */
    UCXPOOL_DOMAIN_NEEDED = 1u << 4
} ucxpool_domain_flags_t;

/* A UCX memory domain (MD). It registers memory with a device, such as a
 * network card. */
typedef struct ucxpool_domain {
    char     name[64];      /* "mlx5_0", "tcp" */
    char     component[32]; /* UCX component: "ib", "tcp" */
    uint32_t flags;         /* set of ucxpool_domain_flags_t */
    uint32_t num_regions;   /* regions that the domain has registered */
} ucxpool_domain_t;

/*
 * List the memory domains of the pool's UCX context, and the number of regions
 * that each domain has registered.
 *
 * ucp_mem_map() succeeds as soon as one domain has registered a region, even if
 * a network card has refused it. The first send would then fail. Therefore
 * ucxpool_create() inspects the remote key that UCX packs for each region, and
 * fails if a needed domain is missing. A domain is needed if it belongs to a
 * network, can register the pool's kind of memory, and can transfer only
 * registered memory. For GPU memory, it is sufficient if one network has
 * registered the first region, because UCX may not use network cards that are
 * far from the GPU. Every domain that has registered the first region must have
 * registered all regions.
 *
 * domains [out]  Array with room for max_domains domains; as many as fit are
 *                written. May be NULL if max_domains is 0.
 *
 * Returns the number of domains, or 0 if the library cannot read the keys of
 * this UCX or the names of its domains. In that case ucxpool_create() has
 * verified only that the keys exist.
 */
size_t ucxpool_domains_query(ucxpool_t *pool, ucxpool_domain_t *domains,
                             size_t max_domains);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
