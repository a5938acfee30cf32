/*
 * ucxpool_info: describes the pool that would be created on this machine, and
 * why.
 */
#include "common/error.h"
#include "common/program.h"
#include "info/report.h"

#include <ucxpool/ucxpool.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    bool config;
    bool json;
    bool no_pool;
    bool self_test;
} options_t;

static const option_row_t option_rows[] = {
    {"config", 'c', NULL,
     "print only the settings, each with its meaning, its default and the "
     "source of its value",
     OPTION_FLAG(options_t, config)},
    {"json", 'j', NULL, "print one JSON object, for programs",
     OPTION_FLAG(options_t, json)},
    {"no-pool", 'n', NULL,
     "create no pool (otherwise a pool is created with the current settings, "
     "examined and destroyed)",
     OPTION_FLAG(options_t, no_pool)},
    {"test", 't', NULL, "send a message between two pools on this host",
     OPTION_FLAG(options_t, self_test)},
    OPTION_LAST_ROWS,
};

/* Remove the settings of the environment. */
static void clear_environment(void)
{
    const char *key;
    char        name[256];

    for (size_t i = 0; (key = ucxpool_config_key(i)) != NULL; i++) {
        snprintf(name, sizeof(name), "UCXPOOL_%s", key);
        unsetenv(name);
    }
}

/*
 * Read the settings. If the environment has an invalid setting, read the
 * defaults: the error refers to "ucxpool_info -c", so that command must work.
 * Returns NULL if even this fails.
 *
 * is_good_p [out]  False if an error was printed.
 */
static ucxpool_config_t *read_config(bool *is_good_p)
{
    ucxpool_config_t *config;

    *is_good_p = ucxpool_config_read(&config) == UCXPOOL_OK;
    if (*is_good_p) {
        return config;
    }
    tool_error("%s", ucxpool_error_detail());
    tool_error("the settings shown are the defaults, because of this error");
    clear_environment();
    if (ucxpool_config_read(&config) == UCXPOOL_OK) {
        return config;
    }
    tool_error("%s", ucxpool_error_detail());
    return NULL;
}

/* Print the report. Returns false if an error was printed. */
static bool print(const ucxpool_config_t *config, const options_t *options,
                  FILE *output)
{
    report_t report;
    bool     is_good = true;

    report_begin(&report, output, options->json);
    if (!options->config) {
        info_build_report(&report);
        is_good = info_ucx_report(&report);
        info_machine_report(&report);
        is_good &= info_gpu_report(&report, config);
        if (!options->no_pool) {
            is_good &= info_pool_report(&report, config);
            is_good &= info_wire_report(&report, config, options->self_test);
        }
    }
    info_settings_report(&report, config);
    report_end(&report);
    return is_good;
}

static int run(void *arg, FILE *output)
{
    const options_t  *options = arg;
    bool              is_good;
    ucxpool_config_t *config = read_config(&is_good);

    if (config == NULL) {
        return 1;
    }
    if (options->config && !options->json) {
        ucxpool_config_print(
            config, output,
            UCXPOOL_CONFIG_PRINT_VALUES | UCXPOOL_CONFIG_PRINT_DOC |
                UCXPOOL_CONFIG_PRINT_DEFAULT | UCXPOOL_CONFIG_PRINT_SOURCE);
    } else {
        is_good &= print(config, options, output);
    }
    ucxpool_config_release(config);
    return is_good ? 0 : 1;
}

static int check(void *arg, char **arguments)
{
    const options_t *options = arg;

    if (options->no_pool && options->self_test) {
        return options_wrong("--test needs a pool: omit --no-pool");
    }
    if (options->config && options->self_test) {
        return options_wrong("--config prints only the settings: omit --test");
    }
    return -1;
}

static const program_t program = {
    .name    = "ucxpool_info",
    .usage   = "[OPTION]...",
    .purpose = "Show how a pool would work on this machine, and why.",
    .rows    = option_rows,
    .notes   = "Settings are read from the environment: UCXPOOL_<KEY>=<value>. "
               "Exit status: 0 done, 1 something failed, 2 wrong usage.",
    .check   = check,
    .run     = run,
};

int main(int argc, char **argv)
{
    options_t options = {0};

    return program_main(&program, &options, argc, argv);
}
