/*
 * Windows between pools on GPUs in two processes when driver calls fail: the
 * n-th, for each n, of the owner (the child) or of the importer (the parent),
 * from the creation of a window to its end. Each failure has an error detail,
 * the channel stays open, and the next window works.
 */
#include "test.h"
#include "two_gpu.h"

#include <string.h>
#include <sys/socket.h>

#define SIZE   ((size_t)1 << 20)
#define PIECE  ((size_t)1000)
#define NUM    ((size_t)500)
#define LENGTH (NUM * PIECE)
#define BOTH   (UCXPOOL_WINDOW_READ | UCXPOOL_WINDOW_WRITE)

typedef enum who { NOBODY, OWNER, IMPORTER } who_t;

/* HEAP is virtual memory. */
typedef enum where { ON_GPU, HEAP } where_t;

static const struct {
    const char *settings;
    where_t     where; /* the window's memory */
    who_t       who;
} kinds[] = {
    {"WIRE=map CUDA_BACKING=alloc", ON_GPU, OWNER},
    {"WIRE=map CUDA_BACKING=alloc", ON_GPU, IMPORTER},
    {"WIRE=map CUDA_BACKING=vmm", HEAP, OWNER},
    {"WIRE=map CUDA_BACKING=vmm", HEAP, IMPORTER},
    {"WIRE=map CUDA_BACKING=alloc WINDOW_WAY=messages", ON_GPU, OWNER},
    {"WIRE=map CUDA_BACKING=alloc WINDOW_WAY=messages", ON_GPU, IMPORTER},
};
#define NUM_KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

/* The importer's commands to the owner, and the owner's answers. */
typedef struct bidding {
    who_t    who;
    unsigned n;      /* call that fails */
    bool     is_end; /* last command */
} bidding_t;

typedef struct answer {
    ucxpool_status_t status;
    uint8_t          blob[UCXPOOL_WINDOW_BLOB_SIZE];
} answer_t;

static two_t two;

/* Progresses until the message arrives. */
static void hear(void *bytes, size_t length)
{
    uint64_t late = pair_deadline();

    while (recv(two.talk, bytes, length, MSG_DONTWAIT | MSG_PEEK) < 0) {
        two_check(!pair_is_late(late));
        ucxpool_progress(two.pool);
    }
    two_check(recv(two.talk, bytes, length, MSG_WAITALL) == (ssize_t)length);
}

static void let_fail(const bidding_t *bidding)
{
    if (bidding->who == (two.is_child ? OWNER : IMPORTER)) {
        stand_in.fail_call(NULL, bidding->n, CUDA_ERROR_OUT_OF_MEMORY);
    }
}

/* Has a call failed in this process? */
static bool leave_unchanged(void)
{
    bool has_failed = stand_in.has_failed() != 0;

    stand_in.fail_call(NULL, 0, CUDA_SUCCESS);
    return has_failed;
}

/* An error has a detail. */
static ucxpool_status_t told(ucxpool_status_t status, const char *detail)
{
    two_check((status == UCXPOOL_OK) || (detail[0] != '\0'));
    return status;
}

/* --- the owner ------------------------------------------------------------ */

static void own_once(uint8_t *memory)
{
    answer_t          answer = {.status = UCXPOOL_OK};
    ucxpool_window_t *window = NULL;
    char              byte;

    answer.status =
        told(ucxpool_window_create(two.pool, memory, SIZE, NULL, &window),
             ucxpool_error_detail());
    if (window != NULL) {
        two_ok(ucxpool_window_export(window, BOTH, answer.blob));
    }
    two_send(&two, &answer, sizeof(answer));
    hear(&byte, 1);
    if (window != NULL) {
        pair_destroy_window(window);
    }
}

static uint8_t *get_memory(where_t where)
{
    void *address;

    switch (where) {
    case HEAP:
        two_ok(ucxpool_heap_alloc(two.pool, SIZE, NULL, &address));
        return address;
    default:
        return gpu_alloc(SIZE);
    }
}

static void put_memory(where_t where, uint8_t *memory)
{
    switch (where) {
    case HEAP:
        two_ok(ucxpool_heap_free(two.pool, memory, NULL));
        break;
    default:
        gpu_free(memory);
        break;
    }
}

static void own(int kind)
{
    bidding_t bidding = {.who = NOBODY};
    uint8_t  *memory  = get_memory(kinds[kind].where);
    bool      has_failed;

    for (hear(&bidding, sizeof(bidding)); !bidding.is_end;
         hear(&bidding, sizeof(bidding))) {
        let_fail(&bidding);
        own_once(memory);
        has_failed = leave_unchanged();
        two_send(&two, &has_failed, sizeof(has_failed));
    }
    put_memory(kinds[kind].where, memory);
}

/* --- the importer --------------------------------------------------------- */

