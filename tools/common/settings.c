#include <config.h>

#include "common/settings.h"

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

ucxpool_status_t settings_change(ucxpool_config_t       *config,
                                 const setting_change_t *changes, size_t num)
{
    ucxpool_status_t status = UCXPOOL_OK;

    for (size_t i = 0; (i < num) && (status == UCXPOOL_OK); i++) {
        if (changes[i].value != NULL) {
            status = ucxpool_config_modify(config, changes[i].name,
                                           changes[i].value);
        }
    }
    return status;
}
