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

/* Longest line of a preset file, with its terminating 0. */
#define LINE_SIZE 256

/* A row with this size matches every window size. */
#define ANY_SIZE 0

typedef struct row {
    const char *name;
    uint64_t    bar1_size;
    uint64_t    limit;
} row_t;

/*
 * Reported limits: a T4 fails at about 200 MiB with ibv_reg_mr and driver 460
 * (Mellanox/nv_peer_memory, issue 101). An RTX A4000, whose window has the same
 * size, fails at 220 MB with gdr_pin and driver 530 (NVIDIA/gdrcopy, issue
 * 301). Other devices with windows of 256 MiB are the P4, display cards
 * (Quadro, RTX, GeForce) if the system does not resize the window, and any
 * device in a system that cannot resize it. The limits of the two measured
 * devices are used for all of these devices.
 */
static const row_t table[] = {
    {"*", 256 * MIB, 200 * MIB},           {"Tesla P4", 256 * MIB, 200 * MIB},
    {"Tesla T4*", 256 * MIB, 200 * MIB},   {"NVIDIA T4*", 256 * MIB, 200 * MIB},
    {"*RTX A4000*", 256 * MIB, 208 * MIB},
};

/* Returns true if the row's devices have its window size in every system. */
static bool is_sure(const row_t *row)
{
    return (strncmp(row->name, "Tesla", 5) == 0) ||
           (strncmp(row->name, "NVIDIA T4", 9) == 0);
}

/* Returns true if the name matches the pattern. A * in the pattern matches any
 * characters, or none. */
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

/* Remove blanks at both ends. */
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

/* Parse "NAME [WINDOW]". Modifies the text. */
static const char *parse_device(char *text, row_t *row)
{
    char *window = strrchr(text, '[');
    char *end;

    row->bar1_size = ANY_SIZE;
    if (window != NULL) {
        end = strchr(window, ']');
        if ((end == NULL) || (end[1] != '\0')) {
            return "the window's size must end with ']'";
        }
        *window++ = '\0';
        *end      = '\0';
        if (!parse_bytes(trim(window), &row->bar1_size)) {
            return "[ ] must contain a size, such as 256m";
        }
    }
    row->name = trim(text);
    return row->name[0] == '\0' ? "the device name is missing" : NULL;
}

/* Parse one line. Modifies the line. Returns an error message, or NULL. */
static const char *parse_line(char *line, row_t *row)
{
    char *equals = strrchr(line, '=');
    char *value;

    if (equals == NULL) {
        return "'=' is missing";
    }
    *equals = '\0';
    value   = trim(equals + 1);
    if (strcmp(value, "none") == 0) {
        row->limit = BLOCK_PRESET_NONE;
    } else if (!parse_bytes(value, &row->limit)) {
        return "the value must be a size, such as 200m, or none";
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
            return line_error(path, number,
                              "the line is too long or contains a 0 byte");
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
                          "cannot read UCXPOOL_BUDGET_FILE=%.200s: %s; set it "
                          "to a file of presets, or leave it empty",
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
                          "cannot read UCXPOOL_BUDGET_FILE=%.200s: %s; set it "
                          "to a file of presets, or leave it empty",
                          path, strerror(errno));
    }
    status = search_file(file, path, name, bar1_size, preset_p);
    fclose(file);
    return status;
}

/* --- the budget ----------------------------------------------------------- */

/* Windows up to this size are small. A pool of the default size takes a large
 * part of such a window, and so does the driver. */
#define SMALL_WINDOW (1024 * MIB)

/* Maximum use by the driver on an idle GPU: published outputs of nvidia-smi
 * show up to 2 MiB. The limits of presets already exclude this use. */
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
        from =
            bar->source == MEM_BAR_NONE
                ? "this GPU has no window"
                : "the window's size is unknown, and the device has no preset";
    } else if (preset->is_found || (bar->size > SMALL_WINDOW)) {
        budget->usable = bar->size;
        from = preset->is_found ? preset->from : "all of a large window";
    } else {
        budget->usable = bar->size / 4 * 3;
        from           = "three quarters of a small window without a preset";
    }
    snprintf(budget->usable_from, sizeof(budget->usable_from), "%s", from);
}

/* Returns the reserve for COMM_RESERVE=auto. It is 0 if a part of the window is
 * unusable, because that part serves as the reserve. */
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

/* --- sizes ---------------------------------------------------------------- */

#define KIB ((size_t)1024)

/* Sizes for UCXPOOL_COMM_SIZE=auto. A GPU needs many long fragments in flight.
 * Between processes of one host, a larger pool was not faster
 * (docs/benchmarks/memory.md). */
