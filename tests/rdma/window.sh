#!/bin/sh
# A window is read and written with default settings, and every byte arrives.
# Over rc, long pieces go by RDMA and short ones by messages. Over ud, which has
# no RDMA, everything goes by messages.
#
# usage: window.sh rc|ud
. "$top_srcdir/tests/rdma/verbs.sh"
use "$1" auto
case $1 in
rc) way=rma ;;
*) way=messages ;;
esac

# window NUM SIZE - NUM pieces of one length, compared byte by byte.
window() {
    packets=$(counter sent_pkts)
    sends=$(counter rdma_sends)
    run "$top_builddir/tests/bench_window" -r 1 -n "$1" -s "$2" >table ||
        fail "$1 x $2: exit status $?"
    packets=$(($(counter sent_pkts) - packets))
    sends=$(($(counter rdma_sends) - sends))
    cat table
    echo "$packets packets, $sends messages"
    grep -q "| $1 x $2 | $way |" table || fail "$1 x $2: not by $way"
}

window 4 262144
window 64 4096

# A process that dies during a transfer is detected soon, and its peer survives.
no_settings
case $1 in
rc)
    export UCX_RC_VERBS_RETRY_COUNT=3 UCX_RC_VERBS_TIMEOUT=100ms
    export UCX_UD_VERBS_TIMEOUT=60s UCX_KEEPALIVE_INTERVAL=1s
    TEST_RDMA=yes TEST_SLOW=yes CK_TIMEOUT_MULTIPLIER=10 \
        "$top_builddir/tests/test_window_death" ||
        fail "test_window_death: exit status $?"
    ;;
esac
