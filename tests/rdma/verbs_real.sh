#!/bin/sh
# The pool's blocks used with the caller's own verbs: registered in protection
# domains, written and read by a peer.
. "$top_srcdir/tests/rdma/verbs.sh"
no_settings
for program in tests/test_verbs_real examples/verbs_write; do
    [ -x "$top_builddir/$program" ] || {
        echo "skipped: $program was not built: is there no libibverbs?"
        exit 77
    }
done
# UCX uses no RDMA device here, and does not know the setting for one.
unset UCX_UD_VERBS_ETH_DGID_CHECK
export CK_TIMEOUT_MULTIPLIER=10 TEST_SLOW=yes
"$top_builddir/tests/test_verbs_real" || fail "test_verbs_real: $?"
run "$top_builddir/examples/verbs_write" || fail "verbs_write: $?"
