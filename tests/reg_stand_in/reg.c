#include "reg.h"
#include "base/clock.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#define EXPORT __attribute__((visibility("default")))

/* If this is loaded before UCX, the functions have UCX's names, and the loader
 * finds the real ones. If it is linked to a test, the linker renames both. */
#ifdef REG_STAND_IN_PRELOADED
#define ENTRY(_name) EXPORT _name
#define REAL(_name)  ((__typeof__(&_name))real(#_name))

static void *real(const char *name)
{
    void *function = dlsym(RTLD_NEXT, name);

    if (function == NULL) {
        fprintf(stderr, "REG_STAND_IN: no %s\n", name);
        abort();
    }
    return function;
}
#else
#define ENTRY(_name) __wrap_##_name
#define REAL(_name)  __real_##_name
#define DECLARE(_result, _name, ...) \
    _result __real_##_name(__VA_ARGS__); \
    _result __wrap_##_name(__VA_ARGS__);

DECLARE(ucs_status_t, ucp_context_query, ucp_context_h, ucp_context_attr_t *)
DECLARE(ucs_status_t, ucp_mem_map, ucp_context_h, const ucp_mem_map_params_t *,
        ucp_mem_h *)
DECLARE(ucs_status_t, ucp_mem_unmap, ucp_context_h, ucp_mem_h)
DECLARE(ucs_status_t, ucp_mem_query, const ucp_mem_h, ucp_mem_attr_t *)
DECLARE(ucs_status_t, ucp_rkey_pack, ucp_context_h, ucp_mem_h, void **,
        size_t *)
DECLARE(void, ucp_rkey_buffer_release, void *)
#endif

/* A handle returned to the caller: UCX's, or our own if real is NULL. */
typedef struct handle {
    struct handle *next;
    ucp_mem_h      real;
    void          *address;
    size_t         length;
    bool           counts;
    bool           lies;
} handle_t;

static struct {
    bool     is_configured;
    bool     has_cuda;
    bool     of_cuda, of_host;
    uint64_t bytes;
    unsigned first;
    bool     once;
    bool     lies;
    char     trace[256];
} config;

static pthread_mutex_t   lock = PTHREAD_MUTEX_INITIALIZER;
static reg_counts_t      counts;
static _Atomic uint64_t  own_bytes;
static _Atomic uint64_t *all_bytes = &own_bytes;
static handle_t         *handles;

/* Packed keys of our own handles. */
static char packed[1];

