#include <config.h>

#include "replay/picture.h"
#include "common/gnuplot.h"
#include "replay/error.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NUM_COLORS 6u

int picture_check(void)
{
    if (system("gnuplot --version >/dev/null 2>&1") != 0) {
        return replay_error("--picture needs gnuplot, which is not on PATH: "
                            "install it (Debian: gnuplot-nox), or leave "
                            "--picture out");
    }
    return 0;
}

static void print_point(size_t event, const curve_point_t *point, FILE *stream)
{
    fprintf(stream, "%zu %" PRIu64 " %" PRIu64 "\n", event, point->live,
            point->reserved);
}

/* One data block for each allocator: event, live, held. */
static void print_data(const report_t *report, FILE *stream)
{
    for (unsigned i = 0; i < report->num_measures; i++) {
        const curve_t *curve = &report->measures[i].curve;

        fprintf(stream, "$curve%u << EOD\n", i);
        for (size_t k = 0; k < curve->num; k++) {
            print_point(curve->points[k].event, &curve->points[k], stream);
        }
        if (curve->num > 0) {
            print_point(report->trace->num_events,
                        &curve->points[curve->num - 1], stream);
        }
        fprintf(stream, "EOD\n");
    }
}

/* What is drawn in, so that numbers are short. */
static const char *unit_of(const report_t *report, double *unit_p)
{
    uint64_t peak = report->trace->peak_live;

    if (peak >= UINT64_C(1) << 30) {
        *unit_p = 0x1p30;
        return "GiB";
    }
    if (peak >= UINT64_C(1) << 20) {
        *unit_p = 0x1p20;
        return "MiB";
    }
    *unit_p = 0x1p10;
    return "KiB";
}

/* The first is the widest and lies below, so that those which coincide are seen
 * side by side. */
static double line_width(unsigned index, unsigned num)
{
    double step = num > 4 ? 9.0 / (num - 1) : 3;

    return 2 + step * (num - 1 - index);
}

static void print_curve(const report_t *report, unsigned index, double unit,
                        FILE *stream)
{
    const measure_t *measure = &report->measures[index];
    unsigned         color   = index % NUM_COLORS + 1;
    char             peak[REPORT_SIZE_TEXT];

    report_size(measure->peak_reserved, peak);
    fprintf(stream,
            ", \\\n  $curve%u using 1:($3/%.0f) with steps lw %.2g lc rgb "
            "c[%u] title '%s holds (at most %s)'",
            index, unit, line_width(index, report->num_measures), color,
            measure->kind->name, peak);
    /* In a round that is not drawn, or between two samples. */
    if (measure->peak_reserved > curve_peak(&measure->curve)) {
        fprintf(stream,
                ", \\\n  %.17g with lines lw 1 dt 3 lc rgb c[%u] notitle",
                (double)measure->peak_reserved / unit, color);
    }
}

static void print_script(const report_t *report, const char *path, FILE *stream)
{
    double      unit;
    const char *unit_name = unit_of(report, &unit);

    print_data(report, stream);
    gnuplot_terminal(path, 960, 480, stream);
    fprintf(stream, "set title ");
    gnuplot_quote(report->trace->name, stream);
    fprintf(stream,
            " noenhanced\nset encoding utf8\nset border 3 lc rgb \"#808080\"\n"
            "set tics nomirror\nset grid y lc rgb \"#e0e0e0\"\n"
            "set xlabel \"calls\"\nset ylabel \"%s\"\n"
            "set xrange [0:%zu]\nset yrange [0:*]\n"
            "set key outside bottom center horizontal noenhanced\n"
            "set rmargin 4\n"
            "array c[%u] = [0x1b7837, 0xb2182b, 0x2166ac, 0xd9a441, 0x762a83, "
            "0x35978f]\n"
            "plot $curve0 using 1:($2/%.0f) with fillsteps fs solid "
            "noborder lc rgb \"#d0d0d0\" title 'live'",
            unit_name, report->trace->num_events, NUM_COLORS, unit);
    for (unsigned i = 0; i < report->num_measures; i++) {
        print_curve(report, i, unit, stream);
    }
    fprintf(stream, "\n");
}

int picture_draw(const report_t *report, const char *path, FILE *stream)
{
    gnuplot_t gnuplot;

    if (gnuplot_start(&gnuplot) != 0) {
        return replay_error("gnuplot does not start: %s", strerror(errno));
    }
    print_script(report, path, gnuplot.script);
    return gnuplot_finish(&gnuplot, stream) == 0
               ? 0
               : replay_error("gnuplot could not draw for %s: its own message "
                              "says why",
                              path);
}
