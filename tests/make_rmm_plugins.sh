#!/bin/sh
# make_rmm_plugins.sh FROM TO - compile rmm_plugin.cpp into TO/rmm_pool.so and
# TO/rmm_arena.so, and copy RMM's libraries next to them, where the plug-ins
# find them. FROM contains the wheels of RMM (librmm_cu13, rapids_logger),
# packed or unpacked. CUDA_HOME is the folder of CUDA's headers and
# libcudart_static.a (/usr/local/cuda). Requires g++ 12 or later.
set -eu

die() {
    echo "make_rmm_plugins.sh: $1" >&2
    exit 1
}

[ $# -eq 2 ] || die 'usage: make_rmm_plugins.sh FROM TO'
top=$(cd "$(dirname "$0")/.." && pwd)
from=$(cd "$1" && pwd)
cuda=${CUDA_HOME-/usr/local/cuda}
mkdir -p "$2"
to=$(cd "$2" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for wheel in "$from"/librmm*.whl "$from"/rapids_logger*.whl; do
    [ ! -e "$wheel" ] || python3 -m zipfile -e "$wheel" "$scratch"
done
[ ! -d "$scratch/librmm" ] || from=$scratch
for folder in librmm/include rapids_logger/include; do
    [ -d "$from/$folder" ] || die "$from has no $folder, and no wheel of it"
done
[ -e "$cuda/include/cuda_runtime_api.h" ] ||
    die "$cuda has no include/cuda_runtime_api.h: set CUDA_HOME"

cp "$from"/librmm/lib64/librmm.so "$from"/rapids_logger/lib64/librapids_logger.so \
    "$to"
# plugin NAME [OPTION] - compile one plug-in.
plugin() {
    name=$1
    shift
    "${CXX-g++}" -std=c++20 -O2 -fPIC -shared "$@" \
        -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE \
        -isystem "$from/librmm/include" -isystem "$from/librmm/include/rapids" \
        -isystem "$from/rapids_logger/include" -isystem "$cuda/include" \
        -o "$to/$name.so" "$top/tests/rmm_plugin.cpp" \
        "$to/librmm.so" "$to/librapids_logger.so" \
        -L"$cuda/lib64" -L"$cuda/lib" -lcudart_static -ldl -lrt -lpthread \
        -Wl,-rpath,'$ORIGIN' -Wl,--exclude-libs,libcudart_static.a
}
plugin rmm_pool
plugin rmm_arena -DRMM_PLUGIN_ARENA
