#include "block/sizes.h"

#include "base/error.h"
#include "base/math.h"
#include "block/budget.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

/* What UCXPOOL_COMM_SIZE=auto takes. A GPU needs many long fragments in flight;
 * between processes of one host more than this was not faster
 * (docs/benchmarks/memory.md). */
#define HOST_SIZE (64 * MIB)
#define GPU_SIZE  (500 * MIB)

/* Blocks of a pool whose BLOCK_SIZE is auto, at the least. No fragment of host
 * memory is longer than LONG_BLOCK: longer blocks only where there are many,
 * for a fragment that arrives over the ucx wire may take a whole one. */
#define MIN_BLOCKS      8u
#define MIN_LONG_BLOCKS 64u
#define LONG_BLOCK      (1 * MIB)

/* Blocks of a pool that cannot have what it asked for are made as small as
 * this, not smaller: less is not worth a wire operation. */
#define SMALL_BLOCK (256 * KIB)

/* What UCXPOOL_COMM_SIZE=auto means: less where memory is small, or the window
 * is. */
static size_t auto_comm_size(const block_sizes_params_t *params)
{
    uint64_t size = base_min(params->for_gpu ? GPU_SIZE : HOST_SIZE,
                             params->memory_size / 32);

    return (size_t)base_min(size, params->limit);
}

/* Are blocks of that size good for the pool? */
static bool is_good_block(const base_config_t *config, size_t size,
                          bool for_gpu, bool is_tight)
{
    bool is_long = !for_gpu && (size > LONG_BLOCK);

    return (size * (is_long ? MIN_LONG_BLOCKS : MIN_BLOCKS) <=
            config->comm_size) &&
           (!is_tight || (config->comm_size % size <= config->comm_size / 32));
}

/* UCXPOOL_BLOCK_SIZE=auto: long ones where a GPU's link wants long fragments;
 * several in any case. Of a tight budget blocks waste a 32nd at the most. A
 * fragment that the caller chose fits. */
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

/* Few regions make few registrations; one that is too large may not be had.
 * Virtual memory of a GPU is mapped side by side only by whole regions, and
 * what cuMemAlloc gives is one region in any case. */
static size_t auto_region_size(const base_config_t *config,
                               const mem_kind_t    *kind)
{
    size_t most = base_max(64 * MIB, config->block_size);
    size_t all  = base_max(config->comm_size & ~(config->block_size - 1),
                           config->block_size);

    if (kind == &mem_kind_cuda_vmm) {
        return config->block_size;
    }
    return kind == &mem_kind_cuda_alloc ? all : base_min(most, all);
}

ucxpool_status_t block_sizes_settle(const block_sizes_params_t *params,
                                    base_config_t              *config,
                                    unsigned                   *num_regions_p)
{
    bool   is_auto = config->comm_size == BASE_SIZE_AUTO;
    bool   is_tight;
    size_t num_regions;

    if (is_auto) {
        config->comm_size = auto_comm_size(params);
    }
    if (config->comm_size > SIZE_MAX / 4) {
        return base_error(UCXPOOL_ERR_INVALID_PARAM,
                          "UCXPOOL_COMM_SIZE is without limit: give a size, "
                          "for example 500m");
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
                          "UCXPOOL_COMM_SIZE=%zu is %zu regions of "
                          "UCXPOOL_REGION_SIZE=%zu: make regions larger",
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
