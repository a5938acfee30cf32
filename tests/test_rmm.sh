#!/bin/sh
# Tests RMM's resource on the heap (ucxpool/rmm.hpp) on the stand-in for the CUDA
# driver. RMM_DIR contains RMM's wheels, see make_rmm_plugins.sh.
set -eu

stand_in=$top_builddir/tests/cuda_stand_in/.libs/libstand_in.so
if [ -z "${RMM_DIR-}" ]; then
    echo 'RMM_DIR is not set'
    exit 77
fi
if [ ! -e "$stand_in" ]; then
    echo 'Check is not installed, so there is no stand-in driver'
    exit 77
fi
if [ -n "$SANITIZER_CFLAGS" ] || ! command -v g++ >/dev/null; then
    echo 'needs g++, and a library without a sanitizer'
    exit 77
fi

# Wait while libtool relinks the library for test_install.sh.
exec 9<"$top_builddir/libucxpool-framework.la"
flock -s 9

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
CXX=g++ sh "$top_srcdir/tests/make_rmm_plugins.sh" "$RMM_DIR" "$dir" \
    "$top_builddir/.libs/libucxpool.so"

# Without a GPU, the programs report why.
for program in test_rmm cpp_rmm; do
    status=0
    LD_LIBRARY_PATH=$top_builddir/.libs UCXPOOL_CUDA_DRIVER=/nonexistent \
        "$dir/$program" >"$dir/log" 2>&1 || status=$?
    cat "$dir/log"
    [ $status -eq 77 ] && grep -q '/nonexistent' "$dir/log" || {
        echo "$program: exit status $status, 77 expected, or no reason"
        exit 1
    }
done

# RMM's headers load libcuda.so.1 themselves.
ln -s "$stand_in" "$dir/libcuda.so.1"
LD_LIBRARY_PATH=$dir:$top_builddir/.libs UCXPOOL_CUDA_DRIVER=$stand_in \
    CUDA_STAND_IN=devices=1,memory=512m "$dir/test_rmm"
