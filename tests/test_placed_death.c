/* Messages out of windows between two processes, one of which is killed, or
 * whose window goes under way. */
#include "slow.h"

#include "pair.h"
#include "two.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SETTINGS "WIRE=map WINDOW_WAY=direct"
#define SIZE     ((size_t)4 << 20)
#define PIECE    ((size_t)1000)
#define PIECES   (SIZE / PIECE)
#define LANES    4
#define TAG      UINT64_C(3)
#define MINUTE   UINT64_C(60000000000)

/* One sends out of its window, the other one receives. */
typedef struct side {
    two_t              two;
    bool               sends;
    uint8_t           *memory;
    ucxpool_window_t  *window; /* of whom sends */
    ucxpool_request_t *requests[LANES];
} side_t;

static void *pieces[PIECES];

static void begin(side_t *side, bool child_sends)
{
    memset(side, 0, sizeof(*side));
    side->memory = malloc(SIZE);
    memset(side->memory, 1, SIZE);
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = side->memory + ((i * 7919) % PIECES) * PIECE;
    }
    two_init(&side->two, SETTINGS);
    side->sends = side->two.is_child == child_sends;
    if (side->sends) {
        two_check(ucxpool_window_create(side->two.pool, side->memory, SIZE,
                                        NULL, &side->window) == UCXPOOL_OK);
    }
}

static ucxpool_status_t post(side_t *side, ucxpool_request_t **request_p)
{
    ucxpool_data_t data = ucxpool_data_pieces(pieces, PIECES, PIECE);

    return side->sends
               ? ucxpool_send(side->two.channel, &data, TAG, NULL, request_p)
               : ucxpool_recv(side->two.pool, side->two.channel, &data, TAG,
                              UINT64_MAX, NULL, request_p);
}

/* A round, with all lanes in use while the channel is there. */
static void run_step(side_t *side)
{
    for (int i = 0; i < LANES; i++) {
        ucxpool_request_t **request = &side->requests[i];

        if ((*request != NULL) && pair_ended(*request)) {
            two_check(ucxpool_request_test(*request) == UCXPOOL_OK);
            ucxpool_request_release(*request);
            *request = NULL;
        }
        if (*request == NULL) {
            (void)post(side, request);
        }
    }
    ucxpool_progress(side->two.pool);
}

static void run_steps(side_t *side, unsigned num)
{
    for (unsigned i = 0; i < num; i++) {
        run_step(side);
    }
}

/* Until it is killed, or told to stop by a byte. */
static void run_for_ever(side_t *side)
{
    char byte;

    alarm(100);
    while (recv(side->two.talk, &byte, 1, MSG_DONTWAIT) != 1) {
        run_step(side);
    }
    ucxpool_destroy(side->two.pool);
    _exit(0);
}

static unsigned num_pulling(const side_t *side)
{
    ucxpool_window_attr_t attr;

    ucxpool_window_query(side->window, &attr, sizeof(attr));
    return attr.num_pulling;
}

static uint64_t num_placed(const side_t *side)
{
    uint64_t num;

    two_check(ucxpool_stats_get(side->two.pool,
                                side->sends ? "sent_map_placed_fragments"
                                            : "received_map_placed_fragments",
                                &num) == UCXPOOL_OK);
    return num;
}

/* Messages are being pulled, where they can be. */
static void until_placed(side_t *side)
{
    uint64_t late = pair_deadline();

    while (pair_has_pidfd() && (num_placed(side) == 0)) {
        two_check(!pair_is_late(late));
        run_step(side);
    }
}

static void check_lost(side_t *side)
{
    for (int i = 0; i < LANES; i++) {
        ucxpool_status_t status;

        if (side->requests[i] == NULL) {
            continue;
        }
        status = ucxpool_request_wait(side->requests[i], MINUTE);
        two_check((status == UCXPOOL_OK) || (status == UCXPOOL_ERR_PEER_LOST));
        ucxpool_request_release(side->requests[i]);
    }
}

