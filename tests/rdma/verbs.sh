# Functions shared by the tests on Soft-RoCE. Usage: . verbs.sh

set -u
export UCXPOOL_WIRE=ucx UCXPOOL_COMM_SIZE=16m UCXPOOL_BLOCK_SIZE=1m
# On a busy machine this one does not answer for seconds. A peer that UCX counts
# as lost while the two connect aborts UCX 1.13.
export UCXPOOL_PEER_TIMEOUT=600s
# By default, UCX does not log failed sends of endpoints with error handlers.
export UCX_LOG_LEVEL=diag UCX_LOG_FILE=stderr
# UCX before 1.19 reads the packet type from a field that rxe leaves empty, and
# drops packets received over ud.
export UCX_UD_VERBS_ETH_DGID_CHECK=n

tools=$top_builddir/tools
counters=/sys/class/infiniband/rxe0/ports/1/hw_counters

fail() {
    echo "FAIL: $*"
    exit 1
}

# use TRANSPORT RENDEZVOUS - UCX's transports and protocol: rc, with ud to
# connect, or only ud; auto, get_zcopy or put_zcopy.
use() {
    transport=$1
    rendezvous=$2
    case $1 in
    rc) export UCX_TLS=rc_verbs,ud_verbs,self,tcp ;;
    ud) export UCX_TLS=ud_verbs,self ;;
    *) fail "no such transport: $1" ;;
    esac
    export UCX_RNDV_SCHEME=$2
}

# counter NAME - the device's counter, since its creation.
counter() {
    cat "$counters/$1"
}

# For programs that set the pool's settings themselves.
no_settings() {
    unset UCXPOOL_WIRE UCXPOOL_COMM_SIZE UCXPOOL_BLOCK_SIZE
    unset UCXPOOL_PEER_TIMEOUT
}

# real PROGRAM - the program without libtool's wrapper script, which takes a
# second here.
real() {
    path=${1%/*}/.libs/${1##*/}
    if [ -x "$path" ]; then
        echo "$path"
    else
        echo "$1"
    fi
}

# run PROGRAM ARGUMENT...
run() {
    program=$(real "$1")
    shift
    LD_LIBRARY_PATH=$top_builddir/.libs "$program" "$@"
}
