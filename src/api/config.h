/* Internal access to the parsed settings of a public configuration. */
#ifndef API_CONFIG_H
#define API_CONFIG_H

#include "base/config.h"

#include <ucxpool/config.h>

/*
 * Copy the settings of a configuration. The configuration keeps ownership of
 * the secret.
 *
 * config  NULL: use the defaults and the environment, as ucxpool_config_read()
 *         does. The values then have no secret set by
 *         ucxpool_config_set_secret().
 *
 * Returns the same errors as ucxpool_config_read().
 */
ucxpool_status_t api_config_values(const ucxpool_config_t *config,
                                   base_config_t          *values_p);

#endif
