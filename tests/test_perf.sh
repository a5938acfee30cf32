#!/bin/sh
# Tests ucxpool_perf: small runs of every test, its reports, and its errors.
set -eu

. "$top_srcdir/tests/perf.sh"
export UCXPOOL_COMM_SIZE=32m UCXPOOL_BLOCK_SIZE=1m

run 0 --help
says out 'usage: ucxpool_perf'
run 0 --version
says out 'libucxpool'
says out 'UCX'
run 0 --list
says out 'am-each'
for option in --help --version --list; do
    code=0
    "$perf" $option >/dev/full 2>"$dir/err" || code=$?
    [ "$code" -eq 1 ] || fail "$option on a full disk: exit code $code"
    says err 'No space left on device'
done

# Every side transfers every byte. Sizes are odd on purpose.
run 0 $short -t each -s 100 -n 333 --wire map
says out 'am-each/peer'
says out 'every byte verified'
says out 'pool/map is'
says out 'registrations after the start 0'
says out 'pool-pieces/map is'
run 0 $short -s 1001 -n 333 --sides pool-pieces/ucx,pool/ucx,pool-pieces/map
says out 'pool-pieces/map'
run 0 $short -t iov -s 1001 -n 77 -O 3 --wire ucx
says out 'iov/none'
says out 'wire ucx'
run 0 $short -t comm -s 1m --wire map
says out 'tag-memh/none'
run 0 $short -s 300001 -n 1 --sides pool-comm/map,pool-comm/ucx,pool/ucx
says out 'pool-comm/map'
run 0 $short -t any -s 300001
says out 'am/peer'
run 0 $short -t pingpong
says out 'times as long as am/none'
run 0 $short -t pingpong-wait -s 5k
says out 'pool-wait/auto'
run 0 $short -t rate -n 200 --wire map
says out 'M/s'
says out 'pool-each/map is'
says out 'times as fast as pool-each/map'
run 0 $short -t rate -n 200 --wire ucx
says out 'pool-batch/ucx is'
run 0 $short -t both -s 100 -n 33 --sides pool-batch/map,pool-each/ucx
run 0 $short -s 5001 -n 9 -O 3 --sides pool-each/ucx,tag-each/none
# Both directions at once, in every way.
run 0 $short -t both -s 100 -n 333 --wire map
says out 'each way'
says out 'pool-pieces/map is'
run 0 $short -t both -s 1001 -n 77 -O 3 --wire ucx
says out 'wire ucx'
run 0 $short -t both -s 300001 -n 2 \
    --sides pool/map,pool-comm/ucx,pool-each/ucx,tag-each/none
run 0 $short -t both -s 20k -n 5 --sides tag/peer,am/none,iov/none,am-memh/peer
run 0 $short -t both -s 1001 -n 77 -O 3 \
    --sides pool-write/map,pool-read/map,pool-write/ucx,pool-read/ucx
# Reads and writes of the other side's window. Over `ucx`, windows of another
# process are accessed only through messages, so the owner must make progress.
for test in read write; do
    run 0 $short -t $test -s 100 -n 333 --wire map
    says out "pool-$test/map is"
    says out 'every byte verified'
    run 0 $short -t $test -s 70001 -n 33 -O 3 --wire ucx
    says out 'way messages ('
    UCXPOOL_WINDOW_WAY=messages run 0 $short -t $test -s 1001 -n 77 \
        --sides pool-$test/map,pool-$test-asleep/map
    says out 'way messages ('
    says out "pool-$test-asleep/map missing: messages need an owner"
done
run 0 $short -t read -s 1m -n 1 --sides pool-read/map,get/none,get/peer
# If the system allows a process to read another's memory, the owner may sleep.
run 0 $short -t read -s 1001 -n 77 --sides pool-read/map
if grep -qF 'way process' "$dir/out"; then
    run 0 $short -t read -s 1001 -n 77 --sides pool-read-asleep/map,get-each/none
    says out 'pool-read-asleep/map is'
    run 0 $short -t write -s 1001 -n 77 -O 3 \
        --sides pool-write-asleep/map,put-each/peer
    says out 'pool-write-asleep/map is'
    run 0 $short -t read -s 64 -n 9 --sides pool-read-asleep/map --json
    says out '"way": "process"'
