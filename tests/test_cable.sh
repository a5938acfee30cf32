#!/bin/sh
# Tests two hosts on one cable. When the cable is cut, both ends of a channel
# detect this within a few times PEER_TIMEOUT, with and without data in flight,
# and for connections by a listener and by addresses. UCX alone needs 15 minutes
# to detect unacknowledged data. A peer that is only stopped for three times
# PEER_TIMEOUT is not lost.
set -eu
LC_ALL=C
export LC_ALL

. "$top_srcdir/tests/hosts.sh"

end=$top_builddir/tests/cable_end
dir=$(mktemp -d)
listener=''
caller=''
cleanup() {
    for process in $listener $caller; do
        kill -KILL "$process" 2>/dev/null || true
    done
    hosts_down
    rm -rf "$dir"
}
trap cleanup EXIT

# Peers are stopped for three times this long.
timeout=2
export UCX_TLS=tcp UCX_NET_DEVICES=cable UCX_LOG_LEVEL=error
export UCXPOOL_COMM_SIZE=32m UCXPOOL_BLOCK_SIZE=1m
export UCXPOOL_PEER_TIMEOUT=${timeout}s UCXPOOL_LISTEN_WITHOUT_SECRET=y
# Only the networks of the hosts are separate, so choose the `ucx` wire.
export UCXPOOL_WIRE=ucx

fail() {
    echo "$mode: $*"
    for file in "$dir"/listener "$dir"/caller; do
        echo "--- $(basename "$file")"
        tail -n 40 "$file"
    done
    exit 1
}

# until_says END WORDS - wait until the listener or the caller has printed the
# words.
until_says() {
    eval "process=\$$1"
    until grep -q "$2" "$dir/$1"; do
        kill -0 "$process" 2>/dev/null || fail "the $1 ended without: $2"
        sleep 0.02
    done
}

# start MODE listener|addresses [LISTENER'S MODE] - start both ends of an open
# channel. The processes are $listener and $caller.
start() {
    mode="$1, by $2"
    : >"$dir/listener"
    : >"$dir/caller"
    rm -f "$dir"/*.address
    where=$dir
    [ "$2" = addresses ] || where=10.213.7.2:0
    ip netns exec "$host_two" "$end" "${3:-listen}" "$where" \
        >"$dir/listener" 2>&1 &
    listener=$!
    until_says listener listening
    port=$(sed -n 's/^listening on port //p' "$dir/listener")
    [ "$2" = addresses ] || where=10.213.7.2:$port
    ip netns exec "$host_one" "$end" "$1" "$where" >"$dir/caller" 2>&1 &
    caller=$!
    [ "${3:-listen}" = deaf ] || until_says caller open
}

# ended FILE PROCESS CODE - wait for the process to exit with that code.
ended() {
    code=0
    wait "$2" || code=$?
    [ "$code" -eq "$3" ] || fail "the $1 ended with $code, $3 expected"
}

both_ended() {
    ended caller "$caller" "$1"
    ended listener "$listener" "$1"
    caller=''
    listener=''
}

# cut_cable MODE WAY - cut the cable of an open channel.
cut_cable() {
    hosts_up
    start "$1" "$2"
    ip -n "$host_one" link set cable down
    both_ended 3
    hosts_down
}

# Cut the cable before the caller's channel is open.
cut_early() {
    hosts_up
    start idle listener deaf
    until_says listener accepted
    ip -n "$host_one" link set cable down
    ended caller "$caller" 3
    kill -KILL "$listener"
    caller=''
    listener=''
    hosts_down
}

# stop_one MODE WAY WHICH - stop the process in $WHICH for a while.
stop_one() {
    hosts_up
    start "$1" "$2"
    eval "process=\$$3"
    kill -STOP "$process" && sleep $((3 * timeout)) &&
        kill -CONT "$process" && kill -TERM "$caller" ||
        fail "the $3 or the caller ended while the $3 was stopped"
    both_ended 0
    hosts_down
}

for way in listener addresses; do
    cut_cable idle $way
    cut_cable busy $way
    stop_one busy $way listener
done
stop_one idle listener listener
stop_one idle listener caller
cut_early
