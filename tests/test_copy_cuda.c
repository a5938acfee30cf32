/* The copy engine of a GPU. */
#include "base/config.h"
#include "base/math.h"
#include "calls.h"
#include "copy/cuda_copier.h"
#include "copy/engine.h"
#include "cuda_fixture.h"
#include "test.h"
#include "mem/region.h"

#include <ucxpool/ucxpool.h>

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE       ((size_t)4 << 20) /* of each of the two memories */
#define NUM_PIECES 500u
#define NUM_JOBS   3u

static mem_cuda_device_t       *device;
static copy_cuda_copier_t      *copier;
static const mem_cuda_driver_t *driver;

/* Addresses and contents of the scattered pieces and of the stream. */
static mem_regions_t scattered, contiguous;
static char         *pattern, *result;

static unsigned seed;

/* The failed GPU then frees nothing unless the test repairs it. */
static bool has_gpu_failed;

static const copy_cuda_copier_params_t params = {
    .num_jobs     = NUM_JOBS,
    .entries_size = NUM_PIECES * sizeof(copy_pair_t), /* the longest */
    .max_tiles    = 4096,
};

static unsigned random_below(unsigned n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static void fill_random(char *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (char)random_below(256);
    }
}

static void put(const void *target, const void *source, size_t size)
{
    cuda_write(device->context, target, source, size);
}

static void get(void *target, const void *source, size_t size)
{
    cuda_read(device->context, target, source, size);
}

static void poison_stream(void)
{
    memset(result, 0xee, SIZE);
    put(contiguous.address, result, SIZE);
}

static void init_memory(const mem_kind_t *kind)
{
    assert_ok(
        mem_regions_init(&scattered, kind, 0, 2, SIZE / 2, BASE_SWITCH_NO));
    assert_ok(mem_regions_init(&contiguous, &mem_kind_cuda_alloc, 0, 1, SIZE,
                               BASE_SWITCH_NO));
    /* The source has data, the target is poisoned. */
    fill_random(pattern, SIZE);
    put(scattered.address, pattern, SIZE);
    poison_stream();
}

static void start_all(const char *configuration)
{
    cuda_start(configuration);
    assert_ok(mem_cuda_device_open(0, &device));
    assert_ok(copy_cuda_copier_create(device, &params, &copier));
    driver = device->driver;
}

static void setup_with(const char *configuration)
{
    seed    = (unsigned)getpid();
    pattern = malloc(SIZE);
    result  = malloc(SIZE);
    start_all(configuration);
}

static void setup(void)
{
    setup_with("devices=2");
}

static void setup_without_mem_ops(void)
{
    setup_with("without=cuStreamWriteValue32");
}

static void teardown(void)
{
    calls_reset();
    if (has_gpu_failed) {
        stand_in.configure("");
    }
    copy_cuda_copier_destroy(copier);
    mem_regions_cleanup(&scattered);
    mem_regions_cleanup(&contiguous);
    mem_cuda_device_close(device);
    free(pattern);
    free(result);
    if (!cuda_is_real()) {
        ck_assert_uint_eq(stand_in.live(), 0);
    }
}

static void restart(const char *configuration)
{
    copy_cuda_copier_destroy(copier);
    mem_cuda_device_close(device);
    start_all(configuration);
}

/* Until the job has ended. */
static void wait_for(copy_cuda_job_t *job)
{
    ucxpool_status_t status;

    while ((status = copy_cuda_job_poll(copier, job)) == UCXPOOL_INPROGRESS) {
        if (!cuda_is_real()) {
            stand_in.step(1);
        }
    }
    assert_ok(status);
}

/* Pieces that do not overlap, in random order of address. */
typedef struct layout {
    size_t num;
    size_t offsets[NUM_PIECES]; /* in the scattered memory */
    size_t lengths[NUM_PIECES];
    size_t stream[NUM_PIECES]; /* in the stream */
    size_t size;               /* of the stream */
    size_t begin;              /* of the stream, in its memory */
} layout_t;

static layout_t layout;

/* The list of the job that make_job() made last. */
static copy_table_t list;

static ucxpool_status_t start(copy_cuda_job_t *job, bool is_gather)
{
    return copy_cuda_job_start(copier, job, &list, layout.size, is_gather);
}

static void run(copy_cuda_job_t *job, bool is_gather)
{
    assert_ok(start(job, is_gather));
    wait_for(job);
}

