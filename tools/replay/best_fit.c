#include <config.h>

#include "common/error.h"
#include "replay/allocator.h"
#include "replay/workload.h"

#include <stdlib.h>
#include <string.h>

/* Free blocks are in a treap: a search tree by size and offset, and a heap by
 * random priorities, which keep it shallow. */
struct best_fit_block {
    uint64_t          offset;
    uint64_t          size;
    best_fit_block_t *before; /* in the arena; NULL: none */
    best_fit_block_t *behind;
    bool              is_free;
    best_fit_block_t *left; /* in the treap: smaller, larger */
    best_fit_block_t *right;
    uint64_t          priority;
};

struct best_fit {
    best_fit_block_t *first;
    best_fit_block_t *root; /* of the treap */
    uint64_t          capacity;
    uint64_t          top;
    random64_t        random;
};

static bool is_less(const best_fit_block_t *a, const best_fit_block_t *b)
{
    return a->size != b->size ? a->size < b->size : a->offset < b->offset;
}

/* Split the tree into the blocks that sort before a block, and the others. */
static void split(best_fit_block_t *tree, const best_fit_block_t *block,
                  best_fit_block_t **less_p, best_fit_block_t **more_p)
{
    while (tree != NULL) {
        if (is_less(tree, block)) {
            *less_p = tree;
            less_p  = &tree->right;
            tree    = tree->right;
        } else {
            *more_p = tree;
            more_p  = &tree->left;
            tree    = tree->left;
        }
    }
    *less_p = NULL;
    *more_p = NULL;
}

static best_fit_block_t *join(best_fit_block_t *less, best_fit_block_t *more)
{
    best_fit_block_t  *root = NULL;
    best_fit_block_t **link = &root;

    while ((less != NULL) && (more != NULL)) {
        if (less->priority > more->priority) {
            *link = less;
            link  = &less->right;
            less  = less->right;
        } else {
            *link = more;
            link  = &more->left;
            more  = more->left;
        }
    }
    *link = less != NULL ? less : more;
    return root;
}

static void tree_add(best_fit_t *pool, best_fit_block_t *block)
{
    best_fit_block_t **link = &pool->root;

    block->is_free  = true;
    block->priority = random64_next(&pool->random);
    while ((*link != NULL) && ((*link)->priority >= block->priority)) {
        link = is_less(*link, block) ? &(*link)->right : &(*link)->left;
    }
    split(*link, block, &block->left, &block->right);
    *link = block;
}

static void tree_remove(best_fit_t *pool, best_fit_block_t *block)
{
    best_fit_block_t **link = &pool->root;

    while (*link != block) {
        link = is_less(*link, block) ? &(*link)->right : &(*link)->left;
    }
    *link          = join(block->left, block->right);
    block->is_free = false;
}

/* Returns the first block in the tree of at least this size. */
static best_fit_block_t *tree_find(const best_fit_t *pool, uint64_t size)
{
    best_fit_block_t *found = NULL;

    for (best_fit_block_t *at = pool->root; at != NULL;) {
        if (at->size >= size) {
            found = at;
            at    = at->left;
        } else {
            at = at->right;
        }
    }
    return found;
}

best_fit_t *best_fit_create(uint64_t capacity)
{
    best_fit_t *pool = tool_calloc(1, sizeof(*pool));

    pool->capacity = capacity / BEST_FIT_ALIGNMENT * BEST_FIT_ALIGNMENT;
    if (pool->capacity > 0) {
        pool->first       = tool_calloc(1, sizeof(*pool->first));
        pool->first->size = pool->capacity;
        tree_add(pool, pool->first);
    }
    return pool;
}

void best_fit_destroy(best_fit_t *pool)
{
    best_fit_block_t *next;

    if (pool != NULL) {
        for (best_fit_block_t *block = pool->first; block != NULL;
             block                   = next) {
            next = block->behind;
            free(block);
        }
        free(pool);
    }
}

/* Split off all but the first `size` bytes of a block as a free block. */
static void cut(best_fit_t *pool, best_fit_block_t *block, uint64_t size)
{
    best_fit_block_t *rest;

    if (block->size == size) {
        return;
    }
    rest         = tool_calloc(1, sizeof(*rest));
    rest->offset = block->offset + size;
    rest->size   = block->size - size;
    rest->before = block;
    rest->behind = block->behind;
    if (rest->behind != NULL) {
        rest->behind->before = rest;
    }
    block->behind = rest;
    block->size   = size;
    tree_add(pool, rest);
}

