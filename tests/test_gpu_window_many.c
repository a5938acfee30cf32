/*
 * Windows in virtual memory of a GPU that consists of many allocations. The
 * owner sends the descriptors of some allocations at a time, and the importer
 * maps and closes them before it requests the next ones.
 */
#include "fds.h"
#include "test.h"
#include "two_gpu.h"

#include "ipc/socket.h"
#include "core/pool.h"
#include "window/remote.h"

#include <string.h>
#include <unistd.h>

#define UNIT     ((size_t)2 << 20)
#define DRIVER   "memory=64g,perfile=256"
#define SETTINGS "WIRE=map CUDA_BACKING=vmm"
#define BOTH     (UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE)

/* --- memory of many allocations ------------------------------------------- */

typedef struct memory {
    CUdeviceptr address;
    size_t      size;
} memory_t;

static size_t same_size(unsigned index)
{
    return UNIT;
}

static size_t other_size(unsigned index)
{
    return UNIT * (1 + index % 2);
}

static void map_allocation(CUdeviceptr address, size_t size)
{
    const mem_cuda_driver_t *driver = gpu->driver;
    CUmemAllocationProp      prop   = {
               .type                 = CU_MEM_ALLOCATION_TYPE_PINNED,
               .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    };
    CUmemGenericAllocationHandle handle = 0;

    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id   = gpu->device;
    two_check(driver->cuMemCreate(&handle, size, &prop, 0) == CUDA_SUCCESS);
    two_check(driver->cuMemMap(address, size, 0, handle, 0) == CUDA_SUCCESS);
    two_check(driver->cuMemRelease(handle) == CUDA_SUCCESS);
}

