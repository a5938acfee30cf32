/* The parsed settings behind a public handle. */
#ifndef API_CONFIG_H
#define API_CONFIG_H

#include "base/config.h"

#include <ucxpool/config.h>

/*
 * Copy the values of a configuration. The secret is still the configuration's.
 *
 * config  NULL: defaults and the environment, as ucxpool_config_read() reads
 *         them; they have no secret of their own.
 *
 * As ucxpool_config_read().
 */
ucxpool_status_t api_config_values(const ucxpool_config_t *config,
                                   base_config_t          *values_p);

#endif
