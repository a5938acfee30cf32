#!/bin/sh
# Tests ucxpool_perf with buffers in GPU memory: small runs of every test, both
# tables, and errors. Uses the stand-in driver, or with TEST_CUDA=real the
# driver of this machine.
set -eu

. "$top_srcdir/tests/perf.sh"
library=$top_builddir/tests/cuda_stand_in/.libs/libstand_in.so
export UCXPOOL_COMM_SIZE=32m UCXPOOL_BLOCK_SIZE=2m
small='devices=2,memory=512m'

if [ "${TEST_CUDA-}" = real ]; then
    unset UCXPOOL_CUDA_DRIVER CUDA_STAND_IN
elif [ -e "$library" ]; then
    export UCXPOOL_CUDA_DRIVER="$library" CUDA_STAND_IN="$small"
else
    echo 'Check is not installed, so there is no stand-in driver'
    exit 77
fi

# has DEVICE - succeed if this machine has the GPU, or both GPUs.
has() {
    "$perf" $short -s 64 -n 2 --sides pool/map --device "$1" >"$dir/out" \
        2>"$dir/err"
}

if ! has cuda; then
    if [ "${TEST_CUDA-}" = real ]; then
        echo 'no CUDA driver, or no GPU'
        exit 77
    fi
    fail 'no run on the stand-in'
fi

# Every side transfers every byte. Sizes are odd on purpose.
two=cuda
if has cuda:0,1; then
    two=cuda:0,1
    run 0 $short -s 64 -n 2 --sides pool/map --device cuda:1,0
fi
for device in cuda "$two"; do
    run 0 $short -t each -s 1001 -n 77 --device $device --wire map
    says out 'every byte verified'
    says out "in the memory of cuda:"
    says out 'pool/map: wire map'
    says out 'pool-pieces/map: wire map'
    says out 'registrations after the start 0'
    run 0 $short -t pingpong -s 4k --device $device --wire map
    says out 'every byte verified'
done
for device in cuda:0,host cuda:host,0; do
    run 0 $short -t each -s 1001 -n 77 --device $device --wire map
    says out 'every byte verified'
    says out "in the memory of $device"
    says out 'through pinned host memory'
done
for side in send recv both; do
    run 0 $short -t each -s 1001 -n 77 --device "$two" --pageable $side \
        --sides pool/map,pool-pieces/ucx
    says out 'every byte verified'
    says out "pageable host memory: $side"
done
run 0 $short -t both -s 1001 -n 77 --device "$two" --pageable send --untold --json
says out '"pageable": "send", "untold": true'
run 0 $short -t each -s 1001 -n 300 --device "$two" --pageable both --untold \
    --sides pool/map,pool-pieces/map
says out 'the pool determines the kind of memory'
run 0 $short -t each -s 64 -n 6000 --device "$two" --sides pool/map,pool-even/map
says out 'pool-even/map'
for wire in map ucx; do
    run 0 $short -t comm -s 1m --device "$two" --wire $wire
done
run 0 $short -t both -s 1001 -n 77 --device "$two" --wire map
says out 'each way'
run 0 $short -t both -s 1001 -n 77 --device "$two" \
    --sides pool-pieces/ucx,pool/map
# The reader's own GPU copies, without the owner; otherwise messages are used. A
# UCX with CUDA reads without the owner, but does not complete a write.
for test in read write; do
    run 0 $short -t $test -s 1001 -n 77 --device "$two" --wire map
    says out 'way cuda ('
    says out "pool-$test/map: wire map"
    run 0 $short -t $test -s 70001 -n 9 -O 3 --device "$two" \
        --sides pool-$test-asleep/map,pool-$test/ucx
    grep -q "pool-$test-asleep/map: wire map .* way cuda" "$dir/out" ||
        fail 'the owner does not sleep'
    if [ "${TEST_CUDA-}" != real ]; then
        run 0 $short -t $test -s 70001 -n 9 --device "$two" \
            --sides pool-$test-asleep/ucx,pool-$test/map
        says out "pool-$test-asleep/ucx missing: messages need an owner"
    fi
done
run 0 $short -t misaligned -s 100 -n 33 --device "$two"
run 0 $short -t any -s 300001 --device "$two"
run 0 $short -t pingpong-comm -s 4k --device "$two"
run 0 $short -t comm -s 300001 --device "$two"

# If a call per buffer would take long, only a part is transferred.
run 0 $short -s 64 -n 20000 --sides am-each/none --device cuda
grep -q 'missing: UCX' "$dir/out" ||
    says out 'am-each/none: only the first 16,384 buffers of each message'

