#!/bin/sh
# A killed peer is noticed in the time that UCXPOOL_PEER_TIMEOUT promises, and a
# request's own deadline ends it before.
#
# usage: dead_peer.sh noticed|deadline rc|ud auto|get_zcopy|put_zcopy
. "$top_srcdir/tests/rdma/verbs.sh"
use "$2" "$3"
no_settings
case $1 in
noticed)
    # By UCX's own settings it is most of a minute, or never: rxe takes their
    # count of 7 retries as 'for ever'.
    export UCXPOOL_PEER_TIMEOUT=6s DEAD_PEER_SECONDS=20
    ;;
deadline)
    # With UCX's defaults, and without tcp, nobody notices anything before.
    export UCXPOOL_PEER_TIMEOUT=inf
    case $transport in
    rc) export UCX_TLS=rc_verbs,ud_verbs,self ;;
    esac
    export DEAD_PEER_SECONDS=20 DEAD_PEER_UNSEEN=yes
    ;;
esac
CK_RUN_CASE=$1 CK_TIMEOUT_MULTIPLIER=10 "$top_builddir/tests/test_dead_peer" ||
    fail "test_dead_peer: exit status $?"
