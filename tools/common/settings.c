#include <config.h>

#include "common/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "UCXPOOL_"

/* The lines that ucxpool_config_print() prints for a setting:
 *
 *     # meaning, one or more lines
 *     # Takes: ...
 *     # Default: ...
 *     # From: ...
 *     UCXPOOL_KEY=value
 *     (empty)
 */
#define TAKES   "# Takes: "
#define DEFAULT "# Default: "
#define FROM    "# From: "

static char *print_config(const ucxpool_config_t *config)
{
    char  *text = NULL;
    size_t size;
    FILE  *stream = open_memstream(&text, &size);

    if (stream == NULL) {
        return NULL;
    }
    ucxpool_config_print(
        config, stream,
        UCXPOOL_CONFIG_PRINT_VALUES | UCXPOOL_CONFIG_PRINT_DOC |
            UCXPOOL_CONFIG_PRINT_DEFAULT | UCXPOOL_CONFIG_PRINT_SOURCE);
    if (fclose(stream) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

static size_t count_lines(const char *text)
{
    size_t num = 0;

    for (; *text != '\0'; text++) {
        num += (*text == '\n');
    }
    return num;
}

static bool begins_with(const char *line, const char *start)
{
    return strncmp(line, start, strlen(start)) == 0;
}

/* The lines of a meaning lie one behind the other: they become one line by
 * moving each to the end of the one before. */
static void add_meaning(setting_t *setting, const char *line)
{
    if (setting->means == NULL) {
        setting->means = (char *)line;
    } else {
        size_t length = strlen(setting->means);

        setting->means[length] = ' ';
        memmove(setting->means + length + 1, line, strlen(line) + 1);
    }
}

static void read_line(settings_t *settings, char *line)
{
    setting_t *setting = &settings->list[settings->num_settings];

    if (begins_with(line, TAKES)) {
        setting->takes = line + strlen(TAKES);
    } else if (begins_with(line, DEFAULT)) {
        setting->fallback = line + strlen(DEFAULT);
    } else if (begins_with(line, FROM)) {
        setting->from = line + strlen(FROM);
    } else if (begins_with(line, "# ")) {
        add_meaning(setting, line + strlen("# "));
    } else if (begins_with(line, PREFIX)) {
        setting->name      = line;
        setting->value     = strchr(line, '=') + 1;
        setting->value[-1] = '\0';
        settings->num_settings++;
    }
}

bool settings_init(settings_t *settings, const ucxpool_config_t *config)
{
    char *rest, *line;

    settings->num_settings = 0;
    settings->text         = print_config(config);
    if (settings->text == NULL) {
        return false;
    }
    /* More than enough: a setting has several lines. */
    settings->list =
        calloc(count_lines(settings->text) + 1, sizeof(*settings->list));
    if (settings->list == NULL) {
        free(settings->text);
        return false;
    }
    for (line = strtok_r(settings->text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        read_line(settings, line);
    }
    return true;
}

void settings_cleanup(settings_t *settings)
{
    free(settings->list);
    free(settings->text);
}

bool setting_is_set(const setting_t *setting)
{
    return strcmp(setting->from, "default") != 0;
}

const setting_t *settings_find(const settings_t *settings, const char *name)
{
    for (size_t i = 0; i < settings->num_settings; i++) {
        if (strcmp(settings->list[i].name + strlen(PREFIX), name) == 0) {
            return &settings->list[i];
        }
    }
    return NULL;
}

ucxpool_status_t settings_change(ucxpool_config_t       *config,
                                 const setting_change_t *changes, size_t num)
{
    ucxpool_status_t status = UCXPOOL_OK;

    for (size_t i = 0; (i < num) && (status == UCXPOOL_OK); i++) {
        if (changes[i].value != NULL) {
            status = ucxpool_config_modify(config, changes[i].name,
                                           changes[i].value);
        }
    }
    return status;
}
