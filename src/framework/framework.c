/*
 * The allocator functions for PyTorch, CuPy and RMM. Some of these functions
 * throw C++ exceptions, so this file is compiled with -fexceptions.
 */
#include "framework/framework.h"

#include <ucxpool/config.h>
#include <ucxpool/heap.h>
#include <ucxpool/private.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- pools -------------------------------------------------------------------
 * One pool per device, for all frameworks of the process. A pool is created on
 * first use, and never destroyed.
 */

#define NUM_PLACES (UCXPOOL_FRAMEWORK_MAX_DEVICES + 1)

/* The pools of the host and of the devices, in this order. Written under the
 * lock. */
static _Atomic(ucxpool_t *) pools[NUM_PLACES];
static pthread_mutex_t      lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t       once = PTHREAD_ONCE_INIT;

/*
 * In a forked child: forget the parent's pools. The child must not use or even
 * destroy them. The lock is initialized again, because a thread that does not
 * exist in the child may hold it. A pool that was being created during the fork
 * is leaked in the child. The lock protects only pools[], whose elements are
 * atomic, so a fork cannot leave them inconsistent.
 *
 * The fork does not wait for the lock. The lock is held while a pool is
 * created, and cuInit() may fork during this time to load a kernel module.
 */
static void in_child(void)
{
    for (size_t i = 0; i < NUM_PLACES; i++) {
        atomic_store(&pools[i], NULL);
    }
    pthread_mutex_init(&lock, NULL);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

/* Returns the slot of the device's pool, or NULL if the device is invalid. */
static _Atomic(ucxpool_t *) *place_of(int device)
{
    if ((device < UCXPOOL_FRAMEWORK_HOST) ||
        (device >= UCXPOOL_FRAMEWORK_MAX_DEVICES)) {
        return NULL;
    }
    return &pools[device - UCXPOOL_FRAMEWORK_HOST];
}

static ucxpool_status_t no_such_device(int device)
{
    return ucxpool_error_set(
        UCXPOOL_ERR_INVALID_PARAM,
        "invalid device %d: devices are 0 to %d, and %d is the host", device,
        UCXPOOL_FRAMEWORK_MAX_DEVICES - 1, UCXPOOL_FRAMEWORK_HOST);
}

/* Returns the device's pool, or NULL if the device has no pool yet or is
 * invalid. */
static ucxpool_t *find_pool(int device)
{
    _Atomic(ucxpool_t *) *place = place_of(device);

    return place == NULL ? NULL
                         : atomic_load_explicit(place, memory_order_acquire);
}

static bool is_set(const char *key)
{
    char name[64];

    snprintf(name, sizeof(name), "UCXPOOL_%s", key);
    return getenv(name) != NULL;
}

/* Change settings for frameworks, unless the environment sets them. Blocks are
 * used only for messages, and most of these pools transfer none. */
static ucxpool_status_t modify(ucxpool_config_t *config)
{
    ucxpool_status_t status = UCXPOOL_OK;

    if (!is_set("COMM_SIZE") && !is_set("BLOCK_SIZE") &&
        !is_set("REGION_SIZE")) {
        status = ucxpool_config_modify(config, "COMM_SIZE", "8m");
    }
    if ((status == UCXPOOL_OK) && !is_set("HEAP_ALIGNMENT")) {
        status = ucxpool_config_modify(config, "HEAP_ALIGNMENT", "512");
    }
    return status;
}

static ucxpool_status_t create(int device, ucxpool_t **pool_p)
{
    char             name[32];
    ucxpool_params_t params = {
        .field_mask = UCXPOOL_PARAM_FIELD_CONFIG | UCXPOOL_PARAM_FIELD_NAME |
                      UCXPOOL_PARAM_FIELD_MEMORY_KIND,
        .memory_kind = UCXPOOL_MEMORY_HOST,
        .name        = name,
    };
    ucxpool_config_t *config;
    ucxpool_status_t  status;

    snprintf(name, sizeof(name), "host");
    if (device != UCXPOOL_FRAMEWORK_HOST) {
        snprintf(name, sizeof(name), "gpu%d", device);
        params.field_mask |= UCXPOOL_PARAM_FIELD_DEVICE;
        params.memory_kind = UCXPOOL_MEMORY_CUDA;
        params.device      = device;
    }
    status = ucxpool_config_read(&config);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = modify(config);
    if (status == UCXPOOL_OK) {
        params.config = config;
        status        = ucxpool_create(&params, pool_p);
    }
    ucxpool_config_release(config);
    return status;
}

ucxpool_status_t ucxpool_framework_pool(int device, ucxpool_t **pool_p)
{
    _Atomic(ucxpool_t *) *place  = place_of(device);
    ucxpool_status_t      status = UCXPOOL_OK;
    ucxpool_t            *pool;

    if (pool_p == NULL) {
        return ucxpool_error_set(UCXPOOL_ERR_INVALID_PARAM,
                                 "%s(): pool_p is NULL", __func__);
    }
    if (place == NULL) {
        return no_such_device(device);
    }
    pool = atomic_load_explicit(place, memory_order_acquire);
    if (pool == NULL) {
        pthread_once(&once, watch_forks);
        pthread_mutex_lock(&lock);
        pool = atomic_load(place);
        if (pool == NULL) {
            status = create(device, &pool);
        }
        if (status == UCXPOOL_OK) {
            atomic_store(place, pool);
        }
        pthread_mutex_unlock(&lock);
    }
    if (status == UCXPOOL_OK) {
        *pool_p = pool;
    }
    return status;
}

ucxpool_status_t ucxpool_framework_set_pool(int device, ucxpool_t *pool)
{
    _Atomic(ucxpool_t *) *place  = place_of(device);
    ucxpool_status_t      status = UCXPOOL_OK;
    ucxpool_t            *present;

    if (place == NULL) {
        return no_such_device(device);
    }
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    present = atomic_load(place);
    if ((pool != NULL) && (present != NULL) && (present != pool)) {
        status =
            ucxpool_error_set(UCXPOOL_ERR_BUSY,
                              "device %d already has a pool, which may be in "
                              "use: set the pool before the first allocation",
                              device);
    } else {
        atomic_store(place, pool);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* --- uses ----------------------------------------------------------------- */

#define NUM_BUCKETS 1024
#define FIRST_ROOM  4
/* Addresses of allocations are multiples of this. */
#define ADDRESS_STEP 256

static framework_use_t *buckets[NUM_BUCKETS];
static pthread_mutex_t  uses_lock = PTHREAD_MUTEX_INITIALIZER;
/* The number of allocations in the table. While it is 0, a free takes no
 * lock. */
static atomic_size_t num_uses;
static atomic_bool   is_one_lost;

/* Returns the link that points to the use of an address, or the link where the
 * use would be added. */
static framework_use_t **find_use(const void *address)
{
    framework_use_t **link =
        &buckets[((uintptr_t)address / ADDRESS_STEP) % NUM_BUCKETS];

    while ((*link != NULL) && ((*link)->address != address)) {
        link = &(*link)->next;
    }
    return link;
}

static bool has_stream(const framework_use_t *use, const void *stream)
{
    for (size_t i = 0; i < use->num_streams; i++) {
        if (use->streams[i] == stream) {
            return true;
        }
    }
    return false;
}

/* Double the capacity of a use, or create the use. Returns NULL and changes
 * nothing if out of memory. */
static framework_use_t *lengthen(framework_use_t **link, void *address)
{
    framework_use_t *old  = *link;
    size_t           room = old == NULL ? FIRST_ROOM : 2 * old->room;
    framework_use_t *use;

    use = realloc(old, sizeof(*use) + room * sizeof(use->streams[0]));
    if (use == NULL) {
        return NULL;
    }
    if (old == NULL) {
        use->next        = NULL;
        use->address     = address;
        use->num_streams = 0;
        atomic_fetch_add(&num_uses, 1);
    }
    use->room = room;
    *link     = use;
    return use;
}

void framework_uses_add(void *address, void *stream)
{
    framework_use_t **link;
    framework_use_t  *use;

    pthread_mutex_lock(&uses_lock);
    link = find_use(address);
    use  = *link;
    if ((use == NULL) || !has_stream(use, stream)) {
        if ((use == NULL) || (use->num_streams == use->room)) {
            use = lengthen(link, address);
        }
        if (use == NULL) {
            atomic_store(&is_one_lost, true);
        } else {
            use->streams[use->num_streams++] = stream;
        }
    }
    pthread_mutex_unlock(&uses_lock);
}

bool framework_uses_take(const void *address, framework_use_t **use_p)
{
    framework_use_t **link;

    *use_p = NULL;
    if (atomic_load(&num_uses) != 0) {
        pthread_mutex_lock(&uses_lock);
        link   = find_use(address);
        *use_p = *link;
        if (*link != NULL) {
            *link = (*link)->next;
            atomic_fetch_sub(&num_uses, 1);
        }
        pthread_mutex_unlock(&uses_lock);
    }
    return !atomic_load(&is_one_lost);
}

/* --- exceptions --------------------------------------------------------------
 * This library does not link with C++. Its C functions throw exceptions by
 * calling functions of libraries that a C++ program has loaded.
 */

/* c10::detail::torchCheckFail(function, file, line, message), which TORCH_CHECK
 * calls on failure; and std::__throw_bad_alloc(). */
#define TORCH_LIBRARY  "libc10.so"
#define TORCH_FUNCTION "_ZN3c106detail14torchCheckFailEPKcS2_jS2_"
#define CXX_LIBRARY    "libstdc++.so.6"
#define CXX_FUNCTION   "_ZSt17__throw_bad_allocv"

typedef void (*torch_function_t)(const char *function, const char *file,
                                 uint32_t line, const char *message);
typedef void (*cxx_function_t)(void);

/* Find a function of a library that the process has already loaded. Returns
 * NULL if the library is not loaded. The handle is never closed, because an
 * exception is about to pass through the library. */
static void *find_function(const char *library, const char *function)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);

    return handle == NULL ? NULL : dlsym(handle, function);
}

/* Throw std::bad_alloc. Returns if there is no C++ library. */
static void throw_bad_alloc(void)
{
    void          *found = find_function(CXX_LIBRARY, CXX_FUNCTION);
    cxx_function_t function;

    if (found != NULL) {
        memcpy(&function, &found, sizeof(function));
        function();
    }
}

/* Throw PyTorch's exception with the calling thread's error detail, so that
 * Python raises a RuntimeError. Throws std::bad_alloc if PyTorch is not
 * loaded. */
static void throw_torch_error(ucxpool_status_t status)
{
    void            *found = find_function(TORCH_LIBRARY, TORCH_FUNCTION);
    char             message[1024];
    torch_function_t fail;

    if (found == NULL) {
        throw_bad_alloc();
        return;
    }
    /* Programs recognize this error by its first words. */
    snprintf(message, sizeof(message), "%s%s",
             status == UCXPOOL_ERR_NO_MEMORY ? "CUDA out of memory. " : "",
             ucxpool_error_detail());
    memcpy(&fail, &found, sizeof(fail));
    fail("ucxpool_torch_alloc_or_throw", __FILE__, __LINE__, message);
}

/* --- allocating and freeing --------------------------------------------------
 * Shared by the functions of all frameworks. Only the first error is logged.
 */

/* Set when a failed allocation of this process has been logged. */
static atomic_bool is_logged;

/* Replace 1 by 0: both are names of the legacy default stream, and ucxpool uses
 * 0. */
static void *stream_of(void *stream)
{
    return stream == (void *)1 ? NULL : stream;
}

/* Allocate from a pool, or from the device's pool if `pool` is NULL. Creates
 * the device's pool if necessary. */
static ucxpool_status_t allocate_from(ucxpool_t *pool, int device, size_t size,
                                      void *stream, void **address_p)
{
    ucxpool_status_t status = UCXPOOL_OK;

    if (pool == NULL) {
        status = ucxpool_framework_pool(device, &pool);
    }
    if (status == UCXPOOL_OK) {
        status = ucxpool_heap_alloc(pool, size, stream_of(stream), address_p);
    }
    return status;
}

/* Like allocate_from(), but *address_p is NULL after an error and for size 0.
 * Logs the error, but only the first one as a warning, because a framework that
 * has run out of memory retries to find out how much memory it must free. */
static ucxpool_status_t allocate(ucxpool_t *pool, int device, size_t size,
                                 void *stream, void **address_p)
{
    ucxpool_error_level_t level;
    ucxpool_status_t      status;

    *address_p = NULL;
    if (size == 0) {
        return UCXPOOL_OK;
    }
    level = ucxpool_error_set_level(
        atomic_load_explicit(&is_logged, memory_order_relaxed)
            ? UCXPOOL_ERROR_LEVEL_DEBUG
            : UCXPOOL_ERROR_LEVEL_WARN);
    status = allocate_from(pool, device, size, stream, address_p);
    (void)ucxpool_error_set_level(level);
    if (status != UCXPOOL_OK) {
        atomic_store_explicit(&is_logged, true, memory_order_relaxed);
    }
    return status;
}

/* Return memory to a pool. Logs errors as warnings, because they are not
 * returned to the caller. */
static void free_to(ucxpool_t *pool, void *address, void *stream)
{
    ucxpool_error_level_t level =
        ucxpool_error_set_level(UCXPOOL_ERROR_LEVEL_WARN);

    (void)ucxpool_heap_free(pool, address, stream_of(stream));
    (void)ucxpool_error_set_level(level);
}

/* Return memory to the device's pool. The address may be NULL. The device may
 * have no pool if a forked child frees memory that its parent has allocated. */
static void free_on(int device, void *address, void *stream)
{
    ucxpool_t *pool = find_pool(device);

    if ((address != NULL) && (pool != NULL)) {
        free_to(pool, address, stream);
    }
}

/* --- PyTorch -------------------------------------------------------------- */

static ucxpool_status_t torch_allocate(ssize_t size, int device, void *stream,
                                       void **address_p)
{
    ucxpool_error_level_t level;
    ucxpool_status_t      status;

    if (size < 0) {
        *address_p = NULL;
        level      = ucxpool_error_set_level(UCXPOOL_ERROR_LEVEL_WARN);
        status     = ucxpool_error_set(UCXPOOL_ERR_INVALID_PARAM,
                                       "cannot allocate %zd bytes on device %d",
                                       size, device);
        (void)ucxpool_error_set_level(level);
        return status;
    }
    return allocate(NULL, device, (size_t)size, stream, address_p);
}

void *ucxpool_torch_alloc(ssize_t size, int device, void *stream)
{
    void *address;

    (void)torch_allocate(size, device, stream, &address);
    return address;
}

void *ucxpool_torch_alloc_or_throw(ssize_t size, int device, void *stream)
{
    void            *address;
    ucxpool_status_t status = torch_allocate(size, device, stream, &address);

    if (status != UCXPOOL_OK) {
        throw_torch_error(status);
    }
    return address;
}

/* Returns the stream in which to free the memory. If other streams also use the
 * memory, this is a stream that waits for all of them. */
static void *stream_to_free_in(int device, const void *address, void *stream)
{
    framework_use_t *use;
    bool             is_known = framework_uses_take(address, &use);
    ucxpool_status_t status   = UCXPOOL_OK;

    if (device == UCXPOOL_FRAMEWORK_HOST) {
        free(use);
        return stream;
    }
    if (use != NULL) {
        status = ucxpool_device_join_streams(device, stream, use->streams,
                                             use->num_streams, &stream);
        free(use);
    }
    if (!is_known || (status != UCXPOOL_OK)) {
        ucxpool_device_synchronize(device);
    }
    return stream;
}

void ucxpool_torch_free(void *address, ssize_t size, int device, void *stream)
{
    ucxpool_error_level_t level;

    if ((address != NULL) && (find_pool(device) != NULL)) {
        level  = ucxpool_error_set_level(UCXPOOL_ERROR_LEVEL_WARN);
        stream = stream_of(stream);
        free_on(device, address, stream_to_free_in(device, address, stream));
        (void)ucxpool_error_set_level(level);
    }
}

/* Returns true if the address is an allocation of any of the pools. */
static bool is_allocation(const void *address)
{
    size_t size;

    for (int device = UCXPOOL_FRAMEWORK_HOST;
         device < UCXPOOL_FRAMEWORK_MAX_DEVICES; device++) {
        ucxpool_t *pool = find_pool(device);

        if ((pool != NULL) &&
            (ucxpool_heap_usable_size(pool, address, &size) == UCXPOOL_OK)) {
            return true;
        }
    }
    return false;
}

void ucxpool_torch_record_stream(void *address, void *stream)
{
    ucxpool_error_level_t level;
    bool                  is_known;

    if (address == NULL) {
        return;
    }
    level    = ucxpool_error_set_level(UCXPOOL_ERROR_LEVEL_DEBUG);
    is_known = is_allocation(address);
    (void)ucxpool_error_set_level(level);
    if (is_known) {
        framework_uses_add(address, stream_of(stream));
    }
}

void ucxpool_torch_empty_cache(void)
{
    ucxpool_error_level_t level =
        ucxpool_error_set_level(UCXPOOL_ERROR_LEVEL_WARN);

    for (int device = UCXPOOL_FRAMEWORK_HOST;
         device < UCXPOOL_FRAMEWORK_MAX_DEVICES; device++) {
        ucxpool_t *pool = find_pool(device);

        if (pool != NULL) {
            (void)ucxpool_heap_trim(pool, 0, NULL);
        }
    }
    (void)ucxpool_error_set_level(level);
}

void ucxpool_torch_refuse_graph(void)
{
    throw_torch_error(ucxpool_error_set(
        UCXPOOL_ERR_UNSUPPORTED,
        "CUDA graphs cannot be captured while libucxpool is PyTorch's "
        "allocator: use libucxpool for a MemPool instead, and PyTorch's own "
        "allocator for the graph"));
}

/* --- CuPy ----------------------------------------------------------------- */

static void *cupy_stream_of(void *const *stream_p)
{
    return stream_p == NULL ? NULL : *stream_p;
}

void *ucxpool_cupy_malloc(void *stream_p, size_t size, int device)
{
    void *address;

    (void)allocate(NULL, device, size, cupy_stream_of(stream_p), &address);
    return address;
}

void ucxpool_cupy_free(void *stream_p, void *address, int device)
{
    free_on(device, address, cupy_stream_of(stream_p));
}

/* --- RMM ------------------------------------------------------------------ */

void *ucxpool_rmm_alloc(size_t size, void *stream, void *pool)
{
    void *address;

    if (allocate(pool, 0, size, stream, &address) != UCXPOOL_OK) {
        throw_bad_alloc();
    }
    return address;
}

void ucxpool_rmm_free(void *address, size_t size, void *stream, void *pool)
{
    if (pool == NULL) {
        free_on(0, address, stream);
    } else if (!ucxpool_is_foreign(pool)) {
        free_to(pool, address, stream);
    }
}
