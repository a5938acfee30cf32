/*
 * Settings of a pool: one described, several changed. Names are without
 * UCXPOOL_.
 */
#ifndef COMMON_SETTINGS_H
#define COMMON_SETTINGS_H

#include <ucxpool/config.h>

#include <stdbool.h>

/* Changes of settings; those to NULL are left out. */
typedef struct setting_change {
    const char *name;
    const char *value;
} setting_change_t;

/* Make all, up to the first that fails. */
ucxpool_status_t settings_change(ucxpool_config_t       *config,
                                 const setting_change_t *changes, size_t num);

/* The setting must exist. */
ucxpool_config_attr_t setting_get(const ucxpool_config_t *config,
                                  const char             *name);

/* Where its value is from, in words, as ucxpool_config_print() has them. */
const char *setting_origin(const ucxpool_config_attr_t *setting);

bool setting_is_set(const ucxpool_config_attr_t *setting);

#endif
