#!/bin/sh
# Tests on which devices UCX opens ports of its own, on a host with two
# addresses in addition to loopback: only on the devices on which the pool
# listens or from which it connects.
set -eu
LC_ALL=C
export LC_ALL

. "$top_srcdir/tests/hosts.sh"

dir=$(mktemp -d)
receiver=''
cleanup() {
    [ -z "$receiver" ] || kill -KILL "$receiver" 2>/dev/null || true
    hosts_down
    rm -rf "$dir"
}
trap cleanup EXIT

export UCX_TLS=tcp UCXPOOL_COMM_SIZE=32m UCXPOOL_BLOCK_SIZE=1m
export UCXPOOL_LISTEN_WITHOUT_SECRET=y
unset UCX_NET_DEVICES

fail() {
    echo "$what: $*"
    cat "$dir"/receiver.* "$dir"/sender 2>/dev/null
    exit 1
}

# receive ADDRESS - start a receiver that listens on the address, on $port.
receive() {
    what="listening on $1"
    : >"$dir/receiver.out"
    ip netns exec "$host_one" "$top_builddir/examples/receiver" "$1:0" \
        >"$dir/receiver.out" 2>"$dir/receiver.err" &
    receiver=$!
    until port=$(sed -n 's/^port //p' "$dir/receiver.out") &&
        [ -n "$port" ]; do
        kill -0 "$receiver" 2>/dev/null || fail "the receiver has ended"
        sleep 0.01
    done
}

# ports_are ADDRESS... - require that the host has listening sockets on exactly
# these addresses.
ports_are() {
    ip netns exec "$host_one" ss -ltnH | awk '{ print $4 }' |
        sed 's/:[0-9]*$//' | sort -u >"$dir/is"
    printf '%s\n' "$@" | sort -u >"$dir/should"
    cmp -s "$dir/is" "$dir/should" ||
        fail "ports are open on $(tr '\n' ' ' <"$dir/is"), not on $*"
}

stop() {
    kill -KILL "$receiver"
    wait "$receiver" 2>/dev/null || true
    receiver=''
}

# sends HOST ADDRESS - require that a sender on HOST reaches the receiver.
sends() {
    ip netns exec "$1" "$top_builddir/examples/sender" \
        "$2:$port" two words >"$dir/sender" 2>&1 || fail "the sender failed"
    wait "$receiver" || fail "the receiver failed"
    receiver=''
    grep -q words "$dir/receiver.out" || fail "the message has not arrived"
}

command -v ss >/dev/null 2>&1 || hosts_skip "there is no ss"
hosts_up
ip link add other netns "$host_one" type veth peer name other netns "$host_two"
ip -n "$host_one" address add 10.213.8.1/24 dev other
ip -n "$host_one" link set other up
ip -n "$host_two" link set other up
hosts_link other

receive 127.0.0.1
ports_are 127.0.0.1
[ ! -s "$dir/receiver.err" ] || fail "it warns"
sends "$host_one" 127.0.0.1

UCXPOOL_WIRE=ucx
export UCXPOOL_WIRE

receive 10.213.7.1
ports_are 127.0.0.1 10.213.7.1
grep -q 'UCX also listens on cable: ' "$dir/receiver.err" ||
    fail "it does not warn"
# The sender connects from its end of the cable.
sends "$host_two" 10.213.7.1
grep -q 'UCX also listens on cable: ' "$dir/sender" ||
    fail "the sender does not warn"

receive 0.0.0.0
ports_are 127.0.0.1 10.213.7.1 10.213.8.1 0.0.0.0
grep -q 'UCX also listens on cable,other: ' "$dir/receiver.err" ||
    fail "it does not warn"
# UCX may choose either of the two addresses.
ip -n "$host_two" route add 10.213.8.0/24 via 10.213.7.1
sends "$host_two" 10.213.7.1

what='an address that is handed out'
ip netns exec "$host_one" "$top_builddir/examples/all_to_all" >/dev/null \
    2>"$dir/receiver.err" || fail "the processes do not connect"
[ "$(grep -c 'also listens on cable,other, because' "$dir/receiver.err")" -eq \
    3 ] || fail "it does not warn once for each pool"

what='ucxpool_info'
ip netns exec "$host_one" "$top_builddir/tools/ucxpool_info" >/dev/null \
    2>"$dir/receiver.err" || fail "it fails"
[ ! -s "$dir/receiver.err" ] || fail "it warns"

# A device set in the environment is used without a warning.
UCX_NET_DEVICES=other
export UCX_NET_DEVICES
receive 10.213.7.1
ports_are 10.213.7.1 10.213.8.1
[ ! -s "$dir/receiver.err" ] || fail "it warns"
stop
ip netns exec "$host_one" "$top_builddir/examples/all_to_all" >/dev/null \
    2>"$dir/receiver.err" || fail "the processes do not connect"
[ ! -s "$dir/receiver.err" ] || fail "it warns about a device that was chosen"

# Without another network, no port is opened.
unset UCX_NET_DEVICES
ip -n "$host_one" link set cable down
ip -n "$host_one" link set other down
receive 0.0.0.0
ports_are 127.0.0.1 0.0.0.0
[ ! -s "$dir/receiver.err" ] || fail "it warns"
stop
