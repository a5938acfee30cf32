#include "ucx/context.h"
#include "ucx/reg.h"

#include "base/error.h"
#include "base/text.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* --- local memory --------------------------------------------------------- */

/* The first minor version of UCX 1 with get and put for GPU memory. UCX up to
 * 1.15 treats GPU addresses as host addresses. UCX up to 1.18 implements a get
 * of GPU memory through messages if the endpoint has failure handling. */
#define GPU_MINOR 19u

static ucxpool_status_t check_gpu(ucp_context_h context)
{
    ucx_facts_t      facts;
    ucxpool_status_t status = ucx_facts_get(context, &facts);

    if (status != UCXPOOL_OK) {
        return status;
    }
    if (!facts.has_cuda) {
        return base_error(UCXPOOL_ERR_UNSUPPORTED,
                          "this UCX has no CUDA support");
    }
    if ((facts.major == 1) && (facts.minor < GPU_MINOR)) {
        return base_error(
            UCXPOOL_ERR_UNSUPPORTED,
            "UCX %u.%u cannot get and put GPU memory; use UCX 1.%u or later",
            facts.major, facts.minor, GPU_MINOR);
    }
    return UCXPOOL_OK;
}

/* Check that the networks that must register the memory have registered it; for
 * GPU memory one is enough. Without the check, the failure would appear only at
 * a peer's first access (reg.h). */
static ucxpool_status_t check_domains(const ucx_rma_memory_t *memory,
                                      bool                    is_on_gpu,
                                      const ucx_domains_t    *domains)
{
    char     names[UCX_DOMAINS_TEXT];
    uint64_t taken;
    uint64_t missing;

    if ((domains == NULL) || (domains->num == 0) ||
        !ucx_key_read(memory->key, memory->key_size, domains->num, &taken)) {
        return UCXPOOL_OK;
    }
    missing = domains->needed & ~taken;
    if ((missing == 0) || (is_on_gpu && (missing != domains->needed))) {
        return UCXPOOL_OK;
    }
    ucx_domains_format(domains, missing, names);
    return base_error(UCXPOOL_ERR_IO,
                      "the memory is not registered with %.48s, though UCX "
                      "reported success; check UCX_NET_DEVICES",
                      names);
}

static ucxpool_status_t pack(ucp_context_h context, ucx_rma_memory_t *memory)
{
    ucs_status_t status =
        ucp_rkey_pack(context, memory->memh, &memory->key, &memory->key_size);

    if (status != UCS_OK) {
        memory->key = NULL;
        return base_error(ucx_status(status),
                          "UCX cannot pack a key for the window: %s (check "
                          "UCX_TLS)",
                          ucs_status_string(status));
    }
    if ((memory->key_size == 0) || (memory->key_size > UCX_RMA_KEY_MAX)) {
        return base_error(
            UCXPOOL_ERR_IO,
            "UCX packed a key of %zu bytes; the limits are 1 and %u bytes",
            memory->key_size, UCX_RMA_KEY_MAX);
    }
    return UCXPOOL_OK;
}

void ucx_rma_deregister(ucp_context_h context, ucx_rma_memory_t *memory)
{
    if (memory->key != NULL) {
        ucp_rkey_buffer_release(memory->key);
    }
    if (memory->memh != NULL) {
        ucx_mem_unmap(context, memory->memh);
    }
    *memory = (ucx_rma_memory_t){.memh = NULL};
}

static ucxpool_status_t map(ucp_context_h context, void *address, size_t length,
                            bool is_on_gpu, ucp_mem_h *memh_p)
{
    ucs_status_t status =
        ucx_mem_map(context, address, length, is_on_gpu, memh_p);

    if (status != UCS_OK) {
        return base_error(ucx_status(status),
                          "UCX cannot register the window (%zu bytes): %s%s",
                          length, ucs_status_string(status),
                          is_on_gpu ? "" : " (check ulimit -l)");
    }
    return UCXPOOL_OK;
}

