/*
 * gpu_buffers - send scattered buffers in GPU memory from one process to
 * another. Both pools are on GPU 0; the code is the same for two GPUs. Exits
 * with 77 if there is no driver or no GPU.
 *
 * A program with the CUDA toolkit includes cuda.h or calls the runtime. This
 * example opens the driver at run time, so that it can be built anywhere.
 */
#include <ucxpool/ucxpool.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NUM_BUFFERS 4
#define LENGTH      ((size_t)3 << 20)
#define TAG         1

/* The functions of the CUDA driver that this program calls. */
static struct {
    int (*init)(unsigned flags);
    int (*retain)(void **context, int device);
    int (*set_current)(void *context);
    int (*alloc)(unsigned long long *address, size_t size);
    int (*to_gpu)(unsigned long long target, const void *source, size_t size);
    int (*to_host)(void *target, unsigned long long source, size_t size);
    int (*release)(unsigned long long address);
} cuda;

static void must(ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        fprintf(stderr, "gpu_buffers: %s: %s\n", ucxpool_status_string(status),
                ucxpool_error_detail());
        exit(1);
    }
}

static void must_cuda(int result, const char *what)
{
    if (result != 0) {
        fprintf(stderr, "gpu_buffers: %s: CUDA error %d\n", what, result);
        exit(1);
    }
}

static void find(void *driver, const char *name, void *function_p)
{
    void *function = dlsym(driver, name);

    if (function == NULL) {
        fprintf(stderr, "gpu_buffers: the driver has no %s\n", name);
        exit(1);
    }
    memcpy(function_p, &function, sizeof(function));
}

/* Open the same driver as the pool, and the GPU's primary context. */
static void start_cuda(void)
{
    const char *path   = getenv("UCXPOOL_CUDA_DRIVER");
    void       *driver = dlopen(path != NULL ? path : "libcuda.so.1", RTLD_NOW);
    void       *context;

    if (driver == NULL) {
        fprintf(stderr, "gpu_buffers: %s\n", dlerror());
        exit(77);
    }
    find(driver, "cuInit", &cuda.init);
    find(driver, "cuDevicePrimaryCtxRetain", &cuda.retain);
    find(driver, "cuCtxSetCurrent", &cuda.set_current);
    find(driver, "cuMemAlloc_v2", &cuda.alloc);
    find(driver, "cuMemcpyHtoD_v2", &cuda.to_gpu);
    find(driver, "cuMemcpyDtoH_v2", &cuda.to_host);
    find(driver, "cuMemFree_v2", &cuda.release);
    if (cuda.init(0) != 0 || cuda.retain(&context, 0) != 0) {
        fprintf(stderr, "gpu_buffers: there is no GPU\n");
        exit(77);
    }
    must_cuda(cuda.set_current(context), "cuCtxSetCurrent");
}

static ucxpool_t *create_pool(void)
{
    ucxpool_params_t params = {
        .field_mask =
            UCXPOOL_PARAM_FIELD_MEMORY_KIND | UCXPOOL_PARAM_FIELD_DEVICE,
        .memory_kind = UCXPOOL_MEMORY_CUDA,
        .device      = 0,
    };
    ucxpool_t *pool;

    must(ucxpool_create(&params, &pool));
    return pool;
}

/* Allocate the program's own buffers at any addresses, and fill each with a
 * letter. Data to send need not be in the pool's memory. */
static void make_buffers(ucxpool_segment_t *buffers, char *letters, char first)
{
    unsigned long long address;

    for (int i = 0; i < NUM_BUFFERS; i++) {
        must_cuda(cuda.alloc(&address, LENGTH), "cuMemAlloc");
        memset(letters, first == '\0' ? '\0' : first + i, LENGTH);
        must_cuda(cuda.to_gpu(address, letters, LENGTH), "cuMemcpyHtoD");
        buffers[i].address = (void *)(size_t)address;
        buffers[i].length  = LENGTH;
    }
}

