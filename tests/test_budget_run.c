/*
 * Registered memory stays within the budget at any moment of a run that sends,
 * receives, and allocates blocks and buffers; and the run registers nothing
 * after the pools are created. Measured below the library, at UCX's
 * registration calls.
 *
 * TEST_BUDGET_SECONDS is the length of the run: 2 if unset.
 */
#include <config.h>

#include "base/clock.h"
#include "cuda_fixture.h"
#include "gpu.h"
#include "mem/nvml.h"
#include "pair.h"
#include "test.h"
#include "reg_stand_in/reg.h"

#include "core/stats.h"

#include <ucxpool/ucxpool.h>

#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB        ((size_t)1 << 20)
#define MAX_LENGTH (6 * MIB)
#define NUM_FIELDS 5
/* Number of rounds that a pair of pools lives. */
#define NUM_ROUNDS 40

typedef struct setup {
    const char *name;
    const char *settings; /* for both pools */
    const char *limits;   /* for REG_STAND_IN */
    uint64_t    budget;   /* for both pools together */
    bool        is_on_gpu;
} setup_t;

static const setup_t setups[] = {
    {"host, ucx", "COMM_SIZE=32m WIRE=ucx", "", 64 * MIB, false},
    {"host, map", "COMM_SIZE=32m WIRE=map", "", 64 * MIB, false},
    {"host, 40 MiB at most", "COMM_SIZE=32m WIRE=ucx", "bytes=40m", 40 * MIB,
     false},
    {"GPU, 210 MiB at most",
     "COMM_SIZE=auto BLOCK_SIZE=auto REGION_SIZE=auto CUDA_BACKING=vmm "
     "WIRE=map",
     "cuda=y,of=cuda,bytes=210m", 210 * MIB, true},
};
#define NUM_SETUPS ((int)(sizeof(setups) / sizeof(setups[0])))

/* Sample the budget while the other threads work, once for each operation that
 * they start. */
typedef struct sampler {
    sem_t            begun;
    _Atomic bool     is_done;
    _Atomic uint64_t num_samples;
    _Atomic uint64_t most;
} sampler_t;

static void *sample(void *argument)
{
    sampler_t *sampler = argument;

    while (!atomic_load(&sampler->is_done)) {
        uint64_t live;

        while (sem_wait(&sampler->begun) != 0) {
        }
        live = reg_counts().live;

        if (live > atomic_load(&sampler->most)) {
            atomic_store(&sampler->most, live);
        }
        atomic_fetch_add(&sampler->num_samples, 1);
    }
    return NULL;
}

static void sampler_start(sampler_t *sampler)
{
    memset(sampler, 0, sizeof(*sampler));
    ck_assert_int_eq(sem_init(&sampler->begun, 0, 0), 0);
    test_thread(sample, sampler);
}

static void sampler_stop(sampler_t *sampler)
{
    atomic_store(&sampler->is_done, true);
    sem_post(&sampler->begun);
    test_join(1);
    sem_destroy(&sampler->begun);
}

/* The pool's memory if some is free; else the caller's. */
static void *comm(ucxpool_t *pool, size_t length, void *other)
{
    void *memory;

    return ucxpool_comm_alloc(pool, length, &memory) == UCXPOOL_OK ? memory
                                                                   : other;
}

static void send_one(pair_t *pair, void *from, void *to, size_t length)
{
    ucxpool_request_t *recv = NULL, *send = NULL;

    assert_ok(
        ucxpool_recv_buffer(pair->b, NULL, to, length, 1, 1, NULL, &recv));
    send = pair_send(pair->to_b, from, length, 1);
    pair_finish_both(pair, send, recv);
}

/* Messages of any length from and to memory of any kind, while blocks and
 * buffers are allocated and freed. */
static void round_of(pair_t *pair, void *from, void *to)
{
    size_t          length = 1 + (size_t)rand() % MAX_LENGTH;
    void           *source = rand() % 2 ? comm(pair->a, length, from) : from;
    void           *target = rand() % 2 ? comm(pair->b, length, to) : to;
    ucxpool_block_t block;
    bool            has_block;

    has_block = ucxpool_block_get(pair->a, &block) == UCXPOOL_OK;
    send_one(pair, source, target, length);
    if (has_block) {
        ucxpool_block_put(pair->a, &block);
    }
    if (source != from) {
        ucxpool_comm_free(pair->a, source);
    }
    if (target != to) {
        ucxpool_comm_free(pair->b, target);
    }
}

