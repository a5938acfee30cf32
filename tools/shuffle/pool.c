#include <config.h>

#include "tools/shuffle/pool.h"
#include "tools/shuffle/error.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define MIB ((size_t)1024 * 1024)
/* Batches are sent and received in place, in the caller's share: what is left
 * after these shares, in percent. */
#define POOL_SEND_SHARE 20
#define POOL_RECV_SHARE 10
#define POOL_USER_SHARE (100 - POOL_SEND_SHARE - POOL_RECV_SHARE)
/* Beyond what the batches need: for packing. */
#define POOL_SPARE      (8 * MIB)
#define POOL_LARGE_PAGE (2 * MIB)

#define POOL_TEXT(_number)  POOL_TEXT_(_number)
#define POOL_TEXT_(_number) #_number

static int pool_config_read(ucxpool_config_t **config_p)
{
    if (ucxpool_config_read(config_p) != UCXPOOL_OK) {
        return say_error("%s", ucxpool_error_detail());
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
        return say_error("%s", ucxpool_error_detail());
    }
    return 0;
}

/* A setting that fits this tool. */
typedef struct pool_setting {
    const char *key;
    const char *value;
} pool_setting_t;

/* In whole large pages: every worker maps the pool of every other, and 4 KiB at
 * a time that takes longer than the transfer. */
static size_t pool_size(size_t memory_size)
{
    size_t size = memory_size / POOL_USER_SHARE * 100 + POOL_SPARE;

    return (size / POOL_LARGE_PAGE + 1) * POOL_LARGE_PAGE;
}

static int pool_config_size(ucxpool_config_t *config, size_t memory_size)
{
    char comm_size[32];

    /* Blocks of 1 MiB, in one region. */
    snprintf(comm_size, sizeof(comm_size), "%zum",
             pool_size(memory_size) / MIB);
    if ((pool_config_default(config, "BLOCK_SIZE", "1m") != 0) ||
        (pool_config_default(config, "COMM_SIZE", comm_size) != 0)) {
        return -1;
    }
    return getenv("UCXPOOL_COMM_SIZE") == NULL
               ? pool_config_default(config, "REGION_SIZE", comm_size)
               : 0;
}

/* Regions are the library's choice there: they need not be one for each pool
 * to be mapped fast. */
static int pool_config_device_size(ucxpool_config_t *config, size_t memory_size)
{
    char comm_size[32];

    snprintf(comm_size, sizeof(comm_size), "%zum",
             pool_size(memory_size) / MIB);
    return (pool_config_default(config, "BLOCK_SIZE", "2m") == 0)
               ? pool_config_default(config, "COMM_SIZE", comm_size)
               : -1;
}

static int pool_config_fit(ucxpool_config_t *config, bool is_on_device,
                           size_t memory_size)
{
    static const pool_setting_t settings[] = {
        {"SEND_SHARE", POOL_TEXT(POOL_SEND_SHARE)},
        {"RECV_SHARE", POOL_TEXT(POOL_RECV_SHARE)},
        /* What fails is said once, by the main process. */
        {"LOG_LEVEL", "error"},
        /* After a failure a worker must not keep the others waiting. */
        {"CLOSE_TIMEOUT", "300ms"},
    };

    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (pool_config_default(config, settings[i].key, settings[i].value) !=
            0) {
            return -1;
        }
    }
    /* The columns of hashes and ends are short: for a processor, packing them
     * costs less than an operation for each. */
    if (!is_on_device &&
        (pool_config_default(config, "INPLACE_MIN", "32k") != 0)) {
        return -1;
    }
    /* Another block size has a best size of its own. */
    if (getenv("UCXPOOL_BLOCK_SIZE") != NULL) {
        return 0;
    }
    return is_on_device ? pool_config_device_size(config, memory_size)
                        : pool_config_size(config, memory_size);
}

static int pool_make(unsigned worker, const ucxpool_config_t *config,
                     const device_t *device, ucxpool_t **pool_p)
{
    ucxpool_params_t params = {0};
    char             name[32];

    snprintf(name, sizeof(name), "worker-%u", worker);
    params.field_mask = UCXPOOL_PARAM_FIELD_CONFIG | UCXPOOL_PARAM_FIELD_NAME;
    params.config     = config;
    params.name       = name;
    if (device != NULL) {
        params.field_mask |=
            UCXPOOL_PARAM_FIELD_MEMORY_KIND | UCXPOOL_PARAM_FIELD_DEVICE;
        params.memory_kind = UCXPOOL_MEMORY_CUDA;
        params.device      = device_number(device);
    }
    if (ucxpool_create(&params, pool_p) != UCXPOOL_OK) {
        return say_error("cannot create the pool of worker %u: %s", worker,
                         ucxpool_error_detail());
    }
    return 0;
}

int pool_create(unsigned worker, const device_t *device, size_t memory_size,
                ucxpool_t **pool_p)
{
    ucxpool_config_t *config;
    int               result;

    if (pool_config_read(&config) != 0) {
        return -1;
    }
    result = pool_config_fit(config, device != NULL, memory_size);
    if (result == 0) {
        result = pool_make(worker, config, device, pool_p);
    }
    ucxpool_config_release(config);
    return result;
}
