# Prints the table of ucxpool_shuffle's runs, in Markdown. Run it after
# results.awk.

# quantile(VALUES, NUM, FRACTION) - returns a quantile of values[1 .. num], which
# are sorted by insertion.
function quantile(values, num, fraction,    i, k, value) {
    for (i = 2; i <= num; i++) {
        value = values[i]
        for (k = i - 1; k >= 1 && values[k] > value; k--) {
            values[k + 1] = values[k]
        }
        values[k + 1] = value
    }
    i = 1 + (num - 1) * fraction
    k = int(i)
    return k >= num ? values[num] \
        : values[k] + (i - k) * (values[k + 1] - values[k])
}

# collect(KIND, KEY, VALUES) - collects the values of a kind of runs, from 1.
function collect(kind, key, values,    i, num) {
    num = 0
    for (i = 1; i <= num_runs; i++) {
        if (kinds[i] == kind) {
            values[++num] = figures_of[i, key] + 0
        }
    }
    return num
}

function cell(kind, key, format,    values, num) {
    num = collect(kind, key, values)
    return sprintf(format, quantile(values, num, 0.5))
}

function ratio_cell(kind, key,    values, num) {
    num = collect(kind, key, values)
    return sprintf("%.2f (%.2f to %.2f)", quantile(values, num, 0.5),
        values[1], values[num])
}

/^{"ucx": / {
    kind = field($0, "ucx") " | " field($0, "wire")
    if (!(kind in seen)) {
        seen[kind]              = 1
        order_of[++num_kinds]   = kind
    }
    kinds[++num_runs]           = kind
    bytes                       = field(substr($0, index($0, "\"input\"")), \
        "bytes")
    figures_of[num_runs, "mawk"]    = field($0, "mawk_seconds")
    figures_of[num_runs, "shuffle"] = field($0, "shuffle_seconds")
    figures_of[num_runs, "ratio"]   = field($0, "shuffle_seconds") / \
        field($0, "mawk_seconds")
    transfer = substr($0, index($0, "\"transfer\""))
    moved                           = field(transfer, "bytes_received")
    figures_of[num_runs, "cpu"]     = field(transfer, "cpu_seconds")
}

END {
    printf "TPC-H `lineitem` (%.0f MB), input and output in memory files: " \
        "`ucxpool_shuffle -w 2\n-p 8`, each run after one of `mawk -F'|' " \
        "'{ print > (\"out.\" $1 %% 8) }'` on the same\nfile. *Transfer* is " \
        "the CPU time of all calls that move %.0f MB of records\nbetween the " \
        "workers.\n\n", bytes / 1e6, moved / 1e6
    printf "| UCX | wire | mawk | ucxpool_shuffle | of mawk's time | " \
        "transfer |\n|---|---|---|---|---|---|\n"
    for (i = 1; i <= num_kinds; i++) {
        printf "| %s | %s | %s | %s | %s |\n", order_of[i],
            cell(order_of[i], "mawk", "%.2f s"),
            cell(order_of[i], "shuffle", "%.2f s"),
            ratio_cell(order_of[i], "ratio"),
            cell(order_of[i], "cpu", "%.3f s")
    }
}