static void lay_out(copy_form_t form, size_t uniform)
{
    size_t slot = SIZE / NUM_PIECES;
    size_t at   = 0;

    layout.num = NUM_PIECES;
    for (size_t i = 0; i < NUM_PIECES; i++) {
        size_t length = (uniform != 0) ? uniform : random_below(4000);

        layout.lengths[i] = length;
        layout.offsets[i] = (i * 7 % NUM_PIECES) * slot +
                            random_below((unsigned)(slot - length));
        layout.stream[i] = at;
        at += length;
        if (form < COPY_EXACT) {
            at = base_align_up(at, (size_t)COPY_UNIT);
        }
    }
    layout.size =
        layout.stream[NUM_PIECES - 1] + layout.lengths[NUM_PIECES - 1];
}

static void fill_entries(void *entries, copy_form_t form)
{
    uint64_t         *addresses = entries;
    copy_segment_t   *segments  = entries;
    copy_exact_t     *exact     = entries;
    copy_pair_t      *pairs     = entries;
    copy_even_pair_t *even      = entries;

    for (size_t i = 0; i < layout.num; i++) {
        uint64_t address = (uintptr_t)scattered.address + layout.offsets[i];

        if (form == COPY_UNIFORM) {
            addresses[i] = address;
        } else if (form == COPY_EVEN_PLACES) {
            addresses[i]              = address;
            addresses[NUM_PIECES + i] = layout.stream[i];
        } else if ((form == COPY_SEGMENTS) || (form == COPY_EVEN_SEGMENTS)) {
            segments[i] = (copy_segment_t){address, layout.lengths[i]};
        } else if (form == COPY_EVEN_PAIRS) {
            even[i] = (copy_even_pair_t){address,
                                         (uintptr_t)contiguous.address +
                                             layout.begin + layout.stream[i]};
        } else if (form == COPY_PAIRS) {
            pairs[i] = (copy_pair_t){address,
                                     (uintptr_t)contiguous.address +
                                         layout.begin + layout.stream[i],
                                     layout.lengths[i]};
        } else {
            exact[i] = (copy_exact_t){address, (uint32_t)layout.lengths[i],
                                      (uint32_t)layout.stream[i]};
        }
    }
}

static copy_cuda_job_t *make_job_padded(copy_form_t form, size_t uniform,
                                        bool is_padded)
{
    copy_cuda_job_t *job = copy_cuda_job_get(copier);

    ck_assert_ptr_nonnull(job);
    lay_out(form, uniform);
    fill_entries(job->entries, form);
    list = (copy_table_t){
        .form        = form,
        .entries     = job->entries,
        .num_entries = NUM_PIECES,
        .length      = (uint32_t)uniform,
        .stream      = (uintptr_t)contiguous.address + layout.begin,
        .offsets     = (const uint64_t *)job->entries + NUM_PIECES,
        .limit       = layout.stream[NUM_PIECES - 1],
        .is_padded   = is_padded,
    };
    return job;
}

static copy_cuda_job_t *make_job(copy_form_t form, size_t uniform)
{
    return make_job_padded(form, uniform, false);
}

/* Check writes a line to a file for each assertion, so do not assert each
 * byte. */
static bool is_all(const char *bytes, size_t size, unsigned char value)
{
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)bytes[i] != value) {
            return false;
        }
    }
    return true;
}

/* Each piece, zeros up to the next one, and unchanged bytes after the last. */
static void check_gathered(void)
{
    const char *stream = result + layout.begin;

    get(result, contiguous.address, SIZE);
    for (size_t i = 0; i < layout.num; i++) {
        size_t end  = layout.stream[i] + layout.lengths[i];
        size_t next = (i + 1 < layout.num) ? layout.stream[i + 1] : layout.size;

        ck_assert_int_eq(memcmp(stream + layout.stream[i],
                                pattern + layout.offsets[i], layout.lengths[i]),
                         0);
        ck_assert(is_all(stream + end, next - end, 0));
    }
    ck_assert(is_all(result, layout.begin, 0xee));
    ck_assert(
        is_all(stream + layout.size, SIZE - layout.begin - layout.size, 0xee));
}

static const struct {
    copy_form_t form;
    size_t      uniform;
} ways[] = {
    {COPY_UNIFORM, 4096},     {COPY_UNIFORM, 77},
    {COPY_SEGMENTS, 0},       {COPY_EVEN_SEGMENTS, 4096},
    {COPY_EXACT, 0},          {COPY_PAIRS, 0},
    {COPY_EVEN_SEGMENTS, 77}, {COPY_EVEN_PAIRS, 77},
    {COPY_EVEN_PAIRS, 4096},  {COPY_EVEN_PLACES, 77},
    {COPY_EVEN_PLACES, 4096},
};

#define NUM_WAYS ((int)(sizeof(ways) / sizeof(ways[0])))

