#include <config.h>

#include "replay/picture.h"
#include "replay/error.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

int picture_check(void)
{
    if (system("gnuplot --version >/dev/null 2>&1") != 0) {
        return replay_error("--picture needs gnuplot, which is not on PATH: "
                            "install it (Debian: gnuplot-nox), or leave "
                            "--picture out");
    }
    return 0;
}

/* Text in a gnuplot string of single quotes. */
static void print_quoted(const char *text, FILE *stream)
{
    fputc('\'', stream);
    for (; *text != '\0'; text++) {
        fputc(*text, stream);
        if (*text == '\'') {
            fputc('\'', stream);
        }
    }
    fputc('\'', stream);
}

/* One data block for each allocator: event, live, held. */
static void print_data(const report_t *report, FILE *stream)
{
    for (unsigned i = 0; i < report->num_measures; i++) {
        const curve_t *curve = &report->measures[i].curve;

        fprintf(stream, "$curve%u << EOD\n", i);
        for (size_t k = 0; k < curve->num; k++) {
            fprintf(stream, "%zu %" PRIu64 " %" PRIu64 "\n",
                    curve->points[k].event, curve->points[k].live,
                    curve->points[k].reserved);
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

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text);

    return (length >= strlen(end)) &&
           (strcmp(text + length - strlen(end), end) == 0);
}

static void print_script(const report_t *report, const char *path,
                         FILE *stream)
{
    double      unit;
    const char *unit_name = unit_of(report, &unit);

    print_data(report, stream);
    fprintf(stream,
            "set terminal %s size 960,480 font \"sans-serif,12\" background "
            "\"white\"\nset output ",
            ends_with(path, ".png") ? "png" : "svg");
    print_quoted(path, stream);
    fprintf(stream, "\nset title ");
    print_quoted(report->trace->name, stream);
    fprintf(stream,
            " noenhanced\nset encoding utf8\nset border 3 lc rgb \"#808080\"\n"
            "set tics nomirror\nset grid y lc rgb \"#e0e0e0\"\n"
            "set xlabel \"calls\"\nset ylabel \"%s\"\n"
            "set xrange [0:%zu]\nset yrange [0:*]\n"
            "set key outside bottom center horizontal\nset rmargin 4\n"
            "array c[4] = [0x1b7837, 0xb2182b, 0x2166ac, 0xd9a441]\n"
            "plot $curve0 using 1:($2/%.0f) with filledcurves y1=0 lc rgb "
            "\"#d0d0d0\" title 'live'",
            unit_name, report->trace->num_events, unit);
    for (unsigned i = 0; i < report->num_measures; i++) {
        fprintf(stream,
                ", \\\n  $curve%u using 1:($3/%.0f) with steps lw 2 lc rgb "
                "c[%u] title '%s holds'",
                i, unit, i + 1, report->measures[i].kind->name);
    }
    fprintf(stream, "\n");
}

int picture_draw(const report_t *report, const char *path)
{
    FILE *gnuplot;
    int   status;

    signal(SIGPIPE, SIG_IGN);
    gnuplot = popen("gnuplot", "w");
    if (gnuplot == NULL) {
        return replay_error("gnuplot does not start: %s", strerror(errno));
    }
    print_script(report, path, gnuplot);
    status = pclose(gnuplot);
    if (!WIFEXITED(status) || (WEXITSTATUS(status) != 0)) {
        return replay_error("gnuplot could not write %s: its own message says "
                            "why",
                            path);
    }
    return 0;
}
