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

static ucxpool_status_t refuse(const char *name, size_t size,
                               const char *relation, const char *other_name,
                               size_t other_size, const char *advice)
{
    char text[BASE_FORMAT_SIZE], other[BASE_FORMAT_SIZE];

    base_format_size(size, text);
    base_format_size(other_size, other);
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "UCXPOOL_%s=%s is %s UCXPOOL_%s=%s: %s", name, text,
                      relation, other_name, other, advice);
}

/* Check COMM_SIZE. SEND_SHARE and RECV_SHARE each need at least one block. */
static ucxpool_status_t check_comm_size(const base_config_t *config)
{
    size_t comm = config->comm_size;

    if ((comm == BASE_SIZE_AUTO) || (comm == 0)) {
        return UCXPOOL_OK;
    }
    if ((config->block_size != BASE_SIZE_AUTO) &&
        (comm / 2 < config->block_size)) {
        return refuse("COMM_SIZE", comm, "less than two blocks of",
                      "BLOCK_SIZE", config->block_size,
                      "raise UCXPOOL_COMM_SIZE or lower UCXPOOL_BLOCK_SIZE");
    }
    if ((config->region_size != BASE_SIZE_AUTO) &&
        (config->region_size > comm)) {
        return refuse("REGION_SIZE", config->region_size, "more than",
                      "COMM_SIZE", comm,
                      "lower UCXPOOL_REGION_SIZE or set it to auto");
    }
    if ((config->memory_limit != BASE_SIZE_AUTO) &&
        (comm > config->memory_limit)) {
        return refuse("COMM_SIZE", comm, "more than", "MEMORY_LIMIT",
                      config->memory_limit,
                      "the limit includes blocks and heap; lower "
                      "UCXPOOL_COMM_SIZE or raise UCXPOOL_MEMORY_LIMIT");
    }
    return UCXPOOL_OK;
}

static ucxpool_status_t check_block_size(const base_config_t *config)
{
    size_t block = config->block_size;

    if (block == BASE_SIZE_AUTO) {
        return UCXPOOL_OK;
    }
    if ((config->region_size != BASE_SIZE_AUTO) &&
        ((config->region_size == 0) || (config->region_size % block != 0))) {
        return refuse("REGION_SIZE", config->region_size, "not a multiple of",
                      "BLOCK_SIZE", block, "set it to a multiple, or to auto");
    }
    if ((config->frag_size != BASE_SIZE_AUTO) && (config->frag_size > block)) {
        return refuse("FRAG_SIZE", config->frag_size, "more than", "BLOCK_SIZE",
                      block,
                      "a fragment must fit in one block; lower "
                      "UCXPOOL_FRAG_SIZE or set it to auto");
    }
    return UCXPOOL_OK;
}

ucxpool_status_t base_config_check(const base_config_t *config)
{
    ucxpool_status_t status = check_shares(config);

    if (status == UCXPOOL_OK) {
        status = check_block_size(config);
    }
    return (status == UCXPOOL_OK) ? check_comm_size(config) : status;
}
