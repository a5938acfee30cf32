#!/bin/sh
# Tests ucxpool_replay: logs and workloads with every allocator, reports, and
# errors. Uses the stand-in driver, or with TEST_CUDA=real only the driver of
# this machine.
set -eu

replay=$top_builddir/tools/ucxpool_replay
library=$top_builddir/tests/cuda_stand_in/.libs/libstand_in.so
plugin=$top_builddir/tests/replay_plugin/.libs/libplugin.so
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export UCX_LOG_LEVEL=error

fail() {
    echo "$1"
    for file in "$dir"/out "$dir"/err; do
        if [ -s "$file" ]; then
            head -n 20 "$file"
        fi
    done
    exit 1
}

# run CODE ARGUMENT... - require that the tool ends with that exit code.
run() {
    expected=$1
    shift
    code=0
    "$replay" "$@" >"$dir/out" 2>"$dir/err" || code=$?
    [ "$code" -eq "$expected" ] ||
        fail "ucxpool_replay $*: exit code $code, $expected expected"
}

# says STREAM WORDS - require these words in that stream of the last run.
says() {
    grep -qF -- "$2" "$dir/$1" || fail "std$1 lacks: $2"
}

# unquoted - print the CSV of the last run, without commas in the names of
# traces.
unquoted() {
    sed 's/^"\([^",]*\)[^"]*"/\1/' "$dir/out"
}

# field NAME - print that field of the first line in the last run's CSV.
field() {
    unquoted | awk -F, -v name="$1" '
        NR == 1 { for (i = 1; i <= NF && $i != name; i++) { } }
        NR == 2 { print $i }'
}

# A log as RMM writes it, with some inconsistent lines.
cat >"$dir/log.csv" <<'EOF'
Thread,Time,Action,Pointer,Size,Stream
100,10:00:00.000001,free,0x7f0000000900,64,0
100,10:00:00.000002,allocate,0x7f0000000100,1000000,0x55d000001000
101,10:00:00.000003,allocate,0x7f0000200100,3000000,0x55d000002000
101,10:00:00.000004,allocate failure,(nil),99999999999,0x55d000002000
100,10:00:00.000005,free,0x7f0000000100,1000001,0x55d000002000
101,10:00:00.000006,allocate,0x7f0000000100,500,0
EOF

