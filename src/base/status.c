#include <ucxpool/status.h>
#include <ucxpool/version.h>

#include <config.h>

static const char *const names[] = {
    [-UCXPOOL_OK]                 = "success",
    [-UCXPOOL_ERR_INVALID_PARAM]  = "invalid parameter",
    [-UCXPOOL_ERR_NO_MEMORY]      = "out of memory",
    [-UCXPOOL_ERR_NO_BLOCKS]      = "no free blocks",
    [-UCXPOOL_ERR_UNSUPPORTED]    = "not supported",
    [-UCXPOOL_ERR_IO]             = "input/output error",
    [-UCXPOOL_ERR_CANCELED]       = "canceled",
    [-UCXPOOL_ERR_TIMED_OUT]      = "timed out",
    [-UCXPOOL_ERR_PEER_LOST]      = "peer lost",
    [-UCXPOOL_ERR_REFUSED]        = "refused by the peer",
    [-UCXPOOL_ERR_TRUNCATED]      = "message truncated",
    [-UCXPOOL_ERR_NO_MESSAGE]     = "no message",
    [-UCXPOOL_ERR_BUSY]           = "busy",
    [-UCXPOOL_ERR_PERMISSION]     = "permission denied",
    [-UCXPOOL_ERR_PROTOCOL]       = "protocol error",
    [-UCXPOOL_ERR_CHECKSUM]       = "checksum error",
    [-UCXPOOL_ERR_ADDRESS_IN_USE] = "address in use",
    [-UCXPOOL_ERR_CLOSED]         = "closed",
    [-UCXPOOL_ERR_LIMIT]          = "over a limit",
};

#define NUM_NAMES ((int)(sizeof(names) / sizeof(names[0])))

const char *ucxpool_status_string(ucxpool_status_t status)
{
    int index = -(int)status;

    if (status == UCXPOOL_INPROGRESS) {
        return "in progress";
    }
    if ((index < 0) || (index >= NUM_NAMES)) {
        return "unknown status";
    }
    return names[index];
}

const char *ucxpool_version_string(void)
{
    return PACKAGE_VERSION;
}
