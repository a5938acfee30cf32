#include "wireup/wireup.h"

#include "base/log.h"
#include "bootstrap/listener.h"
#include "core/network.h"

/* Make listeners send the new address to their clients, if the address has
 * changed or the listeners still have an old address. */
static ucxpool_status_t renew(ucxpool_t *pool, bool moved,
                              ucxpool_status_t status)
{
    ucxpool_status_t renewed;

    if (moved || pool->wireup.is_stale) {
        renewed               = wireup_listeners_renew(pool);
        pool->wireup.is_stale = renewed != UCXPOOL_OK;
        status                = (status == UCXPOOL_OK) ? renewed : status;
    }
    return status;
}

/* Restart UCX if it must not be used any more (ucx.is_lost). If the restart
 * fails, only the `map` wire is available. */
static void restart(ucxpool_t *pool)
{
    bool             has_callers = wireup_listeners_have_callers(pool);
    bool             moved;
    ucxpool_status_t status = core_network_restart(pool, has_callers, &moved);

    (void)renew(pool, moved, status);
}

/* Let UCX use a device, or all devices if `device` is NULL, and log a warning
 * if UCX listens on more devices than before. `why` is a clause for the
 * warning, or "". */
static ucxpool_status_t open_and_warn(ucxpool_t *pool, const char *device,
                                      const char *why)
{
    bool             has_callers = wireup_listeners_have_callers(pool);
    char             names[UCX_DEVICES_SIZE];
    bool             moved;
    ucxpool_status_t status;

    core_network_added(pool, device, names);
    status = core_network_open(pool, device, has_callers, &moved);
    status = renew(pool, moved, status);
    if (moved && (status == UCXPOOL_OK)) {
        base_warn("%s: UCX also listens on %s%s: any process that can reach "
                  "its ports can read and write the memory of this process "
                  "without the secret. Block these ports with a firewall; to "
                  "avoid this warning, set UCX_NET_DEVICES to the devices that "
                  "UCX may use",
                  pool->name, names, why);
    }
    return status;
}

/* Let UCX use the device that has the address, or all devices if no device has
 * the address. */
static ucxpool_status_t open_address(ucxpool_t                 *pool,
                                     const bootstrap_address_t *address)
{
    char name[IF_NAMESIZE];

    if (bootstrap_address_is_loopback(address)) {
        return UCXPOOL_OK;
    }
    return open_and_warn(
        pool, bootstrap_address_device(address, name) ? name : NULL, "");
}

ucxpool_status_t wireup_network_listen(ucxpool_t               *pool,
                                       const bootstrap_where_t *where)
{
    ucxpool_status_t status = UCXPOOL_OK;

    restart(pool);
    for (size_t i = 0; (i < where->num_addresses) && (status == UCXPOOL_OK);
         i++) {
        status = open_address(pool, &where->addresses[i]);
    }
    return status;
}

/* Let UCX use the device of the route from source to the address. If this
 * fails, logs a warning and returns false. */
static bool open_way(ucxpool_t *pool, const bootstrap_address_t *address,
                     const bootstrap_address_t *source)
{
    char name[BOOTSTRAP_ADDRESS_NAME_SIZE];

    if (open_address(pool, source) == UCXPOOL_OK) {
        return true;
    }
    bootstrap_address_format(address, name);
    base_warn("%s: the ucx wire cannot reach %s: %s", pool->name, name,
              ucxpool_error_detail());
    return false;
}

bool wireup_network_connect(ucxpool_t *pool, const bootstrap_where_t *where)
{
    bool                has_way   = false;
    bool                has_route = false;
    bootstrap_address_t source;

    restart(pool);
    for (size_t i = 0; i < where->num_addresses; i++) {
        if (bootstrap_address_source(&where->addresses[i], &source)) {
            has_route = true;
            has_way |= open_way(pool, &where->addresses[i], &source);
        }
    }
    return has_way || !has_route;
}

ucxpool_status_t wireup_network_share(ucxpool_t *pool)
{
    ucxpool_status_t status;

    restart(pool);
    status =
        open_and_warn(pool, NULL, ", because the pool's address is exported");
    if ((status == UCXPOOL_ERR_UNSUPPORTED) || pool->ucx.is_lost) {
        status = UCXPOOL_OK; /* peers can use the open networks */
    }
    pool->wireup.is_shared |= status == UCXPOOL_OK;
    return status;
}
