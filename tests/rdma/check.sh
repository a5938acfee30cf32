#!/bin/sh
# A test program of make check, where its pools' bytes go over verbs.
#
# usage: check.sh PROGRAM rc|ud auto|get_zcopy|put_zcopy
. "$top_srcdir/tests/rdma/verbs.sh"
use "$2" "$3"
no_settings
export TEST_SLOW=yes CK_TIMEOUT_MULTIPLIER=10 TEST_ROUNDS=2

program=$top_builddir/tests/$1
[ -x "$program" ] || { echo "skipped: there is no $1"; exit 77; }
packets=$(counter sent_pkts)
"$program" || fail "$1: exit status $?"
packets=$(($(counter sent_pkts) - packets))
echo "$packets packets"
[ "$packets" -gt 100 ] || fail "$1: nothing went over the device"
