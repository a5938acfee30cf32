#!/bin/sh
# Tests that scripts/end-hung ends a command that hangs, and does not end a slow
# command. The test controls the clock: each sleep of the script advances it.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
end_hung=$top_srcdir/scripts/end-hung
processors=$(getconf _NPROCESSORS_ONLN)
export FAKE=''
unset CK_TIMEOUT_MULTIPLIER

fail() {
    echo "$*"
    cat "$dir/out" "$dir/err" 2>/dev/null || true
    exit 1
}

# A stand-in for sleep that advances the clock by $TICK seconds. With $STEALS,
# the host steals half of these seconds from this machine. The command ends
# after $TICKS calls; with 0, it hangs. If there is a pipe $FAKE/started, the
# first call waits until the command opens it.
mkdir "$dir/bin"
cat >"$dir/bin/sleep" <<'END_OF_SLEEP'
#!/bin/sh
[ ! -p "$FAKE/started" ] || { : <"$FAKE/started" && rm "$FAKE/started"; }
read -r ticks <"$FAKE/ticks"
ticks=$((ticks + 1))
echo "$ticks" >"$FAKE/ticks"
echo "$((1000 + ticks * TICK)).00 0.00" >"$FAKE/proc/uptime"
half=$((ticks * 1000))
[ -n "${STEALS-}" ] || half=0
echo "cpu $half 0 0 100 0 0 0 $half 0 0" >"$FAKE/proc/stat"
[ -z "${WRITES-}" ] || echo written >>"$FAKE/out"
[ "$ticks" -ne "$TICKS" ] || {
    echo >"$FAKE/pipe"
    exit 1
}
END_OF_SLEEP
chmod +x "$dir/bin/sleep"

num_runs=0
# run RUNNABLE TICK TICKS - run a command with a limit of 100 seconds while that
# many threads are runnable. Sets code. A call of the stand-in for sleep may
# still be running afterwards.
run() {
    num_runs=$((num_runs + 1))
    FAKE=$dir/$num_runs
    mkdir "$FAKE" "$FAKE/proc"
    mkfifo "$FAKE/pipe"
    echo 0 >"$FAKE/ticks"
    echo '1000.00 0.00' >"$FAKE/proc/uptime"
    echo 'cpu 0 0 0 100 0 0 0 0 0 0' >"$FAKE/proc/stat"
    echo "0.00 0.00 0.00 $(($1 + 1))/999 12345" >"$FAKE/proc/loadavg"
    code=0
    TICK=$2 TICKS=$3 END_HUNG_PROC=$FAKE/proc PATH="$dir/bin:$PATH" \
        "$end_hung" 100 sh -c 'read -r line <"$FAKE/pipe"; exit 7' \
        >>"$FAKE/out" 2>"$dir/err" || code=$?
}

# ends WHAT TICKS - require that the command was aborted after this many ticks
# of 10 seconds, with a message.
ends() {
    [ "$code" -eq 124 ] || fail "$1: exit status $code, 124 expected"
    grep -q "; $(($2 * 10)) s on the clock" "$dir/err" ||
        fail "$1: not ended after $2 ticks"
    grep -q '^end-hung: no output for 100 s' "$dir/err" &&
        grep -q 'read -r line' "$dir/err" ||
        fail "$1: it does not say which command hung"
}

survives() {
    [ "$code" -eq 7 ] || fail "$1: exit status $code, 7 expected"
    [ ! -s "$dir/err" ] || fail "$1: it complains"
}

run 1 10 0
ends 'a command that hangs' 10
run 1 10 9
survives 'a command that takes 90 s'
# Each thread gets a quarter of a CPU.
run $((4 * processors)) 10 39
survives 'a command that takes 390 s on a busy machine'
run $((4 * processors)) 10 0
ends 'a command that hangs on a busy machine' 40
STEALS=yes run 1 10 19
survives 'a command that takes 190 s where the host takes half'
WRITES=yes run 1 10 50
survives 'a command that writes'
# On a machine that was suspended for an hour, the clock jumps.
run 1 3600 3
survives 'a command on a machine that stood still'

# Input, output, exit status and signals are passed through.
"$end_hung" 100 sh -c 'cat; echo wrong >&2; exit 3' >"$dir/out" 2>"$dir/err" \
    <<END_OF_INPUT || code=$?
input
END_OF_INPUT
[ "$code $(cat "$dir/out") $(cat "$dir/err")" = '3 input wrong' ] ||
    fail "exit status $code, 3 expected, or other output"
code=0
"$end_hung" 100 sh -c 'kill -INT $$' 2>"$dir/err" || code=$?
[ "$code" -eq 130 ] || fail "SIGINT does not end the command: $code"
"$end_hung" 100 sh -c 'echo $$ >"$FAKE/pipe"; exec sleep 1000' 2>"$dir/err" &
script=$!
read -r command <"$FAKE/pipe"
kill "$script"
code=0
wait "$script" || code=$?
[ "$code" -ne 0 ] || fail 'SIGTERM is not an error'
# The signal may reach the command with a delay.
tries=0
while kill -0 "$command" 2>/dev/null; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || fail 'SIGTERM leaves the command behind'
    sleep 0.1
done

# A process that hangs is aborted, so that its parent can say where it was.
echo 0 >"$FAKE/ticks"
mkfifo "$FAKE/started"
TICK=60 TICKS=0 END_HUNG_PROC=$FAKE/proc PATH="$dir/bin:$PATH" \
    "$end_hung" 100 sh -c 'trap "" TERM
        sh -c ": >\"\$FAKE/started\"
            read -r line <\"\$FAKE/pipe\"" || echo $?' \
    >"$dir/out" 2>"$dir/err" || true
grep -q '^134$' "$dir/out" || fail 'the process that hangs was not aborted'

# Check's own time limits are raised if the machine is busy at the start.
echo "0 0 0 $((4 * processors + 1))/9 9" >"$FAKE/proc/loadavg"
said=$(CK_TIMEOUT_MULTIPLIER=10 END_HUNG_PROC=$FAKE/proc "$end_hung" 100 \
    sh -c 'echo $CK_TIMEOUT_MULTIPLIER')
[ "$said" = 40 ] || fail "a multiplier of 10 becomes $said, not 40"
echo 'hung commands are ended, and slow ones are not'