ucxpool_status_t ucx_rma_register(ucp_context_h context, void *address,
                                  size_t length, bool is_on_gpu,
                                  const ucx_domains_t *domains,
                                  ucx_rma_memory_t    *memory_p)
{
    ucx_rma_memory_t memory = {.memh = NULL};
    ucxpool_status_t status = is_on_gpu ? check_gpu(context) : UCXPOOL_OK;

    if (status == UCXPOOL_OK) {
        status = map(context, address, length, is_on_gpu, &memory.memh);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = pack(context, &memory);
    if (status == UCXPOOL_OK) {
        status = check_domains(&memory, is_on_gpu, domains);
    }
    if (status != UCXPOOL_OK) {
        goto err_deregister;
    }
    *memory_p = memory;
    return UCXPOOL_OK;

err_deregister:
    ucx_rma_deregister(context, &memory);
    return status;
}

/* --- a peer's key --------------------------------------------------------- */

bool ucx_rma_key_check(const void *key, size_t size, bool *is_on_gpu_p)
{
    const uint8_t *type = (const uint8_t *)key + sizeof(uint64_t);
    uint64_t       domains;

    if ((size > UCX_RMA_KEY_MAX) ||
        !ucx_key_read(key, size, UCX_MAX_DOMAINS, &domains) ||
        ((*type != UCS_MEMORY_TYPE_HOST) && (*type != UCS_MEMORY_TYPE_CUDA))) {
        return false;
    }
    *is_on_gpu_p = *type == UCS_MEMORY_TYPE_CUDA;
    return true;
}

ucxpool_status_t ucx_rma_key_unpack(ucp_ep_h ep, const void *key, size_t size,
                                    ucp_rkey_h *rkey_p)
{
    /* The UCX function has no length parameter, and each memory domain reads as
     * many bytes as its own keys have. So the peer's key is copied to a larger
     * buffer of zeros. */
    uint64_t     room[(UCX_RMA_KEY_MAX + 512u) / sizeof(uint64_t)] = {0};
    ucs_status_t status;

    assert(size <= UCX_RMA_KEY_MAX);
    memcpy(room, key, size);
    status = ucp_ep_rkey_unpack(ep, room, rkey_p);
    if (status != UCS_OK) {
        return base_error(ucx_status(status),
                          "UCX rejected the owner's key: %s",
                          ucs_status_string(status));
    }
    return UCXPOOL_OK;
}

/* --- capabilities of an endpoint ------------------------------------------ */

/* Returns true for a transport that transfers only GPU memory. */
static bool is_for_gpu_alone(const char *line)
{
    return (strstr(line, ":cuda_ipc/") != NULL) ||
           (strstr(line, ":cuda_copy/") != NULL) ||
           (strstr(line, ":gdr_copy/") != NULL);
}

/* Returns true for the line of a native transport, such as
 * "# lane[1]:  2:rc_mlx5/mlx5_0:1.0 md[3] -> ... rma_bw#0 ...".
 * UCX's TCP transport also has a put, but the peer's worker must execute it. */
static bool is_native_lane(const char *line, bool for_gpu)
{
    return (strstr(line, "lane[") != NULL) &&
           ((strstr(line, " rma#") != NULL) ||
            (strstr(line, " rma_bw#") != NULL)) &&
           (strstr(line, ":tcp/") == NULL) &&
           (for_gpu || !is_for_gpu_alone(line));
}

bool ucx_rma_is_native(ucp_ep_h ep, bool for_gpu)
{
    base_string_t string;
    bool          found = false;
    char         *text, *rest;

    if (base_string_open(&string) != NULL) {
        ucp_ep_print_info(ep, string.stream);
    }
    text = base_string_close_or_warn(&string);
    if (text != NULL) {
        for (char *line = strtok_r(text, "\n", &rest); (line != NULL) && !found;
             line       = strtok_r(NULL, "\n", &rest)) {
            found = is_native_lane(line, for_gpu);
        }
    }
    free(text);
    return found;
}
