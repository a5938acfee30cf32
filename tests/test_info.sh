#!/bin/sh
# Tests the output and the exit status of ucxpool_info.
set -eu

info=$top_builddir/tools/ucxpool_info
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Ignore the settings of the user's environment.
for name in $(env | sed -n 's/^\(UCX[A-Za-z0-9_]*\)=.*/\1/p'); do
    unset "$name"
done

fail() {
    echo "$1"
    echo "--- stdout"
    cat "$dir/out"
    echo "--- stderr"
    cat "$dir/err"
    exit 1
}

# ends STATUS COMMAND... - require that the command exits with that status. Its
# output is in out and err.
ends() {
    expected=$1
    shift
    status=0
    "$@" >"$dir/out" 2>"$dir/err" || status=$?
    [ "$status" -eq "$expected" ] ||
        fail "'$*' ended with $status, not $expected"
}

# has FILE PATTERN - require a matching line in the file.
has() {
    grep -Eq -e "$2" "$dir/$1" || fail "no '$2' in $1"
}
has_not() {
    ! grep -Eq -e "$2" "$dir/$1" || fail "'$2' in $1"
}
is_empty() {
    [ ! -s "$dir/$1" ] || fail "$1 is not empty"
}

# is_json - require that out is one JSON object. Python checks this if it is
# installed; otherwise only the brackets are counted.
is_json() {
    if command -v python3 >/dev/null; then
        python3 -c 'import json, sys
assert isinstance(json.load(open(sys.argv[1])), dict)' "$dir/out" ||
            fail 'out is no JSON'
    else
        [ "$(tr -cd '{' <"$dir/out")" = \
            "$(tr -cd '}' <"$dir/out" | tr '}' '{')" ] || fail 'out is no JSON'
    fi
}

echo 'help and version'
for option in -h --help; do
    ends 0 "$info" $option
    is_empty err
    for word in --config --json --no-pool --test --help --version \
        'Exit status: 0'; do
        has out "$word"
    done
done
for option in -V --version; do
    ends 0 "$info" $option
    has out '^ucxpool_info \(libucxpool\) [0-9]+\.[0-9]+\.[0-9]+(-rc[0-9]+)?$'
    is_empty err
done

echo 'wrong usage'
ends 2 "$info" --no-such-option
has err 'no-such-option'
has err '--help'
is_empty out
ends 2 "$info" --no-pool --test
has err 'omit --no-pool'
ends 2 "$info" -c -t
has err 'omit --test'
is_empty out
ends 2 "$info" something
has err "unexpected argument 'something'"
is_empty out

echo 'the report'
ends 0 "$info" -n
is_empty err
has out '^libucxpool$'
has out '^  version +[0-9]+\.[0-9]+\.[0-9]+(-rc[0-9]+)?$'
has out '^  configure arguments '
has out '^  compiler +(gcc|clang) '
has out '^  sanitizers '
has out '^  verbs +(yes|no)$'
has out '^UCX$'
has out '^  works +yes$'
has out '^  memory types +.*host'
has out '^  transports +.*tcp/'
has out '^  this host with failure handling +.*tcp/'
has out '^  memory available +[0-9.]+[kmgt]$'
has out '^Settings that are not at their defaults'
has_not out '^The pool$'

has out '^GPUs$'
has out '^  number +[0-9]+'

echo 'the report for programs'
ends 0 "$info" -nj
is_empty err
is_json
has out '"memory_types": \["host"'
has out '"works": true'

