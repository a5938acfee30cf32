#include "ucx/worker.h"

#include "base/clock.h"

#define SETTLE_NS UINT64_C(50000000)

/* Does this UCX assert that all answers to handshakes have left? */
static bool needs_settling(void)
{
    unsigned major, minor, patch;

    ucp_get_version(&major, &minor, &patch);
    return (major == 1) && (minor < 14);
}

bool ucx_worker_settle(ucp_worker_h worker)
{
    ucp_request_param_t param    = {.op_attr_mask = 0};
    uint64_t            deadline = base_clock_deadline(SETTLE_NS);
    ucs_status_ptr_t    flush;
    ucs_status_t        status;

    if (!needs_settling()) {
        return true;
    }
    flush = ucp_worker_flush_nbx(worker, &param);
    if (!UCS_PTR_IS_PTR(flush)) {
        return UCS_PTR_STATUS(flush) == UCS_OK;
    }
    do {
        ucp_worker_progress(worker);
        status = ucp_request_check_status(flush);
    } while ((status == UCS_INPROGRESS) && (base_clock_now() < deadline));
    ucp_request_free(flush);
    return status != UCS_INPROGRESS;
}
