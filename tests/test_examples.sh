#!/bin/sh
# The two examples: what the sender sends, the receiver prints, over either
# wire; and who cannot connect says why.
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

# The port that the receiver took; it prints one line when it listens.
port_of_receiver() {
    mkfifo "$dir/out"
    "$top_builddir/examples/receiver" 127.0.0.1:0 >"$dir/out" 2>"$dir/err" &
    receiver=$!
    exec 3<"$dir/out"
    read -r word port <&3 || fail 'the receiver ended at once'
    [ "$word" = port ] || fail "the receiver said '$word', not its port"
}

for wire in auto ucx; do
    port_of_receiver
    UCXPOOL_WIRE=$wire "$top_builddir/examples/sender" "127.0.0.1:$port" \
        these words '' 'lie anywhere' || fail 'the sender failed'
    cat <&3 >"$dir/received"
    exec 3<&-
    wait "$receiver" || fail 'the receiver failed'
    receiver=
    printf 'these\nwords\n\nlie anywhere\n' >"$dir/expected"
    cmp "$dir/received" "$dir/expected" || fail 'other words arrived'
    rm "$dir/out"
done

# On a machine with an RDMA device it writes; on others it says so.
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
