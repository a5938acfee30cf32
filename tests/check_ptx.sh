#!/bin/sh
# The PTX in the library is what its source gives, and, where there is CUDA's
# assembler, it assembles for the oldest and the newest devices that we name.
set -eu

if ! command -v "${CLANG:-clang-14}" >/dev/null; then
    echo "no clang-14, whose PTX is in the tree (see scripts/make-ptx)"
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

sh "$top_srcdir/scripts/make-ptx" "$top_srcdir" >"$dir/made.c"
if ! diff -u "$top_srcdir/src/copy/kernel_ptx.c" "$dir/made.c"; then
    echo "src/copy/kernel_ptx.c is not what src/copy/kernel.cu gives:" \
        "run scripts/make-ptx >src/copy/kernel_ptx.c"
    exit 1
fi

if ! command -v ptxas >/dev/null; then
    exit 0
fi
sed -n 's/^    "\(.*\)\\n"$/\1/p' "$dir/made.c" |
    sed -e 's/\\"/"/g' -e 's/\\\\/\\/g' >"$dir/kernel.ptx"
for capability in 75 80 90; do
    ptxas -arch=sm_$capability -o "$dir/kernel.cubin" "$dir/kernel.ptx"
done
