/*
 * Shared by the tests of settings: settings read from an empty environment, and
 * functions to modify them and to check rejected values.
 */
#ifndef TESTS_CONFIG_FIXTURE_H
#define TESTS_CONFIG_FIXTURE_H

#include "base/config.h"

#include <ucxpool/config.h>

/* The settings of the running test. */
extern ucxpool_config_t *config;

/* Clear the environment, so that the tests do not depend on the user's
 * settings. */
void clear_environment(void);

/* The checked fixture of every test: read and release `config`. */
void read_config(void);
void release_config(void);

/* Returns a copy of the values, which is valid until the next call. */
const base_config_t *values_of(const ucxpool_config_t *settings);

/* Modify a key, which must succeed. */
void set(const char *key, const char *value);

/* Try to modify a key. The value must be rejected, and all settings must be
 * unchanged. */
void assert_refused(const char *key, const char *value);

#endif
