/*
 * Reads and writes of scattered pieces of a peer's window, compared with
 * sending the same pieces as a message. The methods alternate. The pieces are
 * in random order on both sides. GB/s of payload, medians of all rounds but the
 * first, in which the data is compared (of long windows, the first GiB).
 *
 *     read      ucxpool_remote_window_read()
 *     write     ucxpool_remote_window_write()
 *     blocks    the peer sends, by ucxpool_send()
 *     get, put  read and write by UCX's get and put (-u)
 *
 * usage: bench_window [-g | -v | -f | -u] [-n NUM_PIECES] [-s SIZE] [-r ROUNDS]
 *
 * -g  Pools on the first and the last GPU; default: in host memory.
 * -v  Like -g, but the window is virtual memory of many allocations of 2 MiB,
 *     as in PyTorch's expandable segments. Also prints how long the window's
 *     calls take.
 * -f  The window is in the heap of its owner's pool, which peers map; default:
 *     in memory of malloc() or cuMemAlloc().
 * -u  The ucx wire. Reads and writes go by messages. In the same rounds, all
 *     pieces are also transferred by UCX's get and put.
 *
 * Without -n and -s, a list of sizes is run. UCXPOOL_WINDOW_WAY, UCXPOOL_WIRE
 * and other settings are read as usual. During reads and writes within a host,
 * the owner's process sleeps.
 */
#include "base/clock.h"
#include "core/pool.h"
#include "mem/cuda_device.h"
#include "window/service.h"

#include <ucxpool/ucxpool.h>

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAG        UINT64_C(1)
#define MAX_ROUNDS 99u

typedef enum way {
    WAY_READ,
    WAY_WRITE,
    WAY_BLOCKS,
    WAY_GET, /* the following only with -u */
    WAY_PUT,
    NUM_WAYS
} way_t;

static const char *const names[] = {"read", "write", "blocks", "get", "put"};

typedef struct work {
    size_t num, size;
} work_t;

static const work_t works[] = {
    {131072, 256}, {131072, 1024}, {131072, 4096},
    {65536, 8192}, {16384, 45056}, {16384, 65536},
    {1, 4096},     {1, 1 << 20},   {1, 1 << 30},
};

/* For -u: sizes around the one from which get and put are used. */
static const work_t ucx_works[] = {
    {65536, 4096}, {32768, 8192},   {16384, 16384}, {8192, 32768},
    {4096, 65536}, {1024, 1 << 18}, {256, 1 << 20}, {1, 1 << 28},
};

static bool               on_gpu;
static bool               in_units; /* -v */
static bool               in_heap;
static bool               over_ucx;
static unsigned           num_rounds = 11;
static mem_cuda_device_t *device; /* NULL: host memory */
static ucxpool_t         *pool;
static ucxpool_channel_t *channel;
static int                talk;
static bool               is_owner;

static way_t num_ways(void)
{
    return over_ucx ? NUM_WAYS : WAY_GET;
}

static void fail(const char *what)
{
    fprintf(stderr, "bench_window: %s failed\n", what);
    exit(EXIT_FAILURE);
}

static void must(ucxpool_status_t status)
{
    if (status != UCXPOOL_OK) {
        fail(ucxpool_error_detail());
    }
}

static void say(const void *bytes, size_t size)
{
    if (send(talk, bytes, size, MSG_NOSIGNAL) != (ssize_t)size) {
        fail("send");
    }
}

/* Wait while progressing the pool: the other side may wait for the release of a
 * window that it has sent from. */
static void hear(void *bytes, size_t size)
{
    char first;

    while (recv(talk, &first, 1, MSG_DONTWAIT | MSG_PEEK) < 0) {
        if (pool != NULL) {
            ucxpool_progress(pool);
        }
    }
    if (recv(talk, bytes, size, MSG_WAITALL) != (ssize_t)size) {
        fail("recv");
    }
}

/* --- memory --------------------------------------------------------------- */

static void driver_must(CUresult result, const char *call)
{
    if (result != CUDA_SUCCESS) {
        fail(call);
    }
}

#define UNIT ((size_t)2 << 20)

static size_t round_up(size_t size)
{
    return (size + UNIT - 1) / UNIT * UNIT;
}

