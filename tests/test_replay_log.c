/* ucxpool_replay reads and writes logs of allocations. */
#include "caught.h"
#include "replay/trace.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER "Thread,Time,Action,Pointer,Size,Stream\n"

static const char *said;  /* to standard error, by the last read */
static trace_t    *trace; /* of the last read_good() */

/* Parse a text as a log. */
static trace_t *read_text(const char *text)
{
    FILE    *stream = fmemopen((void *)(size_t)text, strlen(text), "r");
    trace_t *read;

    ck_assert_ptr_nonnull(stream);
    caught_begin();
    read = log_read_stream(stream, "a.csv");
    said = caught_text();
    caught_end();
    fclose(stream);
    return read;
}

static void destroy(void)
{
    trace_destroy(trace);
}

static void read_good(const char *text)
{
    trace = read_text(text);
    ck_assert_msg(trace != NULL, "%s", said);
    ck_assert_str_eq(said, "");
    test_at_end(destroy);
}

/* The line is rejected, and the error contains its position and these words. */
static void assert_bad(const char *line, const char *words)
{
    char text[1024];

    snprintf(text, sizeof(text),
             HEADER "1,10:00:00.000001,allocate,0x100,64,0\n%s\n", line);
    ck_assert_ptr_null(read_text(text));
    assert_has(said, "ucxpool: a.csv:3: ");
    assert_has(said, words);
}

TEST(a_log_becomes_events)
{
    read_good(HEADER "7,10:00:00.000001,allocate,0x100,64,0x55d0\n"
                     "8,10:00:00.000002,allocate,0x200,128,0\n"
                     "8,10:00:00.000003,free,0x100,64,0\n"
                     "7,10:00:00.000004,free,0x200,128,0x55d0\n");
    ck_assert_uint_eq(trace->num_events, 4);
    ck_assert_uint_eq(trace->num_allocations, 2);
    ck_assert_uint_eq(trace->sizes[0], 64);
    ck_assert_uint_eq(trace->sizes[1], 128);
    ck_assert(!trace->events[1].is_free && trace->events[2].is_free);
    ck_assert_uint_eq(trace->events[2].allocation, 0);
    ck_assert_uint_eq(trace->peak_live, 192);
    ck_assert_uint_eq(trace->peak_num, 2);
    ck_assert_uint_eq(trace->peak_event, 1);
    ck_assert_uint_eq(trace->num_left, 0);
}

TEST(streams_keep_their_identity)
{
    read_good("1,t,allocate,0x100,64,0x55d0ab\n"
              "1,t,allocate,0x200,64,0x55d0ac\n"
              "1,t,free,0x100,64,0x55d0ac\n"
              "1,t,allocate,0x100,64,0\n"
              "1,t,allocate,0x300,64,0x0\n");
    ck_assert_uint_eq(trace->num_streams, 3);
    ck_assert_uint_eq(trace->streams[0], 0x55d0ab);
    ck_assert_uint_eq(trace->streams[1], 0x55d0ac);
    ck_assert_uint_eq(trace->streams[2], 0);
    ck_assert_uint_eq(trace->events[2].stream, 1);
    ck_assert_uint_eq(trace->events[4].stream, 2);
}

TEST(headers_blank_lines_and_carriage_returns_do_not_matter)
{
    read_good("1,t,allocate,0x100,64,0\r\n\r\n" HEADER
              "\n 1 , t , free , 0x100 , 64 , 0 \r\n");
    ck_assert_uint_eq(trace->num_events, 2);
}

TEST(the_last_line_may_lack_its_end)
{
    read_good("1,t,allocate,0x100,64,0\n1,t,free,0x100,64,0");
    ck_assert_uint_eq(trace->num_events, 2);
}

TEST(an_address_may_be_used_again)
{
    read_good("1,t,allocate,0x100,64,0\n"
              "1,t,free,0x100,64,0\n"
              "1,t,allocate,0x100,32,0\n"
              "1,t,free,0x100,32,0\n");
    ck_assert_uint_eq(trace->num_allocations, 2);
    ck_assert_uint_eq(trace->events[3].allocation, 1);
    ck_assert_uint_eq(trace->remarks[TRACE_TWICE].num, 0);
}

#define NUM_LIVE 5000u

/* 7919 and NUM_LIVE have no common factor: each allocation is freed once. */
TEST(each_free_finds_its_allocation_among_many)
{
    char  *text;
    size_t size;
    FILE  *stream = open_memstream(&text, &size);

    for (unsigned i = 0; i < NUM_LIVE; i++) {
        fprintf(stream, "1,t,allocate,0x%x,64,0\n", (i + 1) * 256);
    }
    for (unsigned i = 0; i < NUM_LIVE; i++) {
        fprintf(stream, "1,t,free,0x%x,64,0\n",
                (i * 7919 % NUM_LIVE + 1) * 256);
    }
    fclose(stream);
    read_good(text);
    free(text);
    ck_assert_uint_eq(trace->num_events, 2 * NUM_LIVE);
    ck_assert_uint_eq(trace->remarks[TRACE_UNKNOWN].num, 0);
    for (unsigned i = 0; i < NUM_LIVE; i++) {
        ck_assert_uint_eq(trace->events[NUM_LIVE + i].allocation,
                          i * 7919 % NUM_LIVE);
    }
}

TEST(allocations_that_failed_when_logged_are_counted_and_skipped)
{
    read_good("1,t,allocate,0x100,64,0\n"
              "1,t,allocate failure,(nil),999,0\n"
              "1,t,allocate failure,0x0,999,0x1\n");
    ck_assert_uint_eq(trace->num_events, 1);
    ck_assert_uint_eq(trace->remarks[TRACE_FAILED].num, 2);
    ck_assert_uint_eq(trace->num_left, 1);
}

