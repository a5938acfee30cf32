/* Counting calls, injecting failures, and the configuration. */
#include "state.h"
#include "stand_in.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

config_t config;
unsigned num_live;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool            is_configured;
static bool            is_begun; /* cuInit has been called */
static bool is_forked; /* forked after cuInit: no call works in this process */

typedef struct call {
    char     name[48];
    bool     gives_back;
    unsigned count;
} call_t;

static struct {
    call_t   calls[MAX_NAMES];
    unsigned num_names;
    unsigned total;
    unsigned num_making; /* calls that create something */

    char     fail_name[48]; /* "": any function */
    unsigned fail_at;       /* 0: none */
    CUresult fail_result;
    bool     has_failed;
} calls;

static void reset_counts(void)
{
    memset(&calls, 0, sizeof(calls));
}

static size_t parse_size(const char *text)
{
    char  *end;
    size_t size = strtoull(text, &end, 10);

    switch (*end) {
    case 'k':
        return size << 10;
    case 'm':
        return size << 20;
    case 'g':
        return size << 30;
    default:
        return size;
    }
}

static void parse_failure(const char *text)
{
    char     name[48];
    unsigned n, result;

    if (sscanf(text, "%47[^:]:%u:%u", name, &n, &result) != 3) {
        fprintf(stderr, "CUDA_STAND_IN: fail=%s\n", text);
        abort();
    }
    strcpy(calls.fail_name, strcmp(name, "any") == 0 ? "" : name);
    calls.fail_at     = n;
    calls.fail_result = (CUresult)result;
}

static void parse_word(const char *name, const char *value)
{
    const struct {
        const char *name;
        bool       *value;
    } switches[] = {
        {"vmm", &config.has_vmm},       {"gdr", &config.has_gdr},
        {"posix", &config.has_posix},   {"memops", &config.has_mem_ops},
        {"peers", &config.has_peers},   {"hostptr", &config.has_host_pointer},
        {"dmabuf", &config.has_dmabuf},
    };

    for (size_t i = 0; i < sizeof(switches) / sizeof(switches[0]); i++) {
        if (strcmp(name, switches[i].name) == 0) {
            *switches[i].value = value[0] == 'y';
            return;
        }
    }
    if (strcmp(name, "devices") == 0) {
        config.num_devices = atoi(value);
    } else if (strcmp(name, "memory") == 0) {
        config.memory = parse_size(value);
    } else if (strcmp(name, "grain") == 0) {
        config.grain = parse_size(value);
    } else if (strcmp(name, "perfile") == 0) {
        config.per_file = parse_size(value);
    } else if (strcmp(name, "version") == 0) {
        config.version = atoi(value);
    } else if (strcmp(name, "fabric") == 0) {
        config.fabric = value[0] == 't'   ? FABRIC_REFUSED
                        : value[0] == 'y' ? FABRIC_YES
                                          : FABRIC_NO;
    } else if (strcmp(name, "run") == 0) {
        config.runs_at_once = value[0] == 'y';
        config.runs_late    = value[0] == 'l';
    } else if (strcmp(name, "without") == 0) {
        snprintf(config.without, sizeof(config.without), "%s", value);
    } else if (strcmp(name, "name") == 0) {
        snprintf(config.name, sizeof(config.name), "%s", value);
    } else if (strcmp(name, "fail") == 0) {
        parse_failure(value);
    } else {
        fprintf(stderr, "CUDA_STAND_IN: %s=%s\n", name, value);
        abort();
    }
}

static void configure(const char *text)
{
    char copy[512], *rest = copy, *word, *value;

    config = (config_t){
        .num_devices      = 1,
        .memory           = (size_t)256 << 20,
        .grain            = GRANULARITY,
        .per_file         = 1,
        .has_vmm          = true,
        .has_gdr          = true,
        .has_posix        = true,
        .has_dmabuf       = true,
        .fabric           = FABRIC_NO,
        .has_mem_ops      = true,
        .has_host_pointer = true,
        .has_peers        = true,
        .version          = 12040,
        .runs_at_once     = true,
        .name             = "Stand-in GPU",
    };
    reset_counts();
    for (int i = 0; i < MAX_DEVICES; i++) {
        contexts[i].sticky = CUDA_SUCCESS;
    }
    is_configured = true;
    snprintf(copy, sizeof(copy), "%s", text == NULL ? "" : text);
    while ((word = strsep(&rest, ",")) != NULL) {
        value = strchr(word, '=');
        if (value != NULL) {
            *value = '\0';
            parse_word(word, value + 1);
        }
    }
    if ((config.num_devices < 0) || (config.num_devices > MAX_DEVICES)) {
        abort();
    }
}

static void configure_once(void)
{
    if (!is_configured) {
        configure(getenv("CUDA_STAND_IN"));
    }
}

