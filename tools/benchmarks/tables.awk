# Prints the tables of the page, in Markdown. Run it after results.awk.

function figure(job, side) {
    return trips[job] ? sprintf("%.2f us", seconds[job, side] * 1e6) \
        : sprintf("%.3g GB/s", rates[job, side])
}

# pool_figure(JOB, LINE) - returns the figure of the pool's side that the ratio
# names, or of the pool's first side.
function pool_figure(job, line,    name) {
    name = field(line, "pool")
    return name == "" ? figure(job, 1) : figure(job, side_of[job, name]) ", pieces"
}

function row(job, line) {
    printf "| %s, %s | %s | %s | %s | %.2f | %.2f to %.2f |\n", tests[job],
        works[job], pool_figure(job, line), field(line, "against"),
        figure(job, side_of[job, field(line, "against")]),
        field(line, "ratio"), field(line, "p05"), field(line, "p95")
}

END {
    for (job = 1; job <= num_jobs; job++) {
        if (wires[job] != wires[job - 1]) {
            printf "\n| work (%s) | the pool | against | its figure | ratio " \
                "| 5%% to 95%% |\n|---|---|---|---|---|---|\n", wires[job]
        }
        if (missing[job] != "") {
            printf "| %s, %s | none: %s | | | | |\n", tests[job], works[job],
                missing[job]
        }
        for (i = 1; i <= num_ratios[job]; i++) {
            if (field(ratios[job, i], "counts") == "true") {
                row(job, ratios[job, i])
            }
        }
    }
}
