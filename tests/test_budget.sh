#!/bin/sh
# Tests the budget of GPUs that ucxpool_info --budget reports, and
# ucxpool_shuffle with limited registration, which uses less memory and has the
# same output. Uses stand-ins for the CUDA driver and for NVML, and a stand-in
# that limits UCX's registrations.
#
# With TEST_BUDGET_TABLE=y it prints the table of docs/benchmarks/budget.md.
set -u
LC_ALL=C
export LC_ALL

: "${top_builddir:=$(pwd)}" "${top_srcdir:=$(cd "$(dirname "$0")/.." && pwd)}"
top_builddir=$(cd "$top_builddir" && pwd)
info=$top_builddir/tools/ucxpool_info
shuffle=$top_builddir/tools/ucxpool_shuffle
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
UCXPOOL_SYSFS=$work/sys
export UCXPOOL_CUDA_DRIVER UCXPOOL_NVML_LIBRARY UCXPOOL_SYSFS
unset UCXPOOL_COMM_SIZE UCXPOOL_BUDGET_FILE UCXPOOL_COMM_RESERVE \
    UCXPOOL_CUDA_BACKING

failed() {
    echo "FAIL: $*"
    num_failed=$((num_failed + 1))
}

# The simulated machines. Each has a GPU, a BAR1 window, and a limit for
# registrations in the window.
machine() {
    unset NVML_STAND_IN
    UCXPOOL_NVML_LIBRARY=$nvml
    rm -rf sys
    case $1 in
    t4)
        title='T4, 256 MiB BAR1, 210 MiB usable'
        CUDA_STAND_IN='name=Tesla T4,memory=15g'
        NVML_STAND_IN=bar1=268435456,used=4194304
        limit=210m
        ;;
    two-t4)
        title='two of these, a worker on each'
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
        NVML_STAND_IN=bar1=274877906944,used=2097152,links=18
        limit=255g
        ;;
    no-nvml)
        title='256 MiB BAR1, 210 MiB usable, no NVML'
        CUDA_STAND_IN='name=Tesla T4,memory=15g'
        UCXPOOL_NVML_LIBRARY=/nonexistent/libnvidia-ml.so.1
        resource=sys/bus/pci/devices/0000:01:00.0/resource
        mkdir -p "${resource%/*}"
        printf '%s\n' '0xf6000000 0xf6ffffff 0x00040200' \
            '0x387fe0000000 0x387fefffffff 0x0014220c' >$resource
        limit=210m
        ;;
    refused)
        title='256 GiB BAR1, a NIC that cannot register GPU memory'
        CUDA_STAND_IN='name=NVIDIA H200,memory=141g'
        NVML_STAND_IN=bar1=274877906944,used=2097152,links=18
        limit=0
        ;;
    nothing)
        title='210 MiB usable, neither NVML nor PCI resources'
        CUDA_STAND_IN='name=Some GPU,memory=15g'
        UCXPOOL_NVML_LIBRARY=/nonexistent/libnvidia-ml.so.1
        limit=210m
        ;;
    esac
    export CUDA_STAND_IN NVML_STAND_IN
}

# tells MACHINE LINE... - require these lines in the machine's budget.
tells() {
    machine "$1"
    shift
    "$info" --budget >out 2>err || failed "$title: $(cat err)"
    for line; do
        grep -Eq "^    $line" out || failed "$title: no line '$line': $(cat out)"
    done
}

budget() {
    tells t4 'name +Tesla T4$' 'bar1 from +NVML$' 'bar1 total +256m$' \
        'bar1 held now +4m ' 'bar1 free +252m$' \
        "usable +200m \(the preset 'Tesla T4\*' \[256m\]\)$" \
        'minus others +0b ' 'minus reserve +0b \(UCXPOOL_COMM_RESERVE=auto\)$' \
        'limit for blocks +200m ' 'ucx staging +(none|512m) ' \
        'gdr copy +(no|yes) ' 'rdma device +(no|yes) ' 'nvlinks +0 \(.*PCIe' \
        'pool +200m \(UCXPOOL_COMM_SIZE=auto' 'regions +[0-9]+$' \
        'region size +' 'block size +8m$' 'blocks to send +6$' \
        'blocks to receive +6$' 'blocks for the caller +13$'
    tells 4g 'usable +4g \(all of a large window\)$' 'minus reserve +512m ' \
        'limit for blocks +3.5g '
    tells 256g 'nvlinks +18 \(.*takes nothing' 'limit for blocks +255.5g ' \
        'pool +480m '
    tells no-nvml 'bar1 from +PCI resources \(/nonexistent' 'bar1 total +256m$' \
        'bar1 free +unknown \(the kernel' 'limit for blocks +200m ' \
        'nvlinks +unknown '
    tells nothing 'bar1 from +unknown \(/nonexistent.*the kernel does not know' \
        'usable +no limit ' 'limit for blocks +none$' 'pool +480m '
    machine t4
    NVML_STAND_IN=bar1=0,used=0 "$info" -b >out
    grep -Eq '^    bar1 from +none \(this GPU has no BAR1\)$' out ||
        failed "unified memory: $(cat out)"
    CUDA_STAND_IN=devices=0 "$info" -b >out || failed 'no GPU is an error'
    grep -Eq '^  gpus +0 ' out || failed "no GPU: $(cat out)"
    "$info" -bj >out || failed "JSON: exit status $?"
    grep -Eq '"usable": \{"value": 209715200, "why": "the preset' out ||
        failed "JSON: $(cat out)"
    if command -v python3 >/dev/null; then
        python3 -m json.tool out >/dev/null || failed "no JSON: $(cat out)"
    fi
}