fi
# Replies that repeat the message, eager and by rendezvous.
run 0 $short -t pingpong -s 300k --sides am/peer,am/none
run 0 $short -t pingpong --sides am/peer,am-memh/none
run 0 $short -t pingpong-comm -s 4k
says out 'pool-comm/auto takes'
run 0 $short -t misaligned -s 100 -n 33
run 0 $short -s 1001 -n 77 -O 3 --sides tag-each/peer,tag-each/none
run 0 $short -s 1 -n 1 -O 1 --sides am/none,iov/none
run 0 $short -s 20k -n 3 -O 64 --sides am-each/peer,tag/none

# Several tests, in the order of the options.
run 0 $short -t pingpong -t any -t rate
[ "$(sed -n 's/^\(pingpong\|any\|rate\): .*/\1/p' "$dir/out" | tr '\n' ' ')" = \
    'pingpong any rate ' ] || fail 'it does not run each of three -t in turn'

# Tables: the times are not checked, only that each test runs.
run 0 $short --table map -s 4k -n 50
[ "$(grep -c 'every byte verified' "$dir/out")" -eq 7 ] ||
    fail 'the table does not have 7 tests'
# Processes on one host connect over loopback.
! grep -q 'UCX also listens' "$dir/err" || fail 'UCX uses other devices'

# serve - start a server in the background; $where is its address.
serve() {
    : >"$dir/server"
    "$perf" -l 0 >"$dir/server" 2>&1 &
    server=$!
    while ! grep -q listening "$dir/server"; do
        kill -0 $server || fail 'no server'
    done
    where=$(sed -n 's/^listening on //p' "$dir/server")
}

# Two programs, as on two hosts.
serve
run 0 $short -t each -s 100 -n 33 "$where"
says out 'pool/auto is'
wait $server || fail "the server failed: $(cat "$dir/server")"
run 1 $short "$where"
says err 'ucxpool_perf -l'

# The same with reads, whose owner is on the other host.
serve
run 0 $short -t read -s 100 -n 33 "$where"
says out 'pool-read/auto is'
wait $server || fail "the server failed: $(cat "$dir/server")"

# cpu_ticks PID - prints the CPU time that the process has used.
cpu_ticks() {
    awk '{ print $14 + $15 }' "/proc/$1/stat"
}

# Raw UCX without failure handling does not detect the death of the server. The
# client fails, in the middle of a message, when nothing has moved for a while.
serve
"$perf" -q -s 100 -n 100000 -T 100000 -r 1000000 \
    --sides am-each/none "$where" >"$dir/out" 2>"$dir/err" &
client=$!
# The server uses this much time only when batches run.
until [ "$(cpu_ticks $server)" -gt 200 ]; do
    kill -0 $client || fail 'the client has ended'
done
kill -KILL $server || fail 'the server has ended'
wait $server 2>/dev/null || true
code=0
wait $client || code=$?
[ $code -eq 1 ] || fail "the server died: exit code $code, 1 expected"
says err 'am-each/none: no data was transferred'

# A port without a host means all addresses if the settings, in any syntax,
# allow the library to listen on all addresses.
for setting in LISTEN_WITHOUT_SECRET=1 LISTEN_WITHOUT_SECRET=Yes SECRET_FILE=; do
    export "UCXPOOL_$setting"
    serve
    unset UCXPOOL_LISTEN_WITHOUT_SECRET UCXPOOL_SECRET_FILE
    case $setting,$where in
    LISTEN*,:*) where=127.0.0.1$where ;;
    SECRET*,127.0.0.1:*) ;;
    *) fail "$setting: it listens on $where" ;;
    esac
    run 0 $short -s 64 -n 2 --sides am/none "$where"
    wait $server || fail "the server failed: $(cat "$dir/server")"
done

run 0 $short -t each -s 100 -n 33 --wire map --json
says out '"pool": "pool-pieces/map"'
run 0 $short -s 64 -n 2 -O 3 --sides am/none --json
says out '"command": "ucxpool_perf -t each -s 64 -n 2 -O 3 --sides am/none"'
run 0 $short -t any -s 64k --json
says out '"command": "ucxpool_perf -t any -s 65536 -n 1 --wire auto"'
says out '"side": "tag/none"'
says out '"verified": true'
# UCX logs to the standard output, which must contain only the report.
UCX_LOG_LEVEL=info UCX_NO_SUCH_VARIABLE=1 run 0 $short -s 64 -n 2 --json
says err UCX_NO_SUCH_VARIABLE
! grep -q UCX_NO_SUCH_VARIABLE "$dir/out" || fail "UCX's log in the JSON"
if command -v python3 >/dev/null; then
    python3 -m json.tool "$dir/out" >/dev/null || fail 'the output is not JSON'
