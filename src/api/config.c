/* Settings: defaults, the environment, modification by the program,
 * printing. */
#include "api/api.h"

#include "base/error.h"
#include "base/key.h"
#include "base/log.h"
#include "base/text.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX        "UCXPOOL_"
#define PREFIX_LENGTH (sizeof(PREFIX) - 1)

extern char **environ;

struct ucxpool_config {
    base_config_t values;
    uint8_t sources[BASE_NUM_KEYS]; /* a ucxpool_config_source_t for each key */
};

static ucxpool_status_t refuse_key(const char *name)
{
    if (strncmp(name, PREFIX, PREFIX_LENGTH) == 0) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "unknown key %s: omit the prefix " PREFIX, name);
    }
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "unknown setting " PREFIX
                      "%s; ucxpool_info -c prints all settings",
                      name);
}

static ucxpool_status_t refuse_value(const base_key_t *key, const char *value)
{
    char expected[BASE_KEY_EXPECTED_SIZE];

    base_key_expected(key, expected);
    /* Print at most 100 characters of the value, so that the allowed values
     * still fit into the message. */
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      PREFIX
                      "%s=%.100s%s is invalid: expected %s (default \"%s\")",
                      key->name, value, (strlen(value) > 100) ? "..." : "",
                      expected, key->fallback);
}

static ucxpool_status_t set_value(ucxpool_config_t *config,
                                  const base_key_t *key, const char *value,
                                  ucxpool_config_source_t source)
{
    if (!base_key_parse(key, value, &config->values)) {
        return refuse_value(key, value);
    }
    config->sources[key - base_keys] = (uint8_t)source;
    return UCXPOOL_OK;
}

static void set_defaults(ucxpool_config_t *config)
{
    for (size_t i = 0; i < BASE_NUM_KEYS; i++) {
        bool good = base_key_parse(&base_keys[i], base_keys[i].fallback,
                                   &config->values);

        assert(good);
        (void)good;
        config->sources[i] = UCXPOOL_CONFIG_SOURCE_DEFAULT;
    }
}

/* Returns true if the variable applies to the whole process, not to a pool. */
static bool is_of_process(const char *name)
{
    static const char *const variables[] = {
        BASE_VARIABLE_CUDA_DRIVER,
        BASE_VARIABLE_NVML_LIBRARY,
        BASE_VARIABLE_VERBS_LIBRARY,
    };

    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        if (strcmp(name, variables[i] + PREFIX_LENGTH) == 0) {
            return true;
        }
    }
    return false;
}

/* The variables may belong to another program or another version of the
 * library. So this function only warns. */
static void check_environment_names(void)
{
    char name[128];

    for (char **variable = environ; (variable != NULL) && (*variable != NULL);
         variable++) {
        const char *text = *variable + PREFIX_LENGTH;
        size_t      length;

        if (strncmp(*variable, PREFIX, PREFIX_LENGTH) != 0) {
            continue;
        }
        length = strcspn(text, "=");
        if (length >= sizeof(name)) {
            length = sizeof(name) - 1;
        }
        memcpy(name, text, length);
        name[length] = '\0';
        if ((base_key_find(name) == NULL) && !is_of_process(name)) {
            base_warn(PREFIX "%s is not a setting; ucxpool_info -c prints all "
                             "settings",
                      name);
        }
    }
}

/* Check the names once per process, because all pools read the same
 * environment. */
static void check_environment_once(void)
{
    static atomic_flag is_checked = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&is_checked)) {
        check_environment_names();
    }
}

static ucxpool_status_t read_variable(ucxpool_config_t *config,
                                      const base_key_t *key)
{
    char        variable[64];
    const char *value;

    snprintf(variable, sizeof(variable), PREFIX "%s", key->name);
    value = getenv(variable);
    if (value == NULL) {
        return UCXPOOL_OK;
    }
    return set_value(config, key, value, UCXPOOL_CONFIG_SOURCE_ENVIRONMENT);
}

/* Read the log level before the other settings, because it also applies to
 * messages about them. It has no effect if a pool or the program has already
 * set a level. */
static ucxpool_status_t read_log_level(ucxpool_config_t *config)
{
    const base_key_t *key    = base_key_find("LOG_LEVEL");
    ucxpool_status_t  status = read_variable(config, key);

    if ((status == UCXPOOL_OK) && (config->sources[key - base_keys] ==
                                   UCXPOOL_CONFIG_SOURCE_ENVIRONMENT)) {
        base_log_set_initial_level((base_log_level_t)config->values.log_level);
    }
    return status;
}

static ucxpool_status_t read_environment(ucxpool_config_t *config)
{
    ucxpool_status_t status = read_log_level(config);

    for (size_t i = 0; (status == UCXPOOL_OK) && (i < BASE_NUM_KEYS); i++) {
        status = read_variable(config, &base_keys[i]);
    }
    check_environment_once();
    return status;
}

