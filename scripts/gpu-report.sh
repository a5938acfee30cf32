# The measurements of ./run-gpu-tests, and the page with their results. Sourced
# by bash after gpu-steps.sh, with $seconds and $quick.

# tell WHAT WORDS - print a line of the machine's description, unless WORDS is
# empty.
tell() {
    [ -z "$2" ] || printf -- '- %s: %s\n' "$1" "$2"
}

# Print the number and speed of the GPUs' links, as nvidia-smi reports them.
links() {
    command -v nvidia-smi >/dev/null || return 0
    nvidia-smi nvlink --status 2>/dev/null | awk '
        /^GPU/ { gpu = $2 }
        /GB\/s/ { n[gpu]++; rate = $(NF - 1) }
        END {
            for (gpu in n) {
                print "GPU " gpu " " n[gpu] " NVLinks of " rate " GB/s"
            }
        }' | sort | paste -s -d ,
}

# Print how each GPU is connected to the others and to the CPUs.
topology() {
    command -v nvidia-smi >/dev/null || return 0
    nvidia-smi topo -m 2>/dev/null | sed 's/\x1b\[[0-9;]*m//g' |
        sed -n '/^$/q; s/^/    /p'
}

# Print the revision of the sources, if it is known.
revision() {
    if [ -f "$build/revision" ]; then
        cat "$build/revision"
    else
        git -C "$top" describe --always --dirty 2>/dev/null ||
            echo "unknown (no git)"
    fi
}

describe_machine() {
    local report
    report=$(gpu_report)
    tell GPUs "$(values name <<<"$report" | sort | uniq -c |
        sed 's/^ *\([0-9]*\) /\1 x /' | paste -s -d ,)"
    tell 'GPU memory' "$(values memory <<<"$report" | head -n 1 |
        awk '{ printf "%.4g GiB each", $1 / 1073741824 }')"
    tell driver "$(values driver <<<"$report" | head -n 1), CUDA $(values \
        cuda <<<"$report" | head -n 1)"
    tell links "$(links)"
    tell UCX "$(for build in "${builds[@]}"; do
        use "$build"
        echo "${label#UCX }"
    done | paste -s -d ,)"
    tell CPU "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo |
        head -n 1), $(nproc) CPUs, $(awk '/^MemTotal/ {
            printf "%.0f GiB", $2 / 1048576 }' /proc/meminfo)"
    tell kernel "$(uname -r)"
    tell 'load average at the start' "$(cut -d' ' -f1-3 /proc/loadavg)"
    tell libucxpool "$(revision)"
    tell date "$(date -u +%Y-%m-%d)"
}

# --- measurements -------------------------------------------------------

# json NAME DEVICE - print the path of the results of a table of ucxpool_perf.
json() {
    echo "$out/perf-${label#UCX }-$1-$(tr -cs 'a-z0-9\n' _ <<<"$2").json"
}

# table NAME DEVICE - run the tests of a table of ucxpool_perf.
table() {
    local name="$label: $1, $2"
    local -a options=(-T "$seconds")
    if [ $quick = yes ]; then
        options=(-r 1 -T 0.1 -s 64k -n 50)
    fi
    try "$name" 900 sh -c 'exec "$@" >"$0"' "$(json "$1" "$2")" \
        "$build/tools/ucxpool_perf" --table "$1" --device "$2" \
        "${options[@]}" --json
}

# Print the sizes of the blocks with which two processes on one GPU are
# measured.
comm_sizes() {
    if [ $quick = yes ]; then
        echo 64m
    else
        echo 1g 4g
    fi
}

# share_gpu SIZE - measure two processes on one GPU, with SIZE bytes for blocks.
share_gpu() {
    local each='-s 4k -n 131072' any='-s 1g -n 1'
    if [ $quick = yes ]; then
        each='-s 4k -n 50 -r 1'
        any='-s 64k -n 1 -r 1'
    fi
    try "$label: one GPU, UCXPOOL_COMM_SIZE=$1" 200 \
        env UCXPOOL_COMM_SIZE="$1" sh -c '
        perf=$1
        shift
        "$perf" -t each '"$each"' "$@" && "$perf" -t any '"$any"' "$@"' sh \
        "$build/tools/ucxpool_perf" -q --device cuda:0 -T "$seconds" \
        --sides pool/map,am/none
}

# Print the transfers that are measured between two GPUs, in each direction of
# access.
push_works() {
    if [ $quick = yes ]; then
        echo '-t both -s 64k -n 50 -r 1'
        return
    fi
    cat <<TEXT
-t each -s 4k -n 131072
-t each -s 256 -n 262144
-t each -s 1m -n 512
-t both -s 4k -n 131072
-t both -s 1m -n 512
-t misaligned -s 4k -n 131072
-t any -s 64m -n 1
-t pingpong -s 4k
TEXT
}