echo 'GPUs'
stand_in=$top_builddir/tests/cuda_stand_in/.libs/libstand_in.so
nvml=$top_builddir/tests/nvml_stand_in/.libs/libnvml.so
ends 0 env UCXPOOL_CUDA_DRIVER=/nonexistent "$info" -n
is_empty err
has out '^  number +0 \(no CUDA driver: /nonexistent.*use host memory\)$'
if [ -f "$stand_in" ] && [ -f "$nvml" ]; then
    gpus="env UCXPOOL_CUDA_DRIVER=$stand_in UCXPOOL_NVML_LIBRARY=$nvml"
    ends 0 $gpus CUDA_STAND_IN=devices=2,fabric=y "$info" -n
    is_empty err
    has out '^  number +2$'
    has out '^  GPU 1$'
    has out '^    name +Stand-in GPU$'
    has out '^    bus id +0000:02:00.0$'
    has out '^    uuid +GPU-'
    has out '^    driver +580.1$'
    has out '^    cuda +12.4$'
    has out '^    compute capability +9.0$'
    has out '^    memory +256m$'
    has out '^    memory free +256m$'
    has out '^    virtual memory +yes$'
    has out '^    handles +CUDA IPC, POSIX file, fabric$'
    has out '^    gpudirect +allocations, virtual memory$'
    has out '^    memory operations +yes$'
    has out '^    bar1 +256m$'
    has out '^    bar1 free +'
    has out '^    ucx sends from it +(yes|no)$'
    has out '^    blocks +(vmm|alloc) \(since '
    ends 0 $gpus CUDA_STAND_IN=devices=2 "$info" -nj
    is_json
    has out '"gpu_1": \{$'
    has out '"handles": \["CUDA IPC", "POSIX file"\]'
    has out '"bar1": 268435456'
    has out '"blocks": \{"value": "(vmm|alloc)", "why": "since '
    ends 0 $gpus NVML_STAND_IN=bar1=0,used=0 UCXPOOL_CUDA_BACKING=host \
        "$info" -n
    has out '^    bar1 +unknown \(this GPU has no BAR1\)$'
    has out '^    blocks +host \(set by CUDA_BACKING\)$'
    ends 1 $gpus CUDA_STAND_IN=vmm=n UCXPOOL_CUDA_BACKING=vmm "$info" -n
    has err 'cannot create a pool on GPU 0: .*support virtual memory'
    has out '^    handles +CUDA IPC$'
    has out '^    blocks +none \(.*set UCXPOOL_CUDA_BACKING='
    ends 0 $gpus CUDA_STAND_IN=fail=cuDevicePrimaryCtxRetain:1:2 "$info" -n
    has out '^    memory free +unknown \(the GPU has too little free memory for a context\)$'
    ends 1 $gpus CUDA_STAND_IN=fail=cuDeviceGetName:1:999 "$info" -nj
    is_json
    has err 'cannot query GPU 0: cuDeviceGetName'
fi

echo 'output of UCX is not mixed into the report'
for option in -nj -j; do
    ends 0 env UCX_LOG_LEVEL=info UCX_NO_SUCH_VARIABLE=1 "$info" $option
    is_json
    has err 'UCX_NO_SUCH_VARIABLE'
done

echo 'settings'
ends 0 env UCXPOOL_DEPTH=7 "$info" -c
is_empty err
has out '^UCXPOOL_DEPTH=7$'
has out '^# From: environment variable$'
has out '^# Default: 4m$'
has out '^# From: default$'
has out '^# Takes: one of auto, map, ucx$'
has_not out '^UCX$'
ends 0 env UCXPOOL_DEPTH=7 "$info" -n
has out '^  UCXPOOL_DEPTH +7 \(environment variable\)$'
has_not out 'UCXPOOL_BLOCK'
ends 0 env UCXPOOL_DEPTH=7 'UCXPOOL_SECRET_FILE=a"\b' "$info" --config --json
is_json
has out '"value": "7"'
has out '"from": "environment variable"'
has out '"value": "a\\"\\\\b"'

echo 'a wrong setting is reported, and the defaults are shown'
ends 1 env UCXPOOL_DEPTH=0 UCXPOOL_CREDITS=8 "$info" -c
has err 'ucxpool_info: .*UCXPOOL_DEPTH=0 .*from 1 to 64'
has err 'the settings shown are the defaults'
has out '^UCXPOOL_DEPTH=4$'
has out '^UCXPOOL_CREDITS=256$'
ends 0 env UCXPOOL_DEPT=7 UCXPOOL_CREDITS=8 "$info" -c
has err 'WARN: UCXPOOL_DEPT is not a setting; ucxpool_info -c prints all settings$'
has out '^UCXPOOL_CREDITS=8$'
ends 1 env UCXPOOL_DEPTH=700 "$info" -nj
has err 'UCXPOOL_DEPTH=700 .*from 1 to 64'
is_json