/* Functions that release something do not fail by `any`: no caller could handle
 * it. */
static bool gives_back(const char *name)
{
    static const char *const words[] = {"Close", "Destroy",   "Free",
                                        "Pop",   "Release",   "Unload",
                                        "Unmap", "Unregister"};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strstr(name, words[i]) != NULL) {
            return true;
        }
    }
    return false;
}

static call_t *find_call(const char *name)
{
    call_t *call;

    for (unsigned i = 0; i < calls.num_names; i++) {
        if (strcmp(calls.calls[i].name, name) == 0) {
            return &calls.calls[i];
        }
    }
    if (calls.num_names == MAX_NAMES) {
        abort();
    }
    call = &calls.calls[calls.num_names++];
    snprintf(call->name, sizeof(call->name), "%s", name);
    call->gives_back = gives_back(name);
    return call;
}

static bool is_due(const char *name)
{
    call_t  *call = find_call(name);
    unsigned n    = ++call->count;

    calls.total++;
    if (calls.fail_name[0] == '\0') {
        if (call->gives_back) {
            return false;
        }
        n = ++calls.num_making;
    } else if (strcmp(calls.fail_name, name) != 0) {
        return false;
    }
    return (calls.fail_at != 0) && (n == calls.fail_at);
}

static void in_child(void)
{
    is_forked = is_begun;
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

static CUresult check(const char *name, needs_t needs)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    CUcontext context;

    if (needs == NEEDS_NOTHING) {
        return CUDA_SUCCESS;
    }
    if (is_due(name)) {
        calls.has_failed = true;
        return calls.fail_result;
    }
    if (is_forked) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (strcmp(name, "cuInit") == 0) {
        pthread_once(&once, watch_forks);
        is_begun = true;
        return config.num_devices == 0 ? CUDA_ERROR_NO_DEVICE : CUDA_SUCCESS;
    }
    if (!is_begun) {
        return CUDA_ERROR_NOT_INITIALIZED;
    }
    if (needs == NEEDS_CONTEXT) {
        context = current_context();
        if (context == NULL) {
            return CUDA_ERROR_INVALID_CONTEXT;
        }
        return context->retains == 0 ? CUDA_ERROR_CONTEXT_IS_DESTROYED
                                     : context->sticky;
    }
    return CUDA_SUCCESS;
}

CUresult begin(const char *name, needs_t needs)
{
    CUresult result;

    pthread_mutex_lock(&lock);
    configure_once();
    result = check(name, needs);
    if (result != CUDA_SUCCESS) {
        pthread_mutex_unlock(&lock);
    }
    return result;
}

void state_lock(void)
{
    pthread_mutex_lock(&lock);
}

void state_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

CUresult done(CUresult result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

VISIBLE void stand_in_configure(const char *text)
{
    pthread_mutex_lock(&lock);
    configure(text);
    pthread_mutex_unlock(&lock);
}

VISIBLE unsigned stand_in_count(const char *name)
{
    unsigned count;

    pthread_mutex_lock(&lock);
    count = name == NULL ? calls.total : find_call(name)->count;
    pthread_mutex_unlock(&lock);
    return count;
}

VISIBLE void stand_in_fail(const char *name, unsigned n, int result)
{
    pthread_mutex_lock(&lock);
    configure_once();
    reset_counts();
    snprintf(calls.fail_name, sizeof(calls.fail_name), "%s",
             name == NULL ? "" : name);
    calls.fail_at     = n;
    calls.fail_result = (CUresult)result;
    pthread_mutex_unlock(&lock);
}

VISIBLE int stand_in_has_failed(void)
{
    int has_failed;

    pthread_mutex_lock(&lock);
    has_failed = calls.has_failed;
    pthread_mutex_unlock(&lock);
    return has_failed;
}

VISIBLE unsigned stand_in_step(unsigned num)
{
    unsigned num_done;

    pthread_mutex_lock(&lock);
    num_done = stream_work(num);
    pthread_mutex_unlock(&lock);
    return num_done;
}

VISIBLE unsigned stand_in_live(void)
{
    unsigned live;

    pthread_mutex_lock(&lock);
    live = num_live;
    pthread_mutex_unlock(&lock);
    return live;
}

VISIBLE void *stand_in_bytes(unsigned long long address, size_t size)
{
    size_t run   = 0;
    void  *bytes = NULL;

    pthread_mutex_lock(&lock);
    if (mapping_of(address) != NULL) {
        bytes = resolve(address, mapping_of(address)->device, false, &run);
    }
    pthread_mutex_unlock(&lock);
    return run >= size ? bytes : NULL;
}

VISIBLE void stand_in_reset_context(int device)
{
    pthread_mutex_lock(&lock);
    num_live -= contexts[device].retains;
    memset(&contexts[device], 0, sizeof(contexts[device]));
    pthread_mutex_unlock(&lock);
}
