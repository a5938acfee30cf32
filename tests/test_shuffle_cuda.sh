#!/bin/sh
# Tests ucxpool_shuffle --device=cuda: the partitions are the same as without
# this option, and GPU errors are reported. Uses the stand-in for the CUDA
# driver, or with TEST_CUDA=real the driver of this machine.
#
# usage: test_shuffle_cuda.sh [PART...]
set -u
top_srcdir=$(cd "${top_srcdir:-$(dirname "$0")/..}" && pwd)
. "$top_srcdir/tests/shuffle.sh"
stand_in=$top_builddir/tests/cuda_stand_in/.libs/libstand_in.so

cd "$work" || exit 1

skip() {
    echo "skipped: $*"
    exit 77
}

# on_real THAT THIS - print THAT for a real driver, and THIS for the stand-in
# (in one build). A real driver takes seconds to start in each process, so cases
# that do not depend on the driver are tested less there.
on_real() {
    if [ $is_real = yes ]; then
        echo "$1"
    else
        few "$1" "$2"
    fi
}

if [ "${TEST_CUDA:-}" = real ]; then
    is_real=yes
    unset UCXPOOL_CUDA_DRIVER
    echo 'a|b' >probe.tbl
    "$shuffle" -w 1 --device=cuda -o probe probe.tbl >/dev/null 2>stderr ||
        skip "$(cat stderr)"
else
    is_real=no
    [ -e "$stand_in" ] || skip "the stand-in is not built: Check is missing"
    UCXPOOL_CUDA_DRIVER=$stand_in
    export UCXPOOL_CUDA_DRIVER
fi

# fails STATUS TEXT ARG... - the run must fail with that status and print TEXT
# once; no file may be left.
fails() {
    expected=$1
    text=$2
    shift 2
    rm -rf out
    run_tool -o out "$@"
    [ $status -eq "$expected" ] ||
        failed "ucxpool_shuffle $*: exit status $status, not $expected"
    [ "$(grep -c -e "$text" stderr)" -eq 1 ] ||
        failed "ucxpool_shuffle $*: does not say '$text' once: $(cat stderr)"
    [ ! -e out ] || failed "ucxpool_shuffle $*: the output folder is left"
}

# same ARG... - require that the partitions are the same, byte for byte, with
# and without a GPU. If several workers send, the order of records varies, so
# they are sorted first.
same() {
    passes "$@" || return
    rm -rf expected
    mv out expected
    passes --device=cuda --json "$@" || return
    [ "$(ls out)" = "$(ls expected)" ] || failed "$*: other files"
    for file in expected/*; do
        name=${file#expected/}
        case "$*" in
        *'-w 1 '*) ;;
        *)
            sort -o "$file" "$file"
            sort -o "out/$name" "out/$name"
            ;;
        esac
        cmp -s "$file" "out/$name" || failed "$*: $name differs"
    done
    grep -q '"gpu": {"number": ' stdout || failed "$*: not on a GPU"
    [ "$(sum early_bytes)" -eq 0 ] || failed "$*: written early, with room"
}

# sum KEY - print the sum of that number over all workers.
sum() {
    grep -o "\"$1\": [0-9]*" stdout | awk '{ n += $2 } END { print n + 0 }'
}

# records N - print N records of different lengths, with 1000 keys.
records() {
    awk -v n="$1" 'BEGIN {
        x = "abcdefghijklmnopqrstuvwxyz0123456789"
        for (i = 0; i < n; i++) {
            key = i * 7919 % 1000
            print key "|" i "|" substr(x x x, 1, i * 31 % 100) "|"
        }
    }'
}

# --- valid use -----------------------------------------------------------

part_same() {
    records 30000 >in.tbl
    for w in $(on_real '1 3' '1 2 3 5'); do
        for p in $(on_real 8 '1 8 100'); do
            same -w $w -p $p in.tbl
        done
    done
}

part_wires() {
    records 30000 >in.tbl
    for wire in map ucx; do
        for backing in alloc vmm host; do
            # Blocks in host memory are not mapped between GPUs.
            [ $wire.$backing != map.host ] || continue
            UCXPOOL_WIRE=$wire UCXPOOL_CUDA_BACKING=$backing
            export UCXPOOL_WIRE UCXPOOL_CUDA_BACKING
            for w in $(on_real 3 '2 3'); do
                same -w "$w" -p 8 in.tbl
                grep -q "\"wire\": \"$wire\"" stdout ||
                    failed "$backing: the wire is not $wire: $(cat stdout)"
            done
        done
    done
}

# Work on streams completes late.
part_late() {
    [ $is_real = no ] || return 0
    records 30000 >in.tbl
    CUDA_STAND_IN=run=late
    export CUDA_STAND_IN
    for w in 1 2 3; do
        same -w $w -p 8 in.tbl
    done
}

part_odd() {
    : >empty.tbl
    printf 'a|b\n' >one.tbl
    printf 'a\000b|\000\n\000|\n\000\n\nc|d' >odd.tbl
    records 5000 | sed 's/^[0-9]*/k/' >onekey.tbl
    # Records longer than a batch are sent through the host.
    { records 100
      for n in 300000 3000000 20000000; do
          printf 'k%s|' $n
          head -c $n /dev/zero | tr '\000' x
          echo '|'
      done
      records 100; } >long.tbl
    for w in $(on_real 3 '1 2 3'); do
        [ $is_real = yes ] || same -w $w -p 3 empty.tbl
        [ $is_real = yes ] || same -w $w -p 3 one.tbl
        same -w $w -p 3 odd.tbl one.tbl empty.tbl
        same -w $w -p 4 onekey.tbl
        same -w $w -p 5 long.tbl
    done
}

