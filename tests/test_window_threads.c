/* Windows used by several threads: one owner's pool and one importer's, used as
 * the public header allows. */
#include "core/pool.h"
#include "pair.h"
#include "rounds.h"
#include "test.h"

#include <string.h>

static const char *const ways[] = {
    "WIRE=map",
    "WIRE=map WINDOW_WAY=messages",
    "WIRE=ucx",
};
#define NUM_WAYS ((int)(sizeof(ways) / sizeof(ways[0])))

#define NUM_THREADS 3u
#define SIZE        ((size_t)600000)
#define PART        (SIZE / NUM_THREADS)
#define NUM_PLACES  20u
#define BOTH        (UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE)
#define MILLISECOND UINT64_C(1000000)

/* b owns the windows. Threads read and write them over a's channel. */
static pair_t  pair;
static uint8_t memory[SIZE];
static bool    is_over; /* atomic */

/* A remote window with only short reads would not notice the revocation by
 * itself: progress releases it. */
static void *drive(void *arg)
{
    while (!__atomic_load_n(&is_over, __ATOMIC_ACQUIRE)) {
        ucxpool_wait(arg, MILLISECOND);
    }
    return NULL;
}

static void begin(int way)
{
    pair_init(&pair, ways[way], ways[way]);
    /* On a loaded machine, the progress thread may not run for long. */
    pair.a->drain_ns = UCXPOOL_FOREVER;
    pair.b->drain_ns = UCXPOOL_FOREVER;
    is_over          = false;
    test_thread(drive, pair.a);
    test_thread(drive, pair.b);
}

static void end(void)
{
    __atomic_store_n(&is_over, true, __ATOMIC_RELEASE);
    test_join(2);
    pair_check_blocks(&pair);
    pair_cleanup(&pair);
}

static ucxpool_window_t *make_window(uint8_t *blob)
{
    ucxpool_window_t *window;

    assert_ok(ucxpool_window_create(pair.b, memory, SIZE, NULL, &window));
    assert_ok(ucxpool_window_export(window, BOTH, blob));
    return window;
}

static ucxpool_remote_window_t *import(const uint8_t *blob)
{
    ucxpool_remote_window_t *remote;

    assert_ok(ucxpool_remote_window_import(pair.to_b, blob,
                                           UCXPOOL_WINDOW_BLOB_SIZE, &remote));
    return remote;
}

/* Transfer a part in pieces, the last places first. */
static ucxpool_status_t move(ucxpool_remote_window_t *remote, bool is_write,
                             unsigned part, uint8_t *bytes)
{
    const size_t       piece               = PART / NUM_PLACES;
    uint64_t           offsets[NUM_PLACES] = {0};
    ucxpool_places_t   places = ucxpool_places_even(offsets, NUM_PLACES, piece);
    ucxpool_data_t     data   = ucxpool_data_buffer(bytes, piece * NUM_PLACES);
    ucxpool_request_t *request;
    ucxpool_status_t   status;

    for (size_t i = 0; i < NUM_PLACES; i++) {
        offsets[i] = part * PART + (NUM_PLACES - 1 - i) * piece;
    }
    status = is_write ? ucxpool_remote_window_write(remote, &places, &data,
                                                    NULL, &request)
                      : ucxpool_remote_window_read(remote, &places, &data, NULL,
                                                   &request);
    if (status != UCXPOOL_OK) {
        return status;
    }
    status = ucxpool_request_wait(request, UCXPOOL_FOREVER);
    ucxpool_request_release(request);
    return status;
}

typedef struct user {
    unsigned                 part;
    ucxpool_remote_window_t *remote; /* shared; NULL: it imports the blobs */
    unsigned                 count;
    uint8_t                  bytes[PART];
    uint8_t                  right[PART];
} user_t;

static user_t users[NUM_THREADS];

static void start(ucxpool_remote_window_t *remote, void *(*work)(void *))
{
    for (unsigned i = 0; i < NUM_THREADS; i++) {
        users[i].part   = i;
        users[i].remote = remote;
        users[i].count  = rounds(50);
        test_thread(work, &users[i]);
    }
}

/* --- one remote window ---------------------------------------------------- */

static void *write_and_read_back(void *arg)
{
    user_t *user = arg;

    for (unsigned i = 0; i < user->count; i++) {
        memset(user->right, (int)(user->part + i * NUM_THREADS), PART);
        memcpy(user->bytes, user->right, PART);
        assert_ok(move(user->remote, true, user->part, user->bytes));
        memset(user->bytes, 0xfe, PART);
        assert_ok(move(user->remote, false, user->part, user->bytes));
        ck_assert_int_eq(
            memcmp(user->bytes, user->right, PART / NUM_PLACES * NUM_PLACES),
            0);
    }
    return NULL;
}

