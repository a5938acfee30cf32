#include "perf/plot.h"
#include "common/gnuplot.h"
#include "perf/error.h"
#include "perf/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Of the axis, so that the figure over the highest bar is inside. */
#define HEADROOM 1.12

int plot_check(void)
{
    if (system("gnuplot --version >/dev/null 2>&1") != 0) {
        return perf_error("--plot needs gnuplot, which is not on PATH: install "
                          "it (Debian: gnuplot-nox), or leave --plot out");
    }
    return 0;
}

static unsigned color_of(uint32_t mode)
{
    switch (mode) {
    case MODE_PEER:
        return 1;
    case MODE_NONE:
        return 2;
    case MODE_COPY:
        return 3;
    default:
        return 0;
    }
}

static double value_of(const job_result_t *result, unsigned side)
{
    double seconds = result->sides[side].median;

    switch (test_find(result->job.test)->unit) {
    case TEST_UNIT_TRIP:
        return seconds * 1e6;
    case TEST_UNIT_MESSAGES:
        return job_message_rate(&result->job, seconds);
    default:
        return job_rate(&result->job, seconds);
    }
}

/* Does this result belong in the picture? */
static bool fits(const job_result_t *result, test_unit_t unit)
{
    return (result->job.num_sides != 0) &&
           (test_find(result->job.test)->unit == unit);
}

static const char *axis_title(test_unit_t unit)
{
    switch (unit) {
    case TEST_UNIT_TRIP:
        return "microseconds, there and back (less is better)";
    case TEST_UNIT_MESSAGES:
        return "million messages per second (more is better)";
    default:
        return "GB/s (more is better)";
    }
}

static bool is_drawn(const job_result_t *result, unsigned side)
{
    return result->sides[side].missing[0] == '\0';
}

static unsigned num_drawn(const job_result_t *result)
{
    unsigned num = 0;

    for (unsigned i = 0; i < result->job.num_sides; i++) {
        num += is_drawn(result, i) ? 1 : 0;
    }
    return num;
}

/* One data block: x, value, colour, label below; returns the next free x. */
static unsigned print_data(const job_result_t *results, unsigned num_results,
                           test_unit_t unit, FILE *stream)
{
    char     name[SIDE_NAME_SIZE];
    unsigned x = 0;

    fprintf(stream, "$bars << EOD\n");
    for (unsigned i = 0; i < num_results; i++) {
        for (unsigned k = 0;
             fits(&results[i], unit) && (k < results[i].job.num_sides); k++) {
            if (!is_drawn(&results[i], k)) {
                continue;
            }
            fprintf(stream, "%u %.4g %u \"%s\"\n", x++,
                    value_of(&results[i], k),
                    color_of(results[i].job.sides[k].mode),
                    side_name(results[i].job.sides[k], name));
        }
        x += fits(&results[i], unit) ? 1 : 0;
    }
    fprintf(stream, "EOD\n");
    return x;
}

static void print_group_titles(const job_result_t *results,
                               unsigned num_results, test_unit_t unit,
                               FILE *stream)
{
    char     work[REPORT_TEXT_SIZE];
    unsigned x = 0;

    for (unsigned i = 0; i < num_results; i++) {
        const job_t *job = &results[i].job;

        if (!fits(&results[i], unit)) {
            continue;
        }
        fprintf(stream,
                "set label \"%s\\n%s\" at %.1f, graph 1 center offset 0,2 "
                "noenhanced\n",
                job->test, report_work(&job->work, work),
                x + (num_drawn(&results[i]) - 1) / 2.0);
        x += num_drawn(&results[i]) + 1;
    }
}

static double highest_value(const job_result_t *results, unsigned num_results,
                            test_unit_t unit)
{
    double highest = 0;

    for (unsigned i = 0; i < num_results; i++) {
        for (unsigned k = 0;
             fits(&results[i], unit) && (k < results[i].job.num_sides); k++) {
            if (is_drawn(&results[i], k) &&
                (value_of(&results[i], k) > highest)) {
                highest = value_of(&results[i], k);
            }
        }
    }
    return highest > 0 ? highest : 1;
}

static bool has_copies(const job_result_t *results, unsigned num_results)
{
    for (unsigned i = 0; i < num_results; i++) {
        for (unsigned k = 0; k < results[i].job.num_sides; k++) {
            if (side_is_copy(results[i].job.sides[k]) &&
                is_drawn(&results[i], k)) {
                return true;
            }
        }
    }
    return false;
}

static void print_script(const job_result_t *results, unsigned num_results,
                         test_unit_t unit, const char *path, FILE *stream)
{
    unsigned width = print_data(results, num_results, unit, stream);

    gnuplot_terminal(path, width < 10 ? 640 : 160 + width * 48, 480, stream);
    fprintf(stream,
            "set encoding utf8\nset style fill solid 1.0 noborder\n"
            "set boxwidth 0.8\nset border 3 lc rgb \"#808080\"\n"
            "set tics nomirror\nset xtics rotate by -40 noenhanced\n"
            "set grid y lc rgb \"#e0e0e0\"\nset ylabel \"%s\"\n"
            "set xrange [-0.7:%.1f]\nset yrange [0:%.4g]\n"
            "set tmargin 5\nset rmargin 6\n"
            "set key outside bottom center horizontal\n"
            "array c[4] = [0x1b7837, 0xb2182b, 0x7f8fa6, 0xd9a441]\n",
            axis_title(unit), width - 1.3,
            HEADROOM * highest_value(results, num_results, unit));
    print_group_titles(results, num_results, unit, stream);
    fprintf(stream,
            "plot $bars using 1:2:(c[$3+1]):xtic(4) with boxes lc rgb "
            "variable notitle, \\\n"
            "  '' using 1:2:(sprintf('%%.3g', $2)) with labels offset 0,0.6 "
            "notitle, \\\n"
            "  NaN with boxes lc rgb c[1] title 'the pool, failure handling "
            "on', \\\n"
            "  NaN with boxes lc rgb c[2] title 'raw UCX with failure "
            "handling', \\\n"
            "  NaN with boxes lc rgb c[3] title 'raw UCX without it'%s\n",
            has_copies(results, num_results)
                ? ", \\\n  NaN with boxes lc rgb c[4] title 'copies of the GPU'"
                : "");
}

/* What the picture is of: rates, where there are any. */
static test_unit_t choose_unit(const job_result_t *results,
                               unsigned            num_results)
{
    static const test_unit_t units[] = {TEST_UNIT_RATE, TEST_UNIT_MESSAGES};

    for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        for (unsigned k = 0; k < num_results; k++) {
            if (fits(&results[k], units[i])) {
                return units[i];
            }
        }
    }
    return TEST_UNIT_TRIP;
}

int plot_draw(const job_result_t *results, unsigned num_results,
              const char *path, FILE *stream)
{
    test_unit_t unit = choose_unit(results, num_results);
    gnuplot_t   gnuplot;

    if (gnuplot_start(&gnuplot) != 0) {
        return perf_error("gnuplot does not start: %s", strerror(errno));
    }
    print_script(results, num_results, unit, path, gnuplot.script);
    return gnuplot_finish(&gnuplot, stream) == 0
               ? 0
               : perf_error("gnuplot could not draw for %s: its own message "
                            "says why",
                            path);
}
