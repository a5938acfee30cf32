#include <config.h>

#include "ucx/context.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/lock.h"
#include "base/log.h"
#include "base/text.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- statuses ------------------------------------------------------------- */

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

/* --- signals -------------------------------------------------------------- */

/*
 * UCX installs signal handlers as soon as it is loaded. On SIGILL, SIGSEGV,
 * SIGBUS and SIGFPE, UCX prints a backtrace and ends the process. On SIGHUP,
 * UCX prints a profile. Programs also use these signals. For example, a Java
 * virtual machine handles SIGSEGV as part of its normal operation.
 */

/* A function in some versions of libucs that removes UCX's handler of a
 * signal. */
typedef void restore_signal_t(int signal);

static restore_signal_t *find_restore_signal(void)
{
    restore_signal_t *function;

    *(void **)&function = dlsym(RTLD_DEFAULT, "ucs_debug_disable_signal");
    return function;
}

/* Returns true if the signal's handler is in the same library as
 * `restore_default`. */
static bool is_of_ucx(int signal, restore_signal_t *restore_default)
{
    struct sigaction action;
    Dl_info          handler;
    Dl_info          ucx;

    if ((sigaction(signal, NULL, &action) != 0) ||
        (action.sa_handler == SIG_DFL) || (action.sa_handler == SIG_IGN)) {
        return false;
    }
    return (dladdr(*(void **)&action.sa_handler, &handler) != 0) &&
           (dladdr(*(void **)&restore_default, &ucx) != 0) &&
           (handler.dli_fbase == ucx.dli_fbase);
}

static void restore_signal(int signal, restore_signal_t *restore_default)
{
    if (is_of_ucx(signal, restore_default)) {
        restore_default(signal);
    }
}

/*
 * Restore the handlers that were set before UCX was loaded. Does not change
 * other handlers, nor UCX's handlers that the environment requests
 * (UCX_HANDLE_ERRORS, UCX_ERROR_SIGNALS; UCX_DEBUG_SIGNO). Called when the
 * library is loaded and when a pool is created.
 */
static void signals_restore(void)
{
    static const int  errors[]        = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
    restore_signal_t *restore_default = find_restore_signal();

    if (restore_default == NULL) {
        return;
    }
    if ((getenv("UCX_HANDLE_ERRORS") == NULL) &&
        (getenv("UCX_ERROR_SIGNALS") == NULL)) {
        for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
            restore_signal(errors[i], restore_default);
        }
    }
    if (getenv("UCX_DEBUG_SIGNO") == NULL) {
        restore_signal(SIGHUP, restore_default);
    }
}

/* UCX's libraries are loaded before this one, so UCX has installed its handlers
 * by now. A program may receive such a signal before it creates a pool. */
__attribute__((constructor)) static void loaded(void)
{
    signals_restore();
}

/* --- destroying a worker -------------------------------------------------- */

/* worker_settle() waits for this time, but makes at least this many rounds of
 * progress: this process may get no CPU while the time passes. */
#define SETTLE_NS     UINT64_C(50000000)
#define SETTLE_ROUNDS 100u

bool ucx_asserts_on_answers(void)
{
    unsigned major, minor, patch;

    ucp_get_version(&major, &minor, &patch);
    return (major == 1) && (minor < 14);
}

/*
 * Let UCX send its pending answers before the worker is destroyed.
 *
 * UCX before 1.14 aborts on an assertion if a worker is destroyed before its
 * answer to a peer's connection request is sent. The answer waits for progress
 * of the peer, which may be busy, stopped or dead.
 *
 * Returns false if an answer may still be pending; the worker must then not be
 * destroyed.
 */
static bool worker_settle(ucp_worker_h worker)
{
    ucp_request_param_t param    = {.op_attr_mask = 0};
    uint64_t            deadline = base_clock_deadline(SETTLE_NS);
    ucs_status_ptr_t    flush;
    ucs_status_t        status;
    unsigned            num_rounds = 0;

    if (!ucx_asserts_on_answers()) {
        return true;
    }
    flush = ucp_worker_flush_nbx(worker, &param);
    if (!UCS_PTR_IS_PTR(flush)) {
        return UCS_PTR_STATUS(flush) == UCS_OK;
    }
    do {
        ucp_worker_progress(worker);
        status = ucp_request_check_status(flush);
    } while ((status == UCS_INPROGRESS) &&
             ((++num_rounds < SETTLE_ROUNDS) || (base_clock_now() < deadline)));
    ucp_request_free(flush);
    return status != UCS_INPROGRESS;
}

