/*
 * The settings as text, taken from what ucxpool_config_print() prints.
 */
#ifndef COMMON_SETTINGS_H
#define COMMON_SETTINGS_H

#include <ucxpool/config.h>

#include <stdbool.h>

typedef struct setting {
    char *name; /* with UCXPOOL_ */
    char *value;
    char *fallback; /* its default */
    char *from;     /* where the value comes from, in words */
    char *takes;    /* what it may be */
    char *means;    /* what it does */
} setting_t;

typedef struct settings {
    char      *text; /* all strings lie in here */
    setting_t *list;
    size_t     num_settings;
} settings_t;

/* Changes of settings, by names without UCXPOOL_; those to NULL are left
 * out. */
typedef struct setting_change {
    const char *name;
    const char *value;
} setting_change_t;

/* Make all, up to the first that fails. */
ucxpool_status_t settings_change(ucxpool_config_t       *config,
                                 const setting_change_t *changes, size_t num);

/* False when there is no memory. */
bool settings_init(settings_t *settings, const ucxpool_config_t *config);
void settings_cleanup(settings_t *settings);

/* Does the value come from somewhere else than the defaults? */
bool setting_is_set(const setting_t *setting);

/* By its name without UCXPOOL_, which must be a setting's. */
const setting_t *settings_find(const settings_t *settings, const char *name);

#endif
