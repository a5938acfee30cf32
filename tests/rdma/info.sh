#!/bin/sh
# ucxpool_info on an RDMA device names the device, sends a message over UCX, and
# succeeds.
#
# usage: info.sh rc|ud auto
. "$top_srcdir/tests/rdma/verbs.sh"
use "$1" "$2"
run "$top_builddir/tools/ucxpool_info" --test >info 2>&1 ||
    { cat info; fail 'ucxpool_info failed'; }
cat info
grep -q "with failure handling .*$1_verbs/rxe0:1" info ||
    fail "UCX does not list $1_verbs/rxe0:1 with failure handling"
