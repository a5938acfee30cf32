/*
 * Settings of a pool: one described, several changed. Names are without
 * UCXPOOL_.
 */
#ifndef COMMON_SETTINGS_H
#define COMMON_SETTINGS_H

#include <ucxpool/config.h>

#include <stdbool.h>

/* A change of a setting; changes to NULL are ignored. */
typedef struct setting_change {
    const char *name;
    const char *value;
} setting_change_t;

/* Apply all changes, up to the first that fails. */
ucxpool_status_t settings_change(ucxpool_config_t       *config,
                                 const setting_change_t *changes, size_t num);

/* The setting must exist. */
ucxpool_config_attr_t setting_get(const ucxpool_config_t *config,
                                  const char             *name);

/* Description of where its value comes from, as ucxpool_config_print() prints
 * it. */
const char *setting_origin(const ucxpool_config_attr_t *setting);

bool setting_is_set(const ucxpool_config_attr_t *setting);

#endif