fi

# Wrong usage is reported.
run 2 -t nonsense
says err 'no such test'
run 2 -s 12q
says err 'such as 256, 4k, 64m'
run 2 -s 0
run 2 -s -1
run 2 -s 99999999999999999999999
run 2 -n 0
run 2 -O 65
run 2 -r x
run 2 -T -3
run 2 --sides am-each
says err '--list'
run 2 --wire ucx --sides pool/auto
says err 'pool/ucx'
run 2 --cpus 0
run 2 --wire nonsense
says err 'auto, map or ucx'
run 2 --table nonsense
run 2 -l 0 localhost:1
for option in '-s 4k' '-t any' '--table map' '--device cuda' --json '-O 8' \
    '-r 3' '-T 1'; do
    run 2 -l 0 $option
    says err 'selects the test'
done
run 2 --nonsense
run 2 -t pingpong -n 2
says err 'omit -n'
for side in pool-read/map get/none pool-write-asleep/auto tag/peer iov/none; do
    run 2 -t pingpong --sides $side
    says err 'the reply has the same bytes'
done
for side in pool-read-asleep/map get/none pool-write-asleep/auto; do
    run 2 -t both --sides $side
    says err 'only pool-read and pool-write transfer data in both directions'
done
run 2 -s 64g -n 16m
says err 'too much memory'

# 512 GiB in total; a machine with this much memory would use it.
if awk '/^MemAvailable:/ { exit !($2 < 500 * 2 ^ 20) }' /proc/meminfo; then
    run 1 $short -s 32g -n 1
    says err 'GiB of memory are available: lower -s, -n or -O'
    [ "$(wc -l <"$dir/err")" -eq 1 ] || fail 'more than that is printed'
fi

run 1 $short -s 64 -n 2 --cpus 1023,1023
says err 'CPU 1023'
code=0
"$perf" -q -r 1 -s 64 -n 2 --sides am/none --json \
    >/dev/full 2>"$dir/err" || code=$?
[ "$code" -eq 1 ] || fail "a full disk: exit code $code"
says err 'standard output'
# A file that may not grow: the limit is 1 or 2 GiB, which depends on the shell.
truncate -s 4G "$dir/big"
code=0
(ulimit -f 2097152 && "$perf" -q -r 1 -s 64 -n 2 --sides am/none --json) \
    >>"$dir/big" 2>"$dir/err" || code=$?
[ "$code" -eq 1 ] || fail "a file that may not grow: exit code $code"
says err 'standard output'
rm "$dir/big"
UCX_TLS=nonsense run 1 $short -s 64 -n 2 --sides am/peer
says err 'check UCX_TLS'
UCXPOOL_DEPTH=nonsense run 1 $short -s 64 -n 2
says err 'UCXPOOL_DEPTH=nonsense'

# start ARGUMENT... - run the tool as $pid in the background, with children.
start() {
    "$perf" -q "$@" >/dev/null 2>"$dir/err" &
    pid=$!
    # At first, the process may be libtool's script, which has children of its
    # own.
    until readlink "/proc/$pid/exe" | grep -q 'ucxpool_perf$' &&
        children=$(pgrep -P $pid); do
        kill -0 $pid || fail 'the tool has ended'
    done
}

# No process is left behind when the tool is killed.
start -t any -s 1m -r 1000000 -T 100000
kill -KILL $pid || fail 'the tool has ended'
wait $pid 2>/dev/null || true
for child in $children; do
    tail --pid="$child" -f /dev/null
done
! grep 'the other process' "$dir/err" || fail 'the receiver outlived the sender'

# The tool fails when the receiver is killed, even if UCX does not detect this.
start -t each -s 64 -n 20000 --sides tag-each/none -r 1000000 -T 100000
# After a second of CPU time, messages are sent.
until [ "$(cpu_ticks $pid)" -gt 100 ]; do
    kill -0 $pid || fail 'the tool has ended'
done
kill -KILL $children || fail 'the receiver has ended'
code=0
wait $pid || code=$?
[ $code -eq 1 ] || fail "the receiver was killed: exit code $code"
says err 'the receiver died (signal 09)'
echo 'all runs ended as expected'
