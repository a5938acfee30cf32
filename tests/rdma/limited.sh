#!/bin/sh
# The two limits of registration, reached when a pool is created: the locked
# memory of a process, over all its registrations, and the RDMA objects of a
# control group. The pool continues with fewer blocks and logs that. With
# COMM_STRICT, creation fails with a message instead, and nothing stays
# registered.
#
# usage: limited.sh memlock|objects
. "$top_srcdir/tests/rdma/verbs.sh"
use ud auto
# The programs themselves, so that libtool's wrapper script has no limit.
info=$(real "$tools/ucxpool_info")
perf=$(real "$tools/ucxpool_perf")

held() {
    rdma resource show
}

# limited COMMAND... - runs it under the limit. UCX's own share is 40 MiB and 12
# objects.
case $1 in
memlock)
    export UCXPOOL_COMM_SIZE=64m UCXPOOL_REGION_SIZE=8m small=8m
    limited() {
        (
            ulimit -l 49152
            run setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock "$@"
        )
    }
    ;;
objects)
    export UCXPOOL_COMM_SIZE=32m UCXPOOL_REGION_SIZE=1m small=8m
    group=/sys/fs/cgroup/few
    echo +rdma >/sys/fs/cgroup/cgroup.subtree_control && mkdir -p $group &&
        echo 'rxe0 hca_handle=max hca_object=30' >$group/rdma.max ||
        fail 'no control group for rdma exists'
    limited() {
        (
            sh -c 'echo $PPID' >$group/cgroup.procs
            run "$@"
        )
    }
    ;;
*) fail "no such limit: $1" ;;
esac

# ends CODE - the last run ended with CODE; checks its message about the pool.
ends() {
    grep -E '^ucxpool|^  (memory +[0-9]+m|regions|registrations) ' info
    [ "$status" -eq "$1" ] || { cat info; fail "exit status $status, not $1"; }
}

before=$(held)
echo "--- no limit: $before"
status=0
run "$info" --test >info 2>&1 || status=$?
ends 0

echo '--- less than the limit'
status=0
UCXPOOL_COMM_SIZE=$small limited "$info" --test >info 2>&1 || status=$?
ends 0

echo '--- over it: fewer blocks'
status=0
limited "$info" >info 2>&1 || status=$?
ends 0
grep -q 'WARN: .*continues with .* instead of' info ||
    fail 'the reduced number of blocks is not reported'
# They transfer as much as without a limit. (The limit of locked memory applies
# to each process. Of the group's objects, the first process takes all.)
if [ "$1" = memlock ]; then
    limited "$perf" -q -t any -s 512k -r 1 -T 0.1 --sides pool/auto \
        --json >json 2>perf || { cat perf; fail 'ucxpool_perf failed'; }
    grep -q '"verified": true' json || fail 'not every byte is verified'
fi
echo '--- over it: refused'
export UCXPOOL_COMM_STRICT=y
status=0
limited "$info" --test >info 2>&1 || status=$?
ends 1
grep -q 'cannot create the pool: .*registering region .*lower UCXPOOL_COMM_SIZE' \
    info || fail 'the reason is not reported'

echo "--- after all: $(held)"
[ "$(held)" = "$before" ] || fail 'not all objects of the device are released'
