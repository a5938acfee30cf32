#!/bin/sh
# Tests ucxpool_shuffle under a memory limit, with a file several times larger
# than the limit, from disk to disk. The limit is that of a control group, so it
# applies to all workers together, including the page cache of their files.
#
# LIMIT_MIB and FACTOR: the limit, and how many times larger the file is.
set -u
LC_ALL=C
export LC_ALL

: "${top_builddir:=$(pwd)}"
shuffle=${SHUFFLE:-$top_builddir/tools/ucxpool_shuffle}
: "${LIMIT_MIB:=96}" "${FACTOR:=4}"
: "${UCXPOOL_COMM_SIZE:=8m}" "${UCXPOOL_BLOCK_SIZE:=256k}"
export UCXPOOL_COMM_SIZE UCXPOOL_BLOCK_SIZE

skip() {
    echo "skipped: $*"
    exit 77
}

# Sanitizers need additional memory.
[ -z "${SANITIZER_CFLAGS:-}" ] || skip "built with a sanitizer"

work=$(mktemp -d "$(pwd)/memory-XXXXXX")
group=
cleanup() {
    rm -rf "$work"
    [ -z "$group" ] || rmdir "$group"
}
trap cleanup EXIT
cd "$work" || exit 1

# Output in a memory file system would count against the limit.
case $(stat -f -c %T .) in
tmpfs | ramfs) skip "$work is in memory, not on a disk" ;;
esac
free=$(df -Pk . | awk 'NR == 2 { print int($4 / 1024) }')
[ "$free" -gt $((LIMIT_MIB * FACTOR * 2 + 1024)) ] ||
    skip "the disk has only $free MiB free"

# make_group DIR FILE - create a control group whose limit is set by FILE.
make_group() {
    [ -w "$1" ] && mkdir "$1/ucxpool-$$" 2>/dev/null || return 1
    group=$1/ucxpool-$$
    if [ -e "$group/$2" ] && echo "${LIMIT_MIB}M" >"$group/$2"; then
        # Disable swapping, too.
        echo 0 >"$group/memory.swap.max"
        return 0
    fi 2>/dev/null
    rmdir "$group"
    group=
    return 1
}

# Try version 2 below this process's group, version 2 below the root, and
# version 1 below this process's group.
own=$(sed -n 's/^0:://p' /proc/self/cgroup)
own_memory=$(sed -n 's/^[0-9]*:memory://p' /proc/self/cgroup)
make_group "/sys/fs/cgroup${own%/}" memory.max ||
    make_group /sys/fs/cgroup memory.max ||
    make_group "/sys/fs/cgroup/memory${own_memory%/}" memory.limit_in_bytes ||
    skip "no control group with a limit on memory can be made here"

awk 'BEGIN {
    for (i = 0; i < 10000; i++) {
        print i * 7919 % 1000 "|" i "|abcdefghijklmnopqrstuvwxyz0123456789|"
    }
}' >piece
num_pieces=$((LIMIT_MIB * FACTOR * 1048576 / $(wc -c <piece) + 1))
awk -v n="$num_pieces" '{ line[NR] = $0 "\n" } END {
    for (i = 1; i <= NR; i++) {
        piece = piece line[i]
    }
    while (n-- > 0) {
        printf "%s", piece
    }
}' piece >in.tbl
# Drop the file from the page cache, so that it is read from the disk.
dd if=in.tbl iflag=nocache count=0 2>/dev/null

num_failed=0
for partitions in 8 100; do
    if sh -c 'echo $$ >"$1"/cgroup.procs && shift && exec "$@"' sh "$group" \
        "$shuffle" -w 2 -p $partitions --json -o out in.tbl >stdout 2>stderr &&
        grep -q "\"output\": {\"records\": $((10000 * num_pieces))," stdout &&
        [ "$(cat out/part-* | wc -c)" -eq "$(wc -c <in.tbl)" ]; then
        echo "$(($(wc -c <in.tbl) / 1048576)) MiB under $LIMIT_MIB MiB," \
            "-p $partitions: done"
    else
        echo "FAIL: -p $partitions: $(cat stderr)"
        num_failed=$((num_failed + 1))
    fi
    rm -rf out
done
[ "$num_failed" -eq 0 ]