# Tables: the times are not checked, only that each test runs.
run 0 $short --table cuda -s 64k -n 50
[ "$(grep -c 'every byte verified' "$dir/out")" -eq 10 ] ||
    fail 'the table does not have 10 tests'
says out '  50 x 64 KiB, 2 in flight'
says out 'pingpong-comm: '
says out 'in the memory of cuda:0'
run 0 $short --table cuda-ucx -s 64k -n 50 --device cuda:0 --json
says out '"device": "cuda:0"'
says out '"gpus": ["'
says out '--device cuda:0 --wire ucx'
says out '"mode": "the pool, ucx wire", "verified": true'

# Two programs, as on two hosts.
"$perf" -l 0 >"$dir/server" 2>&1 &
server=$!
while ! grep -q listening "$dir/server"; do
    kill -0 $server || fail 'no server'
done
where=$(sed -n 's/^listening on //p' "$dir/server")
run 0 $short -t each -s 100 -n 33 --device cuda --sides pool/map "$where"
says out 'pool/map'
wait $server || fail "the server failed: $(cat "$dir/server")"

# Rows that UCX cannot run are missing, and the reason is printed.
if [ "${TEST_CUDA-}" != real ]; then
    run 0 $short -s 64 -n 2 --device cuda --sides pool/map,tag/peer,am-each/none
    says out "tag/peer           missing: UCX"
    says out 'does not support GPU memory'
    run 0 $short -s 64 -n 2 --device cuda --sides pool/map,tag/peer --json
    says out '"missing": "UCX'
    run 0 $short --table cuda -s 64 -n 2
    says out "am-each/peer       missing: UCX"
    # A slow GPU.
    export CUDA_STAND_IN="$small,run=late"
    run 0 $short -t each -s 1001 -n 33 --device cuda:0,1
    run 0 $short -t pingpong -s 4k --device cuda:0,1
    export CUDA_STAND_IN="$small"
fi

# Wrong usage is reported.
for device in gpu cuda: cuda:x cuda:0, cuda:0,1,2 cuda:-1 cuda0 cuda:99999 \
    cuda:0,y ''; do
    run 2 --device "$device"
    says err 'cuda:N,M for one each'
done
run 2 --device cuda --pageable here
says err 'give send, recv or both'
run 2 --untold
says err 'add --device'
run 2 --pageable send
says err 'add --device'
run 2 --table cuda --device cuda --pageable send
says err 'omit -t'
run 2 -t read --device cuda --sides get/none
says err 'get and put use host memory'
run 2 --table map --device cuda
says err 'host memory'
run 2 --table cuda -t each
run 2 --table cuda --wire ucx
run 2 -t pingpong -n 2 --device cuda
says err 'omit -n'

# Without a driver or a device, exactly one sentence is printed.
run 1 $short --device cuda:77 --sides pool/map
says err 'GPU 77 does not exist'
[ "$(wc -l <"$dir/err")" -eq 1 ] || fail 'more than one sentence'
UCXPOOL_CUDA_DRIVER=/nonexistent/libcuda.so.1 run 1 $short --device cuda
says err 'no CUDA driver'
[ "$(wc -l <"$dir/err")" -eq 1 ] || fail 'more than one sentence'
UCXPOOL_CUDA_DRIVER=libm.so.6 run 1 $short --device cuda
says err 'libm.so.6 has no cuInit'
if [ "${TEST_CUDA-}" != real ]; then
    CUDA_STAND_IN=devices=0 run 1 $short --device cuda
    says err 'CUDA_ERROR_NO_DEVICE'
    CUDA_STAND_IN=memory=16m run 1 $short -s 64m -n 1 --device cuda \
        --sides pool/map
    says err 'lower -s, -n or -O'
    # Any failing call is reported, and ends the program.
    num_failed=0
    for n in 1 2 3 4 5 6 7 8 9 10 11 12 14 16 18 20 24 28 32 40; do
        code=0
        CUDA_STAND_IN="$small,fail=any:$n:2" "$perf" $short \
            -s 1000 -n 7 --device cuda --sides pool/map \
            >"$dir/out" 2>"$dir/err" || code=$?
        case $code in
        0) ;;
        1)
            says err 'ucxpool_perf: '
            num_failed=$((num_failed + 1))
            ;;
        *) fail "call $n fails: exit code $code" ;;
        esac
    done
    [ $num_failed -gt 0 ] || fail 'no call has failed'
fi
echo 'all runs ended as expected'
