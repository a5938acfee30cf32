/*
 * A pool's address, as it goes from process to process.
 */
#ifndef CORE_BLOB_H
#define CORE_BLOB_H

#include "core/pool.h"
#include "ipc/share.h"

/* In a listener's answer: who begins the channels of the two (remote.h). */
typedef enum core_blob_turn {
    CORE_BLOB_NO_TURN   = 0, /* not told */
    CORE_BLOB_CALLERS   = 1, /* the caller, to whom it goes */
    CORE_BLOB_LISTENERS = 2  /* the listener, who says it */
} core_blob_turn_t;

/*
 * What ucxpool_address_get() gives: how a pool can be reached. Little-endian.
 *
 *     magic | version | AM_ID | id of the pool | its key | ... | UCX's worker
 *                                                                    address
 */
typedef struct core_blob {
    uint32_t   magic;
    uint16_t   version;
    uint16_t   am_id; /* of its active messages; the next is used too */
    uint8_t    id[CORE_ID_SIZE];
    uint8_t    key[CORE_ID_SIZE];
    uint64_t   pair; /* from a door: the number of the pair; else 0 */
    uint32_t   worker_length;
    uint32_t   turn;          /* core_blob_turn_t */
    uint64_t   net_namespace; /* where its socket is seen; 0: it has none */
    ipc_host_t host;
    uint8_t    worker[];
} core_blob_t;

/* This pool's blob, allocated. */
ucxpool_status_t core_blob_create(ucxpool_t *pool, uint64_t pair,
                                  core_blob_t **address_p, size_t *length_p);

/*
 * Check a blob that came from somewhere; its head.
 *
 * UCXPOOL_ERR_INVALID_PARAM, UCXPOOL_ERR_PROTOCOL
 */
ucxpool_status_t core_blob_check(const void *data, size_t length,
                                 core_blob_t *head_p);

#endif
