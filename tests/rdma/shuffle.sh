#!/bin/sh
# ucxpool_shuffle over verbs writes the same records to the same files as with
# one worker, which exchanges nothing.
#
# usage: shuffle.sh rc|ud auto|get_zcopy|put_zcopy
. "$top_srcdir/tests/rdma/verbs.sh"
use "$1" "$2"
export UCXPOOL_COMM_SIZE=8m UCXPOOL_BLOCK_SIZE=256k

awk 'BEGIN {
    x = "abcdefghijklmnopqrstuvwxyz0123456789"
    for (i = 0; i < 30000; i++) {
        print i * 7919 % 1000 "|" i "|" substr(x x x, 1, i * 31 % 100) "|"
    }
}' >in.tbl
run "$tools/ucxpool_shuffle" -w 1 -p 8 -o one in.tbl || fail "-w 1: $?"
packets=$(counter sent_pkts)
run "$tools/ucxpool_shuffle" -w 3 -p 8 -o three in.tbl || fail "-w 3: $?"
packets=$(($(counter sent_pkts) - packets))
bytes=$(wc -c <in.tbl)
echo "$bytes bytes, $packets packets"
for file in one/*; do
    sort "$file" >expected
    sort "three/${file#one/}" | cmp - expected ||
        fail "${file#one/} differs from that of one worker"
done
[ "$(ls one)" = "$(ls three)" ] || fail 'the files are not the same'
# Two thirds of the records are sent to another worker.
[ $((packets * 4096)) -gt $((bytes / 2)) ] ||
    fail 'not all bytes went over the device'