static void connect_pools(const setup_t *setup, pair_t *pair)
{
    if (setup->is_on_gpu) {
        pair->a = pair_pool_on(0, setup->settings);
        pair->b = pair_pool_on(0, setup->settings);
    } else {
        pair->a = pair_pool(setup->settings);
        pair->b = pair_pool(setup->settings);
    }
    pair_connect(pair);
}

/* Two pools for a while. Their reported figures must match the measured
 * ones. */
static void live_once(const setup_t *setup, sampler_t *sampler, void *from,
                      void *to, uint64_t deadline)
{
    uint64_t before = reg_counts().num_maps;
    pair_t   pair   = {0};
    uint64_t registered;

    sem_post(&sampler->begun);
    connect_pools(setup, &pair);
    registered = reg_counts().live;
    before     = reg_counts().num_maps - before;
    ck_assert_uint_eq(pair_stats(pair.a).registrations +
                          pair_stats(pair.b).registrations,
                      before);
    if (!setup->is_on_gpu ||
        (pair_stats(pair.b).degraded_to != UCXPOOL_DEGRADED_PINNED)) {
        ck_assert_uint_eq(pair_stats(pair.a).registered_bytes +
                              pair_stats(pair.b).registered_bytes,
                          registered);
    }
    before = reg_counts().num_maps;
    for (int i = 0; (i < NUM_ROUNDS) && (base_clock_now() < deadline); i++) {
        sem_post(&sampler->begun);
        round_of(&pair, from, to);
        ck_assert_uint_eq(reg_counts().live, registered);
    }
    ck_assert_uint_eq(reg_counts().num_maps, before);
    ck_assert_uint_eq(pair_stats(pair.a).registrations_after_start, 0);
    ck_assert_uint_eq(pair_stats(pair.b).registrations_after_start, 0);
    assert_ok(ucxpool_check(pair.a));
    assert_ok(ucxpool_check(pair.b));
    pair_cleanup(&pair);
    ck_assert_uint_eq(reg_counts().live, 0);
}

static double seconds(void)
{
    const char *text = getenv("TEST_BUDGET_SECONDS");

    return text == NULL ? 2.0 : atof(text);
}

TEST_SETTINGS(.timeout = seconds() + 100, .only_if = cuda_is_stand_in);

TEST_EACH(registered_memory_stays_within_the_budget, NUM_SETUPS)
{
    const setup_t *setup = &setups[_i];
    uint64_t       deadline =
        base_clock_now() + (uint64_t)(seconds() / NUM_SETUPS * 1e9);
    unsigned     num_lives = 0;
    void        *from, *to;
    reg_counts_t counts;
    sampler_t    sampler;

    if (setup->is_on_gpu) {
        gpu_start("name=Tesla T4,memory=15g");
        setenv(MEM_NVML_LIBRARY_VARIABLE, NVML_STAND_IN_PATH, 1);
        setenv("NVML_STAND_IN", "bar1=268435456,used=4194304", 1);
    }
    reg_configure(setup->limits);
    from = setup->is_on_gpu ? gpu_alloc(MAX_LENGTH) : malloc(MAX_LENGTH);
    to   = setup->is_on_gpu ? gpu_alloc(MAX_LENGTH) : malloc(MAX_LENGTH);
    if (!setup->is_on_gpu) {
        memset(from, 1, MAX_LENGTH);
    }
    sampler_start(&sampler);
    do {
        live_once(setup, &sampler, from, to, deadline);
        num_lives++;
    } while (base_clock_now() < deadline);
    sampler_stop(&sampler);
    counts = reg_counts();
    ck_assert_uint_le(counts.peak, setup->budget);
    ck_assert_uint_le(sampler.most, setup->budget);
    printf("%s: %u times two pools, %llu registrations, %llu refused; "
           "%llu samples, at most %llu bytes, of %llu\n",
           setup->name, num_lives, (unsigned long long)counts.num_maps,
           (unsigned long long)counts.num_refused,
           (unsigned long long)sampler.num_samples,
           (unsigned long long)counts.peak, (unsigned long long)setup->budget);
    if (setup->is_on_gpu) {
        gpu_free(from);
        gpu_free(to);
        gpu_stop();
    } else {
        free(from);
        free(to);
    }
}
