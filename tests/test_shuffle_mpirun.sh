#!/bin/sh
# Tests ucxpool_shuffle under mpirun on two hosts, over TCP. The hosts are
# network namespaces with their own names and addresses, connected by a veth
# cable.
set -u
LC_ALL=C
export LC_ALL

: "${top_builddir:=$(pwd)}"
shuffle=${SHUFFLE:-$top_builddir/tools/ucxpool_shuffle}

. "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}/tests/hosts.sh"

# mpirun does not wait for a sanitizer's checks at exit.
[ -z "${SANITIZER_CFLAGS:-}" ] || hosts_skip "built with a sanitizer"
command -v mpirun >/dev/null 2>&1 || hosts_skip "there is no mpirun"
mpirun --version 2>/dev/null | grep -q 'Open MPI' ||
    hosts_skip "not Open MPI"
why=$(mpirun --allow-run-as-root --oversubscribe -n 1 true 2>&1) ||
    hosts_skip "mpirun itself does not run here: $why"
work=$(mktemp -d)
cleanup() {
    hosts_down
    rm -rf "$work"
}
trap cleanup EXIT
cd "$work" || exit 1

hosts_up

# The program agent replaces ssh: agent ADDRESS COMMAND...
mkdir tmp.1 tmp.2
cat >agent <<END
#!/bin/sh
shift
exec ip netns exec $host_two unshare --uts sh -c '
    hostname two
    TMPDIR=$work/tmp.2
    export TMPDIR
    exec sh -c "\$*"' sh "\$@"
END
chmod +x agent

# Create a worker. On host two, it has another block size. The process of worker
# 1 is in the file victim.
cat >worker <<END
#!/bin/sh
[ "\$PMIX_RANK" != 1 ] || echo \$\$ >$work/victim
[ "\$(hostname)" = one ] || export UCXPOOL_BLOCK_SIZE=64k
exec $shuffle "\$@"
END
chmod +x worker

num_failed=0
failed() {
    echo "FAIL: $*"
    num_failed=$((num_failed + 1))
}

# start ARG... - start two workers on each host, or as many as $each says.
start() {
    each=${each:-2}
    ip netns exec "$host_one" unshare --uts sh -c '
        hostname one
        TMPDIR=$1/tmp.1
        export TMPDIR
        shift
        exec "$@"' sh "$work" mpirun --allow-run-as-root \
        --host 10.213.7.1:$each,10.213.7.2:$each -n $((2 * each)) \
        --mca plm_rsh_agent "$work/agent" \
        --mca oob_tcp_if_include cable --mca btl_base_warn_component_unused 0 \
        -x UCXPOOL_WIRE -x UCXPOOL_COMM_SIZE=16m -x UCXPOOL_BLOCK_SIZE=256k \
        -x UCX_NET_DEVICES=cable -x UCX_TLS=tcp \
        ./worker "$@" >stdout 2>stderr
}

UCXPOOL_WIRE=ucx
export UCXPOOL_WIRE
awk 'BEGIN {
    for (i = 0; i < 300000; i++) {
        print i % 1000 "|" i "|abcdefghijklmnopqrstuvwxyz"
    }
}' >in.tbl

# One directory shared by both hosts.
if start -p 10 --json -o out "$work/in.tbl"; then
    sort in.tbl >expected
    cat out/part-* | sort >actual
    cmp -s expected actual || failed "the records are not those of the input"
    [ "$(ls -A out | wc -l)" -eq 10 ] || failed "files: $(ls -A out)"
    grep -q '"workers": 4' stdout || failed "not 4 workers: $(cat stdout)"
    grep -q '"wire": "ucx"' stdout || failed "not the wire ucx: $(cat stdout)"
    sent=$(hosts_sent)
    [ "$sent" -gt 1000000 ] || failed "only $sent bytes crossed the cable"
else
    failed "exit status $?: $(cat stderr)"
fi

# Equal keys are in the same files as without a launcher.
if env -u UCXPOOL_WIRE "$shuffle" -w 1 -p 10 -o alone in.tbl >stdout 2>&1; then
    for file in out/part-*; do
        sort "$file" >expected
        sort "alone/${file#out/}" | cmp -s - expected ||
            failed "$file differs from that of one worker"
    done
else
    failed "one worker: $(cat stdout)"
fi

# A record without the key field ends all workers.
if start -p 10 -k 9 -o short "$work/in.tbl"; then
    failed "a missing field is no error"
fi
grep -q 'has no field 9' stderr || failed "missing field: $(cat stderr)"
[ -z "$(find short -name '*part*' 2>/dev/null)" ] || failed "files are left"

# One of many workers fails while the others are still connecting to it. The
# others end silently. Worker 0 may report that it was ended, and UCX may report
# that it could not connect to an ended worker.
printf 'a\n' >one.tbl
each=12 start -p 10 -k 2 -o one "$work/one.tbl" &&
    failed "a missing field is no error"
[ "$(grep -c 'has no field 2' stderr)" -eq 1 ] ||
    failed "the cause is not printed once: $(cat stderr)"
grep -e '^ucxpool_shuffle: ' -e UCX -e Assertion -e backtrace stderr |
    grep -v -e 'has no field 2' -e 'ended by Terminated' \
        -e 'UCX *ERROR *connect(.*Connection re' \
        -e 'UCX *ERROR.*UCX_TCP_MAX_CONN_RETRIES' >more &&
    failed "more than the cause is printed: $(cat more)"

# -w cannot be used with a launcher.
start -w 2 -o usage "$work/in.tbl" && failed "-w is no error"
grep -q 'omit -w under a launcher' stderr || failed "-w: $(cat stderr)"

# has_temporary - succeed if partition 1 is being written.
has_temporary() {
    ls killed/.part-00001.*.tmp >/dev/null 2>&1
}

# start_stopped - start a run and stop its worker 1 at work, so that the run
# cannot end.
start_stopped() {
    rm -rf killed
    start -p 10 -o killed "$work/large.tbl" &
    main=$!
    until has_temporary; do
        kill -0 $main 2>/dev/null || break
    done
    victim=$(cat victim)
    kill -STOP "$victim" 2>/dev/null && has_temporary
}

# While a run lives, other runs cannot use its directory. A killed worker ends
# the run, and no file is left.
for attempt in 1 2 3; do
    for i in 1 2 3 4 5 6 7 8 9 10; do
        cat in.tbl in.tbl in.tbl in.tbl
    done >>large.tbl
    start_stopped && break
    # The run ended before the worker was stopped, so give it more to do.
    kill -CONT "$victim" 2>/dev/null
    wait $main
    [ "$attempt" -lt 3 ] || failed "no run could be stopped"
done
start -p 10 -o killed "$work/in.tbl" && failed "two runs, one directory"
grep -q 'is not empty' stderr ||
    failed "two runs, one directory: $(cat stderr)"
kill -KILL "$victim"
wait $main && failed "a killed worker is no error"
[ -z "$(ls -A killed 2>/dev/null)" ] ||
    failed "left after a kill: $(ls -A killed)"

echo "$num_failed failures"
[ "$num_failed" -eq 0 ]