/* --- features of a borrowed context --------------------------------------- */

/*
 * Finds out the features with which a borrowed UCX context was created. UCX
 * does not return the features. It also accepts registrations and handlers on a
 * context without the needed features. An RDMA device would then reject a
 * peer's access during a transfer.
 */

#define PROBE_SIZE 4096u

/* A temporary worker of the context, with an endpoint to itself and with
 * registered memory. */
typedef struct probe {
    ucp_context_h context;
    ucp_worker_h  worker;
    ucp_ep_h      ep;
    ucp_mem_h     memory;
    ucp_rkey_h    rkey;
} probe_t;

static bool connect_to_itself(probe_t *probe)
{
    ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS};
    ucp_address_t  *address;
    size_t          length;
    ucs_status_t    status;

    if (ucp_worker_get_address(probe->worker, &address, &length) != UCS_OK) {
        return false;
    }
    params.address = address;
    status         = ucp_ep_create(probe->worker, &params, &probe->ep);
    ucp_worker_release_address(probe->worker, address);
    return status == UCS_OK;
}

static bool map_memory(probe_t *probe)
{
    ucp_mem_map_params_t params = {
        .field_mask =
            UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
        .length = PROBE_SIZE,
        .flags  = UCP_MEM_MAP_ALLOCATE,
    };

    return ucp_mem_map(probe->context, &params, &probe->memory) == UCS_OK;
}

static bool unpack_key(probe_t *probe)
{
    void        *key;
    size_t       size;
    ucs_status_t status;

    if (ucp_rkey_pack(probe->context, probe->memory, &key, &size) != UCS_OK) {
        return false;
    }
    status = ucp_ep_rkey_unpack(probe->ep, key, &probe->rkey);
    ucp_rkey_buffer_release(key);
    return status == UCS_OK;
}

static void probe_cleanup(probe_t *probe)
{
    if (probe->rkey != NULL) {
        ucp_rkey_destroy(probe->rkey);
    }
    if (probe->memory != NULL) {
        (void)ucp_mem_unmap(probe->context, probe->memory);
    }
    if (worker_settle(probe->worker)) {
        ucp_worker_destroy(probe->worker);
    }
}

/* Returns false if the features cannot be determined. */
static bool probe_init(probe_t *probe, ucp_context_h context)
{
    ucp_worker_params_t params = {.field_mask = 0};

    *probe = (probe_t){.context = context};
    if (ucp_worker_create(context, &params, &probe->worker) != UCS_OK) {
        return false;
    }
    if (connect_to_itself(probe) && map_memory(probe) && unpack_key(probe)) {
        return true;
    }
    probe_cleanup(probe);
    return false;
}

static bool lacks_am(const probe_t *probe)
{
    ucp_worker_attr_t attr = {
        .field_mask = UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER,
    };

    return (ucp_worker_query(probe->worker, &attr) == UCS_OK) &&
           (attr.max_am_header == 0);
}

/* Returns true if UCX itself rejects a get of 0 bytes, for which the address
 * does not matter. */
static bool is_refused(const probe_t *probe)
{
    ucp_request_param_t param = {.op_attr_mask = 0};
    char                byte;
    ucs_status_ptr_t    request;

    request =
        ucp_get_nbx(probe->ep, &byte, 0, (uintptr_t)&byte, probe->rkey, &param);
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
    return UCS_PTR_RAW_STATUS(request) == UCS_ERR_INVALID_PARAM;
}

/* Returns true if the text that UCX prints for the endpoint and the worker
 * shows that the endpoint can put. *uses_self_p: it shows the `self` transport.
 */
static bool shows_put(const probe_t *probe, bool *uses_self_p)
{
    bool          puts;
    base_string_t string;
    char         *text;

    if (base_string_open(&string) != NULL) {
        ucp_ep_print_info(probe->ep, string.stream);
        ucp_worker_print_info(probe->worker, string.stream);
    }
    text         = base_string_close_or_warn(&string);
    *uses_self_p = (text != NULL) && (strstr(text, ":self/") != NULL);
    puts         = (text != NULL) && ((strstr(text, "put_short:") != NULL) ||
                              (strstr(text, "put[") != NULL));
    free(text);
    return puts;
}