# The stand-in GPU lacks every optional feature.
on_stand_in() {
    CUDA_STAND_IN=devices=0 run 1 -w rmm:100,1 -d cuda
    UCXPOOL_CUDA_DRIVER=${library%/*}/libold_stand_in.so \
        run 1 -w rmm:100,1 -d cuda -a async
    says err 'no cuMemPoolCreate'
    CUDA_STAND_IN=memory=512m,fail=cuMemFreeAsync:9:700 \
        run 1 -w rmm:100,1 -d cuda -a async
    says err 'cuMemFreeAsync: CUDA_ERROR_ILLEGAL_ADDRESS'
    run 1 -w rmm:100,1 -d cuda -a async -c 1g
    says err '-c needs 1024'
    # A plug-in receives the GPU, and enforces its capacity itself.
    run 0 -r 1 -w rmm:100,1 -d cuda -p "$plugin" -p "also=$plugin" -c 64m
    for name in heap async plugin also; do
        grep -q "^$name " "$dir/out" || fail "no line for $name"
    done
    run 0 -r 1 -w rmm:100,1 -d cuda -p "mine=$plugin" -a mine --csv
    [ "$(field allocator)" = mine ] || fail 'wrong allocator'
    [ "$(field peak_reserved)" = "$(field peak_live)" ] || fail 'the plug-in reports wrong held bytes'
}
on_gpu() {
    run 0 -r 1 -w rmm:100,1 -d cuda
    for name in heap async; do
        grep -q "^$name " "$dir/out" || fail "no line for $name"
    done
    run 0 -r 1 "$dir/log.csv" -d cuda
    run 1 -w rmm:100,1 -d cuda:99
    says err 'GPU 99 does not exist'
}

if [ "${TEST_CUDA-}" = real ]; then
    unset UCXPOOL_CUDA_DRIVER CUDA_STAND_IN
    "$replay" -r 1 -w pair:1m,10 -d cuda -a async >"$dir/out" 2>"$dir/err" || {
        echo 'no CUDA driver, or no GPU'
        exit 77
    }
    on_gpu
    exit 0
fi
if [ -e "$library" ]; then
    export UCXPOOL_CUDA_DRIVER="$library" CUDA_STAND_IN='memory=512m'
    on_stand_in
    on_gpu
    unset UCXPOOL_CUDA_DRIVER CUDA_STAND_IN
else
    echo 'Check is not installed, so there is no stand-in driver: no GPU'
fi
[ -z "${TEST_CUDA-}" ] || exit 0

run 0 --help
says out 'usage: ucxpool_replay'
run 0 --version
says out 'libucxpool'
run 0 --list
says out 'rmm:N,MIB'
for option in --help --version --list; do
    code=0
    "$replay" $option >/dev/full 2>"$dir/err" || code=$?
    [ "$code" -eq 1 ] || fail "$option on a full disk: exit code $code"
    says err 'No space left on device'
done

run 0 "$dir/log.csv"
says out '4 calls, 3 allocations; 3 streams'
says out 'at most 3.81 MiB live, in 2 allocations; 2 never freed'
says out '1 allocations failed when the log was written: omitted'
says out '1 frees of unknown addresses: omitted (first in line 2)'
says out '1 frees with a size that differs from the allocation'
says out 'heap '
"$replay" - <"$dir/log.csv" >"$dir/out" 2>"$dir/err" || fail 'standard input'
says out 'standard input: 4 calls'

# Every workload.
for workload in rmm:200,1 'trace1 -s 1/1024' 'trace2 -s 1/1024' \
    'trace3 -s 1/1024' 'trace4 -s 1/256' checkerboard:4,64m pair:1m,50 \
    holes:64k,50 'aba -s 1/64'; do
    run 0 -r 1 -w $workload
    says out 'heap '
done

# The heap's own log can be replayed.
UCXPOOL_HEAP_LOG=$dir/heap.csv run 0 -r 1 -w rmm:100,1 -a heap
run 0 "$dir/heap.csv" -r 1 --csv
[ "$(field trace)" = "$dir/heap.csv" ] || fail 'the heap has written no log'
says out heap

run 0 -r 1 -w checkerboard:4,64m -a heap --csv
[ "$(field failures)" = 0 ] || fail 'the heap fails on the checkerboard'
run 0 -r 1 -w rmm:200,1 -a heap -c 64m
says out 'capacity 64 MiB'
# Settings of the blocks; the heap's pool has almost none.
for setting in FRAG_SIZE=1m REGION_SIZE=8m BLOCK_SIZE=8m HUGE_PAGES=y; do
    (export UCXPOOL_$setting
     run 0 -r 1 -w pair:1k,10 -a heap) || exit 1
done

# The heap holds the amount that is reserved in advance: bytes, or a part of the
# free memory.
run 0 -r 1 -w rmm:200,1 -a heap --reserve 128m --csv
[ "$(field peak_reserved)" = 134217728 ] || fail 'the heap has not reserved 128 MiB'
run 0 -r 1 -w rmm:200,1 -a heap --reserve 1% --csv
[ "$(field peak_reserved)" -gt 0 ] || fail 'the heap has reserved nothing'
run 1 -r 1 -w rmm:200,1 -a heap -c 64m --reserve 128m
says err 'lower --reserve or raise -c'
! grep -q MEMORY_LIMIT "$dir/err" || fail 'the error names a setting that was not given'
# Without -c, the setting limits the heap.
UCXPOOL_MEMORY_LIMIT=64m run 0 -r 1 -w rmm:200,64 --csv
[ "$(field peak_reserved)" -le 67108864 ] || fail 'the heap exceeds its limit'
# The smallest capacity that is allowed, and less.
run 0 -r 1 -w rmm:200,1 -c 2m -a heap
says out 'capacity 2 MiB'
[ ! -s "$dir/err" ] || fail 'the smallest capacity that is allowed fails'
run 2 -r 1 -w rmm:200,1 -a heap -c 1
says err '-c 1: give bytes, 2m or more'

# A name may precede a plug-in. Running out of memory is a result.
run 0 -r 1 -a heap,mine -w rmm:200,1 -p mine="$plugin" --csv
unquoted | grep -q '^rmm:.*,mine,' || fail 'no line for the plug-in'
run 0 -r 1 -w checkerboard:4,64m -p "$plugin" -a plugin --csv
[ "$(field failures)" = 0 ] || fail 'a plug-in without fragments fails'
run 0 -r 1 -w rmm:200,1 -p "$plugin" -a plugin -c 2m --csv
[ "$(field failures)" -gt 0 ] || fail 'a plug-in does not know its capacity'
for n in 1 2; do
    PLUGIN_FAILS=$n run 1 -r 1 -w rmm:200,1 -p "$plugin" -a plugin
    says err 'plugin_init(-1, '
    says err 'returned 7'
done
run 1 -w rmm:100,1 -p "$dir/none.so"
says err "cannot load the plug-in $dir/none.so:"
run 1 -w rmm:100,1 -p a=none.so
says err 'plug-in none.so: ./none.so'
run 1 -w rmm:100,1 -p "$dir/log.csv"
says err 'cannot load the plug-in'
run 1 -w rmm:100,1 -p "$(ls "$top_builddir"/.libs/libucxpool.so.? | head -n 1)"
says err 'has no function plugin_alloc()'
for name in heap= a,b= mine= =x waytoolongtobeaname=; do
    run 2 -w rmm:100,1 -p mine="$plugin" -p "$name$plugin"
done
says err 'each name must be different'
run 2 -w rmm:100,1 -p "$plugin" -p "$plugin"
run 2 -w rmm:100,1 -p a=
run 2 -w rmm:100,1 -p mine="$plugin" -a yours

# Test the reports.
run 0 -r 1 -w rmm:100,1 --csv
[ "$(unquoted | awk -F, '{ print NF }' | sort -u | wc -l)" -eq 1 ] ||
    fail 'lines of different length'
code=0
"$replay" -r 1 -w rmm:100,1 --csv >/dev/full 2>"$dir/err" || code=$?
[ $code -eq 1 ] || fail "a full disk: exit code $code"
says err 'No space left on device'

# Errors are reported with advice.
run 2
says err 'give a log, or a workload'
run 2 -w rmm:100,1 "$dir/log.csv"
says err 'not both'
run 2 "$dir/log.csv" "$dir/log.csv"
run 2 -w nonsense
says err '--list prints all'
run 2 -w rmm:100
says err 'rmm:N,MIB'
for bad in '-a malloc' '-a heap,heap' '-a ,' '-d gpu' '-d cuda:' '-d cuda:-1' \
    '-c 0' '-c much' '-s 2' '-s 1/0' '-s 1/x' '-r 0' '-r 1001' \
    '--reserve 0' '--reserve 0%' '--reserve 101%' \
    '--reserve 5%%' '--reserve much' '--nonsense' '-a cuda' '-a heap,async'; do
    run 2 -w rmm:100,1 $bad
done
run 2 -w rmm:100,1 -a async
says err 'give --device cuda'
run 1 "$dir/none.csv"
says err 'none.csv: No such file'
printf 'Thread,Time,Action,Pointer,Size,Stream\n1,t,allocate,0x1,x,0\n' \
    >"$dir/bad.csv"
run 1 "$dir/bad.csv"
says err "$dir/bad.csv:2: the size is not a number of bytes: x"
: >"$dir/empty.csv"
run 1 "$dir/empty.csv"
says err 'the log contains no allocation'
run 1 -w pair:60000g -a heap
says err 'divide its sizes with --scale'
UCXPOOL_DEPTH=nonsense run 1 -w rmm:100,1 -a heap
says err UCXPOOL_DEPTH=nonsense
UCXPOOL_CUDA_DRIVER=$dir/none.so run 1 -w rmm:100,1 -d cuda -a async
says err 'no CUDA driver'