/* Memory, and pieces that cover all of it. */
typedef struct side {
    uint8_t          *memory;
    ucxpool_segment_t segments[NUM];
} side_t;

static side_t          source;
static side_t          target;
static ucxpool_place_t places[NUM];
static uint8_t         bytes[LENGTH];
static uint8_t         right[LENGTH];

static void init_side(side_t *side)
{
    side->memory = gpu_alloc(LENGTH);
    for (size_t i = 0; i < NUM; i++) {
        side->segments[i] =
            (ucxpool_segment_t){side->memory + (i * 11) % NUM * PIECE, PIECE};
    }
}

static void init(void)
{
    init_side(&source);
    init_side(&target);
    for (size_t i = 0; i < NUM; i++) {
        places[i] = (ucxpool_place_t){(i * 7) % NUM * 2000 + 5, PIECE};
    }
}

static void put(void)
{
    pair_fill(right, LENGTH);
    memset(bytes, 0, LENGTH);
    gpu_write(source.memory, right, LENGTH);
    gpu_write(target.memory, bytes, LENGTH);
}

static void check(void)
{
    gpu_read(bytes, target.memory, LENGTH);
    two_check(memcmp(bytes, right, LENGTH) == 0);
}

static ucxpool_status_t operate(ucxpool_remote_window_t *remote, bool is_write)
{
    ucxpool_places_t list = ucxpool_places(places, NUM);
    ucxpool_data_t   data = ucxpool_data_segments(
          is_write ? source.segments : target.segments, NUM);
    ucxpool_request_t     *request;
    ucxpool_request_attr_t attr;
    ucxpool_status_t       status;
    uint64_t               late = pair_deadline();

    status =
        is_write
            ? ucxpool_remote_window_write(remote, &list, &data, NULL, &request)
            : ucxpool_remote_window_read(remote, &list, &data, NULL, &request);
    if (status != UCXPOOL_OK) {
        return told(status, ucxpool_error_detail());
    }
    while (!pair_ended(request)) {
        two_check(!pair_is_late(late));
        ucxpool_progress(two.pool);
    }
    ucxpool_request_query(request, &attr, sizeof(attr));
    told(attr.status, attr.detail);
    ucxpool_request_release(request);
    return attr.status;
}

/* Write, and read back. */
static ucxpool_status_t use_once(const uint8_t *blob)
{
    ucxpool_remote_window_attr_t attr;
    ucxpool_remote_window_t     *remote;
    ucxpool_status_t             status;

    status = ucxpool_remote_window_import(two.channel, blob,
                                          UCXPOOL_WINDOW_BLOB_SIZE, &remote);
    if (status != UCXPOOL_OK) {
        return told(status, ucxpool_error_detail());
    }
    attr   = two_import_ended(&two, remote);
    status = told(attr.status, attr.reason);
    status = (status == UCXPOOL_OK) ? operate(remote, true) : status;
    status = (status == UCXPOOL_OK) ? operate(remote, false) : status;
    ucxpool_remote_window_release(remote);
    return status;
}

/* Run a window from creation to end; did a call fail? */
static bool live(who_t who, unsigned n)
{
    const bidding_t  bidding = {.who = who, .n = n};
    answer_t         answer;
    ucxpool_status_t status;
    bool             has_failed;
    bool             has_failed_here;

    put();
    two_send(&two, &bidding, sizeof(bidding));
    hear(&answer, sizeof(answer));
    let_fail(&bidding);
    status = answer.status;
    if (status == UCXPOOL_OK) {
        status = use_once(answer.blob);
    }
    has_failed_here = leave_unchanged();
    two_send(&two, "e", 1);
    hear(&has_failed, sizeof(has_failed));
    has_failed |= has_failed_here;
    ck_assert_msg(has_failed || (status == UCXPOOL_OK), "call %u: %s", n,
                  ucxpool_status_string(status));
    if (status == UCXPOOL_OK) {
        check();
    }
    two_check(pair_is_open(two.channel));
    return has_failed;
}

static void use(who_t who)
{
    const bidding_t end = {.is_end = true};
    unsigned        n   = 0;

    init();
    while (live(who, ++n)) {
        two_check(!live(NOBODY, 0));
    }
    ck_assert_uint_gt(n, 2);
    two_send(&two, &end, sizeof(end));
    gpu_free(source.memory);
    gpu_free(target.memory);
}

TEST_SETTINGS(.timeout = 120, .only_if = cuda_is_stand_in);

TEST_EACH(failed_driver_call_is_reported_and_harmless, NUM_KINDS)
{
    two_gpu_start(&two, kinds[_i].settings);
    cuda_start("");
    if (two.is_child) {
        own(_i);
    } else {
        use(kinds[_i].who);
    }
    two_gpu_stop(&two);
}
