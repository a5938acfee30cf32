#!/bin/sh
# Tests that the pools of ucxpool_perf, which verifies every byte, work with
# limited registration, and use less memory. Uses stand-ins for the CUDA driver
# and for NVML, and a stand-in that limits UCX's registrations.
#
# With TEST_BUDGET_TABLE=y it prints the table of docs/benchmarks/budget.md.
set -u
LC_ALL=C
export LC_ALL

: "${top_builddir:=$(pwd)}" "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}"
top_builddir=$(cd "$top_builddir" && pwd)
perf=$top_builddir/tools/ucxpool_perf
cuda=$top_builddir/tests/cuda_stand_in/.libs/libstand_in.so
nvml=$top_builddir/tests/nvml_stand_in/.libs/libnvml.so
reg=$top_builddir/tests/reg_stand_in/.libs/libreg.so

if [ ! -e "$cuda" ] || [ ! -e "$nvml" ] || [ ! -e "$reg" ]; then
    echo 'skipped: the stand-ins are not built: Check is missing'
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
num_failed=0
UCXPOOL_CUDA_DRIVER=$cuda
UCXPOOL_NVML_LIBRARY=$nvml
export UCXPOOL_CUDA_DRIVER UCXPOOL_NVML_LIBRARY
unset UCXPOOL_COMM_SIZE UCXPOOL_CUDA_BACKING

failed() {
    echo "FAIL: $*"
    num_failed=$((num_failed + 1))
}

# The simulated machines. Each has a GPU, a BAR1, and a limit for registrations
# in the BAR1.
machine() {
    unset NVML_STAND_IN
    UCXPOOL_NVML_LIBRARY=$nvml
    case $1 in
    t4)
        title='T4, 256 MiB BAR1, 210 MiB usable'
        CUDA_STAND_IN='name=Tesla T4,memory=15g'
        NVML_STAND_IN=bar1=268435456,used=4194304
        limit=210m
        ;;
    two-t4)
        title='two of these T4s, one process on each'
        CUDA_STAND_IN='name=Tesla T4,memory=15g,devices=2'
        NVML_STAND_IN=bar1=268435456,used=4194304
        limit=210m
        ;;
    4g)
        title='4 GiB BAR1'
        CUDA_STAND_IN='name=NVIDIA RTX 4000,memory=8g'
        NVML_STAND_IN=bar1=4294967296,used=2097152
        limit=4000m
        ;;
    256g)
        title='256 GiB BAR1'
        CUDA_STAND_IN='name=NVIDIA H200,memory=141g'
        NVML_STAND_IN=bar1=274877906944,used=2097152
        limit=255g
        ;;
    refused)
        title='256 GiB BAR1, a NIC that cannot register GPU memory'
        CUDA_STAND_IN='name=NVIDIA H200,memory=141g'
        NVML_STAND_IN=bar1=274877906944,used=2097152
        limit=0
        ;;
    nothing)
        title='210 MiB usable, no NVML'
        CUDA_STAND_IN='name=Some GPU,memory=15g'
        UCXPOOL_NVML_LIBRARY=/nonexistent/libnvidia-ml.so.1
        limit=210m
        ;;
    esac
    export CUDA_STAND_IN NVML_STAND_IN
}

# Use one network device. The processes of a test share a BAR1 window. If one
# process registered its memory again with more devices while the other one
# takes the free part of the window, there would be no room.
export UCX_NET_DEVICES=lo

# degraded - print what each process degraded to, from its warning, sorted.
degraded() {
    awk '/ continues with / { print(/pinned/ ? "pinned" : "fewer"); n++ }
        END { while (n++ < 2) print "none" }' stderr | sort | paste -sd ' ' -
}

# perfs MACHINE COMM_SIZE DEGRADED... - send messages between two processes, and
# require that they degrade to these, in any order. Processes on one GPU share
# its window.
perfs() {
    machine "$1"
    comm_size=$2
    shift 2
    rm -f shared trace
    REG_STAND_IN=cuda=y,of=cuda,bytes=$limit,trace=$work/trace
    device=cuda:0
    case $CUDA_STAND_IN in
    *devices=2*) device=cuda:0,1 ;;
    *) REG_STAND_IN=$REG_STAND_IN,shared=$work/shared ;;
    esac
    export REG_STAND_IN
    UCXPOOL_COMM_SIZE=$comm_size LD_PRELOAD=$reg "$perf" -q -r 2 -T 0.1 \
        -t each -s 1001 -n 3000 --device $device --sides pool/map \
        >stdout 2>stderr
    status=$?
    [ $status -eq 0 ] || failed "$title: status $status: $(cat stderr)"
    got=$(degraded)
    [ "$got" = "$*" ] || failed "$title, $comm_size: $got, not $*"
    grep -q 'registrations after the start 0$' stdout ||
        failed "$title: registered after the start: $(cat stdout)"
    # The peak of registered memory of each process, and the memory never
    # released.
    awk -v limit="${limit%[mg]}" -v unit="$limit" '
        { peak = $6 > peak ? $6 : peak; live += $8 }
        END {
            limit *= unit ~ /g$/ ? 2^30 : 2^20
            exit peak > limit || live != 0
        }' trace || failed "$title: beyond the limit: $(cat trace)"
    if [ "${TEST_BUDGET_TABLE:-}" = y ]; then
        echo "| $title | $comm_size | $(awk '{ print $6 / 2^20 }' trace |
            sort -n | paste -sd '+' - | sed 's/+/ + /') |" \
            "$(echo "$*" | sed 's/ / + /') |"
    fi
}

tables() {
    perfs t4 auto fewer none
    perfs t4 500m fewer fewer
    perfs two-t4 auto none none
    perfs two-t4 500m fewer fewer
    perfs nothing auto fewer fewer
    perfs nothing 500m fewer fewer
    for each in 4g 256g; do
        perfs $each auto none none
        perfs $each 500m none none
    done
    perfs refused auto pinned pinned
    perfs refused 500m pinned pinned
}

if [ -n "${SANITIZER_CFLAGS:-}" ]; then
    echo 'the tool is left out: a sanitizer must be loaded first'
else
    tables
fi
[ $num_failed -eq 0 ] || exit 1
