# The steps of ./run-gpu-tests: their time limits, logs and results, and the
# builds that they run. Sourced by bash after setup.sh, with $out, $logs,
# $deadline and $driver.

steps=0
failed=0

# record HOW NAME SECONDS [WORDS] - print the result of a step, and store it for
# the summary.
record() {
    steps=$((steps + 1))
    [ "$1" != FAILED ] || failed=$((failed + 1))
    printf '%-7s %5d s%s\n' "$1" "$3" "${4:+  ($4)}"
    printf '%-7s %5d s  %s%s\n' "$1" "$3" "$2" "${4:+ ($4)}" \
        >>"$out/summary.txt"
}

# skip NAME WHY - record a step that cannot run.
skip() {
    printf '  %-54s ' "$1"
    record skipped "$1" 0 "$2"
}

# log_of NAME - print the name of a step's log file.
log_of() {
    printf '%s/%s.log' "$logs" "$(printf '%s' "${1##*/}" |
        tr -cs 'A-Za-z0-9.-' '_')"
}

# try NAME LIMIT COMMAND... - run a step. The command is ended if it writes
# nothing for LIMIT seconds (scripts/end-hung), and is not started after the
# deadline. Its exit status 77 means that it cannot run on this machine, for the
# reason in its last line. Returns 0 only if the step succeeded.
try() {
    local name=$1 time=$2 left log start status how words
    shift 2
    log=$(log_of "$name")
    left=$((deadline - SECONDS))
    if [ "$left" -lt 3 ]; then
        skip "$name" 'no time is left'
        return 1
    fi
    printf '  %-54s ' "$name"
    start=$SECONDS
    timeout -k 30 "$left" "$top/scripts/end-hung" "$time" "$@" \
        >"$log" 2>&1 </dev/null
    status=$?
    how=FAILED
    words="exit status $status"
    case $status in
    0)
        how=ok
        words=''
        ;;
    77)
        how=skipped
        words=$(tail -n 1 "$log")
        ;;
    124 | 137)
        how=skipped
        words="cut off by --limit after $left s"
        if grep -q '^end-hung: ' "$log"; then
            how=FAILED
            words="no output for $time s"
        fi
        ;;
    esac
    record $how "$name" $((SECONDS - start)) "$words"
    if [ $how = FAILED ]; then
        say "    $*"
        say "    the end of $log:"
        tail -n 25 "$log" | sed 's/^/    | /'
    fi
    return $status
}

# summarize - print the results of all steps, and end the program.
summarize() {
    local how
    say ''
    for how in FAILED skipped; do
        grep "^$how " "$out/summary.txt" | sed 's/^/  /'
    done
    say "$steps steps: $(grep -c '^ok ' "$out/summary.txt") ok," \
        "$failed failed, $(grep -c '^skipped ' "$out/summary.txt") skipped"
    [ "$failed" -eq 0 ] && [ "$steps" -gt 0 ]
}

# use BUILD - run the programs of a build from now on, with the libraries packed
# with them, if any.
use() {
    build=$1
    unset LD_LIBRARY_PATH UCX_MODULE_DIR
    if [ -d "$build/lib" ]; then
        export LD_LIBRARY_PATH=$build/lib UCX_MODULE_DIR=$build/lib/ucx
    fi
    label="UCX $("$build/tools/ucxpool_perf" --version |
        sed -n 's/^UCX //p')"
    [ "$label" != 'UCX ' ] || die "$build/tools/ucxpool_perf does not run"
    env_tests=(top_srcdir="$top" top_builddir="$build" TEST_CUDA="$driver"
        CK_TIMEOUT_MULTIPLIER="${CK_TIMEOUT_MULTIPLIER-3}")
}

# Print the path of the current build's library, for programs that load it.
library() {
    local path
    for path in "$build"/lib/libucxpool.so.? "$build"/.libs/libucxpool.so; do
        if [ -e "$path" ]; then
            echo "$path"
            return
        fi
    done
}

# gpu_report - print ucxpool_info's report on the GPUs, as JSON.
gpu_report() {
    "$build/tools/ucxpool_info" --no-pool --json |
        sed -n '/^  "gpus": {/,/^  }/p'
}

# values KEY - print the values of that key in the report on stdin, one per
# line.
values() {
    sed -n "s/^ *\"$1\": //p" | sed 's/,$//; s/^"\(.*\)"$/\1/'
}

count_gpus() {
    local number
    number=$(gpu_report | values number | head -n 1)
    case $number in
    '' | *[!0-9]*) echo 0 ;;
    *) echo "$number" ;;
    esac
}

# Print why there is no GPU, as the library reports it.
why_no_gpu() {
    "$build/tools/ucxpool_info" --no-pool | sed -n '/^GPUs/,/^$/{
        s/^ *number  *//p
    }'
}
