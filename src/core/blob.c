#include "core/blob.h"

#include "base/error.h"
#include "core/proto.h"
#include "ucx/status.h"

#include <stdlib.h>
#include <string.h>

#define ADDRESS_MAGIC 0x70786375u /* "ucxp" */

ucxpool_status_t core_blob_create(ucxpool_t *pool, uint64_t pair,
                                  core_blob_t **address_p, size_t *length_p)
{
    ucp_address_t *worker;
    size_t         worker_length;
    core_blob_t   *address;
    ucs_status_t   status;

    status = ucp_worker_get_address(pool->ucx.worker, &worker, &worker_length);
    if (status != UCS_OK) {
        return base_error(ucx_status(status),
                          "UCX gave no address of its worker: %s",
                          ucs_status_string(status));
    }
    address = calloc(1, sizeof(*address) + worker_length);
    if (address == NULL) {
        ucp_worker_release_address(pool->ucx.worker, worker);
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for an address");
    }
    address->magic         = ADDRESS_MAGIC;
    address->version       = PROTO_VERSION;
    address->am_id         = (uint16_t)pool->config.am_id;
    address->pair          = pair;
    address->worker_length = (uint32_t)worker_length;
    if (pool->handout != NULL) {
        address->net_namespace = ipc_net_namespace();
    }
    ipc_host_fill(&address->host);
    memcpy(address->id, pool->id, sizeof(address->id));
    memcpy(address->key, pool->key, sizeof(address->key));
    memcpy(address->worker, worker, worker_length);
    ucp_worker_release_address(pool->ucx.worker, worker);
    *address_p = address;
    *length_p  = sizeof(*address) + worker_length;
    return UCXPOOL_OK;
}

ucxpool_status_t core_blob_check(const void *data, size_t length,
                                 core_blob_t *head_p)
{
    if (length < sizeof(*head_p)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "an address of %zu bytes is not one of a pool",
                          length);
    }
    memcpy(head_p, data, sizeof(*head_p));
    if (head_p->magic != ADDRESS_MAGIC) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the address is not one of a pool: it must come from "
                          "ucxpool_address_get()");
    }
    if (head_p->version != PROTO_VERSION) {
        return base_error(UCXPOOL_ERR_PROTOCOL,
                          "the peer speaks protocol version %u, we speak %u: "
                          "use the same version of libucxpool on both sides",
                          head_p->version, PROTO_VERSION);
    }
    if ((head_p->worker_length != length - sizeof(*head_p)) ||
        (head_p->worker_length == 0)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "the address is damaged: %zu bytes in place of %zu",
                          length, sizeof(*head_p) + head_p->worker_length);
    }
    return UCXPOOL_OK;
}
