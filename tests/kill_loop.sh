#!/bin/sh
# Kills a worker of ucxpool_shuffle at a random moment, many times on each wire.
# The other workers must exit with an error within a second, name the dead
# worker, lose no block, and leave no files and no processes. Then does the same
# with Ctrl-C, which all workers receive. This test takes too long for make
# check.
#
# usage: kill_loop.sh [TIMES [FILE]]     (default: 200, and generated records)
#
# With HOW=kill or HOW=interrupt, does only that.
set -u
LC_ALL=C
export LC_ALL

: "${top_builddir:=$(pwd)}"
shuffle=${SHUFFLE:-$top_builddir/tools/ucxpool_shuffle}
times=${1:-200}
file=${2:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ -z "$file" ] || file=$(realpath "$file")
cd "$work" || exit 1
num_failed=0
run=0

failed() {
    echo "FAIL: $wire, $how, run $run: $*"
    num_failed=$((num_failed + 1))
}

now_ms() {
    echo $(($(date +%s%N) / 1000000))
}

if [ -z "$file" ]; then
    awk 'BEGIN {
        for (i = 0; i < 200000; i++) {
            print i % 1000 "|" i "|abcdefghijklmnopqrstuvwxyz"
        }
    }' >piece.tbl
    for i in 1 2 3 4 5 6 7 8 9 10; do
        cat piece.tbl
    done >in.tbl
    file=in.tbl
fi

# The time of a complete run. Kills are spread over that time.
whole=0
measure() {
    since=$(now_ms)
    rm -rf out
    "$shuffle" -w 3 -p 6 -o out "$file" >stdout 2>stderr || {
        echo "a run without a kill fails: $(cat stderr)"
        exit 1
    }
    whole=$(($(now_ms) - since))
}

# Kill the worker $pid, or interrupt all workers, as a terminal does.
hit() {
    case $how in
    kill) kill -KILL "$pid" ;;
    interrupt) kill -INT -$main ;;
    esac 2>/dev/null
}

# Check the error text and the exit status of the run.
check_words() {
    case $how in
    kill)
        [ $status -eq 1 ] || failed "exit status $status"
        grep -q "(process $pid) was killed by signal 9" stderr ||
            failed "the dead worker is not named: $(cat stderr)"
        ;;
    interrupt)
        [ $status -eq 130 ] || failed "exit status $status"
        grep -q 'nothing was written' stderr ||
            failed "not reported that nothing was written: $(cat stderr)"
        ;;
    esac
}

# Do one run in its own session and process group, and hit it after $delay ms.
one() {
    rm -rf out
    # A shell that is not interactive makes its children ignore SIGINT.
    setsid env --default-signal=INT \
        "$shuffle" -w 3 -p 6 -o out "$file" >stdout 2>stderr &
    main=$!
    sleep "$(printf '%d.%03d' $((delay / 1000)) $((delay % 1000)))"
    workers=$(cat /proc/$main/task/$main/children 2>/dev/null)
    pid=$(echo $workers | cut -d' ' -f$((victim + 1)))
    if [ -z "$pid" ] || ! hit; then
        wait $main || failed "failed before the hit: $(cat stderr)"
        early=$((early + 1))
        return
    fi
    since=$(now_ms)
    wait $main 2>wait
    status=$?
    took=$(($(now_ms) - since))
    if [ $status -eq 0 ]; then
        # The run had exited by itself, just before.
        late=$((late + 1))
        return
    fi
    if [ "$how" = interrupt ] && [ ! -s stderr ] && [ ! -e out ]; then
        # The signal arrived before the run had started.
        early=$((early + 1))
        return
    fi
    run=$((run + 1))
    [ $took -le "$slowest" ] || slowest=$took
    [ $took -le 1000 ] || failed "the others took $took ms to end"
    check_words
    if grep -q 'lost count' stderr; then
        failed "a block was lost: $(cat stderr)"
    fi
    for other in $workers; do
        [ ! -e "/proc/$other" ] || failed "process $other is left behind"
    done
    [ ! -e out ] || failed "files are left: $(ls -A out)"
}

# Do all runs of one kind on one wire.
loop() {
    run=1
    early=0
    late=0
    slowest=0
    # A hit after the end of the run does not count.
    while [ $run -le "$times" ] && [ $((early + late)) -le $((4 * times)) ]; do
        # Two random bytes, scaled to the time of a run.
        random=$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')
        delay=$((whole * random / 65536))
        victim=$((random % 3))
        one
    done
    [ $run -gt "$times" ] || failed "too few runs could be hit"
    echo "wire $wire, $how: $((run - 1)) times in runs of $whole ms;" \
        "all ended within $slowest ms;" \
        "$((early + late)) runs were over first"
}

for wire in map ucx; do
    UCXPOOL_WIRE=$wire
    export UCXPOOL_WIRE
    how=none
    measure
    for how in ${HOW:-kill interrupt}; do
        loop
    done
done
echo "$num_failed failures"
[ "$num_failed" -eq 0 ]