#define HOST_SIZE (64 * MIB)
#define GPU_SIZE  (500 * MIB)

/* Minimum number of blocks if BLOCK_SIZE is auto. No fragment of host memory is
 * longer than LONG_BLOCK. Longer blocks are used only if there are at least
 * MIN_LONG_BLOCKS, because a fragment received over the `ucx` wire may occupy a
 * whole block. */
#define MIN_BLOCKS      8u
#define MIN_LONG_BLOCKS 64u
#define LONG_BLOCK      (1 * MIB)

/* If a pool gets less memory than requested, its blocks shrink down to this
 * size. Smaller fragments are not worth a wire operation. */
#define SMALL_BLOCK (256 * KIB)

/* Resolve UCXPOOL_COMM_SIZE=auto. The size is smaller if the memory or the
 * window is small, or if the blocks share a memory limit with the heap. */
static size_t auto_comm_size(const block_sizes_params_t *params,
                             const base_config_t        *config)
{
    uint64_t size = base_min(params->for_gpu ? GPU_SIZE : HOST_SIZE,
                             params->memory_size / 32);

    if (config->memory_limit != BASE_SIZE_AUTO) {
        size = base_min(size, (uint64_t)config->memory_limit / 4);
    }
    return (size_t)base_min(size, params->limit);
}

/* Returns true if the block size is suitable for the pool. */
static bool is_good_block(const base_config_t *config, size_t size,
                          bool for_gpu, bool is_tight)
{
    bool is_long = !for_gpu && (size > LONG_BLOCK);

    return (size * (is_long ? MIN_LONG_BLOCKS : MIN_BLOCKS) <=
            config->comm_size) &&
           (!is_tight || (config->comm_size % size <= config->comm_size / 32));
}

/*
 * Resolve UCXPOOL_BLOCK_SIZE=auto. A GPU gets long blocks, because its link
 * needs long fragments. Blocks grow as long as the pool has at least MIN_BLOCKS
 * of them and, in a tight budget, rounding to blocks wastes at most 1/32. They
 * also grow until a fragment size set by the user fits.
 */
static size_t auto_block_size(const base_config_t *config, bool for_gpu,
                              bool is_tight)
{
    size_t most = for_gpu ? 32 * MIB : 4 * MIB;
    size_t size = for_gpu ? BLOCK_SIZES_GPU_PAGE : 4096;
    size_t frag = config->frag_size == BASE_SIZE_AUTO ? 0 : config->frag_size;

    while (((size < frag) ||
            ((size < most) &&
             is_good_block(config, size * 2, for_gpu, is_tight))) &&
           ((config->region_size == BASE_SIZE_AUTO) ||
            (config->region_size % (size * 2) == 0))) {
        size *= 2;
    }
    return size;
}

/* Resolve UCXPOOL_REGION_SIZE=auto. Few regions need few registrations, but a
 * single large allocation may fail. Virtual memory of a GPU can only be
 * stitched by whole regions, and cuMemAlloc makes one region in any case. */
static size_t auto_region_size(const base_config_t *config,
                               const mem_kind_t    *kind)
{
    size_t most = base_max(64 * MIB, config->block_size);
    size_t all  = base_max(config->comm_size & ~(config->block_size - 1),
                           config->block_size);

    if (kind->stitches_whole_regions) {
        return config->block_size;
    }
    return kind->is_one_region ? all : base_min(most, all);
}

ucxpool_status_t block_sizes_settle(const block_sizes_params_t *params,
                                    base_config_t              *config,
                                    unsigned                   *num_regions_p)
{
    bool   is_auto = config->comm_size == BASE_SIZE_AUTO;
    bool   is_tight;
    size_t num_regions;

    if (is_auto) {
        config->comm_size = auto_comm_size(params, config);
    }
    if (config->comm_size > SIZE_MAX / 4) {
        return base_error(
            UCXPOOL_ERR_INVALID_PARAM,
            "UCXPOOL_COMM_SIZE is unlimited: set a size, for example 500m");
    }
    is_tight = config->comm_size >= params->limit;
    if (config->block_size == BASE_SIZE_AUTO) {
        config->block_size = auto_block_size(config, params->for_gpu, is_tight);
    }
    if (is_auto) {
        config->comm_size =
            base_max(config->comm_size & ~(config->block_size - 1),
                     (is_tight ? 3 : 4) * config->block_size);
    }
    if (config->region_size == BASE_SIZE_AUTO) {
        config->region_size = auto_region_size(config, params->kind);
    }
    num_regions = base_max(config->comm_size / config->region_size, (size_t)1);
    if (num_regions > UINT16_MAX) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "UCXPOOL_COMM_SIZE=%zu needs %zu regions of "
                          "UCXPOOL_REGION_SIZE=%zu, more than 65535: raise "
                          "UCXPOOL_REGION_SIZE",
                          config->comm_size, num_regions, config->region_size);
    }
    *num_regions_p = (unsigned)num_regions;
    return base_config_check(config);
}

