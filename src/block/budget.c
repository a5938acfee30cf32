#include <config.h>

#include "block/budget.h"

#include "base/error.h"
#include "base/math.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

/* --- presets -------------------------------------------------------------- */

/* Of a line of a file, its final 0 included. */
#define LINE_SIZE 256

/* For any size of the window. */
#define ANY_SIZE 0

typedef struct row {
    const char *name;
    uint64_t    bar1_size;
    uint64_t    limit;
} row_t;

/*
 * A T4 fails at about 200 MiB, reported for ibv_reg_mr with driver 460
 * (Mellanox/nv_peer_memory, issue 101); an RTX A4000, whose window has the same
 * size, at 220 MB, reported for gdr_pin with driver 530 (NVIDIA/gdrcopy, issue
 * 301). Windows of 256 MiB have also the P4, cards for displays (Quadro, RTX,
 * GeForce) where the system does not resize them, and everything else where it
 * cannot: what was measured for two of them is taken for all.
 */
static const row_t table[] = {
    {"*", 256 * MIB, 200 * MIB},           {"Tesla P4", 256 * MIB, 200 * MIB},
    {"Tesla T4*", 256 * MIB, 200 * MIB},   {"NVIDIA T4*", 256 * MIB, 200 * MIB},
    {"*RTX A4000*", 256 * MIB, 208 * MIB},
};

/* Devices whose window has the size above in every system. */
static bool is_sure(const row_t *row)
{
    return (strncmp(row->name, "Tesla", 5) == 0) ||
           (strncmp(row->name, "NVIDIA T4", 9) == 0);
}

/* The pattern's * stands for any letters. */
static bool fits_name(const char *pattern, const char *name)
{
    const char *star = NULL, *retry = NULL;

    while (*name != '\0') {
        if (*pattern == '*') {
            star  = ++pattern;
            retry = name;
        } else if (tolower((unsigned char)*pattern) ==
                   tolower((unsigned char)*name)) {
            pattern++;
            name++;
        } else if (star != NULL) {
            pattern = star;
            name    = ++retry;
        } else {
            return false;
        }
    }
    return pattern[strspn(pattern, "*")] == '\0';
}

static bool fits(const row_t *row, const char *name, uint64_t bar1_size)
{
    return ((row->bar1_size == ANY_SIZE) || (row->bar1_size == bar1_size)) &&
           fits_name(row->name, name);
}

static void take(const row_t *row, const char *file, unsigned line,
                 block_preset_t *preset)
{
    char window[BASE_FORMAT_SIZE + 3] = "";
    char size[BASE_FORMAT_SIZE];
    char where[96] = "the preset";

    if (row->bar1_size != ANY_SIZE) {
        base_format_size(row->bar1_size, size);
        snprintf(window, sizeof(window), " [%s]", size);
    }
    if (file != NULL) {
        snprintf(where, sizeof(where), "%.72s line %u,", file, line);
    }
    preset->is_found = true;
    preset->limit    = row->limit;
    snprintf(preset->from, sizeof(preset->from), "%s '%.32s'%s", where,
             row->name, window);
    base_text_clean(preset->from);
}

static void search_table(const char *name, uint64_t bar1_size,
                         block_preset_t *preset)
{
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        const row_t *row = &table[i];

        if (fits(row, name, bar1_size) ||
            ((bar1_size == 0) && is_sure(row) && fits_name(row->name, name))) {
            take(row, NULL, 0, preset);
        }
    }
}

/* Cut blanks at both ends off. */
static char *trim(char *text)
{
    size_t length;

    text += strspn(text, " \t");
    length = strlen(text);
    while ((length > 0) && (strchr(" \t\r\n", text[length - 1]) != NULL)) {
        length--;
    }
    text[length] = '\0';
    return text;
}

static bool parse_bytes(const char *text, uint64_t *size_p)
{
    size_t size;

    if (!base_parse_size(text, &size) || (size == BASE_SIZE_AUTO) ||
        (size == BASE_SIZE_INF) || (size == 0)) {
        return false;
    }
    *size_p = size;
    return true;
}

/* "NAME [WINDOW]", which is cut. */
static const char *parse_device(char *text, row_t *row)
{
    char *window = strrchr(text, '[');
    char *end;

    row->bar1_size = ANY_SIZE;
    if (window != NULL) {
        end = strchr(window, ']');
        if ((end == NULL) || (end[1] != '\0')) {
            return "the window's size ends with ]";
        }
        *window++ = '\0';
        *end      = '\0';
        if (!parse_bytes(trim(window), &row->bar1_size)) {
            return "in [ ] stands a size, such as 256m";
        }
    }
    row->name = trim(text);
    return row->name[0] == '\0' ? "there is no name of a device" : NULL;
}

/* One line, which is cut. Returns what is wrong; NULL: nothing. */
static const char *parse_line(char *line, row_t *row)
{
    char *equals = strrchr(line, '=');
    char *value;

    if (equals == NULL) {
        return "there is no '='";
    }
    *equals = '\0';
    value   = trim(equals + 1);
    if (strcmp(value, "none") == 0) {
        row->limit = BLOCK_PRESET_NONE;
    } else if (!parse_bytes(value, &row->limit)) {
        return "behind '=' stands a size, such as 200m, or none";
    }
    return parse_device(trim(line), row);
}

