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

/* The values of the keys that base/key.c describes, with their defaults and
 * limits. A field has the name of its key. */
typedef struct base_config {
    /* memory */
    size_t         comm_size;
    bool           comm_strict;
    size_t         block_size;
    size_t         region_size;
    unsigned       send_share;
    unsigned       recv_share;
    base_switch_t  huge_pages;
    base_backing_t cuda_backing;

    /* heap */
    size_t memory_limit;
    size_t heap_chunk;
    size_t heap_alignment;
    size_t heap_stitch;
    char   heap_log[BASE_PATH_SIZE];

    /* transfer */
    base_wire_t       wire;
    base_require_t    require;
    base_map_way_t    map_way;
    char              socket_dir[BASE_PATH_SIZE];
    base_window_way_t window_way;
    size_t            window_budget;
    size_t            frag_size;
    unsigned          depth;
    size_t            eager_size;
    unsigned          credits;
    unsigned          max_unexpected; /* in units of proto_desc_cost() */
    size_t            inplace_min;
    size_t            max_metadata;
    size_t            max_segments;
    base_checksum_t   checksum;
    unsigned          am_id;
    uint64_t          request_timeout_ns;
    uint64_t          close_timeout_ns;
    uint64_t          peer_timeout_ns;
    uint64_t          spin_ns;

    /* peers */
    char           secret_file[BASE_PATH_SIZE];
    base_secret_t *secret; /* replaces SECRET_FILE; not a key; NULL: none */
    bool           listen_without_secret;
    unsigned       max_half_open;
    unsigned       accept_queue;
    uint64_t       handshake_timeout_ns;

    /* process */
    unsigned log_level; /* base_log_level_t */
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