size_t block_sizes_floor(const base_config_t *asked,
                         const base_config_t *settled, bool for_gpu)
{
    bool   has_user   = asked->send_share + asked->recv_share < 100;
    size_t block_size = asked->block_size;

    if (block_size == BASE_SIZE_AUTO) {
        block_size = base_min(settled->block_size,
                              for_gpu ? BLOCK_SIZES_GPU_PAGE : SMALL_BLOCK);
        if (asked->frag_size != BASE_SIZE_AUTO) {
            block_size = base_max(block_size, asked->frag_size);
        }
    }
    return block_size * (has_user ? 3 : 2);
}

/* --- shares --------------------------------------------------------------- */

static ucxpool_status_t count_blocks(const block_pool_params_t *params,
                                     uint32_t                  *num_blocks_p)
{
    const mem_regions_t *regions = params->regions;
    size_t               num;

    if ((params->block_size == 0) ||
        (regions->region_size % params->block_size != 0)) {
        return base_error(
            UCXPOOL_ERR_INVALID_PARAM,
            "UCXPOOL_REGION_SIZE (%zu bytes) is not a multiple of "
            "UCXPOOL_BLOCK_SIZE (%zu bytes)",
            regions->region_size, params->block_size);
    }
    if (!base_mul(regions->region_size / params->block_size,
                  (size_t)regions->num_regions, &num) ||
        (num > BLOCK_MAX_BLOCKS)) {
        return base_error(
            UCXPOOL_ERR_INVALID_PARAM,
            "more than %u blocks: lower UCXPOOL_COMM_SIZE or raise "
            "UCXPOOL_BLOCK_SIZE (%zu bytes)",
            BLOCK_MAX_BLOCKS, params->block_size);
    }
    if (num < 2) {
        return base_error(
            UCXPOOL_ERR_INVALID_PARAM,
            "%zu block(s) of UCXPOOL_BLOCK_SIZE (%zu bytes), but sending "
            "and receiving need one each: raise UCXPOOL_COMM_SIZE or "
            "lower UCXPOOL_BLOCK_SIZE",
            num, params->block_size);
    }
    if ((params->send_share > 100) ||
        (params->recv_share > 100 - params->send_share)) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "UCXPOOL_SEND_SHARE (%u) and UCXPOOL_RECV_SHARE (%u) "
                          "exceed 100 percent together: lower one of them",
                          params->send_share, params->recv_share);
    }
    *num_blocks_p = (uint32_t)num;
    return UCXPOOL_OK;
}

/* Split the blocks by percentages, rounded down, but give no share less than
 * its minimum. The rest after rounding goes to the user's share, or to the send
 * share if the user's share is 0. */
static void split(const block_pool_params_t *params, uint32_t num_blocks,
                  uint32_t *totals)
{
    uint64_t blocks   = num_blocks;
    bool     has_user = params->send_share + params->recv_share < 100;
    uint32_t min_user = (has_user && (num_blocks > 2)) ? 1 : 0;
    uint32_t send     = (uint32_t)(blocks * params->send_share / 100);
    uint32_t recv     = (uint32_t)(blocks * params->recv_share / 100);

    send = base_max(send, 1);
    recv = base_max(recv, 1);
    while (send + recv > num_blocks - min_user) {
        uint32_t *larger = (send > recv) ? &send : &recv;

        *larger -= 1;
    }
    if (!has_user) {
        send = num_blocks - recv;
    }
    totals[BLOCK_SHARE_SEND] = send;
    totals[BLOCK_SHARE_RECV] = recv;
    totals[BLOCK_SHARE_USER] = num_blocks - send - recv;
}

ucxpool_status_t block_split(const block_pool_params_t *params,
                             uint32_t                  *totals)
{
    uint32_t         num_blocks = 0;
    ucxpool_status_t status     = UCXPOOL_OK;

    if (params->regions->num_regions == 0) {
        memset(totals, 0, BLOCK_SHARE_LAST * sizeof(totals[0]));
        return UCXPOOL_OK;
    }
    status = count_blocks(params, &num_blocks);
    if (status == UCXPOOL_OK) {
        split(params, num_blocks, totals);
    }
    return status;
}