settings() {
    machine t4
    UCXPOOL_COMM_RESERVE=60m "$info" -b >out
    grep -Eq '^    minus reserve +60m \(UCXPOOL_COMM_RESERVE\)$' out ||
        failed "reserve: $(cat out)"
    grep -Eq '^    limit for blocks +140m ' out || failed "limit: $(cat out)"
    UCXPOOL_COMM_SIZE=240m "$info" -b >out
    grep -Eq '^    pool +240m \(UCXPOOL_COMM_SIZE, though' out ||
        failed "size: $(cat out)"
    UCXPOOL_CUDA_BACKING=host "$info" -b >out
    grep -Eq '^    blocks +host \(host memory takes nothing' out ||
        failed "host: $(cat out)"
    printf 'Tesla T4 = 100m\n' >presets
    UCXPOOL_BUDGET_FILE=presets "$info" -b >out
    grep -Eq "^    usable +100m \(presets line 1, 'Tesla T4'\)$" out ||
        failed "file: $(cat out)"
    printf '# ours\nTesla T4 = lots\n' >presets
    UCXPOOL_BUDGET_FILE=presets "$info" -b >out 2>err &&
        failed 'a bad line is no error'
    grep -q 'UCXPOOL_BUDGET_FILE=presets, line 2: .*size' err ||
        failed "bad line: $(cat err)"
    for option in -c -t; do
        "$info" -b $option >out 2>err
        [ $? -eq 2 ] || failed "-b $option: not 2"
        grep -q 'leave out' err || failed "-b $option: $(cat err)"
    done
}

# Print the figures of all workers, from the summary.
values() {
    grep -o "\"$1\": [\"a-z0-9]*" stdout | sed 's/.*: //; s/"//g' |
        paste -sd ' ' -
}

# Use one network device. The workers of a test share a BAR1 window. If one
# worker registered its memory again with more devices while another worker
# takes the free part of the window, there would be no room.
export UCX_NET_DEVICES=lo

# shuffles MACHINE COMM_SIZE DEGRADED... - run one worker for each DEGRADED, and
# require these values of the workers' statistic, in any order. Workers on one
# GPU share its window.
shuffles() {
    machine "$1"
    comm_size=$2
    shift 2
    rm -rf out shared trace
    REG_STAND_IN=cuda=y,of=cuda,bytes=$limit,trace=$work/trace
    case $CUDA_STAND_IN in
    *devices=2*) ;;
    *) REG_STAND_IN=$REG_STAND_IN,shared=$work/shared ;;
    esac
    export REG_STAND_IN
    UCXPOOL_COMM_SIZE=$comm_size LD_PRELOAD=$reg "$shuffle" \
        -w $# -p 8 --device=cuda --json -o out in.tbl >stdout 2>stderr
    status=$?
    [ $status -eq 0 ] || failed "$title: status $status: $(cat stderr)"
    cat out/part-* | sort | cmp -s - expected ||
        failed "$title, $comm_size: other output"
    got=$(values degraded_to | tr ' ' '\n' | sort | paste -sd ' ' -)
    [ "$got" = "$*" ] || failed "$title, $comm_size: $got, not $*"
    [ "$(values registrations_after_start | tr -d ' 0')" = '' ] ||
        failed "$title: registered after the start"
    # The peak of registered memory of each process, and the memory never
    # released.
    awk -v limit="${limit%[mg]}" -v unit="$limit" '
        { peak = $6 > peak ? $6 : peak; live += $8 }
        END {
            limit *= unit ~ /g$/ ? 2^30 : 2^20
            exit peak > limit || live != 0
        }' trace || failed "$title: beyond the limit: $(cat trace)"
    if [ "${TEST_BUDGET_TABLE:-}" = y ]; then
        echo "| $title | $comm_size | $(each blocks_asked) |" \
            "$(each blocks) | $(values registered_bytes |
                awk '{ for (i = 1; i <= NF; i++)
                           printf "%s%d", (i > 1 ? " + " : ""), $i / 2^20 }')" \
            "| $(each degraded_to) |"
    fi
}

# each KEY - print the values of that key, one for each worker.
each() {
    values "$1" | sed 's/ / + /g'
}

tables() {
    awk 'BEGIN {
        x = "abcdefghijklmnopqrstuvwxyz0123456789"
        for (i = 0; i < 20000; i++) {
            print i * 7919 % 1000 "|" i "|" substr(x x x, 1, i * 31 % 100) "|"
        }
    }' >in.tbl
    sort in.tbl >expected
    for each in t4 no-nvml; do
        shuffles $each auto fewer none
        shuffles $each 500m fewer fewer
    done
    shuffles two-t4 auto none none
    shuffles two-t4 500m fewer fewer
    shuffles nothing auto fewer fewer
    shuffles nothing 500m fewer fewer
    for each in 4g 256g; do
        shuffles $each auto none none
        shuffles $each 500m none none
    done
    shuffles refused auto pinned pinned
    shuffles refused 500m pinned pinned
}

budget
settings
if [ -n "${SANITIZER_CFLAGS:-}" ]; then
    echo 'the shuffle is left out: a sanitizer must be loaded first'
else
    tables
fi
[ $num_failed -eq 0 ] || exit 1