static uint64_t parse_size(const char *text)
{
    char    *end;
    uint64_t size = strtoull(text, &end, 10);

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

static void share(const char *path)
{
    int   fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *page;

    if ((fd < 0) || (ftruncate(fd, 4096) != 0)) {
        perror(path);
        abort();
    }
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (page == MAP_FAILED) {
        perror(path);
        abort();
    }
    all_bytes = page;
}

static void parse_word(const char *name, const char *value)
{
    if (strcmp(name, "cuda") == 0) {
        config.has_cuda = *value == 'y';
    } else if (strcmp(name, "of") == 0) {
        config.of_cuda = strcmp(value, "host") != 0;
        config.of_host = strcmp(value, "cuda") != 0;
    } else if (strcmp(name, "bytes") == 0) {
        config.bytes = parse_size(value);
    } else if (strcmp(name, "first") == 0) {
        config.first = (unsigned)atoi(value);
    } else if (strcmp(name, "once") == 0) {
        config.once = *value == 'y';
    } else if (strcmp(name, "lying") == 0) {
        config.lies = *value == 'y';
    } else if (strcmp(name, "shared") == 0) {
        share(value);
    } else if (strcmp(name, "trace") == 0) {
        snprintf(config.trace, sizeof(config.trace), "%s", value);
    } else {
        fprintf(stderr, "REG_STAND_IN: %s=%s\n", name, value);
        abort();
    }
}

static void configure(const char *text)
{
    char copy[512], *rest = copy, *word, *value;

    memset(&config, 0, sizeof(config));
    counts = (reg_counts_t){.peak = counts.live, .live = counts.live};
    config.is_configured = true;
    config.of_cuda       = true;
    config.of_host       = true;
    config.bytes         = UINT64_MAX;
    snprintf(copy, sizeof(copy), "%s", text == NULL ? "" : text);
    while ((word = strsep(&rest, ",")) != NULL) {
        value = strchr(word, '=');
        if (value != NULL) {
            *value = '\0';
            parse_word(word, value + 1);
        }
    }
}

static void begin(void)
{
    pthread_mutex_lock(&lock);
    if (!config.is_configured) {
        configure(getenv("REG_STAND_IN"));
    }
}

static void end(void)
{
    pthread_mutex_unlock(&lock);
}

EXPORT void reg_configure(const char *text)
{
    pthread_mutex_lock(&lock);
    configure(text);
    pthread_mutex_unlock(&lock);
}

EXPORT reg_counts_t reg_counts(void)
{
    reg_counts_t now;

    begin();
    now = counts;
    end();
    return now;
}

__attribute__((destructor)) static void write_trace(void)
{
    FILE *file;

    if ((config.trace[0] == '\0') || (counts.num_maps == 0)) {
        return;
    }
    file = fopen(config.trace, "ae");
    if (file != NULL) {
        fprintf(file, "maps %llu refused %llu peak %llu live %llu ns %llu\n",
                (unsigned long long)counts.num_maps,
                (unsigned long long)counts.num_refused,
                (unsigned long long)counts.peak,
                (unsigned long long)counts.live, (unsigned long long)counts.ns);
        fclose(file);
    }
}

/* Take bytes from the remaining budget of all processes that share the file. */
static bool take(uint64_t length)
{
    uint64_t bytes = atomic_load(all_bytes);

    if ((config.first != 0) &&
        (config.once ? counts.num_maps == config.first
                     : counts.num_maps >= config.first)) {
        return false;
    }
    do {
        if ((length > config.bytes) || (bytes > config.bytes - length)) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(all_bytes, &bytes, bytes + length));
    counts.live += length;
    if (counts.live > counts.peak) {
        counts.peak = counts.live;
    }
    return true;
}

static void give(const handle_t *handle)
{
    if (handle->counts) {
        counts.live -= handle->length;
        atomic_fetch_sub(all_bytes, handle->length);
    }
}

/* The link to a handle; NULL: an unknown handle. */
static handle_t **find(ucp_mem_h memh)
{
    for (handle_t **place = &handles; *place != NULL; place = &(*place)->next) {
        if (((*place)->real == memh) || ((void *)*place == (void *)memh)) {
            return place;
        }
    }
    return NULL;
}

static ucs_status_t map(ucp_context_h               context,
                        const ucp_mem_map_params_t *params, handle_t *handle)
{
    bool is_cuda = config.has_cuda &&
                   (params->field_mask & UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE) &&
                   (params->memory_type == UCS_MEMORY_TYPE_CUDA);

    handle->address = params->address;
    handle->length  = params->length;
    if (is_cuda ? config.of_cuda : config.of_host) {
        counts.num_maps++;
        handle->counts = take(params->length);
        if (!handle->counts) {
            counts.num_refused++;
            handle->lies = config.lies;
            return config.lies ? UCS_OK : UCS_ERR_IO_ERROR;
        }
    }
    return is_cuda ? UCS_OK : REAL(ucp_mem_map)(context, params, &handle->real);
}

ucs_status_t ENTRY(ucp_mem_map)(ucp_context_h               context,
                                const ucp_mem_map_params_t *params,
                                ucp_mem_h                  *memh_p)
{
    handle_t    *handle = calloc(1, sizeof(*handle));
    uint64_t     start  = base_clock_now();
    ucs_status_t status;

    if (handle == NULL) {
        return UCS_ERR_NO_MEMORY;
    }
    begin();
    status = map(context, params, handle);
    counts.ns += base_clock_now() - start;
    if (status == UCS_OK) {
        handle->next = handles;
        handles      = handle;
        *memh_p      = handle->real == NULL ? (ucp_mem_h)handle : handle->real;
    } else {
        give(handle);
        free(handle);
    }
    end();
    return status;
}

ucs_status_t ENTRY(ucp_mem_unmap)(ucp_context_h context, ucp_mem_h memh)
{
    ucs_status_t status = UCS_OK;
    handle_t   **place, *handle;

    begin();
    place = find(memh);
    if (place == NULL) {
        status = REAL(ucp_mem_unmap)(context, memh);
    } else {
        handle = *place;
        *place = handle->next;
        if (handle->real != NULL) {
            status = REAL(ucp_mem_unmap)(context, handle->real);
        }
        give(handle);
        free(handle);
    }
    end();
    return status;
}

ucs_status_t ENTRY(ucp_mem_query)(const ucp_mem_h memh, ucp_mem_attr_t *attr)
{
    ucs_status_t status = UCS_OK;
    handle_t   **place;

    begin();
    place = find(memh);
    if ((place == NULL) || ((*place)->real != NULL)) {
        status = REAL(ucp_mem_query)(memh, attr);
    } else {
        attr->address = (*place)->address;
        attr->length  = (*place)->lies ? 0 : (*place)->length;
    }
    end();
    return status;
}

ucs_status_t ENTRY(ucp_rkey_pack)(ucp_context_h context, ucp_mem_h memh,
                                  void **buffer_p, size_t *size_p)
{
    ucs_status_t status = UCS_OK;
    handle_t   **place;

    begin();
    place = find(memh);
    if ((place == NULL) || ((*place)->real != NULL)) {
        status = REAL(ucp_rkey_pack)(context, memh, buffer_p, size_p);
    } else {
        *buffer_p = packed;
        *size_p   = sizeof(packed);
    }
    end();
    return status;
}

void ENTRY(ucp_rkey_buffer_release)(void *buffer)
{
    if (buffer != packed) {
        REAL(ucp_rkey_buffer_release)(buffer);
    }
}

ucs_status_t ENTRY(ucp_context_query)(ucp_context_h       context,
                                      ucp_context_attr_t *attr)
{
    ucs_status_t status = REAL(ucp_context_query)(context, attr);

    begin();
    if (config.has_cuda && (status == UCS_OK) &&
        (attr->field_mask & UCP_ATTR_FIELD_MEMORY_TYPES)) {
        attr->memory_types |= UINT64_C(1) << UCS_MEMORY_TYPE_CUDA;
    }
    end();
    return status;
}