static ucs_status_t create_reference(ucp_context_h *context_p)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES,
        .features   = UCP_FEATURE_AM | UCP_FEATURE_RMA,
    };
    ucp_config_t *config;
    ucs_status_t  status = ucp_config_read(NULL, NULL, &config);

    if (status != UCS_OK) {
        return status;
    }
    (void)ucp_config_modify(config, "TLS", "self");
    status = ucp_init(&params, config, context_p);
    ucp_config_release(config);
    return status;
}

/* Returns true if the text of this UCX shows UCP_FEATURE_RMA for a context that
 * has it. */
static bool shows_rma(void)
{
    bool          is_shown = false;
    bool          uses_self;
    ucp_context_h context;
    probe_t       probe;

    if (create_reference(&context) != UCS_OK) {
        return false;
    }
    if (probe_init(&probe, context)) {
        is_shown = shows_put(&probe, &uses_self);
        probe_cleanup(&probe);
    }
    ucp_cleanup(context);
    return is_shown;
}

static bool lacks_rma(const probe_t *probe)
{
    bool uses_self;

    return is_refused(probe) ||
           (!shows_put(probe, &uses_self) && uses_self && shows_rma());
}

/*
 * Reject a context that certainly lacks UCP_FEATURE_AM or UCP_FEATURE_RMA. The
 * check creates a temporary worker with an endpoint to itself:
 *
 * AM   Without this feature, UCX 1.22 reports a maximum header size of 0 bytes.
 *      Other versions reject handlers.
 * RMA  Without this feature, a UCX that checks parameters rejects a get of 0
 *      bytes. The UCX packages of Linux distributions check parameters. A UCX
 *      without these checks shows this feature in its printed text: it prints
 *      how an endpoint puts short data only if the context has this feature.
 *      The check trusts the text only if the endpoint uses the `self`
 *      transport, and if the text of a context that has the feature shows it.
 *
 * UCXPOOL_ERR_UNSUPPORTED  the context lacks a feature
 */
static ucxpool_status_t features_check(ucp_context_h context)
{
    ucxpool_status_t status = UCXPOOL_OK;
    probe_t          probe;

    if (!probe_init(&probe, context)) {
        return UCXPOOL_OK;
    }
    if (lacks_am(&probe)) {
        status = base_error(
            UCXPOOL_ERR_UNSUPPORTED,
            "the borrowed UCX context was created without UCP_FEATURE_AM");
    } else if (lacks_rma(&probe)) {
        status = base_error(
            UCXPOOL_ERR_UNSUPPORTED,
            "the borrowed UCX context was created without UCP_FEATURE_RMA");
    }
    probe_cleanup(&probe);
    return status;
}

/* --- active message ids of a borrowed worker ------------------------------ */

/* The claims of all pools of the process: pools may share a worker. */
static base_lock_t lock;
static base_list_t claims = {&claims, &claims};

static bool overlap(const ucx_claim_t *a, const ucx_claim_t *b)
{
    return (a->worker == b->worker) && (a->first < b->first + b->count) &&
           (b->first < a->first + a->count);
}

static const ucx_claim_t *find_other(const ucx_claim_t *claim)
{
    const ucx_claim_t *other;

    base_list_find(other, &claims, ucx_claim_t, link, overlap(claim, other));
    return other;
}

ucxpool_status_t ucx_claim_take(ucx_claim_t *claim)
{
    ucxpool_status_t   status = UCXPOOL_OK;
    const ucx_claim_t *other;

    base_lock_take(&lock);
    other = find_other(claim);
    if (other == NULL) {
        base_list_add_tail(&claims, &claim->link);
    } else {
        status = base_error(UCXPOOL_ERR_INVALID_PARAM,
                            "pool '%s' uses the active message ids %u to %u of "
                            "this worker; choose other ids for '%s' with "
                            "UCXPOOL_AM_ID, or give it another worker",
                            other->name, other->first,
                            other->first + other->count - 1, claim->name);
    }
    base_lock_give(&lock);
    return status;
}

void ucx_claim_release(ucx_claim_t *claim)
{
    base_lock_take(&lock);
    base_list_del(&claim->link);
    base_lock_give(&lock);
}

/* --- context and worker --------------------------------------------------- */