echo 'the pool, with the reasons for its choices'
small='env UCXPOOL_COMM_SIZE=16m UCXPOOL_REGION_SIZE=8m UCXPOOL_BLOCK_SIZE=1m'
ends 0 $small UCXPOOL_SEND_SHARE=50 "$info" --test
is_empty err
has out '^The pool$'
has out '^  registered with +.*[a-z]+ \([0-9]+ regions(, needed)?\)'
has out '^  regions verified +[1-9][0-9]*$'
has out '^  memory +16m \(UCXPOOL_COMM_SIZE=16m, environment variable\)$'
has out '^  regions +2 '
has out '^  region size +8m$'
has out '^  block size +1m '
has out '^  registrations +2$'
has out '^  blocks to send +8 \(UCXPOOL_SEND_SHARE=50, environment variable\)$'
has out '^  blocks to receive +4 \(UCXPOOL_RECV_SHARE=25, default\)$'
has out '^  blocks for the caller +4 '
has out '^  page +(4k|16k|64k|2m|1g) \(UCXPOOL_HUGE_PAGES=try, default\)$'
has out '^  checksum +none '
has out '^  listens on +loopback .*UCXPOOL_SECRET_FILE'
has out '^  self test +passed \(over ucx\)$'
has out '^  to this host +map \(.+\)$'
ends 0 $small UCXPOOL_REQUIRE=map "$info" --test
is_empty err
has out '^  self test +passed \(over ucx\)$'
ends 0 $small UCXPOOL_WIRE=ucx "$info"
has out '^  to this host +ucx \(.+\)$'
ends 0 $small "$info" -j
is_json
has out '"memory": \{"value": 16777216, "why": "UCXPOOL_COMM_SIZE=16m, '
ends 0 $small UCXPOOL_SEND_SHARE=50 UCXPOOL_RECV_SHARE=50 "$info"
has out '^  page +unknown: there is no block'

echo 'settings of large pools are not those of two small ones'
ends 0 $small UCXPOOL_FRAG_SIZE=1m "$info"
status=0
UCXPOOL_HUGE_PAGES=y "$info" >"$dir/out" 2>"$dir/err" || status=$?
has_not err 'did not connect'
has out '^  to this host +map \(.+\)$'

echo 'a pool without blocks'
ends 0 env UCXPOOL_COMM_SIZE=0 "$info"
is_empty err
has out '^  memory +0b \(UCXPOOL_COMM_SIZE=0, environment variable\)$'
for name in 'registered with' page 'listens on' 'to this host'; do
    has out "^  $name +none \\(no blocks\\)\$"
done
ends 0 env UCXPOOL_COMM_SIZE=0 "$info" -j
is_json
ends 1 env UCXPOOL_COMM_SIZE=0 "$info" -t
has err 'the self-test needs blocks, but UCXPOOL_COMM_SIZE is 0'

echo 'a pool that cannot be created is reported'
ends 1 env UCXPOOL_COMM_SIZE=1000t "$info"
has err 'cannot create the pool: .*COMM_SIZE'
has out '^  works +no \(.*COMM_SIZE'
has out '^Settings'

echo 'the secret'
(umask 077 && echo 0123456789abcdef0123456789abcdef >"$dir/secret")
ends 0 $small UCXPOOL_SECRET_FILE="$dir/secret" "$info"
has out '^  listens on +all addresses, for peers that know the secret'
ends 0 $small UCXPOOL_LISTEN_WITHOUT_SECRET=y "$info"
has out '^  listens on +all addresses, for any process that can reach the port'
chmod 644 "$dir/secret"
ends 1 $small UCXPOOL_SECRET_FILE="$dir/secret" "$info"
has err 'cannot listen: .*chmod 600'
has out '^  listens on +nothing \(.*chmod 600'

echo 'a broken UCX is reported'
ends 1 env UCX_TLS=no_such_transport UCX_LOG_LEVEL=fatal "$info" -n
has out '^  works +no$'
has out '^  error +.*UCX_\*'
has err '^ucxpool_info: UCX failed to start: '
has out '^  environment +.*UCX_TLS=no_such_transport'

echo 'a full disk is an error'
if [ -w /dev/full ]; then
    status=0
    "$info" -n >/dev/full 2>"$dir/err" || status=$?
    : >"$dir/out"
    [ "$status" -eq 1 ] || fail "with a full disk it ended with $status"
    has err 'cannot write to standard output: No space left'
fi
echo done