static void gather(int way)
{
    copy_cuda_job_t *job = make_job(ways[way].form, ways[way].uniform);

    run(job, true);
    copy_cuda_job_put(copier, job);
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .only_if = cuda_is_present);

/* The stream may start at any byte. */
TEST_EACH(a_gather_copies_every_byte_and_no_other, NUM_WAYS)
{
    init_memory(&mem_kind_cuda_vmm);
    for (layout.begin = 0; layout.begin < COPY_UNIT; layout.begin += 3) {
        poison_stream();
        gather(_i);
        check_gathered();
    }
    layout.begin = 0;
}

/* For example where more of a message follows in the block. */
TEST(gather_clears_the_last_padding_on_request)
{
    copy_cuda_job_t *job;

    init_memory(&mem_kind_cuda_vmm);
    for (size_t length = 1; length <= 2 * COPY_UNIT; length++) {
        poison_stream();
        job = make_job_padded(COPY_UNIFORM, length, true);
        run(job, true);
        copy_cuda_job_put(copier, job);
        layout.size = base_align_up(layout.size, (size_t)COPY_UNIT);
        check_gathered();
    }
}

/* Half of the pieces are zeros, next to pieces of memory. */
TEST(list_with_stream_offsets_may_contain_zeros)
{
    copy_cuda_job_t *job = NULL;
    copy_exact_t    *entries;

    init_memory(&mem_kind_cuda_vmm);
    job     = make_job(COPY_EXACT, 0);
    entries = job->entries;
    for (size_t i = 0; i < layout.num; i += 2) {
        entries[i].address = 0;
        memset(pattern + layout.offsets[i], 0, layout.lengths[i]);
    }
    run(job, true);
    check_gathered();

    put(scattered.address, result, SIZE);
    get(pattern, scattered.address, SIZE);
    run(job, false);
    copy_cuda_job_put(copier, job);
    for (size_t i = 1; i < layout.num; i += 2) {
        memcpy(pattern + layout.offsets[i], result + layout.stream[i],
               layout.lengths[i]);
    }
    get(result, scattered.address, SIZE);
    ck_assert_int_eq(memcmp(result, pattern, SIZE), 0);
}

TEST_EACH(a_gather_takes_pinned_host_memory, NUM_WAYS)
{
    init_memory(&mem_kind_cuda_host);
    gather(_i);
    check_gathered();
}

TEST_EACH(scatter_restores_every_byte_and_no_other, NUM_WAYS)
{
    copy_cuda_job_t *job;

    init_memory(&mem_kind_cuda_vmm);
    job = make_job(ways[_i].form, ways[_i].uniform);
    fill_random(pattern, SIZE);
    put(contiguous.address, pattern, SIZE);
    memset(result, 0xdd, SIZE);
    put(scattered.address, result, SIZE);
    run(job, false);
    copy_cuda_job_put(copier, job);

    get(result, scattered.address, SIZE);
    for (size_t i = 0; i < layout.num; i++) {
        char *piece = result + layout.offsets[i];

        ck_assert_int_eq(
            memcmp(piece, pattern + layout.stream[i], layout.lengths[i]), 0);
        memset(piece, 0xdd, layout.lengths[i]);
    }
    ck_assert(is_all(result, SIZE, 0xdd));
}

TEST(long_piece_uses_the_copy_engine)
{
    copy_cuda_job_t *job;

    init_memory(&mem_kind_cuda_vmm);
    job = copy_cuda_job_get(copier);
    assert_ok(copy_cuda_job_start_long(
        copier, job, (uintptr_t)scattered.address + 5,
        (uintptr_t)contiguous.address, SIZE - 5, true));
    wait_for(job);
    copy_cuda_job_put(copier, job);
    get(result, contiguous.address, SIZE);
    ck_assert_int_eq(memcmp(result, pattern + 5, SIZE - 5), 0);
}

/* Copies to and from host memory would wait for each other in one stream,
 * although a GPU has a copy engine for each direction. */
TEST(long_gathers_and_long_scatters_share_no_stream)
{
    copy_cuda_job_t *jobs[3];

    init_memory(&mem_kind_cuda_vmm);
    for (unsigned i = 0; i < 3; i++) {
        jobs[i] = copy_cuda_job_get(copier);
        assert_ok(copy_cuda_job_start_long(
            copier, jobs[i], (uintptr_t)scattered.address + i * 5000,
            (uintptr_t)contiguous.address + i * 5000, 5000, i < 2));
    }
    ck_assert_ptr_ne(jobs[2]->stream, jobs[0]->stream);
    ck_assert_ptr_ne(jobs[2]->stream, jobs[1]->stream);
    for (unsigned i = 0; i < 3; i++) {
        wait_for(jobs[i]);
        copy_cuda_job_put(copier, jobs[i]);
    }
    get(result, contiguous.address, SIZE);
    ck_assert_int_eq(memcmp(result, pattern, 10000), 0);
    ck_assert(is_all(result + 10000, SIZE - 10000, 0xee));
    get(result, scattered.address, SIZE);
    ck_assert(is_all(result + 10000, 5000, 0xee));
    ck_assert_int_eq(memcmp(result + 15000, pattern + 15000, SIZE - 15000), 0);
}

