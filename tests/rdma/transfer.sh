#!/bin/sh
# Transfers of the pool use verbs, and every byte arrives: from any memory, from
# communication memory, and in pieces. With rendezvous by get or put the bytes
# go by RDMA, with few messages. Over ud, which has no RDMA, everything goes by
# messages.
#
# usage: transfer.sh rc|ud auto|get_zcopy|put_zcopy
. "$top_srcdir/tests/rdma/verbs.sh"
use "$1" "$2"

# transfers SIDE BYTES ARGUMENT... - runs ucxpool_perf once.
transfers() {
    side=$1
    bytes=$2
    shift 2
    packets=$(counter sent_pkts)
    sends=$(counter rdma_sends)
    run "$tools/ucxpool_perf" -q -r 1 -T 0.1 --sides "$side" --json "$@" >json ||
        fail "$*: exit status $?"
    packets=$(($(counter sent_pkts) - packets))
    sends=$(($(counter rdma_sends) - sends))
    echo "$*: $packets packets, $sends messages"
    grep -q '"verified": true' json || fail "$*: not every byte is verified"
    grep -q '"wire": "ucx"' json || fail "$*: the wire is not ucx"
    # Memory is filled and verified before the round and after it.
    [ $((packets * 4096)) -ge $((bytes * 2)) ] ||
        fail "$*: not all bytes went over the device"
    case $transport-$rendezvous in
    rc-*_zcopy)
        [ $((sends * 10)) -lt "$packets" ] || fail "$*: RDMA was not used"
        ;;
    ud-*)
        [ $((sends * 2)) -gt "$packets" ] || fail "$*: not all bytes went by messages"
        ;;
    esac
}

# A channel over rc has RDMA, and one over ud does not.
if [ "$transport" = rc ]; then
    export UCXPOOL_REQUIRE=rma
elif UCXPOOL_REQUIRE=rma run "$tools/ucxpool_perf" -q -r 1 -T 0.1 \
    --sides pool/auto -t any -s 512k >out 2>&1; then
    fail 'a channel over ud is accepted as one with RDMA'
else
    grep -q 'the channel requires rma' out || fail "another error: $(cat out)"
fi

transfers pool/auto 524288 -t any -s 512k
transfers pool-comm/auto 1048576 -t comm -s 1m
transfers pool/auto 512000 -t each -s 1k -n 500
