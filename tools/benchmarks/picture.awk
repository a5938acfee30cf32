# Writes a gnuplot script that draws, for each wire, the rates of the pool and of
# raw UCX's best way, with and without failure handling. Needs -v path=FILE.svg.
# Run it after results.awk.

# The ways of raw UCX, for readers who do not know the names of the tests.
BEGIN {
    words["each"] = "a message each"
    words["iov"]  = "IOV datatype"
    words["comm"] = "comm memory"
    words["any"]  = "any memory"
}

# best(JOB, MODE) - returns the side of this mode whose ratio counts.
function best(job, mode,    i, name) {
    for (i = 1; i <= num_ratios[job]; i++) {
        name = field(ratios[job, i], "against")
        if (field(ratios[job, i], "counts") == "true" &&
            substr(name, index(name, "/") + 1) == mode) {
            return side_of[job, name]
        }
    }
    return 0
}

function bar(job, side, color) {
    if (side != 0) {
        printf "%d %s %d\n", 4 * num_groups + color, rates[job, side], color
    }
}

function quote(text) {
    gsub(/'/, "''", text)
    return "'" text "'"
}

function panel(wire,    job, tics) {
    num_groups = 0
    tics       = ""
    printf "$%s << EOD\n", wire
    for (job = 1; job <= num_jobs; job++) {
        if (wires[job] != wire || trips[job]) {
            continue
        }
        bar(job, 1, 0)
        bar(job, best(job, "peer"), 1)
        bar(job, best(job, "none"), 2)
        tics = tics (num_groups ? ", " : "") "\"" works[job] "\\n" \
            words[tests[job]] "\" " 4 * num_groups + 1
        num_groups++
    }
    printf "EOD\n"
    if (num_groups == 0) {
        return
    }
    printf "set xtics (%s)\nset xrange [-1:%d]\n", tics, 4 * num_groups - 1
    printf "set label 1 'wire %s' at graph 0.01,0.95 font ',13'\n", wire
    printf "plot $%s using 1:2:(c[$3+1]) with boxes lc rgb variable notitle, " \
        "'' using 1:2:(sprintf($2 < 1 ? '%%.2g' : '%%.1f', $2)) with labels " \
        "font ',10' offset 0,0.5 notitle, NaN with boxes lc rgb c[1] " \
        "title 'the pool, failure handling on', NaN with boxes lc rgb c[2] title 'raw UCX, failure " \
        "handling on', NaN with boxes lc rgb c[3] title 'raw UCX, " \
        "failure handling off'\n", wire
}

END {
    printf "set terminal svg size 900,640 font 'sans-serif,12' background " \
        "'white'\nset output %s\n", quote(path)
    printf "set encoding utf8\nset style fill solid 1.0 noborder\n" \
        "set boxwidth 0.9\nset border 3 lc rgb '#808080'\n" \
        "set tics nomirror noenhanced\nset grid y lc rgb '#e0e0e0'\n" \
        "set ylabel 'GB/s (more is better)'\nset yrange [0:*]\n" \
        "set offsets 0,0,graph 0.15,0\n" \
        "set key at screen 0.5,0.93 center horizontal maxrows 1 samplen 1.5 font ',11'\n" \
        "array c[3] = [0x1b7837, 0xb2182b, 0x7f8fa6]\n"
    printf "set multiplot layout 2,1 margins 0.07,0.99,0.08,0.89 spacing 0.13 " \
        "title 'libucxpool %s and UCX %s, two processes on one host'\n",
        libucxpool, ucx
    panel("map")
    printf "unset key\n"
    panel("ucx")
    printf "unset multiplot\n"
}
