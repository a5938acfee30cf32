#include <config.h>

#include "base/config.h"

#include "base/error.h"
#include "base/text.h"

ucxpool_status_t base_config_secret(const base_config_t *config,
                                    base_secret_t      **secret_p)
{
    if (config->secret == NULL) {
        return base_secret_read(config->secret_file, secret_p);
    }
    *secret_p = base_secret_get(config->secret);
    return UCXPOOL_OK;
}

/* Check both shares together. The table of keys checks only the range of each
 * share. */
static ucxpool_status_t check_shares(const base_config_t *config)
{
    if ((config->send_share < 1) || (config->recv_share < 1) ||
        (config->send_share + config->recv_share > 100)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "UCXPOOL_SEND_SHARE=%u and UCXPOOL_RECV_SHARE=%u: "
                          "each must be at least 1, and their sum at most 100",
                          config->send_share, config->recv_share);
    }
    return UCXPOOL_OK;
}

/* Check that the blocks suffice: SEND_SHARE and RECV_SHARE each need at least
 * one. */
static ucxpool_status_t check_comm_size(const base_config_t *config)
{
    char comm[BASE_FORMAT_SIZE], other[BASE_FORMAT_SIZE];

    if ((config->comm_size == BASE_SIZE_AUTO) || (config->comm_size == 0)) {
        return UCXPOOL_OK;
    }
    base_format_size(config->comm_size, comm);
    if ((config->block_size != BASE_SIZE_AUTO) &&
        (config->comm_size / 2 < config->block_size)) {
        base_format_size(config->block_size, other);
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "UCXPOOL_COMM_SIZE=%s is less than two blocks of "
                          "UCXPOOL_BLOCK_SIZE=%s: raise UCXPOOL_COMM_SIZE or "
                          "lower UCXPOOL_BLOCK_SIZE",
                          comm, other);
    }
    if ((config->region_size != BASE_SIZE_AUTO) &&
        (config->region_size > config->comm_size)) {
        base_format_size(config->region_size, other);
        return base_error(
            UCXPOOL_ERR_INVALID_PARAM,
            "UCXPOOL_REGION_SIZE=%s is more than UCXPOOL_COMM_SIZE=%s: lower "
            "UCXPOOL_REGION_SIZE or set it to auto",
            other, comm);
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t check_region_size(const base_config_t *config)
{
    char region[BASE_FORMAT_SIZE], block[BASE_FORMAT_SIZE];

    if ((config->region_size == BASE_SIZE_AUTO) ||
        (config->block_size == BASE_SIZE_AUTO) ||
        ((config->region_size != 0) &&
         (config->region_size % config->block_size == 0))) {
        return UCXPOOL_OK;
    }
    base_format_size(config->region_size, region);
    base_format_size(config->block_size, block);
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "UCXPOOL_REGION_SIZE=%s is not a multiple of "
                      "UCXPOOL_BLOCK_SIZE=%s: set "
                      "it to a multiple, or to auto",
                      region, block);
}

static ucxpool_status_t check_frag_size(const base_config_t *config)
{
    char frag[BASE_FORMAT_SIZE], block[BASE_FORMAT_SIZE];

    if ((config->frag_size == BASE_SIZE_AUTO) ||
        (config->block_size == BASE_SIZE_AUTO) ||
        (config->frag_size <= config->block_size)) {
        return UCXPOOL_OK;
    }
    base_format_size(config->frag_size, frag);
    base_format_size(config->block_size, block);
    return base_error(
        UCXPOOL_ERR_INVALID_PARAM,
        "UCXPOOL_FRAG_SIZE=%s is more than UCXPOOL_BLOCK_SIZE=%s: a fragment "
        "must fit in one block; lower UCXPOOL_FRAG_SIZE or set it to auto",
        frag, block);
}

static ucxpool_status_t check_memory_limit(const base_config_t *config)
{
    char limit[BASE_FORMAT_SIZE], comm[BASE_FORMAT_SIZE];

    if ((config->memory_limit == BASE_SIZE_AUTO) ||
        (config->comm_size == BASE_SIZE_AUTO) ||
        (config->comm_size <= config->memory_limit)) {
        return UCXPOOL_OK;
    }
    base_format_size(config->memory_limit, limit);
    base_format_size(config->comm_size, comm);
    return base_error(
        UCXPOOL_ERR_INVALID_PARAM,
        "UCXPOOL_COMM_SIZE=%s is more than UCXPOOL_MEMORY_LIMIT=%s, which "
        "includes blocks and heap: lower UCXPOOL_COMM_SIZE or raise "
        "UCXPOOL_MEMORY_LIMIT",
        comm, limit);
}

ucxpool_status_t base_config_check(const base_config_t *config)
{
    static ucxpool_status_t (*const checks[])(const base_config_t *) = {
        check_shares, check_region_size, check_comm_size, check_frag_size,
        check_memory_limit};

    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
        ucxpool_status_t status = checks[i](config);

        if (status != UCXPOOL_OK) {
            return status;
        }
    }
    return UCXPOOL_OK;
}
