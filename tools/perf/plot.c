/*
 * Draws the picture by gnuplot, with a bar for each side. gnuplot reads the
 * script and returns the picture, and this process writes the file. If gnuplot
 * wrote the file itself, its errors would name its own script.
 */
#include <config.h>

#include "common/error.h"
#include "perf/report.h"
#include "perf/test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

/* --- gnuplot -------------------------------------------------------------- */

int report_plot_check(void)
{
    if (system("gnuplot --version >/dev/null 2>&1") != 0) {
        return tool_error("--plot needs gnuplot, which is not on PATH: install "
                          "it (Debian: gnuplot-nox), or leave --plot out");
    }
    return 0;
}

static FILE *gnuplot_begin(void)
{
    /* gnuplot inherits this descriptor. */
    int   fd     = memfd_create("gnuplot", 0);
    FILE *script = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (script == NULL) {
        tool_error("no memory for gnuplot's script: %s", strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
    }
    return script;
}

/* Copy the picture to a stream. Returns the number of bytes. */
static size_t gnuplot_copy(FILE *picture, FILE *stream)
{
    char   data[4096];
    size_t length = 0;
    size_t got;

    while ((got = fread(data, 1, sizeof(data), picture)) > 0) {
        fwrite(data, 1, got, stream);
        length += got;
    }
    return length;
}

static int gnuplot_run(FILE *script, const char *path, FILE *stream)
{
    char   command[64];
    FILE  *picture;
    size_t length;

    if ((fflush(script) != 0) || ferror(script)) {
        return tool_error("gnuplot's script cannot be written: %s",
                          strerror(errno));
    }
    /* In other locales gnuplot warns that it cannot write a degree sign. */
    snprintf(command, sizeof(command),
             "LC_ALL=C.UTF-8 exec gnuplot </dev/fd/%d", fileno(script));
    picture = popen(command, "re");
    if (picture == NULL) {
        return tool_error("gnuplot does not start: %s", strerror(errno));
    }
    length = gnuplot_copy(picture, stream);
    return (pclose(picture) == 0) && (length > 0)
               ? 0
               : tool_error("gnuplot could not draw for %s: its own message "
                            "says why",
                            path);
}

static void gnuplot_terminal(const char *path, unsigned width, unsigned height,
                             FILE *script)
{
    const char *suffix = strrchr(path, '.');

    fprintf(script,
            "set terminal %s size %u,%u font \"sans-serif,12\" background "
            "\"white\"\n",
            (suffix != NULL) && (strcasecmp(suffix, ".png") == 0) ? "png"
                                                                  : "svg",
            width, height);
}

/* --- the script ----------------------------------------------------------- */

/* The length of the axis leaves room for the number above the highest bar. */
#define HEADROOM 1.12

/* Returns the index of a mode in the array of colours. Index 0 is the pool. */
static unsigned color_of(uint32_t mode)
{
    return mode < MODE_AUTO ? mode - MODE_PEER + 1 : 0;
}

/* The bars drawn so far. */
typedef struct bars {
    unsigned x; /* x position of the next bar; jobs are separated by a gap */
    double   highest;
    bool     has_copies;
} bars_t;

static void print_bars(const job_result_t *result, bars_t *bars, FILE *script)
{
    char name[SIDE_NAME_SIZE];

    for (unsigned i = 0; i < result->job.num_sides; i++) {
        side_t side  = result->job.sides[i];
        double value = report_figure(result, result->sides[i].median);

        if (result->sides[i].missing[0] == '\0') {
            fprintf(script, "%u %.4g %u \"%s\"\n", bars->x++, value,
                    color_of(side.mode), side_name(side, name));
            bars->highest = value > bars->highest ? value : bars->highest;
            bars->has_copies |= side_is(side, IS_COPY);
        }
    }
    bars->x++;
}

/* Print the title above the bars of a job, which start at x. Returns the start
 * of the next job. */
static unsigned print_title(const job_result_t *result, unsigned x,
                            FILE *script)
{
    char     work[REPORT_TEXT_SIZE];
    unsigned num = 0;

    for (unsigned i = 0; i < result->job.num_sides; i++) {
        num += result->sides[i].missing[0] == '\0' ? 1 : 0;
    }
    fprintf(script,
            "set label \"%s\\n%s\" at %.1f, graph 1 center offset 0,2 "
            "noenhanced\n",
            result->job.test, report_work(&result->job.work, work),
            x + (num - 1) / 2.0);
    return x + num + 1;
}

static void print_frame(test_unit_t unit, const bars_t *bars, const char *path,
                        FILE *script)
{
    static const char *const titles[] = {
        [UNIT_RATE]     = "GB/s (more is better)",
        [UNIT_TRIP]     = "microseconds, there and back (less is better)",
        [UNIT_MESSAGES] = "million messages per second (more is better)",
    };

    gnuplot_terminal(path, bars->x < 10 ? 640 : 160 + bars->x * 48, 480,
                     script);
    fprintf(script,
            "set encoding utf8\nset style fill solid 1.0 noborder\n"
            "set boxwidth 0.8\nset border 3 lc rgb \"#808080\"\n"
            "set tics nomirror\nset xtics rotate by -40 noenhanced\n"
            "set grid y lc rgb \"#e0e0e0\"\nset ylabel \"%s\"\n"
            "set xrange [-0.7:%.1f]\nset yrange [0:%.4g]\n"
            "set tmargin 5\nset rmargin 6\n"
            "set key outside bottom center horizontal\n"
            "array c[4] = [0x1b7837, 0xb2182b, 0x7f8fa6, 0xd9a441]\n",
            titles[unit], bars->x - 1.3,
            HEADROOM * (bars->highest > 0 ? bars->highest : 1));
}

static void print_plot(const bars_t *bars, FILE *script)
{
    fprintf(script,
            "plot $bars using 1:2:(c[$3+1]):xtic(4) with boxes lc rgb "
            "variable notitle, \\\n"
            "  '' using 1:2:(sprintf('%%.3g', $2)) with labels offset 0,0.6 "
            "notitle, \\\n"
            "  NaN with boxes lc rgb c[1] title 'the pool, failure handling "
            "on', \\\n"
            "  NaN with boxes lc rgb c[2] title 'raw UCX with failure "
            "handling', \\\n"
            "  NaN with boxes lc rgb c[3] title 'raw UCX without it'%s\n",
            bars->has_copies
                ? ", \\\n  NaN with boxes lc rgb c[4] title 'copies of the GPU'"
                : "");
}

static bool is_of(const job_result_t *result, test_unit_t unit)
{
    return (result->job.num_sides != 0) &&
           (test_find(result->job.test)->unit == unit);
}

/* Choose the unit of the picture: rates, if any job has one. */
static test_unit_t choose_unit(const job_result_t *results,
                               unsigned            num_results)
{
    static const test_unit_t units[] = {UNIT_RATE, UNIT_MESSAGES};

    for (unsigned i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        for (unsigned k = 0; k < num_results; k++) {
            if (is_of(&results[k], units[i])) {
                return units[i];
            }
        }
    }
    return UNIT_TRIP;
}

int report_plot(const void *arg, FILE *stream)
{
    const report_t *report = arg;
    test_unit_t     unit   = choose_unit(report->results, report->num_results);
    bars_t          bars   = {0};
    unsigned        x      = 0;
    FILE           *script = gnuplot_begin();
    int             code;

    if (script == NULL) {
        return -1;
    }
    fprintf(script, "$bars << EOD\n");
    for (unsigned i = 0; i < report->num_results; i++) {
        if (is_of(&report->results[i], unit)) {
            print_bars(&report->results[i], &bars, script);
        }
    }
    fprintf(script, "EOD\n");
    print_frame(unit, &bars, report->plot_path, script);
    for (unsigned i = 0; i < report->num_results; i++) {
        if (is_of(&report->results[i], unit)) {
            x = print_title(&report->results[i], x, script);
        }
    }
    print_plot(&bars, script);
    code = gnuplot_run(script, report->plot_path, stream);
    fclose(script);
    return code;
}
