/* The parsed settings of a public configuration. */
#ifndef API_CONFIG_H
#define API_CONFIG_H

#include "base/config.h"

#include <ucxpool/config.h>

/*
 * Copy the values of a configuration. The configuration keeps ownership of the
 * secret.
 *
 * config  NULL: defaults and the environment, as ucxpool_config_read() reads
 *         them, without an owned secret.
 *
 * Errors as for ucxpool_config_read().
 */
ucxpool_status_t api_config_values(const ucxpool_config_t *config,
                                   base_config_t          *values_p);

#endif
