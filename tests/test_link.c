/*
 * The turns of transfers on the link of a pool's GPU. Pool, channels and engine
 * are doubles: the test fills in the fields that the link uses.
 */
#include "copy/engine.h"
#include "core/channel.h"
#include "core/link.h"
#include "core/pool.h"
#include "test.h"

#include <string.h>

#define MIB         ((uint64_t)1 << 20)
#define LONG        (64 * MIB)
#define NUM_PEERS   3u
#define NUM_WORKS   4u
#define OUR_GPU     1
#define ANOTHER_GPU 2

static ucxpool_t         pool;
static ucxpool_channel_t channels[NUM_PEERS];
static core_mapping_t    mappings[NUM_PEERS];
static copy_engine_t     engine = {.gpu = OUR_GPU};
static core_link_t      *link_out;
static core_link_work_t  works[NUM_WORKS];
static core_link_work_t *told; /* the last one that was notified */
static unsigned          num_told;

static void go(core_link_work_t *work)
{
    told = work;
    num_told++;
}

static void setup(void)
{
    memset(&pool, 0, sizeof(pool));
    memset(channels, 0, sizeof(channels));
    memset(works, 0, sizeof(works));
    pool.engine = &engine;
    link_out    = &pool.links[CORE_LINK_OUT];
    core_link_init(link_out);
    core_link_init(&pool.links[CORE_LINK_IN]);
    for (unsigned i = 0; i < NUM_PEERS; i++) {
        channels[i].pool         = &pool;
        channels[i].peer.mapping = &mappings[i];
        channels[i].peer.gpu     = ANOTHER_GPU;
    }
    told     = NULL;
    num_told = 0;
}

static core_link_work_t *post(unsigned work, unsigned peer, uint64_t size)
{
    core_link_post(&works[work], &channels[peer], CORE_LINK_OUT, size, go);
    return &works[work];
}

static void require_first(const core_link_work_t *work)
{
    told = NULL;
    core_link_progress(link_out);
    ck_assert_ptr_eq(told, work);
}

TEST_SETTINGS(.setup = setup);

TEST(releasing_the_link_notifies_the_next)
{
    core_link_work_t *first  = post(0, 0, LONG);
    core_link_work_t *second = post(1, 0, LONG);

    ck_assert(core_link_take(first));
    ck_assert(!core_link_take(second));
    ck_assert(core_link_take(first));
    core_link_leave(first);
    ck_assert(core_link_has_work(link_out));
    require_first(second);
    ck_assert(core_link_take(second));
    core_link_leave(second);
    ck_assert(!core_link_has_work(link_out));
    core_link_progress(link_out);
    ck_assert_uint_eq(num_told, 1);
}

TEST(equal_transfers_run_in_posting_order)
{
    for (unsigned i = 0; i < NUM_PEERS; i++) {
        post(i, i, LONG);
    }
    for (unsigned i = NUM_PEERS; i-- > 0;) {
        core_link_take(&works[i]);
    }
    for (unsigned i = 0; i < NUM_PEERS; i++) {
        require_first(&works[i]);
        core_link_leave(&works[i]);
    }
}

TEST(transfer_waits_for_earlier_ones_of_its_channel)
{
    core_link_work_t *first  = post(0, 2, LONG);
    core_link_work_t *second = post(1, 2, LONG);
    core_link_work_t *other  = post(2, 0, LONG);

    ck_assert(core_link_take(first));
    ck_assert(!core_link_take(second));
    ck_assert(!core_link_take(other));
    core_link_leave(first);
    require_first(other);
    core_link_leave(other);
    require_first(second);
}

/* A long transfer of one peer is well advanced when another peer's first one
 * starts. */
TEST(late_peer_gets_no_credit_for_idle_time)
{
    core_link_work_t *first  = post(0, 0, LONG);
    core_link_work_t *second = post(1, 0, LONG);
    core_link_work_t *late;

    ck_assert(core_link_take(first));
    core_link_take(second);
    core_link_leave(first);
    ck_assert(core_link_take(second));
    core_link_began(second, LONG);
    late = post(2, 1, LONG);
    ck_assert_uint_eq(late->start, second->start);
    core_link_ended(second, LONG);
}

TEST(transfer_that_could_not_launch_keeps_its_place)
{
    core_link_work_t *blocked = post(0, 2, LONG);
    core_link_work_t *other   = post(1, 1, LONG);

    ck_assert(core_link_take(blocked));
    ck_assert(!core_link_take(other));
    core_link_leave(blocked);
    ck_assert(core_link_take(other));
    ck_assert(core_link_take(blocked));
    ck_assert(!core_link_take(other));
}

TEST(after_an_idle_period_all_peers_are_equal)
{
    core_link_take(post(0, 2, LONG));
    core_link_leave(&works[0]);
    core_link_take(post(1, 2, LONG));
    core_link_take(post(2, 0, LONG));
    ck_assert_uint_eq(works[1].start, works[2].start);
    require_first(&works[1]);
}

TEST(long_launches_in_flight_are_limited)
{
    core_link_work_t *work = post(0, 0, LONG);

    for (unsigned i = 0; i < 3; i++) {
        ck_assert(core_link_take(work));
        core_link_began(work, 32 * MIB);
    }
    ck_assert(!core_link_take(work));
    ck_assert(!core_link_has_work(link_out));
    core_link_progress(link_out);
    ck_assert_uint_eq(num_told, 0);
    core_link_ended(work, 32 * MIB);
    require_first(work);
    ck_assert(core_link_take(work));
}

TEST(more_short_launches_may_be_in_flight)
{
    core_link_work_t *work = post(0, 0, LONG);

    for (unsigned i = 0; i < 8; i++) {
        ck_assert(core_link_take(work));
        core_link_began(work, 4 * MIB);
    }
    ck_assert(!core_link_take(work));
}

TEST(short_and_local_transfers_do_not_wait)
{
    core_link_take(post(0, 0, LONG));
    ck_assert(core_link_take(post(1, 1, CORE_LINK_SHORT)));
    channels[2].peer.gpu = OUR_GPU;
    ck_assert(core_link_take(post(2, 2, LONG)));
    core_link_began(&works[1], CORE_LINK_SHORT);
    core_link_began(&works[2], LONG);
    ck_assert_uint_eq(link_out->num_jobs, 0);
    core_link_ended(&works[2], LONG);
    core_link_ended(&works[1], CORE_LINK_SHORT);
    core_link_leave(&works[2]);
    core_link_leave(&works[1]);
    require_first(&works[0]);
}

TEST(directions_have_separate_turns)
{
    core_link_take(post(0, 0, LONG));
    core_link_post(&works[1], &channels[0], CORE_LINK_IN, LONG, go);
    ck_assert_uint_eq(works[1].start, 0);
    ck_assert(core_link_take(&works[1]));
    require_first(&works[0]);
}
