/* Section of the report on UCX: its version, devices and lanes. */
#include "common/error.h"
#include "info/report.h"

#include <ucp/api/ucp.h>

#include <stdlib.h>
#include <string.h>
#include <time.h>

extern char **environ;

/* The features that the pool requests. */
#define FEATURES (UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP)

/* Two workers that stand for two processes on this host. UCX selects the same
 * transports for them. No message is sent. */
typedef struct probe {
    ucp_context_h context;
    ucp_worker_h  workers[2];
} probe_t;

static ucs_status_t probe_init(probe_t *probe)
{
    const ucp_params_t        params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                        .features   = FEATURES};
    const ucp_worker_params_t worker_params = {
        .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucs_status_t status;

    status = ucp_init(&params, NULL, &probe->context);
    if (status != UCS_OK) {
        return status;
    }
    status =
        ucp_worker_create(probe->context, &worker_params, &probe->workers[0]);
    if (status != UCS_OK) {
        goto err_cleanup_context;
    }
    status =
        ucp_worker_create(probe->context, &worker_params, &probe->workers[1]);
    if (status != UCS_OK) {
        goto err_destroy_worker;
    }
    return UCS_OK;

err_destroy_worker:
    ucp_worker_destroy(probe->workers[0]);
err_cleanup_context:
    ucp_cleanup(probe->context);
    return status;
}

/* Time limit for connecting the two workers. Over an RDMA device this takes
 * several round trips. */
#define SETTLE_SECONDS 2

/* Let both workers complete their pending messages. UCX before 1.14 aborts on
 * an assertion if a worker is destroyed while messages of its connection setup
 * are pending. Returns false if some are left. */
static bool probe_settle(const probe_t *probe)
{
    time_t until = time(NULL) + SETTLE_SECONDS;

    for (int i = 0; i < 2; i++) {
        ucp_request_param_t param = {.op_attr_mask = 0};
        ucs_status_ptr_t    flush =
            ucp_worker_flush_nbx(probe->workers[i], &param);
        ucs_status_t status = UCS_INPROGRESS;

        if (!UCS_PTR_IS_PTR(flush)) {
            continue;
        }
        while ((status == UCS_INPROGRESS) && (time(NULL) <= until)) {
            ucp_worker_progress(probe->workers[0]);
            ucp_worker_progress(probe->workers[1]);
            status = ucp_request_check_status(flush);
        }
        ucp_request_free(flush);
        if (status == UCS_INPROGRESS) {
            return false;
        }
    }
    return true;
}

static void probe_cleanup(probe_t *probe)
{
    if (!probe_settle(probe)) {
        /* The process exits soon, which releases the workers. */
        return;
    }
    /* Endpoints are destroyed with their worker. */
    ucp_worker_destroy(probe->workers[0]);
    ucp_worker_destroy(probe->workers[1]);
    ucp_cleanup(probe->context);
}

/* Add the transport and device at the end of a line such as
 * "# resource 1 : md 1 dev 1 flags -- tcp/lo". */
static void collect_device(const char *line, words_t *words)
{
    const char *word = strrchr(line, ' ');

    if ((strstr(line, " resource ") != NULL) && (word != NULL)) {
        words_add(words, word + 1);
    }
}

/* Add the transport of a line such as "# lane[0]: 1:tcp/lo.0 md[1] ...": the
 * part between the second colon and the last period of that word. */
static void collect_lane(const char *line, words_t *words)
{
    const char *lane = strstr(line, "lane[");
    char        transport[128];
    char       *period;

    if ((lane != NULL) &&
        (sscanf(lane, "lane[%*[^]]]:%*[^:]:%127s", transport) == 1) &&
        ((period = strrchr(transport, '.')) != NULL) && (period > transport)) {
        *period = '\0';
        words_add(words, transport);
    }
}

/*
 * Report the words that are collected from each line that UCX has printed. Not
 * every supported version has a function that returns them.
 *
 * stream  From open_memstream(), or NULL; is closed.
 * text    The stream's text; is freed.
 */