int best_fit_alloc(best_fit_t *pool, uint64_t size, best_fit_block_t **block_p)
{
    best_fit_block_t *block;

    if (size > pool->capacity) {
        return 1;
    }
    size  = (size + BEST_FIT_ALIGNMENT - 1) & ~(BEST_FIT_ALIGNMENT - 1);
    block = tree_find(pool, size);
    if (block == NULL) {
        return 1;
    }
    tree_remove(pool, block);
    cut(pool, block, size);
    if (block->offset + block->size > pool->top) {
        pool->top = block->offset + block->size;
    }
    *block_p = block;
    return 0;
}

/* Merge a block, which is not in the tree, with the next block if the next
 * block is free. */
static void merge_next(best_fit_t *pool, best_fit_block_t *block)
{
    best_fit_block_t *behind = block->behind;

    if ((behind == NULL) || !behind->is_free) {
        return;
    }
    tree_remove(pool, behind);
    block->size += behind->size;
    block->behind = behind->behind;
    if (block->behind != NULL) {
        block->behind->before = block;
    }
    free(behind);
}

void best_fit_free(best_fit_t *pool, best_fit_block_t *block)
{
    best_fit_block_t *before = block->before;

    merge_next(pool, block);
    tree_add(pool, block);
    if ((before != NULL) && before->is_free) {
        tree_remove(pool, before);
        merge_next(pool, before);
        tree_add(pool, before);
    }
}

uint64_t best_fit_offset(const best_fit_block_t *block)
{
    return block->offset;
}

uint64_t best_fit_size(const best_fit_block_t *block)
{
    return block->size;
}

uint64_t best_fit_top(const best_fit_t *pool)
{
    return pool->top;
}

int best_fit_is_sane(const best_fit_t *pool)
{
    const best_fit_block_t *before = NULL;
    uint64_t                end    = 0;

    for (const best_fit_block_t *block = pool->first; block != NULL;
         block                         = block->behind) {
        const best_fit_block_t *at = pool->root;

        while (block->is_free && (at != NULL) && (at != block)) {
            at = is_less(at, block) ? at->right : at->left;
        }
        if ((block->offset != end) || (block->before != before) ||
            (block->is_free && (at == NULL)) ||
            (block->is_free && (before != NULL) && before->is_free)) {
            return 0;
        }
        end    = block->offset + block->size;
        before = block;
    }
    return end == pool->capacity;
}

/* --- an allocator -------------------------------------------------------- */

/* Size of an unlimited arena: more memory than any machine has. */
#define NO_LIMIT (UINT64_C(1) << 48)

static int init(allocator_t *allocator, uint64_t capacity)
{
    allocator->best_fit = best_fit_create(capacity == 0 ? NO_LIMIT : capacity);
    pthread_mutex_init(&allocator->mutex, NULL);
    return 0;
}

static void cleanup(allocator_t *allocator)
{
    best_fit_destroy(allocator->best_fit);
    pthread_mutex_destroy(&allocator->mutex);
}

/* Allocate. The returned address is a pointer to the block. */
static allocator_answer_t take(allocator_t *allocator, size_t size,
                               void *stream, void **address_p)
{
    best_fit_block_t *block = NULL;
    int               code;

    (void)stream;
    pthread_mutex_lock(&allocator->mutex);
    code = best_fit_alloc(allocator->best_fit, size, &block);
    pthread_mutex_unlock(&allocator->mutex);
    *address_p = block;
    return code == 0 ? ALLOCATOR_OK : ALLOCATOR_FULL;
}

static allocator_answer_t give(allocator_t *allocator, void *address,
                               size_t size, void *stream)
{
    (void)size;
    (void)stream;
    pthread_mutex_lock(&allocator->mutex);
    best_fit_free(allocator->best_fit, address);
    pthread_mutex_unlock(&allocator->mutex);
    return ALLOCATOR_OK;
}

static uint64_t reserved(allocator_t *allocator)
{
    uint64_t top;

    pthread_mutex_lock(&allocator->mutex);
    top = best_fit_top(allocator->best_fit);
    pthread_mutex_unlock(&allocator->mutex);
    return top;
}

const allocator_kind_t allocator_best_fit = {
    .name          = "bestfit",
    .doc           = "a classic best-fit pool over one arena, in simulation: "
                     "no memory, no streams",
    .is_simulated  = true,
    .init          = init,
    .cleanup       = cleanup,
    .alloc         = take,
    .free          = give,
    .reserved      = reserved,
    .peak_reserved = reserved,
};
