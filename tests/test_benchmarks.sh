#!/bin/sh
# Tests tools/make-benchmarks, which makes docs/benchmarks/host.md from the
# files in docs/benchmarks/, and which measures and writes in two steps.
set -eu

make=$top_srcdir/tools/make-benchmarks
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export UCX_LOG_LEVEL=error UCXPOOL_COMM_SIZE=32m UCXPOOL_BLOCK_SIZE=1m

fail() {
    echo "$1"
    cat "$dir/log"
    exit 1
}

has_gnuplot() {
    command -v gnuplot >/dev/null
}

# write DIR - write the page and its pictures. Without gnuplot, only the page is
# written, and the tool fails.
write() {
    code=0
    sh "$make" --write "$1" >"$dir/log" 2>&1 || code=$?
    if has_gnuplot; then
        [ $code -eq 0 ] || fail "--write $1: exit code $code"
    else
        [ $code -eq 1 ] || fail "--write $1: exit code $code"
        grep -q 'no gnuplot' "$dir/log" || fail 'gnuplot is not named'
    fi
    [ -s "$1/host.md" ] || fail "no page $1/host.md"
}

# says FILE WORDS - require that the file contains the words.
says() {
    grep -qF -- "$2" "$1" || {
        echo "$1 lacks: $2"
        cat "$1"
        exit 1
    }
}

# The committed page matches the committed files.
mkdir "$dir/benchmarks"
cp "$top_srcdir"/docs/benchmarks/*.json "$top_srcdir"/docs/benchmarks/*.md \
    "$dir/benchmarks"
write "$dir/benchmarks"
if ! diff "$top_srcdir/docs/benchmarks/host.md" "$dir/benchmarks/host.md"; then
    echo 'docs/benchmarks/host.md is out of date; run'
    echo 'tools/make-benchmarks --write docs/benchmarks'
    exit 1
fi
if has_gnuplot; then
    for json in "$dir"/benchmarks/ucx-*.json; do
        says "${json%.json}.svg" 'wire map'
        says "${json%.json}.svg" 'wire ucx'
        says "${json%.json}.svg" 'IOV datatype'
    done
fi
for picture in $(sed -n 's/^!.*(\(.*\.svg\))$/\1/p' "$dir/benchmarks/host.md"); do
    if [ ! -s "$top_srcdir/docs/benchmarks/$picture" ]; then
        echo "docs/benchmarks/$picture is missing"
        exit 1
    fi
done

# Notes under a table name the GPUs, missing sides, and sides that transfer
# only some of the buffers.
cat >"$dir/gpus.json" <<'JSON'
    {"test": "each", "command": "ucxpool_perf --wire map", "size": 64, "count": 1048576, "device": "cuda:0,1", "gpus": ["One", "Two"],
        {"side": "pool/map", "seconds": 2, "seconds_p05": 1, "seconds_p95": 4, "gb_per_s": 6},
        {"side": "am-each/peer", "missing": "this UCX knows no GPU"},
        {"side": "am-each/none", "seconds": 8, "gb_per_s": 1.5, "buffers_moved": 16384}
        {"against": "am-each/none", "counts": true, "ratio": 4, "p05": 3, "p95": 5}
JSON
awk -f "$top_srcdir/tools/benchmarks/results.awk" \
    -f "$top_srcdir/tools/benchmarks/tables.awk" "$dir/gpus.json" >"$dir/gpus"
says "$dir/gpus" '| 6 GB/s (3 to 12) | am-each/none | 1.5 GB/s |'
says "$dir/gpus" '- The buffers are in the memory of cuda:0,1'
says "$dir/gpus" ': am-each/peer is missing: this UCX knows no GPU'
says "$dir/gpus" '- am-each/none transfers at most 16,384 buffers'
grep -v '"against"\|am-each/none' "$dir/gpus.json" >"$dir/alone.json"
awk -f "$top_srcdir/tools/benchmarks/results.awk" \
    -f "$top_srcdir/tools/benchmarks/tables.awk" "$dir/alone.json" >"$dir/alone"
says "$dir/alone" '| 6 GB/s (3 to 12) | none | | | |'

# Run the short benchmarks. Text written by hand is kept.
mkdir "$dir/new"
echo 'Written by hand.' >"$dir/new/why.md"
sh "$make" --measure "$dir/new" -r 1 -T 0.1 -s 4k -n 50 \
    --table map "$top_builddir" \
    >"$dir/log" 2>&1 || fail '--measure failed'
[ ! -e "$dir/new/host.md" ] || fail '--measure has written the page'
write "$dir/new"
says "$dir/new/host.md" 'Written by hand.'
says "$dir/new/host.md" '`ucxpool_perf -r 1 -T 0.1 -s 4k -n 50 --table map`'
says "$dir/new/host.md" '| pingpong, 64 B |'
# ends CODE WORDS ARGUMENT... - require a failure with this error.
ends() {
    expected=$1
    words=$2
    shift 2
    code=0
    sh "$make" "$@" >"$dir/log" 2>&1 || code=$?
    [ $code -eq "$expected" ] || fail "$*: exit code $code, not $expected"
    grep -qF -- "$words" "$dir/log" || fail "$*: the error lacks: $words"
}
ends 2 usage --measure "$dir/new"
ends 2 usage --write "$dir/new" "$top_builddir"
ends 2 usage --nonsense
ends 2 usage -T
ends 1 'build it first' --measure "$dir/none" "$dir"
ends 1 'machine.md' --write "$dir"
[ ! -e "$dir/none" ] || fail 'a directory was created despite the error'
sh "$make" --help >"$dir/log"
grep -q -- '--table' "$dir/log" || fail '--help does not print the usage'