# Batches beyond the limit are written early.
part_bound() {
    for n in 1 2 3 4 5 6 7 8; do
        records 100000
    done >in.tbl
    for w in $(on_real 3 '1 2 3'); do
        passes -w $w -p 6 in.tbl || continue
        cat out/part-* | sort >expected
        passes -w $w -p 6 --device=cuda --device-memory=12m --json in.tbl ||
            continue
        cat out/part-* | sort | cmp -s - expected || failed "-w $w: differs"
        [ "$(sum early_bytes)" -gt 0 ] || failed "-w $w: the limit has no effect"
        [ "$(sum max_held_bytes)" -le $((w * 12 << 20)) ] ||
            failed "-w $w: more is held than allowed"
        # While the exchange uses all slots, a worker writes its own batches at
        # once (tools/shuffle/worker.c). A single worker never does.
        least=$(wc -c <in.tbl)
        [ $w -eq 1 ] || least=$((least / 2))
        [ "$(sum held_bytes)" -ge "$least" ] ||
            failed "-w $w: not everything was on the GPU"
    done
    passes -w 2 --device=cuda --device-memory=12m in.tbl
    grep -q 'In GPU memory: .* written before the end to make room' stdout ||
        failed "the summary lacks it: $(cat stdout)"
}

part_devices() {
    [ $is_real = no ] || return 0
    records 10000 >in.tbl
    CUDA_STAND_IN=devices=2
    export CUDA_STAND_IN
    same -w 3 -p 6 in.tbl
    [ "$(grep -o '"number": [0-9]*' stdout | tr -d '\n')" = \
        '"number": 0"number": 1"number": 0' ] ||
        failed "the GPUs are not used in turn: $(cat stdout)"
    passes -w 2 -p 6 --device=cuda:1 --json in.tbl
    [ "$(grep -o '"number": [0-9]*' stdout | tr -d '\n')" = \
        '"number": 1"number": 1' ] || failed "not GPU 1: $(cat stdout)"
}

