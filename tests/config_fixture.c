#include "config_fixture.h"
#include "test.h"

#include "api/api.h"
#include "base/key.h"
#include "base/log.h"

#include <ucxpool/status.h>

#include <stdio.h>
#include <stdlib.h>

ucxpool_config_t *config;

void clear_environment(void)
{
    char name[128];

    for (size_t i = 0; i < BASE_NUM_KEYS; i++) {
        snprintf(name, sizeof(name), "UCXPOOL_%s", base_keys[i].name);
        unsetenv(name);
    }
    base_log_set_initial_level(BASE_LOG_NONE);
}

void read_config(void)
{
    clear_environment();
    assert_ok(ucxpool_config_read(&config));
}

void release_config(void)
{
    ucxpool_config_release(config);
}

const base_config_t *values_of(const ucxpool_config_t *settings)
{
    static base_config_t values;

    assert_ok(api_config_values(settings, &values));
    return &values;
}

void set(const char *key, const char *value)
{
    assert_ok(ucxpool_config_modify(config, key, value));
}

void assert_refused(const char *key, const char *value)
{
    base_config_t before = *values_of(config);

    ck_assert_msg(ucxpool_config_modify(config, key, value) ==
                      UCXPOOL_ERR_INVALID_PARAM,
                  "%s=%s", key, value);
    ck_assert_mem_eq(values_of(config), &before, sizeof(before));
}
