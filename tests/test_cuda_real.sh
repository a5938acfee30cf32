#!/bin/sh
# The tests of the CUDA parts on the driver of this machine, where there is one.
set -eu

if [ ! -x "$top_builddir/tests/test_cuda_driver" ]; then
    echo 'Check is not installed'
    exit 77
fi
status=0
for test in test_cuda_driver test_cuda_region test_cuda_pointer \
    test_copy_cuda test_share_cuda; do
    result=0
    TEST_CUDA=real "$top_builddir/tests/$test" || result=$?
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
exit $status