static void report_printed(report_t *report, const char *key, FILE *stream,
                           char **text,
                           void (*collect)(const char *line, words_t *words))
{
    words_t words = {NULL, 0};
    char   *rest;

    if ((stream == NULL) || (fclose(stream) != 0) || (*text == NULL)) {
        report_text(report, key, "unknown: out of memory");
    } else {
        for (char *line = strtok_r(*text, "\n", &rest); line != NULL;
             line       = strtok_r(NULL, "\n", &rest)) {
            collect(line, &words);
        }
        report_words(report, key, &words);
    }
    free(*text);
}

static void report_devices(report_t *report, ucp_context_h context)
{
    char  *text = NULL;
    size_t size;
    FILE  *stream = open_memstream(&text, &size);

    if (stream != NULL) {
        ucp_context_print_info(context, stream);
    }
    report_printed(report, "transports", stream, &text, collect_device);
}

static void report_lanes(report_t *report, const char *key,
                         const probe_t *probe, const ucp_address_t *address,
                         ucp_err_handling_mode_t mode)
{
    const ucp_ep_params_t params = {.field_mask =
                                        UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                        UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                    .address  = address,
                                    .err_mode = mode};
    char                 *text   = NULL;
    size_t                size;
    FILE                 *stream;
    ucp_ep_h              ep;
    ucs_status_t status = ucp_ep_create(probe->workers[0], &params, &ep);

    if (status != UCS_OK) {
        report_text(report, key, "not possible: %s", ucs_status_string(status));
        return;
    }
    stream = open_memstream(&text, &size);
    if (stream != NULL) {
        ucp_ep_print_info(ep, stream);
    }
    report_printed(report, key, stream, &text, collect_lane);
}

static void report_connections(report_t *report, const probe_t *probe)
{
    ucp_address_t *address;
    size_t         length;

    if (ucp_worker_get_address(probe->workers[1], &address, &length) !=
        UCS_OK) {
        return;
    }
    report_lanes(report, "this_host_without_failure_handling", probe, address,
                 UCP_ERR_HANDLING_MODE_NONE);
    report_lanes(report, "this_host_with_failure_handling", probe, address,
                 UCP_ERR_HANDLING_MODE_PEER);
    ucp_worker_release_address(probe->workers[1], address);
}

static void report_memory_types(report_t *report, ucp_context_h context)
{
    ucp_context_attr_t attr  = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
    words_t            words = {NULL, 0};

    if (ucp_context_query(context, &attr) != UCS_OK) {
        return;
    }
    for (unsigned i = 0; i < UCS_MEMORY_TYPE_LAST; i++) {
        if (attr.memory_types & (UINT64_C(1) << i)) {
            words_add(&words, ucs_memory_type_names[i]);
        }
    }
    report_words(report, "memory_types", &words);
}

static void report_environment(report_t *report)
{
    words_t words = {NULL, 0};

    for (char **variable = environ; *variable != NULL; variable++) {
        if (strncmp(*variable, "UCX_", 4) == 0) {
            words_add(&words, *variable);
        }
    }
    report_words(report, "environment", &words);
}

bool info_ucx_report(report_t *report)
{
    probe_t      probe;
    ucs_status_t status = probe_init(&probe);

    report_section_begin(report, "ucx", "UCX");
    report_text(report, "version", "%s", ucp_get_version_string());
    report_environment(report);
    report_bool(report, "works", status == UCS_OK);
    if (status == UCS_OK) {
        report_memory_types(report, probe.context);
        report_devices(report, probe.context);
        report_connections(report, &probe);
        probe_cleanup(&probe);
    } else {
        tool_error("UCX failed to start: %s", ucs_status_string(status));
        report_text(report, "error",
                    "%s: set UCX_LOG_LEVEL=info to see the cause, and check "
                    "the UCX_* variables",
                    ucs_status_string(status));
    }
    report_section_end(report);
    return status == UCS_OK;
}
