#!/bin/sh
# A killed peer is noticed in the time that UCX's settings promise, and a
# request's own deadline ends it before.
#
# usage: dead_peer.sh noticed|deadline rc|ud auto|get_zcopy|put_zcopy
. "$top_srcdir/tests/rdma/verbs.sh"
use "$2" "$3"
no_settings
case $1 in
noticed)
    # By default it is 50 seconds: a keepalive after 20 at most, and 30 for ud.
    # rxe takes a count of 7 as 'for ever', and so does UCX's default.
    export UCX_KEEPALIVE_INTERVAL=1s UCX_UD_VERBS_TIMEOUT=2s
    export DEAD_PEER_SECONDS=20
    if [ "$transport" = rc ]; then
        export UCX_RC_VERBS_RETRY_COUNT=3 UCX_RC_VERBS_TIMEOUT=100ms
    fi
    ;;
deadline)
    # With UCX's defaults, and without tcp, nobody notices anything before.
    case $transport in
    rc) export UCX_TLS=rc_verbs,ud_verbs,self ;;
    esac
    export DEAD_PEER_SECONDS=20 DEAD_PEER_UNSEEN=yes
    ;;
esac
CK_RUN_CASE=$1 CK_TIMEOUT_MULTIPLIER=10 "$top_builddir/tests/test_dead_peer" ||
    fail "test_dead_peer: exit status $?"