/* `length` bytes between two places, passed to the kernel without a list. */
static copy_cuda_job_t *start_one(void *address, void *other, uint32_t length,
                                  copy_flag_t flag, bool is_gather)
{
    copy_cuda_job_t   *job = copy_cuda_job_get(copier);
    const copy_table_t one = {.form        = COPY_ONE,
                              .entries     = address,
                              .num_entries = 1,
                              .length      = length,
                              .stream      = (uintptr_t)other};

    job->flag = flag;
    assert_ok(copy_cuda_job_start(copier, job, &one, length, is_gather));
    return job;
}

static void end_one(copy_cuda_job_t *job, uint32_t fault)
{
    wait_for(job);
    ck_assert_uint_eq(copy_cuda_job_fault(job), fault);
    copy_cuda_job_put(copier, job);
}

static const uint32_t one_lengths[] = {1, 15, 16, 17, 4096, 60001, 1 << 20};
#define NUM_LENGTHS ((int)(sizeof(one_lengths) / sizeof(one_lengths[0])))

TEST_EACH(one_piece_needs_no_list, NUM_LENGTHS)
{
    const copy_flag_t none   = {.word = NULL};
    const size_t      behind = (size_t)2 << 20;
    uint32_t          length = one_lengths[_i];
    char             *piece;
    char             *stream;

    init_memory(&mem_kind_cuda_vmm);
    for (size_t at = 0; at < 3; at++) {
        piece  = (char *)scattered.address + 5 * at;
        stream = (char *)contiguous.address + 16 * at;
        poison_stream();
        end_one(start_one(piece, stream, length, none, true), 0);
        get(result, contiguous.address, SIZE);
        ck_assert(is_all(result, 16 * at, 0xee));
        ck_assert_int_eq(memcmp(result + 16 * at, pattern + 5 * at, length), 0);
        ck_assert(
            is_all(result + 16 * at + length, SIZE - 16 * at - length, 0xee));
        end_one(start_one(piece + behind, stream, length, none, false), 0);
        get(result, scattered.address, SIZE);
        ck_assert_int_eq(
            memcmp(result + behind + 5 * at, pattern + 5 * at, length), 0);
        ck_assert_int_eq(memcmp(result + behind + 5 * at + length,
                                pattern + behind + 5 * at + length,
                                SIZE - behind - 5 * at - length),
                         0);
        memcpy(pattern + behind + 5 * at, pattern + 5 * at, length);
    }
}

/* Pieces that the kernel must skip and report. It may have copied the
 * others. */
TEST_EACH(place_beyond_the_limit_is_reported_and_not_touched, 2)
{
    const size_t     at        = NUM_PIECES / 2;
    const bool       is_gather = _i == 0;
    copy_cuda_job_t *job;
    uint64_t        *entries;

    init_memory(&mem_kind_cuda_vmm);
    job                      = make_job(COPY_EVEN_PLACES, 1000);
    entries                  = job->entries;
    entries[NUM_PIECES + at] = layout.stream[NUM_PIECES - 1] + 1;
    run(job, is_gather);
    ck_assert_uint_eq(copy_cuda_job_fault(job), COPY_BEYOND | (at + 1));
    get(result, contiguous.address, SIZE);
    ck_assert(is_all(result + layout.size, SIZE - layout.size, 0xee));
    ck_assert(!is_gather || is_all(result + layout.stream[at], 1000, 0xee));
    get(result, scattered.address, SIZE);
    ck_assert_int_eq(
        memcmp(result + layout.offsets[at], pattern + layout.offsets[at], 1000),
        0);

    entries[NUM_PIECES + at] = layout.stream[at];
    entries[at]              = 0;
    run(job, is_gather);
    ck_assert_uint_eq(copy_cuda_job_fault(job), at + 1);
    copy_cuda_job_put(copier, job);
}

