#include "common/pool.h"

#include <ucxpool/stats.h>

#include <assert.h>

ucxpool_config_attr_t setting_get(const ucxpool_config_t *config,
                                  const char             *name)
{
    ucxpool_config_attr_t setting;
    ucxpool_status_t      status =
        ucxpool_config_query(config, name, &setting, sizeof(setting));

    assert(status == UCXPOOL_OK);
    (void)status;
    return setting;
}

const char *setting_origin(const ucxpool_config_attr_t *setting)
{
    static const char *const origins[] = {
        [UCXPOOL_CONFIG_SOURCE_DEFAULT]     = "default",
        [UCXPOOL_CONFIG_SOURCE_ENVIRONMENT] = "environment variable",
        [UCXPOOL_CONFIG_SOURCE_MODIFY]      = "ucxpool_config_modify()",
    };

    return origins[setting->source];
}

bool setting_is_set(const ucxpool_config_attr_t *setting)
{
    return setting->source != UCXPOOL_CONFIG_SOURCE_DEFAULT;
}

ucxpool_status_t settings_create_pool(const setting_change_t *changes,
                                      bool keep_user_settings,
                                      const ucxpool_params_t *params,
                                      ucxpool_t             **pool_p)
{
    ucxpool_params_t  with   = *params;
    ucxpool_config_t *config = NULL;
    ucxpool_status_t  status = ucxpool_config_read(&config);

    for (; (changes->name != NULL) && (status == UCXPOOL_OK); changes++) {
        ucxpool_config_attr_t setting = setting_get(config, changes->name);

        if ((changes->value != NULL) &&
            !(keep_user_settings && setting_is_set(&setting))) {
            status =
                ucxpool_config_modify(config, changes->name, changes->value);
        }
    }
    if (status == UCXPOOL_OK) {
        with.field_mask |= UCXPOOL_PARAM_FIELD_CONFIG;
        with.config = config;
        status      = ucxpool_create(&with, pool_p);
    }
    ucxpool_config_release(config);
    return status;
}

uint64_t pool_stat(ucxpool_t *pool, const char *name)
{
    uint64_t         value  = 0;
    ucxpool_status_t status = ucxpool_stats_get(pool, name, &value);

    assert(status == UCXPOOL_OK);
    (void)status;
    return value;
}