static ucxpool_status_t line_error(const char *path, unsigned number,
                                   const char *wrong)
{
    return base_error(UCXPOOL_ERR_INVALID_PARAM,
                      "UCXPOOL_BUDGET_FILE=%.200s, line %u: %s; a line is NAME "
                      "[WINDOW] = SIZE, for example Tesla T4 [256m] = 200m",
                      path, number, wrong);
}

static ucxpool_status_t search_file(FILE *file, const char *path,
                                    const char *name, uint64_t bar1_size,
                                    block_preset_t *preset)
{
    char        line[LINE_SIZE];
    const char *wrong;
    char       *text;
    row_t       row;

    for (unsigned number = 1; fgets(line, sizeof(line), file) != NULL;
         number++) {
        if ((strchr(line, '\n') == NULL) && !feof(file)) {
            return line_error(path, number, "it is too long, or has a byte 0");
        }
        text = trim(line);
        if ((*text == '\0') || (*text == '#')) {
            continue;
        }
        wrong = parse_line(text, &row);
        if (wrong != NULL) {
            return line_error(path, number, wrong);
        }
        if (fits(&row, name, bar1_size)) {
            take(&row, path, number, preset);
        }
    }
    if (ferror(file)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "UCXPOOL_BUDGET_FILE=%.200s cannot be read: %s; name "
                          "a file of presets, or none",
                          path, strerror(errno));
    }
    return UCXPOOL_OK;
}

ucxpool_status_t block_preset_find(const char *path, const char *name,
                                   uint64_t bar1_size, block_preset_t *preset_p)
{
    ucxpool_status_t status;
    FILE            *file;

    memset(preset_p, 0, sizeof(*preset_p));
    search_table(name, bar1_size, preset_p);
    if (path[0] == '\0') {
        return UCXPOOL_OK;
    }
    file = fopen(path, "re");
    if (file == NULL) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "UCXPOOL_BUDGET_FILE=%.200s cannot be read: %s; name "
                          "a file of presets, or none",
                          path, strerror(errno));
    }
    status = search_file(file, path, name, bar1_size, preset_p);
    fclose(file);
    return status;
}

/* --- the budget ----------------------------------------------------------- */

/* Windows up to this size are small: a pool of the usual size is a large part
 * of one, and so is what the driver keeps. */
#define SMALL_WINDOW (1024 * MIB)

/* What a driver may hold on a GPU that nobody uses: published outputs of
 * nvidia-smi show up to 2 MiB there. A preset has taken that off already. */
#define IDLE_USE (8 * MIB)

static void set_usable(const block_preset_t *preset, const mem_bar_t *bar,
                       block_budget_t *budget)
{
    const char *from = preset->from;

    if (preset->is_found && (preset->limit != BLOCK_PRESET_NONE)) {
        budget->usable = preset->limit;
        if (bar->size != 0) {
            budget->usable = base_min(budget->usable, bar->size);
        }
    } else if (bar->size == 0) {
        budget->usable = BLOCK_BUDGET_NONE;
        from           = bar->source == MEM_BAR_NONE
                             ? "this GPU has no window"
                             : "the window's size is not known, and no preset "
                               "is for the device";
    } else if (preset->is_found || (bar->size > SMALL_WINDOW)) {
        budget->usable = bar->size;
        from = preset->is_found ? preset->from : "all of a large window";
    } else {
        budget->usable = bar->size / 4 * 3;
        from           = "three quarters of a small window without a preset";
    }
    snprintf(budget->usable_from, sizeof(budget->usable_from), "%s", from);
}

/* What is not usable is left for others already. */
static uint64_t auto_reserve(const mem_bar_t *bar, uint64_t usable)
{
    if (usable < bar->size) {
        return 0;
    }
    return base_min(bar->size / 8, BLOCK_BUDGET_UCX_STEP);
}

ucxpool_status_t block_budget_compute(const base_config_t *config,
                                      const char *name, const mem_bar_t *bar,
                                      block_budget_t *budget_p)
{
    block_preset_t   preset;
    ucxpool_status_t status;
    uint64_t         left;

    status = block_preset_find(config->budget_file, name, bar->size, &preset);
    if (status != UCXPOOL_OK) {
        return status;
    }
    memset(budget_p, 0, sizeof(*budget_p));
    set_usable(&preset, bar, budget_p);
    budget_p->others          = bar->used - base_min(bar->used, IDLE_USE);
    budget_p->is_reserve_auto = config->comm_reserve == BASE_SIZE_AUTO;
    budget_p->reserve         = budget_p->is_reserve_auto
                                    ? auto_reserve(bar, budget_p->usable)
                                    : config->comm_reserve;
    budget_p->limit           = BLOCK_BUDGET_NONE;
    if (budget_p->usable == BLOCK_BUDGET_NONE) {
        return UCXPOOL_OK;
    }
    left = budget_p->usable - base_min(budget_p->usable, budget_p->others);
    if (bar->size != 0) {
        left = base_min(left, bar->free);
    }
    budget_p->limit = left - base_min(left, budget_p->reserve);
    return UCXPOOL_OK;
}

ucxpool_status_t block_budget_query(const base_config_t *config,
                                    const char *name, const char *bus_id,
                                    mem_bar_t *bar_p, block_budget_t *budget_p)
{
    mem_bar_query(bus_id, bar_p);
    return block_budget_compute(config, name, bar_p, budget_p);
}