TEST_EACH(segment_of_wrong_length_is_reported_and_not_touched, 2)
{
    const size_t     at        = NUM_PIECES / 2;
    const bool       is_gather = _i == 0;
    copy_cuda_job_t *job;
    copy_segment_t  *segments;

    init_memory(&mem_kind_cuda_vmm);
    job      = make_job(COPY_EVEN_SEGMENTS, 1000);
    segments = (copy_segment_t *)job->entries;
    for (int is_longer = 0; is_longer < 2; is_longer++) {
        segments[at].length = is_longer ? 1001 : 996;
        run(job, is_gather);
        ck_assert_uint_eq(copy_cuda_job_fault(job), COPY_OTHER | (at + 1));
        get(result, contiguous.address, SIZE);
        ck_assert(is_all(result + layout.size, SIZE - layout.size, 0xee));
        get(result, scattered.address, SIZE);
        ck_assert_int_eq(memcmp(result + layout.offsets[at],
                                pattern + layout.offsets[at], 1000),
                         0);
    }
    copy_cuda_job_put(copier, job);
}

/* The flag may be written in the kernel's stream, or in the copy engine's. */
TEST_EACH(a_scatter_waits_for_its_flag, 2)
{
    const uint32_t length = 60000;
    const size_t   behind = (size_t)2 << 20;
    char          *stream;
    char          *target;
    copy_flag_t    flag;

    init_memory(&mem_kind_cuda_vmm);
    stream = contiguous.address;
    target = (char *)scattered.address + behind;
    flag   = (copy_flag_t){(uint32_t *)(void *)(stream + SIZE - 64), 7};
    assert_ok(copy_cuda_copier_clear(copier, stream + SIZE - 128, 64, 2));
    end_one(start_one(target, stream, length, flag, false), COPY_LATE);
    get(result, scattered.address, SIZE);
    ck_assert_int_eq(memcmp(result, pattern, SIZE), 0);
    if (_i == 0) {
        end_one(start_one(scattered.address, stream, length, flag, true), 0);
    } else {
        copy_cuda_job_t *job = copy_cuda_job_get(copier);

        job->flag = flag;
        assert_ok(copy_cuda_job_start_long(copier, job,
                                           (uintptr_t)scattered.address,
                                           (uintptr_t)stream, length, true));
        end_one(job, 0);
    }
    end_one(start_one(target, stream, length, flag, false), 0);
    get(result, scattered.address, SIZE);
    ck_assert_int_eq(memcmp(result + behind, pattern, length), 0);
    /* Any other value does not release the wait. */
    flag.number = 8;
    end_one(start_one(target, stream, length, flag, false), COPY_LATE);
}

TEST(empty_job_completes)
{
    copy_cuda_job_t *job = copy_cuda_job_get(copier);

    list = (copy_table_t){.form = COPY_SEGMENTS, .entries = job->entries};
    assert_ok(copy_cuda_job_poll(copier, job));
    run(job, true);
    assert_ok(copy_cuda_job_poll(copier, job));
    copy_cuda_job_put(copier, job);
}

TEST(jobs_can_be_reused)
{
    init_memory(&mem_kind_cuda_vmm);
    for (int i = 0; i < 3 * NUM_WAYS; i++) {
        poison_stream();
        gather(i % NUM_WAYS);
        check_gathered();
    }
}

TEST(create_makes_the_requested_number_of_jobs)
{
    copy_cuda_job_t *jobs[NUM_JOBS];

    for (unsigned i = 0; i < NUM_JOBS; i++) {
        jobs[i] = copy_cuda_job_get(copier);
        ck_assert_ptr_nonnull(jobs[i]);
    }
    ck_assert_ptr_null(copy_cuda_job_get(copier));
    for (unsigned i = 0; i < NUM_JOBS; i++) {
        memset(jobs[i]->entries, 0xff, params.entries_size);
    }
    for (unsigned i = 0; i < NUM_JOBS; i++) {
        list =
            (copy_table_t){.form = COPY_SEGMENTS, .entries = jobs[i]->entries};
        run(jobs[i], true);
        copy_cuda_job_put(copier, jobs[i]);
    }
    ck_assert_ptr_nonnull(copy_cuda_job_get(copier));
}

TEST(tiles_beyond_the_capacity_are_rejected)
{
    copy_cuda_copier_params_t small = params;
    copy_cuda_copier_t       *other = NULL;
    copy_cuda_job_t          *job;
    copy_segment_t           *segment;

    init_memory(&mem_kind_cuda_vmm);
    small.max_tiles = 4;
    assert_ok(copy_cuda_copier_create(device, &small, &other));
    job      = copy_cuda_job_get(other);
    segment  = job->entries;
    *segment = (copy_segment_t){(uintptr_t)scattered.address, 4 * 4096 + 1};
    list     = (copy_table_t){.form        = COPY_SEGMENTS,
                              .entries     = segment,
                              .num_entries = 1,
                              .stream      = (uintptr_t)contiguous.address};
    assert_error(copy_cuda_job_start(other, job, &list, segment->length, true),
                 LIMIT);
    segment->length = 4 * 4096;
    assert_ok(copy_cuda_job_start(other, job, &list, segment->length, true));
    copy_cuda_copier_wait(other);
    assert_ok(copy_cuda_job_poll(other, job));
    copy_cuda_job_put(other, job);
    copy_cuda_copier_destroy(other);
    copy_cuda_copier_destroy(NULL);
}