TEST_SETTINGS(.timeout = 120);

TEST_EACH(threads_share_a_remote_window, NUM_WAYS)
{
    uint8_t                  blob[UCXPOOL_WINDOW_BLOB_SIZE];
    ucxpool_window_t        *window;
    ucxpool_remote_window_t *remote;

    begin(_i);
    window = make_window(blob);
    remote = import(blob);
    start(remote, write_and_read_back);
    test_join(NUM_THREADS);
    ucxpool_remote_window_release(remote);
    pair_destroy_window(window);
    end();
}

/* --- windows that are created and destroyed ------------------------------- */

/* The blob of the current window, and how often it has been read. */
static struct {
    pthread_mutex_t lock;
    uint8_t         blob[UCXPOOL_WINDOW_BLOB_SIZE];
    unsigned        num_reads; /* atomic */
    bool            is_last;   /* atomic */
} shown = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void show(const uint8_t *blob)
{
    pthread_mutex_lock(&shown.lock);
    memcpy(shown.blob, blob, sizeof(shown.blob));
    pthread_mutex_unlock(&shown.lock);
}

/* Revoked, or destroyed before it was imported. */
static bool is_end_of_window(ucxpool_status_t status)
{
    return (status == UCXPOOL_ERR_CANCELED) || (status == UCXPOOL_ERR_REFUSED);
}

static void *import_and_read(void *arg)
{
    user_t                  *user = arg;
    uint8_t                  blob[UCXPOOL_WINDOW_BLOB_SIZE];
    ucxpool_remote_window_t *remote;
    ucxpool_status_t         status;

    while (!__atomic_load_n(&shown.is_last, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&shown.lock);
        memcpy(blob, shown.blob, sizeof(blob));
        pthread_mutex_unlock(&shown.lock);
        remote = import(blob);
        do {
            status = move(remote, false, user->part, user->bytes);
            __atomic_add_fetch(&shown.num_reads, status == UCXPOOL_OK,
                               __ATOMIC_RELAXED);
        } while (status == UCXPOOL_OK);
        ck_assert(is_end_of_window(status));
        ucxpool_remote_window_release(remote);
    }
    return NULL;
}

static void await_reads(unsigned num)
{
    while (__atomic_load_n(&shown.num_reads, __ATOMIC_RELAXED) < num) {
        ucxpool_wait(pair.b, MILLISECOND);
    }
}

TEST_EACH(windows_are_created_and_destroyed_while_threads_read, NUM_WAYS)
{
    uint8_t           blob[UCXPOOL_WINDOW_BLOB_SIZE];
    unsigned          num = rounds(50);
    ucxpool_window_t *window;

    begin(_i);
    shown.num_reads = 0;
    shown.is_last   = false;
    for (unsigned i = 0; i < num; i++) {
        window = make_window(blob);
        show(blob);
        if (i == 0) {
            start(NULL, import_and_read);
        }
        /* At least one thread has read this window. */
        await_reads(__atomic_load_n(&shown.num_reads, __ATOMIC_RELAXED) +
                    NUM_THREADS + 1);
        if (i + 1 == num) {
            __atomic_store_n(&shown.is_last, true, __ATOMIC_RELEASE);
        }
        pair_destroy_window(window);
        memset(memory, (int)i, SIZE); /* no longer a window */
    }
    test_join(NUM_THREADS);
    end();
}

/* --- revocation ----------------------------------------------------------- */

static void *read_until_revoked(void *arg)
{
    user_t          *user = arg;
    ucxpool_status_t status;

    do {
        status = move(user->remote, user->part == 0, user->part, user->bytes);
        __atomic_add_fetch(&shown.num_reads, 1, __ATOMIC_RELAXED);
    } while (status == UCXPOOL_OK);
    ck_assert(is_end_of_window(status));
    return NULL;
}

TEST_EACH(a_thread_revokes_while_others_read_and_write, NUM_WAYS)
{
    uint8_t                  blob[UCXPOOL_WINDOW_BLOB_SIZE];
    ucxpool_window_t        *window;
    ucxpool_remote_window_t *remote;

    begin(_i);
    for (unsigned i = 0; i < rounds(20); i++) {
        window          = make_window(blob);
        remote          = import(blob);
        shown.num_reads = 0;
        start(remote, read_until_revoked);
        await_reads(i % 8);
        assert_ok(ucxpool_window_revoke(window, UCXPOOL_FOREVER));
        memset(memory, (int)i, SIZE);
        test_join(NUM_THREADS);
        ucxpool_remote_window_release(remote);
        pair_destroy_window(window);
    }
    end();
}
