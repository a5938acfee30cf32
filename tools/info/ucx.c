/* Section of the report on UCX: its version and devices. */
#include <config.h>

#include "common/error.h"
#include "info/report.h"

#include <ucp/api/ucp.h>

#include <stdlib.h>
#include <string.h>

extern char **environ;

/* The features that the pool requests. */
#define FEATURES (UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP)

/* Create what a pool needs from UCX, and keep only the context. */
static ucs_status_t open_ucx(ucp_context_h *context_p)
{
    const ucp_params_t        params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                        .features   = FEATURES};
    const ucp_worker_params_t worker_params = {
        .field_mask  = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
        .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_worker_h worker;
    ucs_status_t status = ucp_init(&params, NULL, context_p);

    if (status != UCS_OK) {
        return status;
    }
    status = ucp_worker_create(*context_p, &worker_params, &worker);
    if (status != UCS_OK) {
        ucp_cleanup(*context_p);
        return status;
    }
    ucp_worker_destroy(worker);
    return UCS_OK;
}

/* Add the transport and device at the end of a line such as
 * "# resource 1 : md 1 dev 1 flags -- tcp/lo". */
static void collect_device(const char *line, words_t *words)
{
    const char *word = strrchr(line, ' ');

    if ((strstr(line, " resource ") != NULL) && (word != NULL)) {
        words_add(words, word + 1, strlen(word + 1));
    }
}

/* Report the transports and devices that UCX prints. Not every supported
 * version has a function that returns them. */
static void report_devices(report_t *report, ucp_context_h context)
{
    words_t words = {NULL, 0};
    char   *text  = NULL;
    char   *rest;
    size_t  size;
    FILE   *stream = open_memstream(&text, &size);

    if (stream == NULL) {
        return;
    }
    ucp_context_print_info(context, stream);
    fclose(stream);
    for (char *line = strtok_r(text, "\n", &rest); line != NULL;
         line       = strtok_r(NULL, "\n", &rest)) {
        collect_device(line, &words);
    }
    report_words(report, "transports", &words);
    free(text);
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
            words_add(&words, ucs_memory_type_names[i],
                      strlen(ucs_memory_type_names[i]));
        }
    }
    report_words(report, "memory_types", &words);
}

static void report_thread_level(report_t *report)
{
    static const char *const names[] = {[UCS_THREAD_MODE_SINGLE] = "single",
                                        [UCS_THREAD_MODE_SERIALIZED] =
                                            "serialized",
                                        [UCS_THREAD_MODE_MULTI] = "multi"};
    ucp_lib_attr_t attr = {.field_mask = UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL};

    if ((ucp_lib_query(&attr) == UCS_OK) &&
        ((size_t)attr.max_thread_level < sizeof(names) / sizeof(names[0]))) {
        report_text(report, "thread_level", "%s", names[attr.max_thread_level]);
    }
}

static void report_environment(report_t *report)
{
    words_t words = {NULL, 0};

    for (char **variable = environ; *variable != NULL; variable++) {
        if (strncmp(*variable, "UCX_", 4) == 0) {
            words_add(&words, *variable, strlen(*variable));
        }
    }
    report_words(report, "environment", &words);
}

bool info_ucx_report(report_t *report)
{
    ucp_context_h context;
    ucs_status_t  status = open_ucx(&context);

    report_section_begin(report, "ucx", "UCX");
    report_text(report, "version", "%s", ucp_get_version_string());
    report_environment(report);
    report_thread_level(report);
    report_bool(report, "works", status == UCS_OK);
    if (status == UCS_OK) {
        report_memory_types(report, context);
        report_devices(report, context);
        ucp_cleanup(context);
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
