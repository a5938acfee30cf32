/*
 * Functions that describe one setting of a pool, and change several. Names are
 * without UCXPOOL_.
 */
#ifndef COMMON_SETTINGS_H
#define COMMON_SETTINGS_H

#include <ucxpool/config.h>

#include <stdbool.h>

/* A change of a setting. If the value is NULL, the change is ignored. */
typedef struct setting_change {
    const char *name;
    const char *value;
} setting_change_t;

/* Apply the changes in order, up to the first that fails. */
ucxpool_status_t settings_change(ucxpool_config_t       *config,
                                 const setting_change_t *changes, size_t num);

/* Describe a setting, which must exist. */
ucxpool_config_attr_t setting_get(const ucxpool_config_t *config,
                                  const char             *name);

/* Returns a description of the source of a setting's value, as
 * ucxpool_config_print() prints it. */
const char *setting_origin(const ucxpool_config_attr_t *setting);

bool setting_is_set(const ucxpool_config_attr_t *setting);

#endif