/* Get virtual memory with one allocation for each unit. */
static CUdeviceptr units_get(size_t size)
{
    const mem_cuda_driver_t *driver = device->driver;
    CUmemAllocationProp      prop   = {
               .type                 = CU_MEM_ALLOCATION_TYPE_PINNED,
               .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
               .location = {CU_MEM_LOCATION_TYPE_DEVICE, device->device},
    };
    CUmemAccessDesc access  = {.location = prop.location,
                               .flags    = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr     address = 0;

    size = round_up(size);
    driver_must(driver->cuMemAddressReserve(&address, size, 0, 0, 0),
                "cuMemAddressReserve");
    for (size_t done = 0; done < size; done += UNIT) {
        CUmemGenericAllocationHandle handle;

        driver_must(driver->cuMemCreate(&handle, UNIT, &prop, 0),
                    "cuMemCreate");
        driver_must(driver->cuMemMap(address + done, UNIT, 0, handle, 0),
                    "cuMemMap");
        driver_must(driver->cuMemRelease(handle), "cuMemRelease");
    }
    driver_must(driver->cuMemSetAccess(address, size, &access, 1),
                "cuMemSetAccess");
    return address;
}

static void units_put(CUdeviceptr address, size_t size)
{
    driver_must(device->driver->cuMemUnmap(address, round_up(size)),
                "cuMemUnmap");
    driver_must(device->driver->cuMemAddressFree(address, round_up(size)),
                "cuMemAddressFree");
}

static uint8_t *memory_get(size_t size)
{
    CUdeviceptr address = 0;
    uint8_t    *memory;

    if (device != NULL) {
        must(mem_cuda_device_enter(device));
        if (in_units && is_owner) {
            address = units_get(size);
        } else {
            driver_must(device->driver->cuMemAlloc(&address, size),
                        "cuMemAlloc");
        }
        mem_cuda_device_leave(device);
        return (uint8_t *)(uintptr_t)address;
    }
    if (in_heap && is_owner) {
        void *allocated;

        must(ucxpool_heap_alloc(pool, size, NULL, &allocated));
        memory = allocated;
    } else {
        memory = malloc(size);
    }
    if (memory == NULL) {
        fail("malloc");
    }
    memset(memory, 0, size);
    return memory;
}

static void memory_put(uint8_t *memory, size_t size)
{
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)memory;

    if (device != NULL) {
        must(mem_cuda_device_enter(device));
        if (in_units && is_owner) {
            units_put(address, size);
        } else {
            driver_must(device->driver->cuMemFree(address), "cuMemFree");
        }
        mem_cuda_device_leave(device);
    } else if (in_heap && is_owner) {
        must(ucxpool_heap_free(pool, memory, NULL));
    } else {
        free(memory);
    }
}

static void memory_copy(void *target, const void *source, size_t size)
{
    const mem_cuda_driver_t *driver;

    if (device == NULL) {
        memcpy(target, source, size);
        return;
    }
    driver = device->driver;
    must(mem_cuda_device_enter(device));
    driver_must(driver->cuMemcpyAsync((CUdeviceptr)(uintptr_t)target,
                                      (CUdeviceptr)(uintptr_t)source, size,
                                      NULL),
                "cuMemcpyAsync");
    driver_must(driver->cuStreamSynchronize(NULL), "cuStreamSynchronize");
    mem_cuda_device_leave(device);
}

/* --- connecting ----------------------------------------------------------- */

static void pool_make(void)
{
    ucxpool_params_t params = {.field_mask = 0};

    if (on_gpu) {
        params.field_mask =
            UCXPOOL_PARAM_FIELD_MEMORY_KIND | UCXPOOL_PARAM_FIELD_DEVICE;
        params.memory_kind = UCXPOOL_MEMORY_CUDA;
        params.device      = is_owner ? ucxpool_device_count() - 1 : 0;
        must(mem_cuda_device_open(params.device, &device));
    }
    if (over_ucx) {
        setenv("UCXPOOL_WIRE", "ucx", 1);
    }
    must(ucxpool_create(&params, &pool));
}

static void pools_connect(void)
{
    ucxpool_channel_params_t params = {
        .field_mask = UCXPOOL_CHANNEL_PARAM_FIELD_ADDRESS,
    };
    void  *mine;
    void  *theirs;
    size_t length;

    must(ucxpool_address_get(pool, &mine, &length));
    say(&length, sizeof(length));
    say(mine, length);
    ucxpool_address_release(mine);
    hear(&length, sizeof(length));
    theirs = malloc(length);
    hear(theirs, length);
    params.address        = theirs;
    params.address_length = length;
    must(ucxpool_channel_create(pool, &params, &channel));
    free(theirs);
    must(ucxpool_channel_wait(channel, UCXPOOL_FOREVER));
}

