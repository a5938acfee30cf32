#!/bin/sh
# Tests ucxpool_perf between two hosts: the pool and raw UCX over the same
# cable.
set -eu
LC_ALL=C
export LC_ALL

. "$top_srcdir/tests/hosts.sh"
. "$top_srcdir/tests/perf.sh"

server=''
cleanup() {
    [ -z "$server" ] || kill -KILL "$server" 2>/dev/null || true
    hosts_down
    rm -rf "$dir"
}
trap cleanup EXIT
hosts_up
unshare --uts --ipc --pid --fork --kill-child=KILL --mount-proc true \
    2>"$dir/err" || hosts_skip "no name spaces: $(cat "$dir/err")"

export UCX_TLS=tcp UCX_NET_DEVICES=cable
export UCXPOOL_COMM_SIZE=32m UCXPOOL_BLOCK_SIZE=1m
# The two hosts share a kernel, and the library warns that they use ucx.
export UCXPOOL_LOG_LEVEL=error
for name in secret other; do
    (umask 077 && head -c 32 /dev/urandom | od -An -tx1 >"$dir/$name")
done

# on HOST COMMAND... - run the command on the host, with its own host name,
# processes and shared memory.
on() {
    host=$1
    shift
    exec ip netns exec "$host" unshare --uts --ipc --pid --fork \
        --kill-child=KILL --mount-proc sh -c '
        hostname "$1"
        shift
        exec "$@"' sh "$host" "$@"
}

# serve WHERE - start a server on host two; $port is its port.
serve() {
    : >"$dir/server"
    (on "$host_two" "$perf" -l "$1") >"$dir/server" 2>&1 &
    server=$!
    until grep -q listening "$dir/server"; do
        kill -0 $server 2>/dev/null || fail 'no server'
    done
    port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' "$dir/server")
}

# served CODE - require that the server ends with that exit code.
served() {
    code=0
    wait "$server" || code=$?
    server=''
    [ "$code" -eq "$1" ] || fail "the server: exit code $code, $1 expected"
}

# run CODE ARGUMENT... - require that the client on host one ends with that exit
# code.
run() {
    expected=$1
    shift
    code=0
    (on "$host_one" "$perf" "$@") >"$dir/out" 2>"$dir/err" || code=$?
    [ "$code" -eq "$expected" ] ||
        fail "ucxpool_perf $*: exit code $code, $expected expected"
}

UCXPOOL_SECRET_FILE=$dir/secret
export UCXPOOL_SECRET_FILE

# Every side transfers over the cable, and every byte arrives.
for work in 'each -s 1000 -n 1000' 'iov -s 1000 -n 1000' 'comm -s 1m' \
    'any -s 1m' 'pingpong -s 4k'; do
    before=$(hosts_sent)
    serve 0
    run 0 $short -t $work --json "10.213.7.2:$port"
    mv "$dir/out" "$dir/json"
    served 0
    sides=$(grep -c '"side"' "$dir/json")
    [ "$(grep -c '"verified": true' "$dir/json")" -eq "$sides" ] ||
        fail "-t $work: not every byte is verified"
    says json '/auto"'
    says json '/peer"'
    says json '/none"'
    says json '"wire": "ucx"'
    sent=$(($(hosts_sent) - before))
    # Before and after the round: each side fills its memory twice.
    bytes=$(sed -n 's/.*"size": \([0-9]*\), "count": \([0-9]*\),.*/\1 \2/p' \
        "$dir/json" | awk '{ print $1 * $2 }')
    [ "$sent" -ge $((sides * 2 * bytes)) ] ||
        fail "-t $work: only $sent bytes of $sides sides crossed the cable"
done

# Several jobs in one run.
serve 10.213.7.2:0
run 0 $short -t pingpong -t any "10.213.7.2:$port"
says out '  pool/auto is '
served 0

# Rows of a table that need one host report that they are unavailable.
serve 0
run 0 $short --table map -n 50 "10.213.7.2:$port"
served 0
[ "$(grep -c ': missing: the wire map is not available .*no socket in common' "$dir/out")" -eq 7 ] ||
    fail 'not every row shows the reason'
serve 0
run 0 $short --table map -n 50 --json "10.213.7.2:$port"
served 0
[ "$(grep -c '"missing": "the wire map' "$dir/out")" -eq 7 ] ||
    fail 'the JSON lacks the reason'
if command -v python3 >/dev/null; then
    python3 -m json.tool "$dir/out" >/dev/null || fail 'the output is not JSON'
fi
[ ! -s "$dir/err" ] || fail 'a reason in the table is also printed as an error'

# Both sides reject the wire that needs one host, and report why.
serve 0
run 1 $short -t each -s 100 -n 10 --wire map "10.213.7.2:$port"
says err 'map'
served 1

# With a common directory the two are like containers of one host.
UCXPOOL_SOCKET_DIR=$dir/sockets
export UCXPOOL_SOCKET_DIR
serve 0
run 0 $short -t iov -s 4k -n 1000 --wire map "10.213.7.2:$port"
unset UCXPOOL_SOCKET_DIR
says out 'wire map (same host and user'
served 0
[ -z "$(ls "$dir/sockets")" ] || fail 'a socket is left in the directory'

# A client with another secret is rejected. The server waits for the next.
serve 0
UCXPOOL_SECRET_FILE=$dir/other run 1 $short "10.213.7.2:$port"
says err secret
run 0 $short -t pingpong "10.213.7.2:$port"
served 0

# A client that dies ends the server.
serve 0
(on "$host_one" "$perf" -q -t any -s 1m -r 1000000 -T 100000 \
    "10.213.7.2:$port") >"$dir/out" 2>"$dir/err" &
client=$!
before=$(hosts_sent)
until [ $(($(hosts_sent) - before)) -gt 20000000 ]; do
    kill -0 $client 2>/dev/null || fail 'the client has ended'
done
kill -KILL $client || fail 'the client has ended'
wait $client 2>/dev/null || true
served 1
says server 'ucxpool_perf: '

# Without a secret, a server accepts only its own host.
unset UCXPOOL_SECRET_FILE
serve 0
says server '127.0.0.1'
run 1 $short "10.213.7.2:$port"
says err 'check that ucxpool_perf -l runs there'
echo 'all runs ended as expected'