TEST(streams_without_played_events_do_not_count)
{
    read_good("1,t,free,0x900,64,0x10\n"
              "2,t,allocate failure,(nil),64,0x20\n"
              "3,t,allocate,0x100,64,0x30\n");
    ck_assert_uint_eq(trace->num_streams, 1);
    ck_assert_uint_eq(trace->streams[0], 0x30);
}

TEST(a_free_of_an_unknown_address_is_reported)
{
    read_good("1,t,free,0x900,64,0\n"
              "1,t,allocate,0x100,64,0\n"
              "1,t,free,0x100,64,0\n"
              "1,t,free,0x100,64,0\n"
              "1,t,free,(nil),64,0\n");
    ck_assert_uint_eq(trace->num_events, 2);
    ck_assert_uint_eq(trace->remarks[TRACE_UNKNOWN].num, 3);
    ck_assert_uint_eq(trace->remarks[TRACE_UNKNOWN].line, 1);
}

TEST(an_address_allocated_twice_is_freed_first)
{
    read_good("1,t,allocate,0x100,64,0\n"
              "1,t,allocate,0x100,32,0\n"
              "1,t,free,0x100,32,0\n");
    ck_assert_uint_eq(trace->num_events, 4);
    ck_assert(trace->events[1].is_free);
    ck_assert_uint_eq(trace->events[1].allocation, 0);
    ck_assert_uint_eq(trace->remarks[TRACE_TWICE].num, 1);
    ck_assert_uint_eq(trace->remarks[TRACE_TWICE].line, 2);
    ck_assert_uint_eq(trace->peak_live, 64);
}

TEST(the_size_of_the_allocation_counts_not_of_its_free)
{
    read_good("1,t,allocate,0x100,64,0\n"
              "1,t,free,0x100,63,0\n");
    ck_assert_uint_eq(trace->num_events, 2);
    ck_assert_uint_eq(trace->remarks[TRACE_OTHER_SIZE].num, 1);
    ck_assert_uint_eq(trace->remarks[TRACE_OTHER_SIZE].line, 2);
}

TEST(calls_for_0_bytes_are_skipped)
{
    read_good("1,t,allocate,(nil),0,0\n"
              "1,t,free,(nil),0,0\n"
              "1,t,allocate,0x100,64,0\n");
    ck_assert_uint_eq(trace->num_events, 1);
    ck_assert_uint_eq(trace->remarks[TRACE_EMPTY].num, 2);
}

TEST(bad_lines_are_reported_with_their_line_numbers)
{
    assert_bad("1,t,allocate,0x200,64", "5 fields");
    assert_bad("1,t,allocate,0x200,64,0,0", "7 fields");
    assert_bad("nonsense", "1 fields");
    assert_bad("one,t,allocate,0x200,64,0", "thread is not a number: one");
    assert_bad(",t,allocate,0x200,64,0", "thread is not a number");
    assert_bad("-1,t,allocate,0x200,64,0", "thread is not a number");
    assert_bad("1,t,realloc,0x200,64,0", "action is not allocate");
    assert_bad("1,t,,0x200,64,0", "action is not allocate");
    assert_bad("1,t,allocate,here,64,0", "pointer is not an address: here");
    assert_bad("1,t,allocate,0x,64,0", "pointer is not an address");
    assert_bad("1,t,allocate,,64,0", "pointer is not an address");
    assert_bad("1,t,allocate,0x11112222333344445,64,0", "not an address");
    assert_bad("1,t,allocate,(nil),64,0", "has no address");
    assert_bad("1,t,allocate,0x200,0x40,0", "size is not a number");
    assert_bad("1,t,allocate,0x200,-64,0", "size is not a number");
    assert_bad("1,t,allocate,0x200,18446744073709551616,0", "size is no");
    assert_bad("1,t,allocate,0x200,64,default", "stream is neither");
}

TEST(a_log_without_allocations_is_rejected)
{
    ck_assert_ptr_null(read_text(HEADER));
    assert_has(said, "contains no allocation");
    ck_assert_ptr_null(read_text("1,t,free,0x100,64,0\n"));
    assert_has(said, "contains no allocation");
}

TEST(too_many_streams_are_reported)
{
    char  *text;
    size_t size;
    FILE  *stream = open_memstream(&text, &size);

    for (unsigned i = 0; i <= TRACE_MAX_STREAMS; i++) {
        fprintf(stream, "1,t,allocate,0x%x,64,0x%x\n", (i + 1) * 64, i);
    }
    fclose(stream);
    ck_assert_ptr_null(read_text(text));
    assert_has(said, "there are too many of these: streams");
    free(text);
}

TEST(a_missing_file_is_reported)
{
    ck_assert_ptr_null(log_read("/nonexistent/a.csv"));
}

TEST(divided_sizes_are_rounded_up)
{
    read_good("1,t,allocate,0x100,64,0\n"
              "1,t,allocate,0x200,65,0\n"
              "1,t,allocate,0x300,1,0\n");
    trace_scale(trace, 16);
    trace_survey(trace);
    ck_assert_uint_eq(trace->sizes[0], 4);
    ck_assert_uint_eq(trace->sizes[1], 5);
    ck_assert_uint_eq(trace->sizes[2], 1);
    ck_assert_uint_eq(trace->peak_live, 10);
    ck_assert_uint_eq(trace->divisor, 16);
}
