#include "perf/plot.h"
#include "perf/error.h"
#include "perf/report.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

int plot_check(void)
{
    if (system("gnuplot --version >/dev/null 2>&1") != 0) {
        return perf_error("--plot needs gnuplot, which is not on PATH: install "
                          "it (Debian: gnuplot-nox), or leave --plot out");
    }
    return 0;
}

/* A file name in a gnuplot string of single quotes. */
static void print_path(const char *path, FILE *stream)
{
    fputc('\'', stream);
    for (; *path != '\0'; path++) {
        fputc(*path, stream);
        if (*path == '\'') {
            fputc('\'', stream);
        }
    }
    fputc('\'', stream);
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

    return result->job.work.echo ? seconds * 1e6
                                 : job_rate(&result->job, seconds);
}

/* Does this result belong in the picture? */
static bool fits(const job_result_t *result, bool trips)
{
    return (result->job.num_sides != 0) &&
           (test_find(result->job.test)->unit ==
            (trips ? TEST_UNIT_TRIP : TEST_UNIT_RATE));
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
                           bool trips, FILE *stream)
{
    char     name[SIDE_NAME_SIZE];
    unsigned x = 0;

    fprintf(stream, "$bars << EOD\n");
    for (unsigned i = 0; i < num_results; i++) {
        for (unsigned k = 0;
             fits(&results[i], trips) && (k < results[i].job.num_sides); k++) {
            if (!is_drawn(&results[i], k)) {
                continue;
            }
            fprintf(stream, "%u %.4g %u \"%s\"\n", x++,
                    value_of(&results[i], k),
                    color_of(results[i].job.sides[k].mode),
                    side_name(results[i].job.sides[k], name));
        }
        x += fits(&results[i], trips) ? 1 : 0;
    }
    fprintf(stream, "EOD\n");
    return x;
}

static void print_group_titles(const job_result_t *results,
                               unsigned num_results, bool trips, FILE *stream)
{
    char     work[REPORT_TEXT_SIZE];
    unsigned x = 0;

    for (unsigned i = 0; i < num_results; i++) {
        const job_t *job = &results[i].job;

        if (!fits(&results[i], trips)) {
            continue;
        }
        fprintf(stream,
                "set label \"%s\\n%s\" at %.1f, graph 1.07 center "
                "noenhanced\n",
                job->test, report_work(&job->work, work),
                x + (num_drawn(&results[i]) - 1) / 2.0);
        x += num_drawn(&results[i]) + 1;
    }
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
                         bool trips, const char *path, FILE *stream)
{
    unsigned width = print_data(results, num_results, trips, stream);

    fprintf(stream,
            "set terminal svg size %u,460 font \"sans-serif,12\" background "
            "\"white\"\nset output ",
            width < 10 ? 640 : 160 + width * 48);
    print_path(path, stream);
    fprintf(stream,
            "\nset encoding utf8\nset style fill solid 1.0 noborder\n"
            "set boxwidth 0.8\nset border 3 lc rgb \"#808080\"\n"
            "set tics nomirror\nset xtics rotate by -40 noenhanced\n"
            "set grid y lc rgb \"#e0e0e0\"\nset ylabel \"%s\"\n"
            "set xrange [-1:%u]\nset yrange [0:*]\n"
            "set offsets 0,0,graph 0.08,0\nset tmargin 6\nset rmargin 4\n"
            "set key outside bottom left vertical\n"
            "array c[4] = [0x1b7837, 0xb2182b, 0x7f8fa6, 0xd9a441]\n",
            trips ? "microseconds, there and back (less is better)"
                  : "GB/s (more is better)",
            width);
    print_group_titles(results, num_results, trips, stream);
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

int plot_draw(const job_result_t *results, unsigned num_results,
              const char *path)
{
    bool  trips = true;
    FILE *gnuplot;
    int   status;

    for (unsigned i = 0; i < num_results; i++) {
        trips = trips && !fits(&results[i], false);
    }
    signal(SIGPIPE, SIG_IGN);
    gnuplot = popen("gnuplot", "w");
    if (gnuplot == NULL) {
        return perf_error("gnuplot does not start: %s", strerror(errno));
    }
    print_script(results, num_results, trips, path, gnuplot);
    status = pclose(gnuplot);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0)) {
        return perf_error("gnuplot could not write %s: its own message says "
                          "why",
                          path);
    }
    return 0;
}
