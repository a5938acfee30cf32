#!/bin/sh
# Tests the examples. The receiver prints the words of the sender, on each wire,
# and a failed connect prints the reason. The other examples do what their first
# lines say.
set -eu

dir=$(mktemp -d)
receiver=
cleanup() {
    if [ -n "$receiver" ]; then
        kill "$receiver" 2>/dev/null || true
    fi
    rm -rf "$dir"
}
trap cleanup EXIT

fail() {
    echo "$*"
    cat "$dir/err"
    exit 1
}

# Print the receiver's port. The receiver prints one line when it listens.
port_of_receiver() {
    mkfifo "$dir/out"
    "$top_builddir/examples/receiver" 127.0.0.1:0 >"$dir/out" 2>"$dir/err" &
    receiver=$!
    exec 3<"$dir/out"
    read -r word port <&3 || fail 'the receiver ended at once'
    [ "$word" = port ] || fail "the receiver said '$word', not its port"
}

# Test a pool with its own UCX objects, and a pool on the program's UCX objects.
for sender in sender:auto sender:ucx borrowed:auto borrowed:ucx; do
    port_of_receiver
    UCXPOOL_WIRE=${sender#*:} "$top_builddir/examples/${sender%:*}" \
        "127.0.0.1:$port" these words '' 'lie anywhere' ||
        fail "$sender failed"
    cat <&3 >"$dir/received"
    exec 3<&-
    wait "$receiver" || fail 'the receiver failed'
    receiver=
    printf 'these\nwords\n\nlie anywhere\n' >"$dir/expected"
    cmp "$dir/received" "$dir/expected" || fail 'other words arrived'
    rm "$dir/out"
done

# says PROGRAM - run the program on each wire. Its sorted output is in
# $dir/said.
says() {
    UCXPOOL_WIRE=$wire "$top_builddir/examples/$1" >"$dir/out" 2>"$dir/err" ||
        fail "$1 failed over $wire"
    sort "$dir/out" >"$dir/said"
}
for wire in auto ucx; do
    says all_to_all
    for ranks in 0:1 0:2 1:0 1:2 2:0 2:1; do
        echo "${ranks%:*} has 10000 pieces of ${ranks#*:}"
    done >"$dir/expected"
    cmp "$dir/said" "$dir/expected" || fail 'all_to_all exchanged less'
    says event_loop
    [ "$(cat "$dir/said")" = '1000 messages were returned' ] ||
        fail "event_loop says $(cat "$dir/said")"
    says dead_peer
    grep -q '^doomed: peer lost (channel 127\.0\.0\.1:[0-9]*, .*[a-z].*)$' \
        "$dir/said" || fail "dead_peer says $(cat "$dir/said")"
    grep -q '^steady: 67108864 bytes$' "$dir/said" ||
        fail "dead_peer does not continue: $(cat "$dir/said")"
    says page_cache
    printf "100 pages were read\npage 999 begins with 'w'\n" >"$dir/expected"
    cmp "$dir/said" "$dir/expected" ||
        fail "page_cache says $(cat "$dir/said")"
done

# If a program's server fails to start, its client must exit, too: otherwise the
# pipe stays open.
UCXPOOL_BLOCK_SIZE=nonsense sh -c '"$0" 2>&1 | cat' \
    "$top_builddir/examples/event_loop" >"$dir/err" ||
    fail 'the client of a failed event_loop does not exit'
grep -q 'UCXPOOL_BLOCK_SIZE' "$dir/err" || fail 'event_loop does not say why'

# Run on the stand-in for the CUDA driver. Without a driver, the example reports
# that there is none.
status=0
UCXPOOL_CUDA_DRIVER=/nonexistent "$top_builddir/examples/gpu_buffers" \
    2>"$dir/err" || status=$?
[ $status -eq 77 ] || fail "gpu_buffers ended with $status, not 77"
stand_in=$top_builddir/tests/cuda_stand_in/.libs/libstand_in.so
if [ -e "$stand_in" ]; then
    wire=auto
    UCXPOOL_CUDA_DRIVER=$stand_in
    export UCXPOOL_CUDA_DRIVER
    says gpu_buffers
    [ "$(cat "$dir/said")" = '4 buffers of 3145728 bytes arrived' ] ||
        fail "gpu_buffers says $(cat "$dir/said")"
    unset UCXPOOL_CUDA_DRIVER
fi

# verbs_write writes on a machine with an RDMA device, and reports an error on
# other machines.
if [ -x "$top_builddir/examples/verbs_write" ]; then
    status=0
    "$top_builddir/examples/verbs_write" no-such-device 2>"$dir/err" ||
        status=$?
    [ $status -eq 77 ] || fail "verbs_write ended with $status, not 77"
    grep -q 'no such RDMA device' "$dir/err" || fail 'verbs_write does not say why'
fi

if "$top_builddir/examples/sender" nowhere word 2>"$dir/err"; then
    fail 'a sender without a port did not fail'
fi
grep -q '^sender: .*nowhere' "$dir/err" || fail 'the error names no address'
