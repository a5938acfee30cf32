#include "ucx/tune.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value in the line "NAME=value" of the text, which is cut to lines. */
static const char *find_value(char *text, const char *name)
{
    size_t length = strlen(name);
    char  *rest;

    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line       = strtok_r(NULL, "\n", &rest)) {
        if ((strncmp(line, name, length) == 0) && (line[length] == '=')) {
            return line + length + 1;
        }
    }
    return NULL;
}

char *ucx_tune_read(const ucp_config_t *config, const char *name)
{
    char       *text  = NULL;
    const char *value = NULL;
    char       *copy  = NULL;
    size_t      size;
    FILE       *stream = open_memstream(&text, &size);

    if (stream == NULL) {
        return NULL;
    }
    ucp_config_print(config, stream, NULL, UCS_CONFIG_PRINT_CONFIG);
    if (fclose(stream) == 0) {
        value = find_value(text, name);
    }
    if (value != NULL) {
        copy = strdup(value);
    }
    free(text);
    return copy;
}

/* May UCX use TCP? A list that begins with ^ names what it may not use. */
static bool has_tcp(const char *transports)
{
    bool named = strstr(transports, "tcp") != NULL;

    if (transports[0] == '^') {
        return !named;
    }
    return named || (strcmp(transports, "all") == 0);
}

/*
 * From 1.16 on, UCX chooses its protocols by estimates. With its TCP segments
 * of 8 KiB these make it send everything long by copies of 8 KiB; with 64 KiB
 * it sends from where the bytes lie. That much a peer's receive buffer holds in
 * any case: UCX sends fragments of 64 KiB without a copy to it as it is.
 */
static void tune_tcp(ucp_config_t *config, const char *transports)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    if ((major == 1) && (minor < 16)) {
        return;
    }
    /* Somebody knows better; or there is no TCP, and UCX would say that it does
     * not know the setting. */
    if ((getenv("UCX_TCP_TX_SEG_SIZE") != NULL) ||
        (getenv("UCX_TCP_RX_SEG_SIZE") != NULL) || !has_tcp(transports)) {
        return;
    }
    (void)ucp_config_modify(config, "TCP_TX_SEG_SIZE", "64k");
}

/*
 * No endpoint with failure handling goes over UCX's shared memory, but every
 * worker makes some MiB of it, which a killed process leaves in /dev/shm.
 */
static void tune_transports(ucp_config_t *config, const char *transports)
{
    if ((getenv("UCX_TLS") == NULL) && (strcmp(transports, "all") == 0)) {
        (void)ucp_config_modify(config, "TLS", "^posix,sysv");
    }
}

void ucx_tune(ucp_config_t *config, bool for_gpu)
{
    char *transports = ucx_tune_read(config, "UCX_TLS");

    if (transports == NULL) {
        return;
    }
    tune_tcp(config, transports);
    tune_transports(config, transports);
    if (for_gpu) {
        ucx_tune_gpu(config, transports);
    }
    free(transports);
}
