#!/bin/sh
# ucxpool_shuffle under mpirun on two hosts: network name spaces with names and
# addresses of their own, joined by a cable (veth), over TCP.
set -u
LC_ALL=C
export LC_ALL

: "${top_builddir:=$(pwd)}"
shuffle=${SHUFFLE:-$top_builddir/tools/ucxpool_shuffle}

skip() {
    echo "skipped: $*"
    exit 77
}

# A sanitizer's own checks at exit are not what mpirun waits for.
[ -z "${SANITIZER_CFLAGS:-}" ] || skip "built with a sanitizer"
command -v mpirun >/dev/null 2>&1 || skip "there is no mpirun"
mpirun --version 2>/dev/null | grep -q 'Open MPI' || skip "not Open MPI"
command -v ip >/dev/null 2>&1 || skip "there is no ip"
[ "$(id -u)" -eq 0 ] || skip "only root can make network name spaces"

work=$(mktemp -d)
one=ucxp$$a
two=ucxp$$b
cleanup() {
    ip netns del "$one" 2>/dev/null
    ip netns del "$two" 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT
cd "$work" || exit 1

{ ip netns add "$one" && ip netns add "$two" &&
    ip link add cable netns "$one" type veth peer name cable netns "$two" &&
    ip -n "$one" address add 10.213.7.1/24 dev cable &&
    ip -n "$two" address add 10.213.7.2/24 dev cable &&
    ip -n "$one" link set lo up && ip -n "$two" link set lo up &&
    ip -n "$one" link set cable up && ip -n "$two" link set cable up
} >log 2>&1 || skip "no network name spaces: $(cat log)"

# The system takes a while to see that the cable is in.
for host in "$one" "$two"; do
    timeout 20 sh -c '
        until ip -n "$1" -br link show cable | grep -q " UP "; do
            :
        done' sh "$host" || skip "the cable does not come up"
done

# What takes the place of ssh: agent ADDRESS COMMAND...
mkdir tmp.1 tmp.2
cat >agent <<END
#!/bin/sh
shift
exec ip netns exec $two unshare --uts sh -c '
    hostname two
    TMPDIR=$work/tmp.2
    export TMPDIR
    exec sh -c "\$*"' sh "\$@"
END
chmod +x agent

num_failed=0
failed() {
    echo "FAIL: $*"
    num_failed=$((num_failed + 1))
}

# start ARG... - two workers on each host.
start() {
    timeout -k 5 120 ip netns exec "$one" unshare --uts sh -c '
        hostname one
        TMPDIR=$1/tmp.1
        export TMPDIR
        shift
        exec "$@"' sh "$work" mpirun --allow-run-as-root \
        --host 10.213.7.1:2,10.213.7.2:2 -n 4 \
        --mca plm_rsh_agent "$work/agent" \
        --mca oob_tcp_if_include cable --mca btl_base_warn_component_unused 0 \
        -x UCXPOOL_WIRE -x UCXPOOL_COMM_SIZE=16m -x UCXPOOL_BLOCK_SIZE=256k \
        -x UCX_NET_DEVICES=cable -x UCX_TLS=tcp \
        "$shuffle" "$@" >stdout 2>stderr
}

UCXPOOL_WIRE=ucx
export UCXPOOL_WIRE
awk 'BEGIN {
    for (i = 0; i < 300000; i++) {
        print i % 1000 "|" i "|abcdefghijklmnopqrstuvwxyz"
    }
}' >in.tbl

# One folder for both hosts.
if start -p 10 --json -o out "$work/in.tbl"; then
    sort in.tbl >expected
    cat out/part-* | sort >actual
    cmp -s expected actual || failed "the records are not those of the input"
    [ "$(ls -A out | wc -l)" -eq 10 ] || failed "files: $(ls -A out)"
    grep -q '"workers": 4' stdout || failed "not 4 workers: $(cat stdout)"
    grep -q '"wire": "ucx"' stdout || failed "not the wire ucx: $(cat stdout)"
    sent=$(ip -n "$one" -s link show cable | awk '/TX:/ { getline; print $1 }')
    [ "$sent" -gt 1000000 ] || failed "only $sent bytes crossed the cable"
else
    failed "exit status $?: $(cat stderr)"
fi

# Equal keys are where they are without a launcher.
if env -u UCXPOOL_WIRE "$shuffle" -w 1 -p 10 -o alone in.tbl >stdout 2>&1; then
    for file in out/part-*; do
        sort "$file" >expected
        sort "alone/${file#out/}" | cmp -s - expected ||
            failed "$file differs from that of one worker"
    done
else
    failed "one worker: $(cat stdout)"
fi

# A record without the key field ends it everywhere.
if start -p 10 -k 9 -o short "$work/in.tbl"; then
    failed "a missing field is no error"
fi
grep -q 'has no field 9' stderr || failed "missing field: $(cat stderr)"
[ -z "$(find short -name '*part*' 2>/dev/null)" ] || failed "files are left"

# -w is the launcher's business.
start -w 2 -o usage "$work/in.tbl" && failed "-w is no error"
grep -q 'not for use under a launcher' stderr || failed "-w: $(cat stderr)"

# A killed worker ends the run, and no file is left.
i=0
while [ $i -lt 40 ]; do
    cat in.tbl
    i=$((i + 1))
done >large.tbl
start -p 10 -o killed "$work/large.tbl" &
main=$!
until [ -e killed/.part-00001.tmp ] || ! kill -0 $main 2>/dev/null; do
    :
done
for pid in $(pidof -x "$shuffle" lt-ucxpool_shuffle ucxpool_shuffle); do
    # Only of this run: its working folder is ours.
    if [ "$(readlink "/proc/$pid/cwd")" = "$work" ] &&
        tr '\000' '\n' <"/proc/$pid/environ" | grep -q '^PMIX_RANK=1$'; then
        kill -KILL "$pid"
        break
    fi
done
wait $main && failed "a killed worker is no error"
[ -z "$(find killed -name '*part*' 2>/dev/null)" ] ||
    failed "left after a kill: $(ls -A killed)"

echo "$num_failed failures"
[ "$num_failed" -eq 0 ]