static void check_whole(side_t *side)
{
    uint64_t late = pair_deadline();

    while (!pair_is_whole(side->two.pool)) {
        two_check(!pair_is_late(late));
        ucxpool_progress(side->two.pool);
    }
    two_check(ucxpool_check(side->two.pool) == UCXPOOL_OK);
}

/* Both roles in turns. */
START_TEST(one_outlives_the_other)
{
    side_t side;
    int    status;

    srand((unsigned)_i);
    begin(&side, _i % 2 == 0);
    if (side.two.is_child) {
        run_for_ever(&side);
    }
    until_placed(&side);
    run_steps(&side, (unsigned)rand() % 2000);
    two_check(kill(side.two.child, SIGKILL) == 0);
    two_check(waitpid(side.two.child, &status, 0) == side.two.child);
    two_check(WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL));
    check_lost(&side);
    check_whole(&side);
    if (side.sends) {
        two_check(ucxpool_window_revoke(side.window, MINUTE) == UCXPOOL_OK);
        two_check(num_pulling(&side) == 0);
        ucxpool_window_destroy(side.window);
    }
    ucxpool_destroy(side.two.pool);
    close(side.two.talk);
    free(side.memory);
}
END_TEST

/* What had been posted goes on, and what is posted now. */
static void go_on_and_end(side_t *side)
{
    run_steps(side, 500);
    for (int i = 0; i < LANES; i++) {
        if (side->requests[i] != NULL) {
            two_check(ucxpool_request_wait(side->requests[i], MINUTE) ==
                      UCXPOOL_OK);
            ucxpool_request_release(side->requests[i]);
        }
    }
    check_whole(side);
    two_check(send(side->two.talk, "e", 1, MSG_NOSIGNAL) == 1);
    two_cleanup(&side->two);
    free(side->memory);
}

START_TEST(a_window_goes_while_messages_are_pulled)
{
    side_t side;

    begin(&side, false);
    if (side.two.is_child) {
        run_for_ever(&side);
    }
    until_placed(&side);
    run_steps(&side, (unsigned)_i * 7);
    pair_destroy_window(side.window);
    go_on_and_end(&side);
}
END_TEST

static void wait_until_stopped(side_t *side)
{
    int status = 0;

    while (waitpid(side->two.child, &status, WNOHANG | WUNTRACED) == 0) {
        run_step(side);
    }
    two_check(WIFSTOPPED(status));
}

/* The receiver only reads, and discards what it reads after the revocation. */
START_TEST(revoke_does_not_wait_for_a_stopped_receiver)
{
    side_t side;

    begin(&side, false);
    if (side.two.is_child) {
        until_placed(&side);
        run_steps(&side, (unsigned)_i * 7);
        raise(SIGSTOP);
        run_for_ever(&side);
    }
    wait_until_stopped(&side);
    two_check(ucxpool_window_revoke(side.window, 0) == UCXPOOL_OK);
    two_check(num_pulling(&side) == 0);
    two_check(kill(side.two.child, SIGCONT) == 0);
    go_on_and_end(&side);
}
END_TEST

int main(void)
{
    Suite   *suite  = suite_create("placed_death");
    TCase   *tcase  = tcase_create("messages out of a window");
    SRunner *runner = srunner_create(suite);
    int      failed;

    tcase_set_timeout(tcase, 100);
    tcase_add_loop_test(tcase, one_outlives_the_other, 0, slow_is() ? 4 : 60);
    tcase_add_loop_test(tcase, a_window_goes_while_messages_are_pulled, 0,
                        slow_is() ? 2 : 10);
    tcase_add_loop_test(tcase, revoke_does_not_wait_for_a_stopped_receiver, 0,
                        slow_is() ? 2 : 10);
    suite_add_tcase(suite, tcase);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return (failed == 0) ? 0 : 1;
}
