#!/bin/sh
# A killed peer is detected within UCXPOOL_PEER_TIMEOUT, and a request's own
# deadline ends it earlier.
#
# usage: dead_peer.sh noticed|deadline rc|ud auto|get_zcopy|put_zcopy
. "$top_srcdir/tests/rdma/verbs.sh"
use "$2" "$3"
no_settings
case $1 in
noticed)
    # UCX's defaults take most of a minute, or never detect it: rxe treats their
    # 7 retries as infinite. UD's timeout is 3/8 of PEER_TIMEOUT. With 6 s it
    # expired on a busy host while the pools connected.
    export UCXPOOL_PEER_TIMEOUT=20s DEAD_PEER_SECONDS=60
    tests='peer_killed_during_a_transfer_fails_the_requests
        idle_peer_killed_fails_a_receive'
    ;;
deadline)
    # With UCX's defaults and without tcp, the peer's death is not detected
    # earlier.
    export UCXPOOL_PEER_TIMEOUT=inf
    case $transport in
    rc) export UCX_TLS=rc_verbs,ud_verbs,self ;;
    esac
    export DEAD_PEER_SECONDS=20 DEAD_PEER_UNSEEN=yes
    tests=deadline_ends_requests_to_an_undetected_dead_peer
    ;;
esac
for test in $tests; do
    CK_RUN_CASE=$test CK_TIMEOUT_MULTIPLIER=10 \
        "$top_builddir/tests/test_dead_peer" ||
        fail "$test: exit status $?"
done