/* --- one work ------------------------------------------------------------- */

typedef struct side {
    uint8_t  *memory;
    uint64_t *offsets;
    void    **pieces;
    size_t    size;
    uint8_t  *bytes; /* copy of the first bytes of the memory, in host memory */
    size_t    num_bytes;
} side_t;

#define BYTES_MAX ((size_t)1 << 30)

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Shuffle the offsets, in an order that depends on the seed. */
static void shuffle(uint64_t *offsets, const work_t *work, uint32_t seed)
{
    for (size_t i = 0; i < work->num; i++) {
        offsets[i] = i * work->size;
    }
    for (size_t i = work->num - 1; i > 0; i--) {
        size_t   other = next_random(&seed) % (i + 1);
        uint64_t kept  = offsets[i];

        offsets[i]     = offsets[other];
        offsets[other] = kept;
    }
}

static void side_init(side_t *side, const work_t *work, uint32_t seed)
{
    side->size      = work->num * work->size;
    side->memory    = memory_get(side->size);
    side->num_bytes = base_min(side->size, BYTES_MAX);
    side->bytes     = malloc(side->num_bytes);
    side->offsets   = calloc(work->num, sizeof(*side->offsets));
    side->pieces    = calloc(work->num, sizeof(*side->pieces));
    if ((side->bytes == NULL) || (side->offsets == NULL) ||
        (side->pieces == NULL)) {
        fail("malloc");
    }
    shuffle(side->offsets, work, seed);
    for (size_t i = 0; i < work->num; i++) {
        side->pieces[i] = side->memory + side->offsets[i];
    }
}

static void side_cleanup(side_t *side)
{
    free(side->bytes);
    free(side->offsets);
    free(side->pieces);
}

static void finish(ucxpool_request_t *request)
{
    must(ucxpool_request_wait(request, UCXPOOL_FOREVER));
    ucxpool_request_release(request);
}

static void fill(side_t *side, uint32_t seed)
{
    for (size_t i = 0; i < side->num_bytes; i++) {
        side->bytes[i] = (uint8_t)next_random(&seed);
    }
    memory_copy(side->memory, side->bytes, side->num_bytes);
}

static void send_pieces(const work_t *work, const side_t *side)
{
    const ucxpool_data_t data = ucxpool_source_pieces(
        (const void *const *)side->pieces, work->num, work->size);
    const ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_STREAM,
        .stream     = UCXPOOL_STREAM_READY,
    };
    ucxpool_request_t *request;

    must(ucxpool_send(channel, &data, TAG, &params, &request));
    finish(request);
}

static void tell(const side_t *side)
{
    memory_copy(side->bytes, side->memory, side->num_bytes);
    say(side->bytes, side->num_bytes);
}

/* How long the owner's calls take, in ms. */
typedef struct times {
    double create;
    double revoke; /* the window, while the peer has imported it */
    double free;   /* the memory, after that */
} times_t;

/* Returns the time since *start_p, in ms, and sets *start_p to now. */
static double lap(uint64_t *start_p)
{
    uint64_t start = *start_p;

    *start_p = base_clock_now();
    return (double)(*start_p - start) / 1e6;
}

/* Revoke the window and free its memory while the peer still has its import. */
static void end(ucxpool_window_t *window, side_t *side, times_t *times)
{
    uint64_t start = base_clock_now();

    must(ucxpool_window_revoke(window, UCXPOOL_FOREVER));
    ucxpool_window_destroy(window);
    times->revoke = lap(&start);
    memory_put(side->memory, side->size);
    times->free = lap(&start);
}

/* The owner. It sends the pieces or all bytes on request. */
static void own(const work_t *work)
{
    ucxpool_window_t *window;
    uint8_t           blob[UCXPOOL_WINDOW_BLOB_SIZE];
    side_t            side;
    times_t           times;
    uint64_t          start;
    char              word;

    side_init(&side, work, 7);
    fill(&side, 1);
    start = base_clock_now();
    must(ucxpool_window_create(pool, side.memory, side.size, NULL, &window));
    must(ucxpool_window_export(
        window, UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE, blob));
    times.create = lap(&start);
    say(blob, sizeof(blob));
    for (;;) {
        ssize_t num = recv(talk, &word, 1, MSG_DONTWAIT);

        if ((num == 1) && (word == 's')) {
            send_pieces(work, &side);
        } else if ((num == 1) && (word == 'S')) {
            tell(&side);
        } else if (num == 1) {
            break;
        }
        ucxpool_progress(pool);
    }
    end(window, &side, &times);
    say(&times, sizeof(times));
    side_cleanup(&side);
}

