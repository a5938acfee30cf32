#!/bin/sh
# Checks that the PTX in the library is generated from its source. If CUDA's
# assembler is installed, also checks that the PTX assembles for the oldest and
# the newest supported devices.
set -eu

if ! command -v "${CLANG:-clang-14}" >/dev/null; then
    echo "no clang-14, whose PTX is in the tree (see scripts/make-ptx)"
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

sh "$top_srcdir/scripts/make-ptx" "$top_srcdir" >"$dir/kernel.ptx"
if ! diff -u "$top_srcdir/src/copy/kernel.ptx" "$dir/kernel.ptx"; then
    echo "src/copy/kernel.ptx is not what src/copy/kernel.cu gives:" \
        "run scripts/make-ptx >src/copy/kernel.ptx"
    exit 1
fi

if ! command -v ptxas >/dev/null; then
    exit 0
fi
for capability in 75 80 90; do
    ptxas -arch=sm_$capability -o "$dir/kernel.cubin" "$dir/kernel.ptx"
done
