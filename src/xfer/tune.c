#include "xfer/tune.h"

#include <stdlib.h>
#include <string.h>

/*
 * From 1.16 on, UCX chooses its protocols by estimates. With its TCP segments
 * of 8 KiB these make it send everything long by copies of 8 KiB; with 64 KiB
 * it sends from where the bytes lie. That much a peer's receive buffer holds in
 * any case: UCX sends fragments of 64 KiB without a copy to it as it is.
 */
static void tune_tcp(ucp_config_t *config)
{
    const char *transports = getenv("UCX_TLS");
    unsigned    major, minor, release;

    ucp_get_version(&major, &minor, &release);
    if ((major == 1) && (minor < 16)) {
        return;
    }
    /* Somebody knows better; or there is no TCP, and UCX would say that it does
     * not know the setting. */
    if ((getenv("UCX_TCP_TX_SEG_SIZE") != NULL) ||
        (getenv("UCX_TCP_RX_SEG_SIZE") != NULL) ||
        ((transports != NULL) && (strstr(transports, "tcp") == NULL))) {
        return;
    }
    (void)ucp_config_modify(config, "TCP_TX_SEG_SIZE", "64k");
}

/*
 * No endpoint with failure handling goes over UCX's shared memory, but every
 * worker makes some MiB of it, which a killed process leaves in /dev/shm.
 */
static void tune_transports(ucp_config_t *config)
{
    if (getenv("UCX_TLS") == NULL) {
        (void)ucp_config_modify(config, "TLS", "^posix,sysv");
    }
}

void xfer_tune(ucp_config_t *config)
{
    tune_tcp(config);
    tune_transports(config);
}
