#include <config.h>

#include "ucx/status.h"

ucxpool_status_t ucx_status(ucs_status_t status)
{
    /* These ranges also cover errors of the same kinds that later versions of
     * UCX may add. */
    if (UCS_IS_LINK_ERROR(status) || UCS_IS_ENDPOINT_ERROR(status)) {
        return UCXPOOL_ERR_PEER_LOST;
    }
    switch (status) {
    case UCS_OK:
        return UCXPOOL_OK;
    case UCS_INPROGRESS:
        return UCXPOOL_INPROGRESS;
    case UCS_ERR_INVALID_PARAM:
    case UCS_ERR_INVALID_ADDR:
        return UCXPOOL_ERR_INVALID_PARAM;
    case UCS_ERR_NO_MEMORY:
        return UCXPOOL_ERR_NO_MEMORY;
    case UCS_ERR_UNSUPPORTED:
    case UCS_ERR_NOT_IMPLEMENTED:
    case UCS_ERR_NO_DEVICE:
        return UCXPOOL_ERR_UNSUPPORTED;
    case UCS_ERR_CANCELED:
        return UCXPOOL_ERR_CANCELED;
    case UCS_ERR_TIMED_OUT:
        return UCXPOOL_ERR_TIMED_OUT;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_SOME_CONNECTS_FAILED:
        return UCXPOOL_ERR_PEER_LOST;
    case UCS_ERR_REJECTED:
        return UCXPOOL_ERR_REFUSED;
    case UCS_ERR_MESSAGE_TRUNCATED:
        return UCXPOOL_ERR_TRUNCATED;
    case UCS_ERR_NO_MESSAGE:
        return UCXPOOL_ERR_NO_MESSAGE;
    case UCS_ERR_BUSY:
        return UCXPOOL_ERR_BUSY;
    case UCS_ERR_EXCEEDS_LIMIT:
    case UCS_ERR_BUFFER_TOO_SMALL:
    case UCS_ERR_OUT_OF_RANGE:
        return UCXPOOL_ERR_LIMIT;
    default:
        return UCXPOOL_ERR_IO;
    }
}
