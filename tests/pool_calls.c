/*
 * More calls for calls.h to make fail, for tests of whole pools. UCX calls fail
 * with UCS_ERR_NO_MEMORY, whatever errno was requested.
 */
#include "calls.h"
#include "replace.h"

#include <errno.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <ucp/api/ucp.h>

#define WRAP(...) REPLACE_FAILING(calls_is_due, __VA_ARGS__)

WRAP(CALLS_MALLOC, void *, malloc, NULL, (size_t size), (size))
WRAP(CALLS_ALIGNED_ALLOC, void *, aligned_alloc, NULL,
     (size_t alignment, size_t size), (alignment, size))
WRAP(CALLS_EPOLL_CREATE1, int, epoll_create1, -1, (int flags), (flags))
WRAP(CALLS_EPOLL_CTL, int, epoll_ctl, -1,
     (int epoll_fd, int operation, int fd, struct epoll_event *event),
     (epoll_fd, operation, fd, event))
WRAP(CALLS_TIMERFD_CREATE, int, timerfd_create, -1, (int clock, int flags),
     (clock, flags))
WRAP(CALLS_EVENTFD, int, eventfd, -1, (unsigned value, int flags),
     (value, flags))
WRAP(CALLS_RAND_BYTES, int, RAND_bytes, 0, (unsigned char *bytes, int length),
     (bytes, length))
WRAP(CALLS_MUTEX_INIT, int, pthread_mutex_init, ENOMEM,
     (pthread_mutex_t * mutex, const pthread_mutexattr_t *attributes),
     (mutex, attributes))
WRAP(CALLS_COND_INIT, int, pthread_cond_init, ENOMEM,
     (pthread_cond_t * condition, const pthread_condattr_t *attributes),
     (condition, attributes))
WRAP(CALLS_UCP_CONFIG_READ, ucs_status_t, ucp_config_read, UCS_ERR_NO_MEMORY,
     (const char *prefix, const char *file, ucp_config_t **config_p),
     (prefix, file, config_p))
WRAP(CALLS_UCP_INIT, ucs_status_t, ucp_init_version, UCS_ERR_NO_MEMORY,
     (unsigned major, unsigned minor, const ucp_params_t *params,
      const ucp_config_t *config, ucp_context_h *context_p),
     (major, minor, params, config, context_p))
WRAP(CALLS_UCP_WORKER_CREATE, ucs_status_t, ucp_worker_create,
     UCS_ERR_NO_MEMORY,
     (ucp_context_h context, const ucp_worker_params_t *params,
      ucp_worker_h *worker_p),
     (context, params, worker_p))
WRAP(CALLS_UCP_MEM_MAP, ucs_status_t, ucp_mem_map, UCS_ERR_NO_MEMORY,
     (ucp_context_h context, const ucp_mem_map_params_t *params,
      ucp_mem_h *memh_p),
     (context, params, memh_p))
WRAP(CALLS_UCP_SET_HANDLER, ucs_status_t, ucp_worker_set_am_recv_handler,
     UCS_ERR_NO_MEMORY,
     (ucp_worker_h worker, const ucp_am_handler_param_t *param),
     (worker, param))
WRAP(CALLS_UCP_GET_ADDRESS, ucs_status_t, ucp_worker_get_address,
     UCS_ERR_NO_MEMORY,
     (ucp_worker_h worker, ucp_address_t **address_p, size_t *length_p),
     (worker, address_p, length_p))
WRAP(CALLS_UCP_EP_CREATE, ucs_status_t, ucp_ep_create, UCS_ERR_NO_MEMORY,
     (ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep_p),
     (worker, params, ep_p))
WRAP(CALLS_UCP_AM_SEND, ucs_status_ptr_t, ucp_am_send_nbx,
     UCS_STATUS_PTR(UCS_ERR_NO_MEMORY),
     (ucp_ep_h ep, unsigned id, const void *header, size_t header_length,
      const void *buffer, size_t count, const ucp_request_param_t *param),
     (ep, id, header, header_length, buffer, count, param))
WRAP(CALLS_PROCESS_READ, ssize_t, process_vm_readv, -1,
     (pid_t pid, const struct iovec *ours, unsigned long num_ours,
      const struct iovec *theirs, unsigned long num_theirs,
      unsigned long flags),
     (pid, ours, num_ours, theirs, num_theirs, flags))
WRAP(CALLS_PROCESS_WRITE, ssize_t, process_vm_writev, -1,
     (pid_t pid, const struct iovec *ours, unsigned long num_ours,
      const struct iovec *theirs, unsigned long num_theirs,
      unsigned long flags),
     (pid, ours, num_ours, theirs, num_theirs, flags))

/* UCX requires that data which is not received is released. */
ucs_status_ptr_t __real_ucp_am_recv_data_nbx(ucp_worker_h worker, void *data,
                                             void *buffer, size_t count,
                                             const ucp_request_param_t *param);
ucs_status_ptr_t __wrap_ucp_am_recv_data_nbx(ucp_worker_h worker, void *data,
                                             void *buffer, size_t count,
                                             const ucp_request_param_t *param);

ucs_status_ptr_t __wrap_ucp_am_recv_data_nbx(ucp_worker_h worker, void *data,
                                             void *buffer, size_t count,
                                             const ucp_request_param_t *param)
{
    if (calls_is_due(CALLS_UCP_AM_RECV)) {
        ucp_am_data_release(worker, data);
        return UCS_STATUS_PTR(UCS_ERR_NO_MEMORY);
    }
    return __real_ucp_am_recv_data_nbx(worker, data, buffer, count, param);
}