static memory_t memory_get(unsigned num, size_t (*size_of)(unsigned index))
{
    CUmemAccessDesc desc   = {.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    memory_t        memory = {.size = 0};
    size_t          done   = 0;

    for (unsigned i = 0; i < num; i++) {
        memory.size += size_of(i);
    }
    two_ok(mem_cuda_device_enter(gpu));
    two_check(gpu->driver->cuMemAddressReserve(&memory.address, memory.size, 0,
                                               0, 0) == CUDA_SUCCESS);
    for (unsigned i = 0; i < num; i++) {
        map_allocation(memory.address + done, size_of(i));
        done += size_of(i);
    }
    desc.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    desc.location.id   = gpu->device;
    two_check(gpu->driver->cuMemSetAccess(memory.address, memory.size, &desc,
                                          1) == CUDA_SUCCESS);
    mem_cuda_device_leave(gpu);
    return memory;
}

static void memory_put(const memory_t *memory)
{
    two_ok(mem_cuda_device_enter(gpu));
    two_check(gpu->driver->cuMemUnmap(memory->address, memory->size) ==
              CUDA_SUCCESS);
    two_check(gpu->driver->cuMemAddressFree(memory->address, memory->size) ==
              CUDA_SUCCESS);
    mem_cuda_device_leave(gpu);
}

/* The window begins and ends in the middle of an allocation. */
static uint8_t *window_start(const memory_t *memory)
{
    return (uint8_t *)(uintptr_t)memory->address + UNIT / 2;
}

static size_t window_size(const memory_t *memory)
{
    return memory->size - UNIT / 2 - UNIT / 4;
}

/* --- changed messages ----------------------------------------------------- */

typedef enum trick {
    NO_TRICK,
    ONE_FEWER, /* than the owner says */
    NONE,      /* and a reason of control characters that is not terminated */
    ONE_TWICE,
    TOTAL_TOO_LARGE,
    TOTAL_TOO_SMALL,
    LAST_TRICK
} trick_t;

static trick_t  trick;
static unsigned trick_at;     /* number of the message, from 1 */
static unsigned num_messages; /* with descriptors, sent by this process */
static unsigned max_fds;      /* the most descriptors in one message */

int __real_ipc_socket_send(int fd, const void *data, size_t size,
                           const int *fds, unsigned num_fds);
int __wrap_ipc_socket_send(int fd, const void *data, size_t size,
                           const int *fds, unsigned num_fds);

int __wrap_ipc_socket_send(int fd, const void *data, size_t size,
                           const int *fds, unsigned num_fds)
{
    proto_given_t given;
    int           all[IPC_FDS_MAX];

    if (num_fds == 0) {
        return __real_ipc_socket_send(fd, data, size, fds, num_fds);
    }
    max_fds = base_max(max_fds, num_fds);
    if (++num_messages != trick_at) {
        return __real_ipc_socket_send(fd, data, size, fds, num_fds);
    }
    memcpy(&given, data, sizeof(given));
    memcpy(all, fds, num_fds * sizeof(fds[0]));
    switch (trick) {
    case ONE_FEWER:
        num_fds--;
        break;
    case NONE:
        num_fds     = 0;
        given.count = 0;
        memset(given.reason, '\n', sizeof(given.reason));
        break;
    case ONE_TWICE:
        all[num_fds++] = fds[0];
        break;
    case TOTAL_TOO_LARGE:
        given.total++;
        break;
    case TOTAL_TOO_SMALL:
        given.total--;
        break;
    default:
        break;
    }
    return __real_ipc_socket_send(fd, &given, size, all, num_fds);
}

/* --- two pools in one process --------------------------------------------- */

static pair_t                   pair;
static memory_t                 memory;
static ucxpool_window_t        *window;
static ucxpool_remote_window_t *remote;

static ucxpool_remote_window_attr_t query(void)
{
    ucxpool_remote_window_attr_t attr;

    ucxpool_remote_window_query(remote, &attr, sizeof(attr));
    return attr;
}

static void export_window(void)
{
    assert_ok(ucxpool_window_create(pair.b, window_start(&memory),
                                    window_size(&memory), NULL, &window));
}

/* Import the window, and wait until some of it is mapped, or all of it. */
static void import_window(bool waits)
{
    uint8_t blob[UCXPOOL_WINDOW_BLOB_SIZE];

    assert_ok(ucxpool_window_export(window, BOTH, blob));
    assert_ok(
        ucxpool_remote_window_import(pair.to_b, blob, sizeof(blob), &remote));
    pair_until(&pair, (query().status != UCXPOOL_INPROGRESS) ||
                          (!waits && (remote->range.num_mapped != 0)));
}

static void start(unsigned num, size_t (*size_of)(unsigned index))
{
    trick        = NO_TRICK;
    num_messages = 0;
    max_fds      = 0;
    gpu_connect(&pair, SETTINGS, SETTINGS);
    memory = memory_get(num, size_of);
    export_window();
}

static void release_window(void)
{
    ucxpool_remote_window_release(remote);
    pair_until(&pair, ucxpool_window_revoke(window, 0) == UCXPOOL_OK);
    ucxpool_window_destroy(window);
}

static void stop(void)
{
    release_window();
    memory_put(&memory);
    gpu_disconnect(&pair);
}

static void use(size_t at, size_t size, bool is_write, uint8_t *ours)
{
    assert_ok(gpu_finish(&pair, pair_access(remote, is_write, at, ours, size)));
}

/* Read and write across the end of each allocation, or of some of many. */
static void read_and_write(void)
{
    uint8_t *ours = gpu_alloc(2 * UNIT);
    size_t   step = base_max(UNIT, memory.size / 20 / UNIT * UNIT);
    uint8_t  bytes[100], found[100];

    for (size_t end = UNIT; end < memory.size; end += step) {
        size_t at = end - UNIT / 2 - 50;

        pair_fill(bytes, sizeof(bytes));
        gpu_write(window_start(&memory) + at, bytes, sizeof(bytes));
        use(at, sizeof(bytes), false, ours);
        gpu_read(found, ours, sizeof(found));
        ck_assert_mem_eq(found, bytes, sizeof(bytes));
        pair_fill(bytes, sizeof(bytes));
        gpu_write(ours, bytes, sizeof(bytes));
        use(at, sizeof(bytes), true, ours);
        gpu_read(found, window_start(&memory) + at, sizeof(found));
        ck_assert_mem_eq(found, bytes, sizeof(bytes));
    }
    gpu_free(ours);
}

static void check_way(ucxpool_way_t way, const char *reason)
{
    ck_assert_int_eq(query().status, UCXPOOL_OK);
    ck_assert_msg(query().way == way, "%s", query().way_reason);
    assert_has(query().way_reason, reason);
}

static void gpu_begin(void)
{
    gpu_start(DRIVER);
}

TEST_SETTINGS(.setup = gpu_begin, .teardown = gpu_stop, .timeout = 120,
              .only_if = cuda_is_stand_in);

static const unsigned nums[] = {1, 2, 31, 32, 33, 128, 129, 1000};

TEST_EACH(window_of_many_allocations_is_used_directly, 8)
{
    unsigned num_fds, live;

    start(nums[_i], same_size);
    num_fds = fds_count();
    live    = stand_in.live();
    import_window(true);
    check_way(UCXPOOL_WAY_CUDA, "");
    ck_assert_uint_eq(num_messages, (nums[_i] + 31) / 32);
    ck_assert_uint_le(max_fds, 32);
    ck_assert_uint_eq(fds_count(), num_fds);
    read_and_write();
    ucxpool_remote_window_release(remote);
    ck_assert_uint_eq(stand_in.live(), live);
    import_window(true); /* again */
    check_way(UCXPOOL_WAY_CUDA, "");
    stop();
}

/* The sizes of 128 allocations change 127 times. */
TEST_EACH(allocations_of_different_sizes_are_used_directly_up_to_a_limit, 2)
{
    start(128 + (unsigned)_i, other_size);
    import_window(true);
    if (_i == 0) {
        check_way(UCXPOOL_WAY_CUDA, "");
    } else {
        check_way(UCXPOOL_WAY_MESSAGES, "change more than 127 times");
    }
    read_and_write();
    stop();
}

TEST_EACH(wrong_descriptors_from_the_owner_make_the_window_use_messages,
          2 * (LAST_TRICK - 1))
{
    unsigned num_fds, live;

    start(100, same_size);
    num_fds  = fds_count();
    live     = stand_in.live();
    trick    = (trick_t)(1 + _i / 2);
    trick_at = 1 + 2 * (unsigned)(_i % 2);
    import_window(true);
    check_way(UCXPOOL_WAY_MESSAGES, (trick == NONE)
                                        ? "it sends no descriptors: ????????"
                                        : "not those that it announced");
    ck_assert_ptr_null(remote->answer);
    pair_until(&pair, fds_count() == num_fds);
    ck_assert_uint_eq(stand_in.live(), live);
    read_and_write();
    stop();
}

static const struct {
    const char *call;
    unsigned    n;
    const char *reason;
} faults[] = {
    {"cuMemAddressReserve", 1, "cuMemAddressReserve"},
    {"cuMemImportFromShareableHandle", 1, "cuMemImportFromShareableHandle"},
    {"cuMemImportFromShareableHandle", 40, "cuMemImportFromShareableHandle"},
    {"cuMemImportFromShareableHandle", 100, "cuMemImportFromShareableHandle"},
    {"cuMemMap", 70, "cuMemMap"},
    {"cuMemSetAccess", 2, "cuMemSetAccess"},
    {"cuMemExportToShareableHandle", 1,
     "it sends no descriptors: cuMemExportToShareableHandle"},
    {"cuMemExportToShareableHandle", 50,
     "it sends no descriptors: cuMemExportToShareableHandle"},
};

TEST_EACH(failed_driver_call_makes_the_window_use_messages,
          sizeof(faults) / sizeof(faults[0]))
{
    unsigned num_fds, live;

    start(100, same_size);
    num_fds = fds_count();
    live    = stand_in.live();
    stand_in.fail_call(faults[_i].call, faults[_i].n, CUDA_ERROR_UNKNOWN);
    import_window(true);
    check_way(UCXPOOL_WAY_MESSAGES, faults[_i].reason);
    pair_until(&pair, fds_count() == num_fds);
    ck_assert_uint_eq(stand_in.live(), live);
    read_and_write();
    ucxpool_remote_window_release(remote);
    import_window(true);
    check_way(UCXPOOL_WAY_CUDA, "");
    stop();
}

static void announce_more(ipc_virtual_memory_t *shared)
{
    shared->layout.runs[0].count++;
}

static void announce_too_many(ipc_virtual_memory_t *shared)
{
    shared->layout.runs[0].count = IPC_VIRTUAL_MAX + 1;
}

static void announce_all(ipc_virtual_memory_t *shared)
{
    shared->layout.runs[0].count = UINT64_MAX;
}

/* The total agrees with the window, but not the number of allocations. */
static void announce_fewer(ipc_virtual_memory_t *shared)
{
    shared->layout.runs[0] = (ipc_virtual_run_t){2 * UNIT, 50};
}

static const struct {
    void (*announce)(ipc_virtual_memory_t *shared);
    const char *reason;
} hostiles[] = {
    {announce_more, "does not fit its allocations"},
    {announce_too_many, "does not fit its allocations"},
    {announce_all, "does not fit its allocations"},
    {announce_fewer, "not those that it announced"},
};

TEST_EACH(wrong_number_of_allocations_makes_the_window_use_messages,
          sizeof(hostiles) / sizeof(hostiles[0]))
{
    unsigned live;

    start(100, same_size);
    live = stand_in.live();
    hostiles[_i].announce(&window->memory);
    import_window(true);
    check_way(UCXPOOL_WAY_MESSAGES, hostiles[_i].reason);
    ck_assert_uint_eq(stand_in.live(), live);
    read_and_write();
    stop();
}

/* The owner revokes the window, the importer releases it, or the channel is
 * closed, before all of the window is mapped. */
TEST_EACH(end_of_a_window_during_its_import_unmaps_it, 3)
{
    unsigned num_fds, live;

    gpu_connect(&pair, SETTINGS, SETTINGS);
    memory  = memory_get(1000, same_size);
    num_fds = fds_count();
    live    = stand_in.live();
    export_window();
    import_window(false);
    ck_assert_int_eq(query().status, UCXPOOL_INPROGRESS);
    ck_assert_uint_lt(remote->range.num_mapped, 1000);
    if (_i == 0) {
        pair_until(&pair, ucxpool_window_revoke(window, 0) == UCXPOOL_OK);
        ck_assert_int_eq(query().status, UCXPOOL_ERR_CANCELED);
    } else if (_i == 2) {
        ucxpool_channel_close(pair.to_b);
        ck_assert_int_lt(query().status, UCXPOOL_OK);
    }
    ucxpool_remote_window_release(remote);
    ck_assert(base_list_is_empty(&pair.a->wireup.fd_imports));
    pair_until(&pair, ucxpool_window_revoke(window, 0) == UCXPOOL_OK);
    if (_i == 2) {
        /* The importer has also unmapped the owner's blocks. */
        ck_assert_uint_le(stand_in.live(), live);
    } else {
        ck_assert_uint_eq(stand_in.live(), live);
        pair_until(&pair, fds_count() == num_fds);
    }
    ucxpool_window_destroy(window);
    memory_put(&memory);
    gpu_disconnect(&pair);
}

/* Both sides of all imports are in this process. */
TEST(many_windows_are_imported_with_few_descriptors)
{
    enum { NUM = 100 };
    ucxpool_remote_window_t *remotes[NUM];
    ucxpool_window_t        *windows[NUM];
    uint8_t                  blob[UCXPOOL_WINDOW_BLOB_SIZE];

    gpu_connect(&pair, SETTINGS, SETTINGS);
    memory = memory_get(33, same_size);
    for (unsigned i = 0; i < NUM; i++) {
        export_window();
        windows[i] = window;
    }
    fds_limit(base_max(64u, fds_count() + 12)); /* only few more */
    for (unsigned i = 0; i < NUM; i++) {
        assert_ok(ucxpool_window_export(windows[i], BOTH, blob));
        assert_ok(ucxpool_remote_window_import(pair.to_b, blob, sizeof(blob),
                                               &remotes[i]));
    }
    for (unsigned i = 0; i < NUM; i++) {
        remote = remotes[i];
        pair_until(&pair, query().status != UCXPOOL_INPROGRESS);
        check_way(UCXPOOL_WAY_CUDA, "");
    }
    for (unsigned i = 0; i < NUM; i++) {
        window = windows[i];
        remote = remotes[i];
        release_window();
    }
    memory_put(&memory);
    gpu_disconnect(&pair);
}

/* --- two processes -------------------------------------------------------- */

static two_t two;

static void two_start(void)
{
    two_gpu_start(&two, SETTINGS);
    cuda_start(DRIVER);
}

/* Export a window, and send its blob. */
static void export_memory(unsigned num)
{
    memory = memory_get(num, same_size);
    two_ok(ucxpool_window_create(two.pool, window_start(&memory),
                                 window_size(&memory), NULL, &window));
    two_export(&two, window);
}

/* Read the first and the last byte. */
static void two_read(size_t size)
{
    ucxpool_place_t    ends[] = {{0, 1}, {size - 1, 1}};
    ucxpool_places_t   places = ucxpool_places(ends, 2);
    uint8_t           *ours   = gpu_alloc(2);
    ucxpool_data_t     data   = ucxpool_data_buffer(ours, 2);
    char               found[2];
    ucxpool_request_t *request;

    two_ok(ucxpool_remote_window_read(remote, &places, &data, NULL, &request));
    two_ok(two_finish(&two, request));
    gpu_read(found, ours, 2);
    two_check(memcmp(found, "<>", 2) == 0);
    gpu_free(ours);
}

static void own(unsigned num)
{
    export_memory(num);
    gpu_write(window_start(&memory), "<", 1);
    gpu_write(window_start(&memory) + window_size(&memory) - 1, ">", 1);
    two_meet(&two);
    two_meet(&two); /* the importer has read */
    pair_destroy_window(window);
    memory_put(&memory);
}

static void read_once(void)
{
    remote = two_import(&two);
    two_meet(&two);
    two_ok(two_import_ended(&two, remote).status);
    ck_assert_msg(query().way == UCXPOOL_WAY_CUDA, "%s", query().way_reason);
    two_read(remote->length);
    ucxpool_remote_window_release(remote);
    two_meet(&two);
}

TEST_SETTINGS(.timeout = 240, .only_if = cuda_is_stand_in);

/* 40 GiB, and a window of a process with few descriptors. */
TEST_EACH(another_process_reads_many_allocations_directly, 2)
{
    const unsigned num = (_i == 0) ? 20000 : 1000;

    two_start();
    if (_i == 1) {
        fds_limit(base_max(64u, fds_count() + 12)); /* only few more */
    }
    if (two.is_child) {
        own(num);
    } else {
        read_once();
    }
    two_gpu_stop(&two);
}

static void survive(void)
{
    two_survive(&two);
    mem_cuda_device_close(gpu);
    cuda_start("");
    ck_assert_uint_eq(stand_in.live(), 0);
}

/* Progress until some allocations are mapped. */
static void import_some(void)
{
    remote = two_import(&two);
    while (remote->range.num_mapped == 0) {
        ucxpool_wait(two.pool, 1000000);
    }
    two_check(query().status == UCXPOOL_INPROGRESS);
}

TEST(death_of_the_owner_during_the_import_unmaps_the_window)
{
    unsigned live;

    two_start();
    live = stand_in.live();
    if (two.is_child) {
        export_memory(5000);
        for (;;) {
            ucxpool_progress(two.pool);
        }
    }
    import_some();
    two_kill(&two);
    /* The end of the socket may be noticed first, and then messages are
     * used. */
    while (query().status != UCXPOOL_ERR_PEER_LOST) {
        ucxpool_wait(two.pool, 1000000);
    }
    ck_assert_uint_le(stand_in.live(), live);
    ucxpool_remote_window_release(remote);
    survive();
}

TEST(death_of_the_importer_during_the_import_frees_the_window)
{
    unsigned live;

    two_start();
    live = stand_in.live();
    if (two.is_child) {
        import_some();
        two_say(&two);
        pause();
    }
    export_memory(5000);
    two_hear(&two);
    two_kill(&two);
    while (ucxpool_window_revoke(window, 1000000) != UCXPOOL_OK) {
    }
    ucxpool_window_destroy(window);
    memory_put(&memory);
    ck_assert_uint_le(stand_in.live(), live);
    survive();
}
