/*
 * Functions that describe one setting of a pool, create a pool with changed
 * settings, and read its statistics. Names are without UCXPOOL_.
 */
#ifndef COMMON_POOL_H
#define COMMON_POOL_H

#include <ucxpool/config.h>
#include <ucxpool/pool.h>

#include <stdbool.h>

/* A change of a setting. */
typedef struct setting_change {
    const char *name;  /* NULL: after the last change */
    const char *value; /* NULL: no change */
} setting_change_t;

/*
 * Create a pool with the settings of the environment, to which the changes are
 * applied in order.
 *
 * keep_user_settings  Skip changes of settings that the user has set.
 * params              Parameters of the pool, without a config.
 * pool_p              [out] The pool.
 */
ucxpool_status_t settings_create_pool(const setting_change_t *changes,
                                      bool keep_user_settings,
                                      const ucxpool_params_t *params,
                                      ucxpool_t             **pool_p);

/* Describe a setting, which must exist. */
ucxpool_config_attr_t setting_get(const ucxpool_config_t *config,
                                  const char             *name);

/* Returns a description of the source of a setting's value, as
 * ucxpool_config_print() prints it. */
const char *setting_origin(const ucxpool_config_attr_t *setting);

bool setting_is_set(const ucxpool_config_attr_t *setting);

/* Returns the value of a statistic, which must exist. */
uint64_t pool_stat(ucxpool_t *pool, const char *name);

#endif
