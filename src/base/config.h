/*
 * The settings of a pool as values. base/key.h parses them from text.
 */
#ifndef BASE_CONFIG_H
#define BASE_CONFIG_H

#include "base/secret.h"

#include <ucxpool/config.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Special values of a size. AUTO: the library chooses the size. INF: no
 * limit. */
#define BASE_SIZE_AUTO SIZE_MAX
#define BASE_SIZE_INF  (SIZE_MAX - 1)

/* Longest path in bytes, including the terminating NUL. Equals PATH_MAX of
 * Linux, which limits.h does not define in every compiler mode. */
#define BASE_PATH_SIZE 4096

typedef enum base_wire {
    BASE_WIRE_AUTO,
    BASE_WIRE_MAP,
    BASE_WIRE_UCX
} base_wire_t;

/* The paths that a channel may use: one bit per value of ucxpool_path_t. */
typedef enum base_require {
    BASE_REQUIRE_ANY,
    BASE_REQUIRE_MAP,
    BASE_REQUIRE_RMA,
    BASE_REQUIRE_MAP_RMA,
    BASE_REQUIRE_DIRECT,
    BASE_REQUIRE_DIRECT_RMA
} base_require_t;

typedef enum base_map_way {
    BASE_MAP_WAY_AUTO,
    BASE_MAP_WAY_PULL,
    BASE_MAP_WAY_PUSH,
    BASE_MAP_WAY_HOST
} base_map_way_t;

typedef enum base_window_way {
    BASE_WINDOW_WAY_AUTO,
    BASE_WINDOW_WAY_MESSAGES,
    BASE_WINDOW_WAY_DIRECT
} base_window_way_t;

typedef enum base_checksum {
    BASE_CHECKSUM_NONE,
    BASE_CHECKSUM_CRC32C
} base_checksum_t;

typedef enum base_backing {
    BASE_BACKING_AUTO,
    BASE_BACKING_ALLOC,
    BASE_BACKING_VMM,
    BASE_BACKING_HOST
} base_backing_t;

typedef enum base_switch {
    BASE_SWITCH_NO,
    BASE_SWITCH_YES,
    BASE_SWITCH_TRY
} base_switch_t;

typedef struct base_config {
    /* memory */
    size_t comm_size;            /* COMM_SIZE: auto, or bytes of all blocks; 0:
                                    no blocks and no channels */
    bool           comm_strict;  /* COMM_STRICT: n */
    size_t         block_size;   /* BLOCK_SIZE: auto; power of two, 4k to 1g */
    size_t         region_size;  /* REGION_SIZE: auto; multiple of BLOCK_SIZE */
    unsigned       send_share;   /* SEND_SHARE: 25, percent of the blocks */
    unsigned       recv_share;   /* RECV_SHARE: 25, percent of the blocks */
    base_switch_t  huge_pages;   /* HUGE_PAGES: try */
    base_backing_t cuda_backing; /* CUDA_BACKING: auto, alloc, vmm, host */

    /* heap */
    size_t memory_limit;   /* MEMORY_LIMIT: auto; of blocks plus heap */
    size_t heap_chunk;     /* HEAP_CHUNK: 32m; power of two, 2m to 128m */
    size_t heap_alignment; /* HEAP_ALIGNMENT: 256; power of two */
    size_t heap_stitch;    /* HEAP_STITCH: auto; bytes of address space */
    char   heap_log[BASE_PATH_SIZE]; /* HEAP_LOG: empty */

    /* transfer */
    base_wire_t       wire;    /* WIRE: auto, map, ucx */
    base_require_t    require; /* REQUIRE */
    base_map_way_t    map_way; /* MAP_WAY: auto, pull, push, host */
    char              socket_dir[BASE_PATH_SIZE]; /* SOCKET_DIR: empty */
    base_window_way_t window_way;    /* WINDOW_WAY: auto, messages, direct */
    size_t            window_budget; /* WINDOW_BUDGET: inf */
    size_t            frag_size;     /* FRAG_SIZE: auto; at most a block */
    unsigned          depth;      /* DEPTH: fragments in flight per message */
    size_t            eager_size; /* EAGER_SIZE: 16k */
    /* CREDITS: 64; the maximum number of unmatched messages of one channel that
     * the peer has sent with their data. */
    unsigned credits;
    /* MAX_UNEXPECTED: 131072; the limit of unmatched messages of one channel
     * that have arrived without their data, in units of proto_desc_cost(). */
    unsigned max_unexpected;
    size_t   inplace_min;               /* INPLACE_MIN: 16k; shorter pieces of
                                           registered memory are packed */
    size_t          max_metadata;       /* MAX_METADATA: 2k; at most 4k */
    size_t          max_segments;       /* MAX_SEGMENTS: 4m (4,194,304) */
    base_checksum_t checksum;           /* CHECKSUM: none, crc32c */
    unsigned        am_id;              /* AM_ID: 100; this id and the next */
    uint64_t        request_timeout_ns; /* REQUEST_TIMEOUT: inf */
    uint64_t        close_timeout_ns;   /* CLOSE_TIMEOUT: 2s */
    uint64_t        peer_timeout_ns;    /* PEER_TIMEOUT: 10s */
    uint64_t        spin_ns; /* SPIN: 200us; polling before a sleep */

    /* peers */
    char           secret_file[BASE_PATH_SIZE]; /* SECRET_FILE: empty */
    base_secret_t *secret; /* replaces SECRET_FILE; not a key; NULL: none */
    bool           listen_without_secret; /* LISTEN_WITHOUT_SECRET: n */
    unsigned       max_half_open;         /* MAX_HALF_OPEN: 1024 */
    unsigned       accept_queue;          /* ACCEPT_QUEUE: 1024 */
    uint64_t       handshake_timeout_ns;  /* HANDSHAKE_TIMEOUT: 30s */

    /* process */
    unsigned log_level; /* LOG_LEVEL: warn */
} base_config_t;

/*
 * Check that the values are consistent with each other. ucxpool_create() calls
 * this function. ucxpool_config_modify() does not, so the order of
 * modifications does not matter.
 *
 * UCXPOOL_ERR_INVALID_PARAM  inconsistent; the detail gives keys and values
 */
ucxpool_status_t base_config_check(const base_config_t *config);

/*
 * Get the secret that the settings specify. The caller gets a reference.
 * *secret_p is NULL if no secret is set.
 *
 * Errors: see base_secret_read().
 */
ucxpool_status_t base_config_secret(const base_config_t *config,
                                    base_secret_t      **secret_p);

/*
 * Environment variables that apply to the process, not to a pool. They override
 * the paths of system libraries. Other layers read them. Their names are
 * defined here, so that reading a configuration does not report them as unknown
 * keys.
 */
#define BASE_VARIABLE_CUDA_DRIVER   "UCXPOOL_CUDA_DRIVER"
#define BASE_VARIABLE_NVML_LIBRARY  "UCXPOOL_NVML_LIBRARY"
#define BASE_VARIABLE_VERBS_LIBRARY "UCXPOOL_VERBS_LIBRARY"

#endif
