# fuzz       the fuzz targets of asan with libFuzzer: 10 seconds each
folders[fuzz]=asan
results_at[fuzz]=$work/fuzz

# Each target starts from its corpus and stores new inputs under _build/.
fuzz() {
    local target=$1 name=${1##*/fuzz_}
    mkdir -p "$work/fuzz/found/$name"
    if step "fuzz: $name, 10 seconds" 300 "$target" -max_total_time=10 \
        -timeout=0 -rss_limit_mb=1024 -print_final_stats=1 \
        -artifact_prefix="$work/fuzz/found/" \
        "$work/fuzz/found/$name" "$top/tests/fuzz/corpus/$name"; then
        echo ':test-result: PASS' >"$work/fuzz/$name.trs"
    else
        echo ':test-result: FAIL' >"$work/fuzz/$name.trs"
        return 1
    fi
}

# Run one target per CPU at a time. The output of each target is printed
# in one piece. The function runs in a subshell, which waits only for its own
# processes, and not for other builds.
build_fuzz() (
    running=0 targets=''
    for target in "$work"/asan/tests/fuzz/fuzz_*; do
        [ -x "$target" ] && [ -d "$top/tests/fuzz/corpus/${target##*/fuzz_}" ] ||
            continue
        targets="$targets $target"
        if [ $running -eq "$jobs" ]; then
            wait -n
            running=$((running - 1))
        fi
        fuzz "$target" >"$logs/${target##*/}.said" 2>&1 &
        running=$((running + 1))
    done
    wait
    for target in $targets; do
        cat "$logs/${target##*/}.said"
    done
    ! grep -qs FAIL "$work"/fuzz/*.trs
)