static ucxpool_status_t create_context(ucx_context_t              *ucx,
                                       const ucx_context_params_t *wish)
{
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME |
                      UCP_PARAM_FIELD_MT_WORKERS_SHARED,
        .features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP,
        .mt_workers_shared = 1,
        .name              = "ucxpool",
    };
    ucp_config_t *config;
    ucs_status_t  status;

    status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) {
        return base_error(ucx_status(status),
                          "UCX could not read its settings: %s (check the "
                          "UCX_* environment variables)",
                          ucs_status_string(status));
    }
    ucx_tune(config, wish->for_gpu);
    ucx_peer_timeout_tune(config, wish->peer_timeout_ns, wish->has_rdma);
    if (ucx_tune_devices(config, wish->devices)) {
        snprintf(ucx->devices, sizeof(ucx->devices), "%s", wish->devices);
    }
    status = ucp_init(&params, config, &ucx->context);
    ucp_config_release(config);
    if (status != UCS_OK) {
        return base_error(
            ucx_status(status),
            "UCX failed to start: %s (check UCX_TLS and UCX_NET_DEVICES)",
            ucs_status_string(status));
    }
    ucx->own_context = true;
    return UCXPOOL_OK;
}

static ucxpool_status_t create_worker(ucx_context_t *ucx)
{
    ucp_worker_params_t params = {
        .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED, /* the pool's lock serializes
                                                    * all calls */
    };
    ucs_status_t status =
        ucp_worker_create(ucx->context, &params, &ucx->worker);

    if (status != UCS_OK) {
        return base_error(
            ucx_status(status),
            "UCX could not create a worker: %s (check UCX_TLS and "
            "UCX_NET_DEVICES)",
            ucs_status_string(status));
    }
    ucx->own_worker = true;
    return UCXPOOL_OK;
}

/* Create a context and a worker, unless the caller has given them. */
static ucxpool_status_t create(ucx_context_t              *ucx,
                               const ucx_context_params_t *params)
{
    ucxpool_status_t status;

    if (params->context == NULL) {
        status = base_limits_check_ucx();
        if (status != UCXPOOL_OK) {
            return status;
        }
        status = create_context(ucx, params);
    } else {
        status = features_check(params->context);
    }
    if (status != UCXPOOL_OK) {
        return status;
    }
    if (params->worker == NULL) {
        status = create_worker(ucx);
        if (status != UCXPOOL_OK) {
            goto err_cleanup_context;
        }
    }
    return UCXPOOL_OK;

err_cleanup_context:
    if (ucx->own_context) {
        ucp_cleanup(ucx->context);
    }
    return status;
}

void ucx_locale_begin(ucx_locale_t *locale)
{
    locale_t copy = duplocale(uselocale((locale_t)0));

    locale->ours = newlocale(LC_NUMERIC_MASK, "C", copy);
    if (locale->ours == (locale_t)0) {
        base_warn("no memory for a locale: UCX may fail to read numbers if the "
                  "application's locale has a decimal comma");
        if (copy != (locale_t)0) {
            freelocale(copy);
        }
        return;
    }
    locale->before = uselocale(locale->ours);
}

void ucx_locale_end(const ucx_locale_t *locale)
{
    if (locale->ours != (locale_t)0) {
        uselocale(locale->before);
        freelocale(locale->ours);
    }
}

ucxpool_status_t ucx_context_init(ucx_context_t              *ucx,
                                  const ucx_context_params_t *params)
{
    ucx_child_before_t before;
    ucx_locale_t       locale;
    ucxpool_status_t   status;

    *ucx = (ucx_context_t){
        .context = params->context,
        .worker  = params->worker,
    };
    base_list_init(&ucx->claim.link);
    signals_restore();
    ucx_child_cloexec_begin(&before);
    ucx_locale_begin(&locale);
    status = create(ucx, params);
    ucx_locale_end(&locale);
    ucx_child_cloexec_end(&before);
    return status;
}

void ucx_context_settle_worker(ucx_context_t *ucx)
{
    if (ucx->own_worker) {
        ucx->keeps_worker = !worker_settle(ucx->worker);
    }
}

void ucx_context_destroy_worker(ucx_context_t *ucx, const char *name)
{
    if (ucx->keeps_worker) {
        base_warn("%s: a peer has not finished connecting; UCX before 1.14 "
                  "cannot destroy the worker then, so the worker stays until "
                  "the process ends",
                  name);
        ucx_child_keep_worker();
        return;
    }
    if (ucx->own_worker) {
        ucp_worker_destroy(ucx->worker);
    }
}

void ucx_context_cleanup(ucx_context_t *ucx)
{
    if (ucx->own_context && !ucx->keeps_worker) {
        ucp_cleanup(ucx->context);
    }
}