/* The caller's stream writes the source in long steps, and reads the gathered
 * bytes. 0: a separate stream; 1: the default stream. */
STAND_IN_TEST(jobs_run_while_the_host_continues)
{
    restart("run=late");
    init_memory(&mem_kind_cuda_vmm);
    for (int i = 0; i < 3; i++) {
        copy_cuda_job_t *jobs[NUM_JOBS];

        for (unsigned j = 0; j < NUM_JOBS; j++) {
            jobs[j] = make_job(COPY_SEGMENTS, 0);
            poison_stream();
            assert_ok(start(jobs[j], true));
            while (copy_cuda_job_poll(copier, jobs[j]) == UCXPOOL_INPROGRESS) {
            }
            check_gathered();
        }
        for (unsigned j = 0; j < NUM_JOBS; j++) {
            copy_cuda_job_put(copier, jobs[j]);
        }
    }
}

STAND_IN_TEST(job_is_not_reported_done_early)
{
    copy_cuda_job_t *first, *second;

    restart("run=n");
    init_memory(&mem_kind_cuda_alloc);
    first  = make_job(COPY_SEGMENTS, 0);
    second = copy_cuda_job_get(copier);
    assert_ok(start(first, true));
    assert_ok(copy_cuda_job_start_long(copier, second,
                                       (uintptr_t)scattered.address,
                                       (uintptr_t)contiguous.address, 1, true));
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(copy_cuda_job_poll(copier, first), UCXPOOL_INPROGRESS);
        ck_assert_int_eq(copy_cuda_job_poll(copier, second),
                         UCXPOOL_INPROGRESS);
        ck_assert_uint_eq(stand_in.step(1), 1);
    }
    ck_assert_int_eq(copy_cuda_job_poll(copier, second), UCXPOOL_INPROGRESS);
    assert_ok(copy_cuda_job_poll(copier, first));
    ck_assert_uint_eq(stand_in.step(9), 2);
    assert_ok(copy_cuda_job_poll(copier, second));
    copy_cuda_job_put(copier, first);
    copy_cuda_job_put(copier, second);
}

static void check_calls(copy_form_t form, size_t uniform, bool is_gather,
                        unsigned num_writes)
{
    copy_cuda_job_t *job;

    stand_in.fail_call(NULL, 0, 0);
    job = make_job(form, uniform);
    assert_ok(start(job, is_gather));
    for (int i = 0; i < 1000; i++) {
        ck_assert_int_eq(copy_cuda_job_poll(copier, job), UCXPOOL_INPROGRESS);
    }
    wait_for(job);
    copy_cuda_job_put(copier, job);
    ck_assert_uint_eq(stand_in.count("cuLaunchKernel"), 1);
    ck_assert_uint_eq(stand_in.count("cuStreamWriteValue32"), num_writes);
    ck_assert_uint_eq(stand_in.count("cuCtxPushCurrent"), 1);
    ck_assert_uint_eq(stand_in.count("cuCtxPopCurrent"), 1);
    ck_assert_uint_eq(stand_in.count(NULL), 3 + num_writes);
}

/* The kernel of a scatter of one tile writes the job's word itself. */
STAND_IN_TEST(copy_is_one_launch_and_polls_without_driver_calls)
{
    restart("run=n");
    init_memory(&mem_kind_cuda_alloc);
    check_calls(COPY_SEGMENTS, 0, true, 1);
    check_calls(COPY_SEGMENTS, 0, false, 1);
    check_calls(COPY_EVEN_PAIRS, 8, true, 1);
    check_calls(COPY_EVEN_PAIRS, 8, false, 0);
}

static int start_and_ask_priority(bool is_gather, bool is_pushed)
{
    copy_cuda_job_t *job = make_job(COPY_SEGMENTS, 0);
    int              priority;

    job->is_pushed = is_pushed;
    assert_ok(start(job, is_gather));
    priority = stand_in.priority(job->stream);
    wait_for(job);
    copy_cuda_job_put(copier, job);
    return priority;
}

