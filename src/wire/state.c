#include "wire/wire.h"

#include "base/error.h"

#include <stdlib.h>

ucxpool_status_t wire_pool_create(ucxpool_t *pool)
{
    struct wire_pool *wire = calloc(1, sizeof(*wire));

    if (wire == NULL) {
        return base_error(UCXPOOL_ERR_NO_MEMORY, "no memory for a pool");
    }
    base_list_init(&wire->deliveries);
    base_list_init(&wire->free_deliveries);
    base_list_init(&wire->writing);
    base_list_init(&wire->waiting);
    base_list_init(&wire->free_rndvs);
    base_list_init(&wire->loans);
    pool->wire = wire;
    return UCXPOOL_OK;
}

void wire_pool_destroy(ucxpool_t *pool)
{
    wire_delivery_destroy_all(pool);
    wire_rndv_destroy_all(pool);
    wire_loan_destroy_all(pool);
    free(pool->wire);
    pool->wire = NULL;
}