# push_and_pull - measure messages written by the sender's GPU, and messages
# read by the receiver's GPU, in turn.
push_and_pull() {
    try "$label: push and pull" 600 sh -c '
        perf=$1
        works=$2
        shift 2
        echo "$works" | while read -r work; do
            for way in pull push; do
                echo "UCXPOOL_MAP_WAY=$way, $work:"
                UCXPOOL_MAP_WAY=$way "$perf" $work "$@" || exit 1
            done
        done' sh "$build/tools/ucxpool_perf" "$(push_works)" -q \
        --device cuda:0,1 -T "$seconds" --sides pool/map,pool-pieces/map
}

# windows - measure reads and writes of a peer's memory, compared with messages.
windows() {
    try "$label: windows" 300 "$build/tests/bench_window" -g -r 11
}

measure() {
    local device count size
    local -a devices=(cuda:0,1 cuda:0)
    [ "$gpus" -ge 2 ] || devices=(cuda:0)
    for device in "${devices[@]}"; do
        table cuda $device
        table cuda-ucx $device
    done
    for size in $(comm_sizes); do
        share_gpu "$size"
    done
    if [ "$gpus" -ge 2 ]; then
        push_and_pull
    fi
    if [ "$build" = "${builds[0]}" ] && [ $stand_in = no ]; then
        [ "$gpus" -lt 2 ] || windows
        try 'the copy kernel on one GPU' 120 "$build/tests/bench_copy_cuda"
        for count in $(counts); do
            [ "$count" -ge 2 ] || continue
            try "all-to-all and NCCL, GPUs: $count" 200 \
                python3 -B "$top/tests/gpu_alltoall.py" "$(library)" \
                --gpus "$count" --json "$out/alltoall-$count.json"
        done
    fi
}

# --- the page -----------------------------------------------------------

# printed NAME - print the output of that step, if it succeeded.
printed() {
    if grep -q "^ok .* s  $1\$" "$out/summary.txt"; then
        cat "$(log_of "$1")"
    else
        echo "Not measured, see summary.txt: $1."
    fi
}

page() {
    local device name count size
    echo '# libucxpool on GPUs'
    printf '\nMade by `./run-gpu-tests`.\n\n## The machine\n\n'
    cat "$out/machine.md"
    if [ -n "$(topology)" ]; then
        echo ''
        topology
    fi
    printf '\n## The steps\n\n'
    sed 's/^/    /' "$out/summary.txt"
    if wants frameworks; then
        printf '\n## PyTorch, CuPy, RMM and Numba on the heap\n\n'
        printed 'PyTorch, CuPy, RMM and Numba on the heap' | sed 's/^/    /'
    fi
    ! wants heap || heap_page
    wants benchmarks || return 0
    for build in "${builds[@]}"; do
        use "$build"
        printf '\n## %s\n' "$label"
        for device in cuda:0,1 cuda:0; do
            [ "$gpus" -ge 2 ] || [ $device = cuda:0 ] || continue
            for name in cuda cuda-ucx; do
                printf '\n### `--table %s --device %s`\n' $name $device
                [ ! -s "$(json $name $device)" ] ||
                    awk -f "$top/tools/benchmarks/results.awk" \
                        -f "$top/tools/benchmarks/tables.awk" \
                        "$(json $name $device)"
            done
        done
        for size in $(comm_sizes); do
            printf '\n### One GPU, `UCXPOOL_COMM_SIZE=%s`\n\n' "$size"
            printed "$label: one GPU, UCXPOOL_COMM_SIZE=$size" | sed 's/^/    /'
        done
        if [ "$gpus" -ge 2 ]; then
            printf '\n### Push and pull, between two GPUs\n\n'
            printed "$label: push and pull" | sed 's/^/    /'
        fi
    done
    if [ $stand_in = no ]; then
        printf '\n## The copy kernel, on one GPU\n\n'
        printed 'the copy kernel on one GPU' | sed 's/^/    /'
        if [ "$gpus" -ge 2 ]; then
            printf '\n## Windows, between two GPUs\n\n'
            use "${builds[0]}"
            printed "$label: windows" | sed 's/^/    /'
        fi
        for count in $(counts); do
            [ "$count" -ge 2 ] || continue
            printf '\n## All-to-all and NCCL, %s GPUs\n\n' "$count"
            printed "all-to-all and NCCL, GPUs: $count" | sed 's/^/    /'
        done
    fi
}