/* A lower number is a higher priority. Callers' streams have 0. */
STAND_IN_TEST(local_copies_have_the_highest_stream_priority)
{
    int gather, scatter; /* that read or write a peer's memory */

    init_memory(&mem_kind_cuda_alloc);
    scatter = start_and_ask_priority(false, false);
    gather  = start_and_ask_priority(true, true);
    ck_assert_int_lt(start_and_ask_priority(true, false), scatter);
    ck_assert_int_lt(start_and_ask_priority(false, true), gather);
    ck_assert_int_lt(scatter, 0);
    ck_assert_int_lt(gather, 0);
}

TEST_SETTINGS(.setup = setup_without_mem_ops, .teardown = teardown,
              .only_if = cuda_is_present);

STAND_IN_TEST(without_stream_writes_flags_are_set_by_memset)
{
    ck_assert(!device->has_mem_ops);
    init_memory(&mem_kind_cuda_vmm);
    stand_in.fail_call(NULL, 0, 0);
    gather(2);
    ck_assert_uint_eq(stand_in.count("cuMemsetD32Async"), 1);
    check_gathered();
}

/* A job that reads memory which the GPU cannot reach. */
static copy_cuda_job_t *make_bad_job(void)
{
    copy_cuda_job_t *job      = copy_cuda_job_get(copier);
    copy_segment_t  *segments = job->entries;

    segments[0] = (copy_segment_t){(uintptr_t)pattern, 64};
    segments[1] = segments[0];
    layout.size = 128;
    list        = (copy_table_t){.form        = COPY_SEGMENTS,
                                 .entries     = segments,
                                 .num_entries = 2,
                                 .stream      = (uintptr_t)contiguous.address};
    return job;
}

TEST_SETTINGS(.setup = setup, .teardown = teardown, .only_if = cuda_is_present);

STAND_IN_TEST(failed_gpu_is_reported_and_no_wait_hangs)
{
    copy_cuda_job_t *job;
    ucxpool_status_t status;

    restart("run=n");
    init_memory(&mem_kind_cuda_alloc);
    job = make_bad_job();
    assert_ok(start(job, true));
    ck_assert_uint_eq(stand_in.step(9), 2);
    do {
        status = copy_cuda_job_poll(copier, job);
    } while (status == UCXPOOL_INPROGRESS);
    ck_assert_int_eq(status, UCXPOOL_ERR_IO);
    assert_detail("CUDA_ERROR_ILLEGAL_ADDRESS");
    copy_cuda_job_put(copier, job);
    job = copy_cuda_job_get(copier);
    assert_error(start(job, true), IO);
    copy_cuda_job_put(copier, job);
    has_gpu_failed = true;
}

STAND_IN_TEST(failed_create_leaks_nothing)
{
    unsigned live = stand_in.live();

    for (unsigned n = 1;; n++) {
        copy_cuda_copier_t *other = NULL;
        ucxpool_status_t    status;

        stand_in.fail_call(NULL, n, CUDA_ERROR_OUT_OF_MEMORY);
        status = copy_cuda_copier_create(device, &params, &other);
        if (!stand_in.has_failed()) {
            assert_ok(status);
            stand_in.fail_call(NULL, 0, 0);
            copy_cuda_copier_destroy(other);
            ck_assert_uint_ge(n, 8);
            break;
        }
        ck_assert_int_eq(status, UCXPOOL_ERR_NO_MEMORY);
        ck_assert_ptr_null(other);
        stand_in.fail_call(NULL, 0, 0);
        ck_assert_uint_eq(stand_in.live(), live);
    }
    ck_assert_uint_eq(stand_in.live(), live);
}

STAND_IN_TEST(failed_allocation_leaks_nothing)
{
    unsigned            live  = stand_in.live();
    copy_cuda_copier_t *other = NULL;

    calls_fail(CALLS_CALLOC, 1, ENOMEM);
    assert_error(copy_cuda_copier_create(device, &params, &other), NO_MEMORY);
    ck_assert_ptr_null(other);
    calls_reset();
    ck_assert_uint_eq(stand_in.live(), live);
}

STAND_IN_TEST(failed_start_is_reported_and_retry_works)
{
    unsigned num_failed = 0;

    init_memory(&mem_kind_cuda_alloc);
    for (unsigned n = 1;; n++) {
        copy_cuda_job_t *job     = make_job(COPY_SEGMENTS, 0);
        CUcontext        current = NULL;
        ucxpool_status_t status;

        poison_stream();
        stand_in.fail_call(NULL, n, CUDA_ERROR_UNKNOWN);
        status = start(job, true);
        if (!stand_in.has_failed()) {
            assert_ok(status);
            stand_in.fail_call(NULL, 0, 0);
            wait_for(job);
            copy_cuda_job_put(copier, job);
            break;
        }
        num_failed++;
        ck_assert_int_eq(status, UCXPOOL_ERR_IO);
        assert_ok(copy_cuda_job_poll(copier, job));
        ck_assert_int_eq(driver->cuCtxGetCurrent(&current), CUDA_SUCCESS);
        ck_assert_ptr_null(current);
        run(job, true);
        copy_cuda_job_put(copier, job);
        check_gathered();
    }
    ck_assert_uint_eq(num_failed, 3);
    check_gathered();
}