static double operate(way_t way, const work_t *work, const side_t *side,
                      const uint64_t *offsets, ucxpool_remote_window_t *remote)
{
    const ucxpool_places_t places =
        ucxpool_places_even(offsets, work->num, work->size);
    const ucxpool_data_t data =
        ucxpool_data_pieces(side->pieces, work->num, work->size);
    ucxpool_request_params_t params = {
        .field_mask = UCXPOOL_REQUEST_PARAM_FIELD_STREAM |
                      (on_gpu ? UCXPOOL_REQUEST_PARAM_FIELD_SEGMENTS : 0),
        .stream        = UCXPOOL_STREAM_READY,
        .segments_kind = UCXPOOL_SEGMENTS_CUDA,
    };
    ucxpool_request_t *request;
    uint64_t           start = base_clock_now();

    if ((way == WAY_READ) || (way == WAY_GET)) {
        must(ucxpool_remote_window_read(remote, &places, &data, &params,
                                        &request));
    } else if ((way == WAY_WRITE) || (way == WAY_PUT)) {
        must(ucxpool_remote_window_write(remote, &places, &data, &params,
                                         &request));
    } else {
        must(ucxpool_recv(pool, channel, &data, TAG, UINT64_MAX, &params,
                          &request));
        say("s", 1);
    }
    finish(request);
    return (double)side->size / (double)(base_clock_now() - start);
}

/* Do the bytes of all pieces equal the owner's, as far as they were copied? */
static void compare(const work_t *work, side_t *side, const uint64_t *offsets,
                    uint8_t *theirs)
{
    say("S", 1);
    hear(theirs, side->num_bytes);
    memory_copy(side->bytes, side->memory, side->num_bytes);
    for (size_t i = 0; i < work->num; i++) {
        size_t start = base_max(side->offsets[i], offsets[i]);

        if ((start < side->num_bytes) &&
            (memcmp(side->bytes + side->offsets[i], theirs + offsets[i],
                    base_min(work->size, side->num_bytes - start)) != 0)) {
            fail("the comparison of the bytes");
        }
    }
}

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static ucxpool_remote_window_t *import(const uint8_t *blob,
                                       ucxpool_way_t *way_p)
{
    ucxpool_remote_window_attr_t attr = {.status = UCXPOOL_INPROGRESS};
    ucxpool_remote_window_t     *remote;

    must(ucxpool_remote_window_import(channel, blob, UCXPOOL_WINDOW_BLOB_SIZE,
                                      &remote));
    while (attr.status == UCXPOOL_INPROGRESS) {
        ucxpool_progress(pool);
        ucxpool_remote_window_query(remote, &attr, sizeof(attr));
    }
    must(attr.status);
    *way_p = attr.way;
    return remote;
}

static void print_medians(const work_t *work, ucxpool_way_t chosen,
                          double speeds[NUM_WAYS][MAX_ROUNDS])
{
    static const char *const way_names[] = {"none", "messages", "process",
                                            "cuda", "mapped",   "rma"};

    printf("| %zu x %zu | %s |", work->num, work->size, way_names[chosen]);
    for (way_t way = 0; way < num_ways(); way++) {
        qsort(speeds[way], num_rounds, sizeof(double), compare_numbers);
        printf(" %.2f |", speeds[way][num_rounds / 2]);
    }
}

static void print_times(const times_t *times, double import)
{
    if (in_units) {
        printf(" %.1f | %.1f | %.1f | %.1f |", times->create, import,
               times->revoke, times->free);
    }
    printf("\n");
    fflush(stdout);
}

/* Use UCX's get and put for all pieces, not only for long ones. */
static void choose(way_t way)
{
    if (over_ucx) {
        pool->config.window_way = (way >= WAY_GET) ? BASE_WINDOW_WAY_DIRECT
                                                   : BASE_WINDOW_WAY_MESSAGES;
    }
}