ucxpool_status_t ucxpool_config_read(ucxpool_config_t **config_p)
{
    ucxpool_config_t *config;
    ucxpool_status_t  status;

    if (base_missing(config_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    config = calloc(1, sizeof(*config));
    if (config == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY,
                          "no memory for the settings (%zu bytes)",
                          sizeof(*config));
    }
    set_defaults(config);
    status = read_environment(config);
    if (status == UCXPOOL_OK) {
        status = base_config_check(&config->values);
    }
    if (status != UCXPOOL_OK) {
        free(config);
        return status;
    }
    *config_p = config;
    return UCXPOOL_OK;
}

ucxpool_status_t ucxpool_config_modify(ucxpool_config_t *config,
                                       const char *key, const char *value)
{
    const base_key_t *found;

    if (base_missing(config) || base_missing(key) || base_missing(value)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    found = base_key_find(key);
    if (found == NULL) {
        return refuse_key(key);
    }
    return set_value(config, found, value, UCXPOOL_CONFIG_SOURCE_MODIFY);
}

ucxpool_status_t ucxpool_config_set_secret(ucxpool_config_t *config,
                                           const void *bytes, size_t length)
{
    base_secret_t   *secret = NULL;
    ucxpool_status_t status = UCXPOOL_OK;

    if (base_missing(config)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    if (bytes != NULL) {
        status = base_secret_create(bytes, length, &secret);
    }
    if (status == UCXPOOL_OK) {
        base_secret_put(config->values.secret);
        config->values.secret = secret;
    }
    return status;
}

const char *ucxpool_config_key(size_t index)
{
    return (index < BASE_NUM_KEYS) ? base_keys[index].name : NULL;
}

ucxpool_status_t ucxpool_config_query(const ucxpool_config_t *config,
                                      const char             *key,
                                      ucxpool_config_attr_t  *attr_p,
                                      size_t                  attr_size)
{
    ucxpool_config_attr_t attr;
    const base_key_t     *found;

    if (base_missing(config) || base_missing(key) || base_missing(attr_p)) {
        return UCXPOOL_ERR_INVALID_PARAM;
    }
    found = base_key_find(key);
    if (found == NULL) {
        return refuse_key(key);
    }
    static_assert(sizeof(attr.takes) == BASE_KEY_EXPECTED_SIZE, "room");
    static_assert(sizeof(attr.value) == BASE_KEY_VALUE_SIZE, "room");
    memset(&attr, 0, sizeof(attr));
    attr.key           = found->name;
    attr.default_value = found->fallback;
    attr.doc           = found->doc;
    attr.source = (ucxpool_config_source_t)config->sources[found - base_keys];
    base_key_expected(found, attr.takes);
    base_key_format(found, &config->values, attr.value);
    base_output(attr_p, attr_size, &attr, sizeof(attr));
    return UCXPOOL_OK;
}

/* Print text as comment lines. */
static void print_doc(const char *doc, FILE *stream)
{
    int column = fprintf(stream, "#");

    while (*doc != '\0') {
        int length = (int)strcspn(doc, " ");

        if (column + 1 + length > 79) {
            column = fprintf(stream, "\n#") - 1;
        }
        column += fprintf(stream, " %.*s", length, doc);
        doc += length + (doc[length] == ' ');
    }
    fputc('\n', stream);
}

static const char *const origins[] = {
    [UCXPOOL_CONFIG_SOURCE_DEFAULT]     = "default",
    [UCXPOOL_CONFIG_SOURCE_ENVIRONMENT] = "environment variable",
    [UCXPOOL_CONFIG_SOURCE_MODIFY]      = "ucxpool_config_modify()",
};

static void print_comments(const base_key_t       *key,
                           ucxpool_config_source_t source, FILE *stream,
                           unsigned flags)
{
    char expected[BASE_KEY_EXPECTED_SIZE];

    if (flags & UCXPOOL_CONFIG_PRINT_DOC) {
        base_key_expected(key, expected);
        print_doc(key->doc, stream);
        fprintf(stream, "# Takes: %s\n", expected);
    }
    if (flags & UCXPOOL_CONFIG_PRINT_DEFAULT) {
        fprintf(stream, "# Default: %s\n", key->fallback);
    }
    if (flags & UCXPOOL_CONFIG_PRINT_SOURCE) {
        fprintf(stream, "# From: %s\n", origins[source]);
    }
}

static void print(const ucxpool_config_t *config, FILE *stream, unsigned flags)
{
    char value[BASE_KEY_VALUE_SIZE];

    for (size_t i = 0; i < BASE_NUM_KEYS; i++) {
        const base_key_t *key = &base_keys[i];

        print_comments(key, (ucxpool_config_source_t)config->sources[i], stream,
                       flags);
        if (flags & UCXPOOL_CONFIG_PRINT_VALUES) {
            base_key_format(key, &config->values, value);
            base_text_clean(value);
            fprintf(stream, PREFIX "%s=%s\n", key->name, value);
        }
        if ((flags & ~(unsigned)UCXPOOL_CONFIG_PRINT_VALUES) != 0) {
            fputc('\n', stream);
        }
    }
}

char *ucxpool_config_string(const ucxpool_config_t *config, unsigned flags)
{
    base_string_t string;

    if (base_missing(config)) {
        return NULL;
    }
    if (base_string_open(&string) != NULL) {
        print(config, string.stream, flags);
    }
    return base_string_close(&string);
}

void ucxpool_string_free(char *string)
{
    free(string);
}

void ucxpool_config_print(const ucxpool_config_t *config, FILE *stream,
                          unsigned flags)
{
    if (!base_missing(config) && !base_missing(stream)) {
        print(config, stream, flags);
    }
}

void ucxpool_config_release(ucxpool_config_t *config)
{
    if (config != NULL) {
        base_secret_put(config->values.secret);
    }
    free(config);
}

ucxpool_status_t api_config_values(const ucxpool_config_t *config,
                                   base_config_t          *values_p)
{
    ucxpool_config_t *own = NULL;
    ucxpool_status_t  status;

    if (config == NULL) {
        status = ucxpool_config_read(&own);
        if (status != UCXPOOL_OK) {
            return status;
        }
        config = own;
    }
    *values_p = config->values;
    ucxpool_config_release(own);
    return UCXPOOL_OK;
}
