#!/bin/sh
# Tests ./run-gpu-tests on the stand-in driver: its page and its summary; steps
# that fail, time out, or have nothing to do; wrong usage; and the package that
# it creates.
set -eu

run=$top_srcdir/run-gpu-tests
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# A GPU of this machine is not used.
export CUDA_VISIBLE_DEVICES=
# Run few rounds: the programs that run-gpu-tests runs have their own full
# tests.
export TEST_ROUNDS="${TEST_ROUNDS-20}"

command -v bash >/dev/null || { echo 'bash is not installed'; exit 77; }

fail() {
    echo "$1"
    cat "$dir/log"
    exit 1
}

# ends CODE ARGUMENT... - require that run-gpu-tests ends with that exit code.
ends() {
    expected=$1
    shift
    code=0
    bash "$run" "$@" --out "$dir/out" >"$dir/log" 2>&1 || code=$?
    [ $code -eq "$expected" ] || fail "$*: exit code $code, not $expected"
}

# says FILE WORDS - require a matching line in the file.
says() {
    grep -qE -- "$2" "$dir/$1" || fail "$1 lacks: $2"
}

ends 0 --help
says log '^usage:'
ends 2 --nonsense
ends 2 --built
ends 2 --only breakfast
ends 2 --limit soon
ends 1 --built "$dir"
says log 'has no tools/ucxpool_info'
ends 77 --built "$top_builddir"
says log '^no GPU: .*driver'

if [ ! -e "$top_builddir/tests/cuda_stand_in/.libs/libstand_in.so" ]; then
    echo 'Check is not installed, so there is no stand-in driver'
    exit 77
fi

# All steps. PyTorch cannot use the stand-in.
CUDA_STAND_IN=devices=1,memory=512m
export CUDA_STAND_IN
mkdir "$dir/rmm"
for name in rmm_pool rmm_arena; do
    ln -s "$(cd "$top_builddir" && pwd)/tests/replay_plugin/.libs/libplugin.so" \
        "$dir/rmm/$name.so"
done
ends 0 --stand-in --quick --built "$top_builddir" --rmm "$dir/rmm"
says log '^[0-9]+ steps: [0-9]+ ok, 0 failed, [0-9]+ skipped'
says out/summary.txt '^ok .*: test_gpu_two, GPUs: 1$'
says out/summary.txt '^ok .*: one GPU, UCXPOOL_COMM_SIZE=64m$'
says out/summary.txt '^skipped .*: gpu_torch.py, GPUs: 1 \('
says out/summary.txt '^skipped .* PyTorch, CuPy, RMM and Numba on the heap \('
says out/summary.txt '^skipped .* RMM resource on the heap \('
says out/gpu.md '^- GPUs: 1 x Stand-in GPU'
says out/gpu.md '^- UCX: [1-9]'
says out/gpu.md '^\| each, 50 x 4 KiB \| [0-9.]+ GB/s'
says out/gpu.md '^\| 1 MiB \| [0-9.]+ [mun]?s; '
says out/gpu.md '^\| heap, stitched \| [0-9]+ \|'
says out/gpu.md '^\| `checkerboard:4,64m` (\| passes; [0-9.]+ [mun]?s; [^|]*){4}\|$'
says out/gpu.md '^\| `rmm:100,1` (\| [0-9.]+ [mun]?s; [0-9.]+ [mun]?s; [^|]*){5}\|$'
for json in "$dir"/out/*.json; do
    [ -s "$json" ] || fail "$json is empty"
done
[ "$(ls "$dir"/out/*.json | wc -l)" -eq 2 ] || fail 'not 2 files of JSON'

# The heap is measured without RMM, too.
ends 0 --stand-in --quick --built "$top_builddir" --only heap
says out/summary.txt '^skipped .* heap: compared with RMM \('
says out/gpu.md '^\| `checkerboard:4,64m` .* \| - \| - \|$'

# Programs that end in each possible way.
mkdir -p "$dir/fake/tests"
ln -s "$top_builddir/tools" "$dir/fake/tools"
ln -s "$top_builddir/tests/cuda_stand_in" "$dir/fake/tests/cuda_stand_in"
# stub NAME COMMAND - create a test program.
stub() {
    printf '#!/bin/sh\n%s\n' "$2" >"$dir/fake/tests/$1"
    chmod +x "$dir/fake/tests/$1"
}
for name in $(sh "$top_srcdir/tests/test_cuda_real.sh" --list); do
    stub "$name" 'exit 0'
done
stub test_gpu_fails 'echo broken; exit 1'
stub test_gpu_none 'exit 77'
ends 1 --stand-in --only tests --quick --built "$dir/fake"
says out/summary.txt '^ok .*: test_cuda_region$'
says out/summary.txt '^FAILED .*: test_gpu_fails \(exit status 1\)$'
says out/summary.txt '^skipped .*: test_gpu_none \(no CUDA driver, or no GPU\)$'
says log '^    \| broken$'
says log ', 1 failed, '
rm "$dir/fake/tests/test_gpu_fails"
stub test_cuda_driver 'exec tail -f /dev/null'
# A slow machine exceeds a short limit before the first program begins.
for limit in 4 16 64 256; do
    ends 0 --stand-in --only tests --limit "$limit" --built "$dir/fake"
    grep -q 'cut off' "$dir/out/summary.txt" && break
done
says out/summary.txt \
    '^skipped .*: test_cuda_driver \(cut off by --limit after [0-9]+ s\)$'
says out/summary.txt '^skipped .*: test_cuda_region \(no time is left\)$'

# The package runs by itself. Wait while libtool relinks the library for
# test_install.sh.
if ! command -v strip >/dev/null; then
    echo 'binutils are not installed'
    exit
fi
flock -s "$top_builddir/libucxpool-framework.la" \
    bash "$top_srcdir/scripts/pack-gpu" "$top_builddir" "$dir/packed" \
    >"$dir/log" 2>&1 || fail 'nothing was packed'
for packed in "$dir"/packed/ucx-*; do
    for program in test_gpu_two bench_heap_cuda; do
        [ -x "$packed/tests/$program" ] || fail "$program was not packed"
    done
    UCX_MODULE_DIR=$packed/lib/ucx LD_LIBRARY_PATH=$packed/lib \
        ldd "$packed/tools/ucxpool_perf" >"$dir/log" ||
        fail 'ldd failed'
    says log "libucxpool.so.* => $packed/lib/"
    says log "libucp.so.* => $packed/lib/"
done
ends 77 --built "$dir/packed"
says log '^no GPU: '