static void release_buffers(const ucxpool_segment_t *buffers)
{
    for (int i = 0; i < NUM_BUFFERS; i++) {
        must_cuda(cuda.release((size_t)buffers[i].address), "cuMemFree");
    }
}

static void finish(ucxpool_request_t *request)
{
    must(ucxpool_request_wait(request, UCXPOOL_FOREVER));
    ucxpool_request_release(request);
}

/* The pool reads the buffers after all work that is now in the default stream.
 * If a kernel in another stream fills them, name that stream in the params. */
static int run_sender(int port_fd, char *letters)
{
    char               where[32] = "";
    ucxpool_segment_t  buffers[NUM_BUFFERS];
    ucxpool_data_t     data;
    ucxpool_channel_t *channel;
    ucxpool_request_t *request;
    ucxpool_t         *pool;

    if (read(port_fd, where, sizeof(where) - 1) <= 0) {
        return 1;
    }
    start_cuda();
    pool = create_pool();
    make_buffers(buffers, letters, 'a');
    must(ucxpool_channel_connect(pool, where, NULL, &channel));
    data = ucxpool_data_segments(buffers, NUM_BUFFERS);
    must(ucxpool_send(channel, &data, TAG, NULL, &request));
    finish(request);
    release_buffers(buffers);
    ucxpool_destroy(pool);
    return 0;
}

static ucxpool_channel_t *accept_peer(ucxpool_t          *pool,
                                      ucxpool_listener_t *listener)
{
    ucxpool_channel_t *channel;
    ucxpool_status_t   status;

    while ((status = ucxpool_listener_accept(listener, NULL, &channel)) ==
           UCXPOOL_INPROGRESS) {
        must(ucxpool_wait(pool, UCXPOOL_FOREVER));
    }
    must(status);
    return channel;
}

static void check_buffers(const ucxpool_segment_t *buffers, char *letters)
{
    for (int i = 0; i < NUM_BUFFERS; i++) {
        must_cuda(cuda.to_host(letters, (size_t)buffers[i].address, LENGTH),
                  "cuMemcpyDtoH");
        for (size_t byte = 0; byte < LENGTH; byte++) {
            if (letters[byte] != 'a' + i) {
                fprintf(stderr, "gpu_buffers: the received bytes differ\n");
                exit(1);
            }
        }
    }
    printf("%d buffers of %zu bytes arrived\n", NUM_BUFFERS, LENGTH);
}

static void run_receiver(int port_fd, char *letters)
{
    ucxpool_t          *pool = create_pool();
    ucxpool_segment_t   buffers[NUM_BUFFERS];
    ucxpool_data_t      data;
    ucxpool_listener_t *listener;
    ucxpool_request_t  *request;

    make_buffers(buffers, letters, '\0');
    must(ucxpool_listener_create(pool, "127.0.0.1:0", &listener));
    dprintf(port_fd, "127.0.0.1:%u", (unsigned)ucxpool_listener_port(listener));
    data = ucxpool_data_segments(buffers, NUM_BUFFERS);
    must(ucxpool_recv(pool, accept_peer(pool, listener), &data, TAG, UINT64_MAX,
                      NULL, &request));
    finish(request);
    check_buffers(buffers, letters);
    release_buffers(buffers);
    ucxpool_listener_destroy(listener);
    ucxpool_destroy(pool);
}

/* CUDA does not survive a fork: each process initializes it. */
int main(void)
{
    char *letters = malloc(LENGTH);
    pid_t child;
    int   fds[2];
    int   status = 0;

    if ((letters == NULL) || (pipe(fds) != 0) || ((child = fork()) < 0)) {
        perror("gpu_buffers");
        return 1;
    }
    if (child == 0) {
        close(fds[1]);
        exit(run_sender(fds[0], letters));
    }
    close(fds[0]);
    start_cuda();
    run_receiver(fds[1], letters);
    wait(&status);
    free(letters);
    return status == 0 ? 0 : 1;
}
