#!/bin/sh
# The tests of the CUDA parts on the driver of this machine, where there is one.
#
# TEST_CUDA_UNDER  memcheck, racecheck or synccheck: run them under this tool of
#                  compute-sanitizer
set -eu

# Calls that the driver refuses are what some tests are about.
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
for test in test_cuda_driver test_cuda_region test_cuda_pointer \
    test_cuda_backing test_device test_copy_cuda test_share_cuda \
    test_shuffle_vault; do
    result=0
    TEST_CUDA=real $under "$top_builddir/tests/$test" || result=$?
    case $result in
    0) ;;
    77)
        echo 'no CUDA driver, or no GPU'
        exit 77
        ;;
    *)
        status=1
        ;;
    esac
done
for tool in perf shuffle; do
    TEST_CUDA=real sh "$top_srcdir/tests/test_${tool}_cuda.sh" || status=1
done
exit $status