static void use(const work_t *work)
{
    uint8_t                  blob[UCXPOOL_WINDOW_BLOB_SIZE];
    uint64_t                *offsets = calloc(work->num, sizeof(*offsets));
    double                   speeds[NUM_WAYS][MAX_ROUNDS];
    ucxpool_way_t            chosen, by_ucx;
    ucxpool_remote_window_t *remote;
    ucxpool_remote_window_t *direct = NULL;
    side_t                   side;
    uint8_t                 *theirs;
    times_t                  times;
    uint64_t                 start;
    double                   import_ms;

    side_init(&side, work, 9);
    theirs = malloc(side.num_bytes);
    if ((offsets == NULL) || (theirs == NULL)) {
        fail("malloc");
    }
    shuffle(offsets, work, 7);
    hear(blob, sizeof(blob));
    if (over_ucx) { /* one pool measures both ways, also over tcp */
        pool->windows->may_emulate = true;
        pool->config.window_way    = BASE_WINDOW_WAY_DIRECT;
        direct                     = import(blob, &by_ucx);
        pool->config.window_way    = BASE_WINDOW_WAY_MESSAGES;
    }
    start     = base_clock_now();
    remote    = import(blob, &chosen);
    import_ms = lap(&start);
    for (unsigned round = 0; round <= num_rounds; round++) {
        for (way_t way = 0; way < num_ways(); way++) {
            double speed;

            choose(way);
            if (round == 0) {
                fill(&side, way + 2);
            }
            speed = operate(way, work, &side, offsets,
                            (way >= WAY_GET) ? direct : remote);
            if (round == 0) {
                compare(work, &side, offsets, theirs);
            } else {
                speeds[way][round - 1] = speed;
            }
        }
    }
    print_medians(work, chosen, speeds);
    say("q", 1);
    hear(&times, sizeof(times));
    print_times(&times, import_ms);
    ucxpool_remote_window_release(remote);
    ucxpool_remote_window_release(direct);
    memory_put(side.memory, side.size);
    side_cleanup(&side);
    free(offsets);
    free(theirs);
}

static void run(const work_t *list, size_t num)
{
    pool_make();
    pools_connect();
    if (!is_owner) {
        printf("| pieces | way |");
        for (way_t way = 0; way < num_ways(); way++) {
            printf(" %s |", names[way]);
        }
        printf("%s\n|---|---|---|---|---|%s\n",
               in_units ? " create, ms | import | revoke | free |" : "",
               in_units   ? "---|---|---|---|"
               : over_ucx ? "---|---|"
                          : "");
    }
    for (size_t i = 0; i < num; i++) {
        if (is_owner) {
            own(&list[i]);
        } else {
            use(&list[i]);
        }
    }
    ucxpool_destroy(pool);
    mem_cuda_device_close(device);
}

/* Returns whether the options are valid. */
static bool parse_options(int argc, char **argv, work_t *one)
{
    int option;

    while ((option = getopt(argc, argv, "fguvn:s:r:")) != -1) {
        switch (option) {
        case 'f':
            in_heap = true;
            break;
        case 'g':
            on_gpu = true;
            break;
        case 'u':
            over_ucx = true;
            break;
        case 'v':
            in_units = true;
            break;
        case 'n':
            one->num = strtoul(optarg, NULL, 0);
            break;
        case 's':
            one->size = strtoul(optarg, NULL, 0);
            break;
        case 'r':
            num_rounds = (unsigned)strtoul(optarg, NULL, 0);
            break;
        default:
            return false;
        }
    }
    if ((num_rounds == 0) || (num_rounds > MAX_ROUNDS) || (optind != argc) ||
        (one->size == 0) || (on_gpu + in_units + in_heap + over_ucx > 1)) {
        fprintf(stderr, "usage: bench_window [-g | -v | -f | -u] [-n NUM] "
                        "[-s SIZE] [-r ROUNDS (1 to 99)]\n");
        return false;
    }
    on_gpu |= in_units;
    return true;
}

int main(int argc, char **argv)
{
    work_t one = {0, 4096};
    int    sockets[2];
    int    status;
    pid_t  child;

    if (!parse_options(argc, argv, &one)) {
        return EXIT_FAILURE;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
        fail("socketpair");
    }
    child    = fork();
    is_owner = child == 0;
    talk     = sockets[is_owner];
    close(sockets[!is_owner]);
    if (is_owner) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    if (one.num != 0) {
        run(&one, 1);
    } else if (over_ucx) {
        run(ucx_works, sizeof(ucx_works) / sizeof(ucx_works[0]));
    } else {
        run(works, sizeof(works) / sizeof(works[0]));
    }
    if (is_owner) {
        return EXIT_SUCCESS;
    }
    if ((waitpid(child, &status, 0) != child) || (status != 0)) {
        fail("the owner");
    }
    return EXIT_SUCCESS;
}
