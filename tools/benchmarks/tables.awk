# Prints the tables of the page, in Markdown. Run it after results.awk.

# figure(JOB, SIDE, KEY) - returns the rate, or the time of a round trip, for
# that one of the side's times.
function figure(job, side, key,    time) {
    time = field(sides[job, side], key)
    return trips[job] ? sprintf("%.2f us", time * 1e6) \
        : sprintf("%.3g GB/s", \
            field(sides[job, side], "gb_per_s") * seconds[job, side] / time)
}

# pool_figure(JOB, LINE) - returns the figure of the pool's side that the ratio
# names, or of the pool's first side, with its 5th and 95th percentiles.
function pool_figure(job, line,    name, side, low, high) {
    name = field(line, "pool")
    side = name == "" ? 1 : side_of[job, name]
    low  = figure(job, side, trips[job] ? "seconds_p05" : "seconds_p95")
    high = figure(job, side, trips[job] ? "seconds_p95" : "seconds_p05")
    sub(/ .*/, "", low)
    sub(/ .*/, "", high)
    return figure(job, side, "seconds") " (" low " to " high ")" \
        (name == "" ? "" : ", pieces")
}

function row(job, line) {
    printf "| %s, %s | %s | %s | %s | %.2f | %.2f to %.2f |\n", tests[job],
        works[job], pool_figure(job, line), field(line, "against"),
        figure(job, side_of[job, field(line, "against")], "seconds"),
        field(line, "ratio"), field(line, "p05"), field(line, "p95")
}

# alone(JOB) - prints the rows of the pool if there is nothing to compare with.
function alone(job,    i, name) {
    for (i = 1; i <= num_sides[job]; i++) {
        name = i == 1 ? "" : field(sides[job, i], "side")
        if (field(sides[job, i], "missing") == "") {
            printf "| %s, %s | %s | none | | | |\n", tests[job], works[job],
                pool_figure(job, "\"pool\": \"" name "\"")
        }
    }
}

# note(TEXT) - prints the text under the table, once.
function note(text) {
    if (!(text in noted)) {
        noted[text] = 1
        notes = notes "- " text "\n"
    }
}

function note_sides(job,    i, line) {
    if (gpus[job] != "") {
        note("The buffers are in the memory of " gpus[job])
    }
    for (i = 1; i <= num_sides[job]; i++) {
        line = sides[job, i]
        if (field(line, "missing") != "") {
            note(tests[job] ", " works[job] ": " field(line, "side") \
                " is missing: " field(line, "missing"))
        }
        if (field(line, "buffers_moved") != "") {
            note(field(line, "side") " transfers at most " \
                commas(field(line, "buffers_moved")) \
                " buffers of a message. Its figure is scaled to all of them")
        }
    }
}

function end_table() {
    if (notes != "") {
        printf "\n%s", notes
    }
    notes = ""
    split("", noted)
}

END {
    for (job = 1; job <= num_jobs; job++) {
        if (wires[job] != wires[job - 1]) {
            end_table()
            printf "\n| work (%s) | the pool (5%% to 95%%) | against " \
                "| its figure | ratio | ratio, 5%% to 95%% |\n" \
                "|---|---|---|---|---|---|\n", wires[job]
        }
        if (missing[job] != "") {
            printf "| %s, %s | none: %s | | | | |\n", tests[job], works[job],
                missing[job]
        }
        if (num_ratios[job] == 0) {
            alone(job)
        }
        for (i = 1; i <= num_ratios[job]; i++) {
            if (field(ratios[job, i], "counts") == "true") {
                row(job, ratios[job, i])
            }
        }
        note_sides(job)
    }
    end_table()
}