/* --- scatters that wait for a flag ---------------------------------------- */

#define LONG_SCATTER ((size_t)16 << 20)

static copy_engine_t *engine;
static unsigned       num_late;

/* One scatter of contiguous bytes. */
typedef struct waiting {
    copy_job_t        copy;
    copy_run_t        run;
    ucxpool_segment_t segment;
    copy_plan_t       plan;
} waiting_t;

static void setup_engine(void)
{
    cuda_start("run=n");
    assert_ok(mem_cuda_device_open(0, &device));
    assert_ok(copy_engine_create(device, &engine));
    assert_ok(mem_regions_init(&scattered, &mem_kind_cuda_alloc, 0, 1,
                               LONG_SCATTER, BASE_SWITCH_NO));
    assert_ok(mem_regions_init(&contiguous, &mem_kind_cuda_alloc, 0, 1,
                               LONG_SCATTER, BASE_SWITCH_NO));
    num_late = 0;
}

static void teardown_engine(void)
{
    mem_regions_cleanup(&scattered);
    mem_regions_cleanup(&contiguous);
    copy_engine_destroy(engine);
    ck_assert_uint_eq(stand_in.live(), 0);
}

static void count_late(copy_job_t *copy, ucxpool_status_t status)
{
    ck_assert_int_eq(status, UCXPOOL_ERR_BUSY);
    num_late++;
}

/* Start a scatter whose flag is never set. */
static ucxpool_status_t start_waiting(waiting_t *waiting, size_t length,
                                      uint64_t *covered_p)
{
    const copy_totals_t totals = copy_totals_of_piece(length);
    copy_memory_t       memory;

    waiting->copy    = (copy_job_t){.done = count_late};
    waiting->run     = (copy_run_t){length, 1};
    waiting->segment = (ucxpool_segment_t){scattered.address, length};
    memory           = copy_memory_of_segments(&waiting->segment, 1);
    copy_plan_init(&waiting->plan, &waiting->run, 1, &totals, &memory);
    return copy_engine_start(engine, &waiting->copy,
                             &(copy_work_t){.plan      = &waiting->plan,
                                            .length    = length,
                                            .block     = contiguous.address,
                                            .is_pushed = true,
                                            .has_gpu_segments = true,
                                            .flag = {contiguous.address, 7}},
                             covered_p);
}

static void end_waiting(unsigned num)
{
    while (stand_in.step(1) != 0) {
    }
    ck_assert_uint_eq(copy_engine_progress(engine), num);
    ck_assert_uint_eq(num_late, num);
}

TEST_SETTINGS(.setup = setup_engine, .teardown = teardown_engine);

/* Whenever a short one ends, the long one can start. If it needed more room,
 * the next short one would take the room. */
STAND_IN_TEST(long_scatter_can_wait_next_to_three_short_ones)
{
    waiting_t waiting[5];
    uint64_t  covered;

    for (unsigned i = 0; i < 3; i++) {
        ck_assert_int_eq(start_waiting(&waiting[i], 1000, &covered),
                         UCXPOOL_INPROGRESS);
    }
    ck_assert_int_eq(start_waiting(&waiting[3], LONG_SCATTER, &covered),
                     UCXPOOL_INPROGRESS);
    ck_assert_int_eq(start_waiting(&waiting[4], 1000, &covered),
                     UCXPOOL_ERR_BUSY);
    end_waiting(4);
}

/* Two long ones and a short one may wait at a time, so they leave room on the
 * GPU for other kernels. */
STAND_IN_TEST(waiting_scatter_has_one_thread_block_per_multiprocessor)
{
    const unsigned num = (unsigned)device->num_processors;
    waiting_t      waiting;
    uint64_t       covered;

    ck_assert_int_eq(start_waiting(&waiting, LONG_SCATTER, &covered),
                     UCXPOOL_INPROGRESS);
    ck_assert_uint_gt(covered, COPY_WAIT_SHORT);
    ck_assert_uint_le(
        covered / copy_tile_size(covered, num * COPY_WAIT_FACTOR, true), num);
    end_waiting(1);
}
