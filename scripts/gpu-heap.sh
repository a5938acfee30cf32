# The measurements of ./run-gpu-tests that compare the heap with other
# allocators, such as RMM, and the test of RMM's resource. Sourced by bash after
# gpu-steps.sh, with $out, $quick, $rmm, $stand_in and $given.


# --- RMM ----------------------------------------------------------------

# make_rmm DIR - build the plug-ins for RMM, and the test of RMM's resource, in
# DIR, if possible.
make_rmm() {
    try 'RMM as a plug-in' 300 sh "$top/tests/make_rmm_plugins.sh" "$rmm" "$1" \
        "$(library)"
}

# find_rmm - print the directory with RMM's plug-ins: given by --rmm, stored by
# --pack next to the builds, or built from wheels before. Prints nothing if no
# directory has them.
find_rmm() {
    local folder
    for folder in "$rmm" "$build/../rmm" "$work/gpu-rmm"; do
        if [ -n "$folder" ] && [ -e "$folder/rmm_pool.so" ] &&
            [ -e "$folder/rmm_arena.so" ]; then
            cd "$folder" && pwd
            return
        fi
    done
}

# need_rmm - set $folder to the directory with RMM's plug-ins, which are built
# from wheels if necessary. Without RMM, $folder is empty.
need_rmm() {
    folder=$(find_rmm)
    if [ -z "$folder" ] && [ -n "$rmm" ] && make_rmm "$work/gpu-rmm"; then
        folder=$work/gpu-rmm
    fi
}

# RMM's resource (ucxpool/rmm.hpp) on a real GPU.
test_rmm_resource() {
    local folder label='RMM resource on the heap'
    if [ $stand_in = yes ]; then
        skip "$label" 'tests/test_rmm.sh runs it on the stand-in'
        return
    fi
    need_rmm
    if [ ! -x "$folder/test_rmm" ]; then
        skip "$label" 'give --rmm DIR'
    else
        try "$label" 300 env \
            LD_LIBRARY_PATH="$(dirname "$(library)")" "$folder/test_rmm"
    fi
}

# --- measurements -------------------------------------------------------

# csv KIND WORKLOAD - print the name of the file for the results of a run of
# ucxpool_replay.
csv() {
    printf '%s/heap-%s.csv' "$out" "$(printf '%s' "$1-$2" |
        tr -cs 'A-Za-z0-9' -)"
}

