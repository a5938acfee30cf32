#include <config.h>

#include "tools/shuffle/pool.h"
#include "tools/shuffle/complaint.h"

#include <stdio.h>
#include <stdlib.h>

#define POOL_BLOCK_SIZE ((size_t)1024 * 1024)
/* The largest region that the library chooses by itself. */
#define POOL_REGION_SIZE ((size_t)64 * 1024 * 1024)
/* What a transfer needs for itself. */
#define POOL_TRANSFER_SIZE ((size_t)16 * 1024 * 1024)

static int pool_config_read(ucxpool_config_t **config_p)
{
    if (ucxpool_config_read(config_p) != UCXPOOL_OK) {
        return complain("%s", ucxpool_error_detail());
    }
    return 0;
}

int pool_check_settings(void)
{
    ucxpool_config_t *config;

    if (pool_config_read(&config) != 0) {
        return -1;
    }
    ucxpool_config_release(config);
    return 0;
}

/* Set a key, unless the user has. */
static int pool_config_default(ucxpool_config_t *config, const char *key,
                               const char *value)
{
    char variable[64];

    snprintf(variable, sizeof(variable), "UCXPOOL_%s", key);
    if ((getenv(variable) == NULL) &&
        (ucxpool_config_modify(config, key, value) != UCXPOOL_OK)) {
        return complain("%s", ucxpool_error_detail());
    }
    return 0;
}

/* Half of the blocks are for the caller. A pool of several regions is made of
 * whole ones. */
static size_t pool_comm_size(size_t memory_size)
{
    size_t size = 2 * memory_size + POOL_TRANSFER_SIZE + 2 * POOL_BLOCK_SIZE;
    size_t unit = size > POOL_REGION_SIZE ? POOL_REGION_SIZE : POOL_BLOCK_SIZE;

    return (size + unit - 1) / unit * unit;
}

static int pool_config_fit(ucxpool_config_t *config, size_t memory_size)
{
    char comm_size[32];

    snprintf(comm_size, sizeof(comm_size), "%zu", pool_comm_size(memory_size));
    if (getenv("UCXPOOL_BLOCK_SIZE") == NULL) {
        if ((pool_config_default(config, "BLOCK_SIZE", "1m") != 0) ||
            (pool_config_default(config, "COMM_SIZE", comm_size) != 0)) {
            return -1;
        }
    }
    /* With many partitions the columns are short: packing them costs less than
     * an operation for each. */
    if (pool_config_default(config, "INPLACE_MIN", "64k") != 0) {
        return -1;
    }
    /* What fails is said once, by the main process. */
    if (pool_config_default(config, "LOG_LEVEL", "error") != 0) {
        return -1;
    }
    /* After a failure a worker must not keep the others waiting. */
    return pool_config_default(config, "CLOSE_TIMEOUT", "300ms");
}

int pool_create(unsigned worker, size_t memory_size, ucxpool_t **pool_p)
{
    ucxpool_params_t  params = {0};
    ucxpool_config_t *config;
    char              name[32];
    int               result;

    if (pool_config_read(&config) != 0) {
        return -1;
    }
    result = pool_config_fit(config, memory_size);
    if (result == 0) {
        snprintf(name, sizeof(name), "worker-%u", worker);
        params.field_mask =
            UCXPOOL_PARAM_FIELD_CONFIG | UCXPOOL_PARAM_FIELD_NAME;
        params.config = config;
        params.name   = name;
        if (ucxpool_create(&params, pool_p) != UCXPOOL_OK) {
            result = complain("cannot create the pool of worker %u: %s",
                              worker, ucxpool_error_detail());
        }
    }
    ucxpool_config_release(config);
    return result;
}
