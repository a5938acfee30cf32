/*
 * ucxpool_info: what the pool would do on this machine, and why.
 */
#include <config.h>

#include "common/output.h"
#include "info/options.h"
#include "info/parts.h"

#include <ucxpool/ucxpool.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "UCXPOOL_"

extern char **environ;

/* Take away what the environment sets. */
static void clear_environment(void)
{
    char   name[256];
    char **variable = environ;

    while (*variable != NULL) {
        size_t length = strcspn(*variable, "=");

        if ((strncmp(*variable, PREFIX, strlen(PREFIX)) == 0) &&
            (length < sizeof(name))) {
            memcpy(name, *variable, length);
            name[length] = '\0';
            /* The list moves up. */
            unsetenv(name);
        } else {
            variable++;
        }
    }
}

/*
 * Read the settings. Where the environment is wrong, the defaults are taken:
 * the error says "ucxpool_info -c prints all", so this must work then too.
 * NULL when even that fails.
 */
static ucxpool_config_t *read_config(end_t *end_p)
{
    ucxpool_config_t *config;

    if (ucxpool_config_read(&config) == UCXPOOL_OK) {
        return config;
    }
    *end_p = END_FAILED;
    say_error("%s", ucxpool_error_detail());
    say_error("the settings shown are the defaults, because of this error");
    clear_environment();
    if (ucxpool_config_read(&config) == UCXPOOL_OK) {
        return config;
    }
    say_error("%s", ucxpool_error_detail());
    return NULL;
}

static void print_settings(const ucxpool_config_t *config,
                           const settings_t *settings, bool json, FILE *output)
{
    report_t report;

    if (!json) {
        ucxpool_config_print(
            config, output,
            UCXPOOL_CONFIG_PRINT_VALUES | UCXPOOL_CONFIG_PRINT_DOC |
                UCXPOOL_CONFIG_PRINT_DEFAULT | UCXPOOL_CONFIG_PRINT_SOURCE);
        return;
    }
    report_begin(&report, output, true);
    info_settings_report(&report, settings);
    report_end(&report);
}

static end_t print_report(const ucxpool_config_t *config,
                          const settings_t *settings, const options_t *options,
                          FILE *output)
{
    report_t report;
    end_t    end = END_DONE;

    report_begin(&report, output, options->json);
    info_build_report(&report);
    if (!info_ucx_report(&report)) {
        end = END_FAILED;
    }
    info_machine_report(&report);
    if (!info_gpu_report(&report, config)) {
        end = END_FAILED;
    }
    if (!options->no_pool) {
        if (!info_pool_report(&report, config, settings, options->self_test)) {
            end = END_FAILED;
        }
        if (!info_wire_report(&report, settings)) {
            end = END_FAILED;
        }
    }
    if (!info_peers_report(&report, config, settings)) {
        end = END_FAILED;
    }
    info_settings_report(&report, settings);
    report_end(&report);
    return end;
}

static end_t print_budget(const ucxpool_config_t *config, bool json,
                          FILE *output)
{
    report_t report;
    bool     is_good;

    report_begin(&report, output, json);
    is_good = info_budget_report(&report, config);
    report_end(&report);
    return is_good ? END_DONE : END_FAILED;
}

static end_t print(const ucxpool_config_t *config, const settings_t *settings,
                   const options_t *options, FILE *output)
{
    if (options->config) {
        print_settings(config, settings, options->json, output);
        return END_DONE;
    }
    if (options->budget) {
        return print_budget(config, options->json, output);
    }
    return print_report(config, settings, options, output);
}

static end_t run(const options_t *options, FILE *output)
{
    end_t             end    = END_DONE;
    ucxpool_config_t *config = read_config(&end);
    settings_t        settings;

    if (config == NULL) {
        return END_FAILED;
    }
    if (!settings_init(&settings, config)) {
        say_error("no memory for the settings");
        ucxpool_config_release(config);
        return END_FAILED;
    }
    if (print(config, &settings, options, output) != END_DONE) {
        end = END_FAILED;
    }
    settings_cleanup(&settings);
    ucxpool_config_release(config);
    return end;
}

/* What was not written was not done. */
static end_t close_output(FILE *output, end_t end)
{
    if (output_close(output) != 0) {
        say_error("cannot write the output: %s", strerror(errno));
        return END_FAILED;
    }
    return end;
}

int main(int argc, char **argv)
{
    options_t options;
    end_t     end;
    FILE     *output;

    if (!options_read(argc, argv, &options, &end)) {
        return close_output(stdout, end);
    }
    if (output_take(&output) != 0) {
        say_error("cannot use the standard output: %s", strerror(errno));
        return END_FAILED;
    }
    return close_output(output, run(&options, output));
}