# play KIND WORKLOAD SECONDS ALLOCATORS OPTION... - run ucxpool_replay. If the
# run takes longer than SECONDS, it is skipped.
play() {
    local kind=$1 workload=$2 time=$3 names=$4
    shift 4
    if [ ${#plugins[@]} -eq 0 ]; then
        names=$(tr , '\n' <<<"$names" | grep -v '^rmm-' | paste -s -d ,)
        [ -n "$names" ] || return 0
    fi
    # A run that exceeds the inner limit is skipped, and does not fail.
    try "heap: $kind, $workload, $names" $((time + 30)) sh -c '
        time=$1
        csv=$2
        shift 2
        code=0
        timeout "$time" "$@" >"$csv" || code=$?
        if [ $code -eq 124 ]; then
            echo "not done in $time s"
            exit 77
        fi
        exit $code' sh "$time" "$(csv "$kind-${names//[^a-z]/}" "$workload")" \
        "$build/tools/ucxpool_replay" -d cuda -w "$workload" "${plugins[@]}" \
        -a "$names" --csv "$@"
}

# RMM's random workload. RMM takes half of the GPU in advance, so the heap is
# measured both without a reservation and with one of the same size. Runs that
# take seconds are done only once. cuMemAllocAsync runs alone, because it may
# exceed the limit.
measure_random() {
    local num rounds
    if [ $quick = yes ]; then
        play run rmm:100,1 60 heap,async,rmm-pool,rmm-arena -r 2
        play reserved rmm:100,1 60 heap -r 2 --reserve 50%
        return
    fi
    for num in 1000,64 1000,1024 10000,4 10000,64 10000,1024 10000,4096 \
        100000,64; do
        rounds=2
        [ "${num#*,}" -le 64 ] || rounds=1
        play run rmm:$num 20 heap,rmm-pool,rmm-arena -r 2
        play reserved rmm:$num 15 heap -r 2 --reserve 50%
        play run rmm:$num 15 async -r $rounds
    done
}

# Measure allocations of all free memory when it is in scattered pieces.
measure_checkerboards() {
    local all=heap,async,rmm-pool,rmm-arena size
    if [ $quick = yes ]; then
        play board checkerboard:4,64m 60 $all -r 1
        play board aba 60 $all -r 1 -s 1/64
        return
    fi
    for size in 2 8 32 128; do
        play board checkerboard:$size 20 $all -r 1
    done
    play board aba 20 $all -r 1
}

# Set $plugins to the options for ucxpool_replay. If RMM does not work, the
# other allocators are measured without it.
take_rmm() {
    local folder name
    local label='heap: compared with RMM'
    plugins=()
    need_rmm
    if [ -z "$folder" ]; then
        skip "$label" 'give --rmm DIR'
        return
    fi
    for name in pool arena; do
        plugins+=(-p "rmm-$name=$folder/rmm_$name.so")
    done
    try "$label" 60 "$build/tools/ucxpool_replay" -d cuda -w pair:1k,10 -r 1 \
        "${plugins[@]}" -a rmm-pool,rmm-arena || plugins=()
}

measure_heap() {
    local -a options=()
    take_rmm
    [ $quick = no ] || options+=(--quick)
    [ ${#plugins[@]} -eq 0 ] || options+=("${plugins[1]}" "${plugins[3]}")
    try 'heap: calls, and memory that is stitched' 100 \
        "$build/tests/bench_heap_cuda" "${options[@]}"
    measure_checkerboards
    measure_random
}

# --- the page -----------------------------------------------------------

# results KIND WORKLOAD - print the results of a workload, as CSV without commas
# in names.
results() {
    local file
    for file in "$out/heap-$1"-*"-$(tr -cs 'A-Za-z0-9\n' - <<<"$2").csv"; do
        [ ! -s "$file" ] || sed 's/^"[^"]*"/trace/' "$file"
    done
}

# row WHAT WORKLOAD RIVALS - print a line of a table, with the result of each
# allocator for that workload.
row() {
    {
        results "$1" "$2"
        [ "$1" != run ] || results reserved "$2" | sed 's/,heap,/,reserved,/'
    } | awk -F, -v what="$1" -v workload="$2" -v rivals="$3" '
        function time(ns) {
            if (ns < 1e3) return sprintf("%d ns", ns)
            if (ns < 999500) return sprintf("%.3g us", ns / 1e3)
            if (ns < 999.5e6) return sprintf("%.3g ms", ns / 1e6)
            return sprintf("%.2f s", ns / 1e9)
        }
        function larger(a, b) { return a + 0 > b + 0 ? a : b }
        function value(name) { return $(column[name]) }
        $1 == "trace" && $2 == "divisor" {
            for (i = 1; i <= NF; i++) column[$i] = i
            next
        }
        {
            live = value("peak_live")
            first = value("first_run_ns")
            later = value("later_runs_ns")
            failures = value("failures")
            if (failures > 0) {
                text = "fails"
                if (first > 0 && what == "run") text = text " (" failures ")"
            } else if (what == "run") {
                text = sprintf("%s; %s; %s; %.2f", time(first),
                    later > 0 ? time(later) : "-",
                    time(larger(value("alloc_p99_ns"), value("free_p99_ns"))),
                    live > 0 ? value("peak_reserved") / live : 0)
            } else if (what == "board") {
                text = "passes; " time(first) "; " time(value("alloc_max_ns"))
            }
            cell[value("allocator")] = text
        }
        END {
            num = split(rivals, names, " ")
            printf "| `%s` |", workload
            for (i = 1; i <= num; i++) {
                printf " %s |", names[i] in cell ? cell[names[i]] : "-"
            }
            printf "\n"
        }'
}

# rows WHAT HEAD WORKLOAD... - print a table.
rows() {
    local what=$1 head=$2 name
    local rivals='heap async rmm-pool rmm-arena'
    local names='heap | cuMemAllocAsync | RMM pool | RMM arena'
    if [ "$what" = run ]; then
        rivals=${rivals/heap/heap reserved}
        names=${names/heap/heap | heap, reserved}
    fi
    printf '\n| %s | %s |\n' "$head" "$names"
    printf '|---%.0s' x $rivals
    echo '|'
    shift 2
    for name in "$@"; do
        row "$what" "$name" "$rivals"
    done
}

heap_page() {
    local -a boards=(checkerboard:{2,8,32,128} aba)
    local -a runs=(rmm:1000,{64,1024} rmm:10000,{4,64,1024,4096} rmm:100000,64)
    if [ $quick = yes ]; then
        boards=(checkerboard:4,64m aba)
        runs=(rmm:100,1)
    fi
    printf '\n## The heap and other allocators\n\n'
    printed 'heap: calls, and memory that is stitched'
    printf '\n### What passes\n\n'
    echo 'A checkerboard of k MiB in 8 GiB, and what `aba` asks for, as'
    echo '`ucxpool_replay` plays them: the first run (of a checkerboard, the one'
    echo 'allocation that is asked for), and the longest allocation of a later one.'
    rows board 'workload' "${boards[@]}"
    printf '\n### Random sizes\n\n'
    echo "RMM's random workload: the first run; a later one; p99 of a call;"
    echo 'the most memory held, of the peak of live bytes. RMM has taken half of'
    echo 'the GPU before; so has the heap where it has reserved it.'
    rows run 'workload' "${runs[@]}"
}
