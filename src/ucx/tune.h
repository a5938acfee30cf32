/*
 * Settings of UCX for contexts that the pool creates. Settings in the
 * environment take precedence, and so does UCX_TLS in a ucx.conf. A
 * UCX_TCP_TX_SEG_SIZE in a ucx.conf is overridden, because it cannot be read
 * from a configuration.
 */
#ifndef UCX_TUNE_H
#define UCX_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <ucp/api/ucp.h>

/* Buffer size for names of devices, separated by commas; "": all devices. */
#define UCX_DEVICES_SIZE 512

/* Modify the settings. for_gpu: the pool's blocks are GPU memory. */
void ucx_tune(ucp_config_t *config, bool for_gpu);

/*
 * Limit UCX to these devices, because TCP listens on each device that it uses.
 * Returns false without a limit if the user has chosen devices
 * (UCX_NET_DEVICES), or if UCX may not use TCP.
 */
bool ucx_tune_devices(ucp_config_t *config, const char *devices);

/* Write the names of the devices that TCP of other hosts cannot reach:
 * loopback, and RDMA devices. Writes "" if there is no loopback. */
void ucx_tune_local_devices(char *devices, size_t size);

/* Write the names of the devices that UCX's TCP may use and that `devices` does
 * not contain. Returns false if the system cannot list its devices. */
bool ucx_tune_other_devices(const char *devices, char *others, size_t size);

/* Returns true if `devices` contains the network device `name`. If `name` is
 * NULL, returns true if `devices` contains all devices that UCX's TCP may
 * use. */
bool ucx_tune_has_device(const char *devices, const char *name);

/* Returns the current value of a setting ("UCX_TLS"), from the environment or a
 * ucx.conf. Returns NULL if the setting does not exist or no memory is left.
 * The caller frees the value. */
char *ucx_tune_read(const ucp_config_t *config, const char *name);

#endif
