#!/bin/sh
# Runs the CUDA tests on the driver of this machine, if it has one.
#
# usage: test_cuda_real.sh [--list | TEST...]
#
# TEST_CUDA        other than real: use the stand-in instead
# TEST_CUDA_UNDER  memcheck, racecheck or synccheck: run the tests under this
#                  tool of compute-sanitizer
set -eu

tests='test_cuda_driver test_cuda_region test_cuda_pointer test_cuda_backing
    test_cuda_markers test_device test_copy_cuda test_share_cuda test_gpu_create
    test_gpu_transfer test_gpu_busy test_gpu_file test_gpu_mixed test_gpu_stream
    test_gpu_two test_gpu_host test_gpu_window test_gpu_link test_gpu_mailbox test_gpu_outbox
    test_gpu_push test_gpu_death test_gpu_namespaces
    test_vmm test_heap_pool test_perf_cuda.sh test_replay.sh'
if [ "${1-}" = --list ]; then
    printf '%s\n' $tests
    exit
fi
[ $# -gt 0 ] || set -- $tests
export TEST_CUDA="${TEST_CUDA-real}"

# On a real GPU that is shared, a process takes seconds to start.
if [ "$TEST_CUDA" = real ]; then
    export CK_DEFAULT_TIMEOUT="${CK_DEFAULT_TIMEOUT-30}"
fi

# Some tests make calls that the driver rejects on purpose.
under=
if [ -n "${TEST_CUDA_UNDER-}" ]; then
    under="compute-sanitizer --tool $TEST_CUDA_UNDER --error-exitcode 9"
    under="$under --target-processes all"
    if [ "$TEST_CUDA_UNDER" = memcheck ]; then
        under="$under --report-api-errors no"
    fi
    export CK_DEFAULT_TIMEOUT=300
fi

if [ ! -x "$top_builddir/tests/test_cuda_driver" ]; then
    echo 'Check is not installed'
    exit 77
fi
status=0
for test in "$@"; do
    result=0
    case $test in
    *.sh) sh "$top_srcdir/tests/$test" ;;
    *) $under "$top_builddir/tests/$test" ;;
    esac || result=$?
    case $result in
    0) ;;
    77)
        # Keep the status of earlier failures.
        [ $status -eq 0 ] || exit 1
        echo 'no CUDA driver, or no GPU'
        exit 77
        ;;
    *)
        status=1
        ;;
    esac
done
exit $status
