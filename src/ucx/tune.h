/*
 * Settings of UCX for the contexts that the pool makes by itself. What the
 * environment says of them counts more, and what a ucx.conf says of UCX_TLS;
 * what it says of UCX_TCP_TX_SEG_SIZE cannot be read from a configuration.
 */
#ifndef UCX_TUNE_H
#define UCX_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <ucp/api/ucp.h>

/* Names of devices, with commas; "": all that there are. */
#define UCX_DEVICES_SIZE 512

/* for_gpu: the pool's blocks are memory of a GPU. */
void ucx_tune(ucp_config_t *config, bool for_gpu);

/*
 * Let UCX use these devices alone, since TCP listens on each that it uses.
 * False: it is not limited, because that is chosen already (UCX_NET_DEVICES),
 * or UCX may not use TCP.
 */
bool ucx_tune_devices(ucp_config_t *config, const char *devices);

/* The devices that TCP on other hosts cannot reach: loopback, and those for
 * RDMA. "" where there is no loopback. */
void ucx_tune_local_devices(char *devices, size_t size);

/* The devices that UCX's TCP may use and the list does not name. False: the
 * system does not list its devices. */
bool ucx_tune_other_devices(const char *devices, char *others, size_t size);

/* Is the network device in the list? NULL: are all that UCX's TCP may use? */
bool ucx_tune_has_device(const char *devices, const char *name);

/* What a setting is by now ("UCX_TLS"), from the environment or a ucx.conf;
 * NULL if there is none of that name, or no memory. The caller frees it. */
char *ucx_tune_read(const ucp_config_t *config, const char *name);

#endif
