#!/bin/sh
# make_rmm_plugins.sh FROM TO [LIBRARY] - compile rmm_plugin.cpp into
# TO/rmm_pool.so and TO/rmm_arena.so, and copy RMM's libraries next to them,
# where the plug-ins find them. With LIBRARY, a libucxpool.so, also compile the
# programs that use ucxpool/rmm.hpp: TO/test_rmm and TO/cpp_rmm.
#
# FROM contains the wheels of RMM (librmm_cu13, rapids_logger), packed or
# unpacked. CUDA's headers and libcudart_static.a come from CUDA_HOME, from the
# wheels nvidia_cuda_runtime and nvidia_cuda_crt in FROM, or from
# /usr/local/cuda. Requires g++ 12 or later.
set -eu

die() {
    echo "make_rmm_plugins.sh: $1" >&2
    exit 1
}

[ $# -eq 2 ] || [ $# -eq 3 ] ||
    die 'usage: make_rmm_plugins.sh FROM TO [LIBRARY]'
top=$(cd "$(dirname "$0")/.." && pwd)
from=$(cd "$1" && pwd)
library=${3-}
mkdir -p "$2"
to=$(cd "$2" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for wheel in "$from"/librmm*.whl "$from"/rapids_logger*.whl \
    "$from"/nvidia_cuda_runtime*.whl "$from"/nvidia_cuda_crt*.whl; do
    [ ! -e "$wheel" ] || python3 -m zipfile -e "$wheel" "$scratch"
done
[ ! -d "$scratch/librmm" ] || from=$scratch
for folder in librmm/include rapids_logger/include; do
    [ -d "$from/$folder" ] || die "$from has no $folder, and no wheel of it"
done
cuda=/usr/local/cuda
[ ! -d "$from/nvidia/cu13/include" ] || cuda=$from/nvidia/cu13
cuda=${CUDA_HOME-$cuda}
[ -e "$cuda/include/cuda_runtime_api.h" ] ||
    die "$cuda has no include/cuda_runtime_api.h: set CUDA_HOME"

cp "$from"/librmm/lib64/librmm.so "$from"/rapids_logger/lib64/librapids_logger.so \
    "$to"
# compile NAME SOURCE OPTION... - compile a file with RMM and CUDA.
compile() {
    name=$1
    source=$2
    shift 2
    "${CXX-g++}" -std=c++20 -O2 \
        -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE \
        -I"$top/include" -isystem "$from/librmm/include" \
        -isystem "$from/librmm/include/rapids" \
        -isystem "$from/rapids_logger/include" -isystem "$cuda/include" \
        -o "$to/$name" "$top/$source" "$@" \
        "$to/librmm.so" "$to/librapids_logger.so" \
        -L"$cuda/lib64" -L"$cuda/lib" -lcudart_static -ldl -lrt -lpthread \
        -Wl,-rpath,'$ORIGIN' -Wl,--exclude-libs,libcudart_static.a
}
compile rmm_pool.so tests/rmm_plugin.cpp -fPIC -shared
compile rmm_arena.so tests/rmm_plugin.cpp -fPIC -shared -DRMM_PLUGIN_ARENA
[ -n "$library" ] || exit 0
# The library is found when the program runs, by LD_LIBRARY_PATH.
for program in tests/cpp/test_rmm examples/cpp_rmm; do
    compile "${program##*/}" "$program.cpp" -Wall -Wextra -Werror "$library" \
        "${library%/*}/libucxpool-framework.${library##*/libucxpool.}" \
        -Wl,--allow-shlib-undefined
done