# Test GPUs without peer access, and drivers with missing features.
part_lesser() {
    [ $is_real = no ] || return 0
    records 30000 >in.tbl
    for lesser in devices=2,peers=n vmm=n posix=n version=11040,memops=n; do
        CUDA_STAND_IN=$lesser
        export CUDA_STAND_IN
        same -w 2 -p 6 in.tbl
    done
    UCXPOOL_CUDA_DRIVER=${stand_in%/*}/libold_stand_in.so
    CUDA_STAND_IN=version=11040
    export UCXPOOL_CUDA_DRIVER CUDA_STAND_IN
    same -w 2 -p 6 in.tbl
}

# Under a launcher, the workers of a host share its GPUs evenly.
part_mpirun() {
    # Let any user run mpirun, with any number of processors.
    mpirun='mpirun --allow-run-as-root --oversubscribe'
    if ! mpirun --version 2>/dev/null | grep -q 'Open MPI' ||
        [ -n "${SANITIZER_CFLAGS:-}" ]; then
        echo "$part: no Open MPI, or built with a sanitizer"
        return
    fi
    # mpirun may fail to start, for example with another libpmix.
    if ! $mpirun -n 1 true >mpirun 2>&1; then
        echo "$part: mpirun itself does not run here: $(head -3 mpirun)"
        return
    fi
    records 30000 >in.tbl
    sort in.tbl >expected
    [ $is_real = yes ] || export CUDA_STAND_IN=devices=2
    $mpirun -n 3 "$shuffle" -p 6 --device=cuda --json \
        -o out in.tbl >stdout 2>stderr ||
        failed "exit status $?: $(cat stderr)"
    cat out/part-* | sort | cmp -s - expected || failed "other records"
    [ $is_real = yes ] ||
        [ "$(grep -o '"number": [0-9]*' stdout | tr -d '\n')" = \
            '"number": 0"number": 1"number": 0' ] ||
        failed "the GPUs are not used in turn: $(cat stdout)"
}

# Run the parts of test_shuffle.sh with a GPU. With a real GPU, each run states
# its number of workers: the default is one per processor.
part_others() {
    printf '#!/bin/sh\nexec %s --device=cuda "$@"\n' "$shuffle" >on_gpu
    chmod +x on_gpu
    SHUFFLE=$PWD/on_gpu TEST_MANY=$(on_real 8 32) UCXPOOL_COMM_SIZE=32m \
        UCXPOOL_BLOCK_SIZE=2m sh "$top_srcdir/tests/test_shuffle.sh" \
        $(on_real first_cause 'fields json outputs first_cause') \
        killed_worker interrupted killed_main || failed "see above"
}

# --- errors --------------------------------------------------------------

part_usage() {
    records 10 >in.tbl
    for device in gpu cuda: cuda:x cuda:1x cuda:-1 cuda:9999 cuda:99999999999 \
        cudax ''; do
        fails 2 'give cuda, or cuda:N' --device="$device" in.tbl
    done
    for size in 0 x 12x 12mm -1m 99999999999999999999 18446744073709551615k; do
        fails 2 'give bytes' --device=cuda --device-memory=$size in.tbl
    done
    fails 2 'for use with --device' --device-memory=12m in.tbl
    fails 1 'too few for the batches' --device=cuda --device-memory=64k in.tbl
}

part_no_gpu() {
    records 10 >in.tbl
    for w in $(on_real 3 '1 3'); do
        UCXPOOL_CUDA_DRIVER=/none fails 1 'no CUDA driver: .*/none' -w $w \
            --device=cuda in.tbl
        fails 1 'GPU 77 does not exist' -w $w --device=cuda:77 in.tbl
        [ $is_real = no ] || continue
        CUDA_STAND_IN=devices=0 fails 1 NO_DEVICE -w $w --device=cuda in.tbl
        CUDA_STAND_IN=memory=64k fails 1 'are free.*fewer workers' -w $w \
            --device=cuda in.tbl
    done
    # Without a GPU option, no driver is needed.
    UCXPOOL_CUDA_DRIVER=/none passes -w 2 in.tbl
}

# If a driver call fails, the run reports an error or succeeds without it.
part_driver_fails() {
    [ $is_real = no ] || return 0
    records 30000 >in.tbl
    cp in.tbl expected && sort -o expected expected
    for call in cuMemCreate cuMemHostAlloc cuStreamCreate cuMemcpyAsync \
        cuStreamSynchronize cuDevicePrimaryCtxRetain; do
        num_ended=0
        for n in 1 2 3; do
            rm -rf out
            CUDA_STAND_IN=fail=$call:$n:700 "$shuffle" -w 2 -p 4 \
                --device=cuda -o out in.tbl >stdout 2>stderr
            status=$?
            num_ended=$((num_ended + (status != 0)))
            if [ $status -eq 0 ]; then
                cat out/part-* | sort | cmp -s - expected ||
                    failed "$call $n: other records"
            elif [ $status -ne 1 ]; then
                failed "$call $n: exit status $status: $(cat stderr)"
            elif ! grep -q '^ucxpool_shuffle: .*ILLEGAL_ADDRESS' stderr; then
                failed "$call $n: the error is not printed: $(cat stderr)"
            elif [ -e out ]; then
                failed "$call $n: something is left"
            fi
        done
        [ $num_ended -gt 0 ] || failed "$call: no run has failed"
    done
}

# -------------------------------------------------------------------------

if [ $# -eq 0 ]; then
    set -- same wires late odd bound devices lesser mpirun others usage no_gpu \
        driver_fails
fi
for part in "$@"; do
    mkdir -p "$work/$part"
    cd "$work/$part" || exit 1
    # Run the part in its own process, because it may change the environment.
    (num_failed=0; "part_$part"; exit $((num_failed > 0))) ||
        num_failed=$((num_failed + 1))
    cd / && rm -rf "${work:?}/$part"
done
echo "$# parts, $num_failed failed"
[ "$num_failed" -eq 0 ]
