# Reads the output of ucxpool_perf --json, with one side or ratio per line, into
# arrays indexed by the number of the job:
#
#     tests[j] wires[j] works[j] trips[j]     trips: round trips, not a rate
#     missing[j]                              why there are no sides, or ""
#     gpus[j]                                 device and names of GPUs, or ""
#     num_sides[j]  sides[j, i] is the line of a side; seconds[j, i] rates[j, i]
#     num_ratios[j] ratios[j, i] is the line of a ratio; those of the pool's first
#                   side come first
#     side_of[j, NAME] is the number of a side

# field(LINE, KEY) - returns the value of the first such key, without its quotes.
function field(line, key,    at, rest) {
    at = index(line, "\"" key "\": ")
    if (at == 0) {
        return ""
    }
    rest = substr(line, at + length(key) + 4)
    if (rest ~ /^"/) {
        rest = substr(rest, 2)
        sub(/".*/, "", rest)
    } else {
        sub(/[,}].*/, "", rest)
    }
    return rest
}

# commas(NUMBER) - returns 65536 as 65,536.
function commas(number,    text) {
    text = number ""
    while (text ~ /[0-9][0-9][0-9][0-9]($|,)/) {
        match(text, /[0-9][0-9][0-9]($|,)/)
        text = substr(text, 1, RSTART - 1) "," substr(text, RSTART)
    }
    return text
}

function size_words(size) {
    if (size >= 1048576 && size % 1048576 == 0) {
        return size / 1048576 " MiB"
    }
    if (size >= 1024 && size % 1024 == 0) {
        return size / 1024 " KiB"
    }
    return size " B"
}

function work_words(size, count) {
    return (count > 1 ? commas(count) " x " : "") size_words(size)
}

/^  "libucxpool": / { libucxpool = field($0, "libucxpool") }
/^  "ucx": /        { ucx = field($0, "ucx") }

/^ *{"test": / {
    job        = ++num_jobs
    tests[job] = field($0, "test")
    trips[job] = tests[job] ~ /^pingpong/
    works[job] = work_words(field($0, "size"), field($0, "count"))
    wires[job] = field($0, "command")
    sub(/.*--wire /, "", wires[job])
    missing[job] = field($0, "missing")
    if (match($0, /"gpus": \[[^]]*\]/)) {
        gpus[job] = substr($0, RSTART + 9, RLENGTH - 10)
        gsub(/"/, "", gpus[job])
        gpus[job] = field($0, "device") ": " gpus[job]
    }
}

/^ *{"side": / {
    i                  = ++num_sides[job]
    name               = field($0, "side")
    sides[job, i]      = $0
    side_of[job, name] = i
    seconds[job, i]    = field($0, "seconds")
    rates[job, i]      = field($0, "gb_per_s")
}

/^ *{"against": / { ratios[job, ++num_ratios[job]] = $0 }
