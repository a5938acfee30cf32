# Functions shared by the builds of ./run-tests (scripts/builds/). ./run-tests
# sources this file.
#
# make_NAME compiles the build NAME, and build_NAME runs its tests. Builds that
# share a directory are compiled once, by make_FOLDER.
declare -A folders      # under $work, where it is not NAME
declare -A results_at   # of its tests, where not in its tests/; '': none
declare -A begins_after # the build that must have ended before, if it is run
declare -A packages_of  # Debian's packages that only this build needs
rounds=${TEST_ROUNDS-}

stand_in=tests/cuda_stand_in/libstand_in.la
# The number of tests that run at a time. It is larger than the number of
# CPUs because some tests wait more than they compute.
tests_at_once=$((jobs + 1))

# Use the compiler cache, if it is installed.
cache_enable() {
    cache=''
    command -v ccache >/dev/null || return 0
    cache='ccache '
    # With CCACHE_NOHASHDIR, a cached object may name the directory of another
    # build in its debug information. CCACHE_DEPEND makes cache misses cheap.
    export CCACHE_DIR=${CCACHE_DIR-$work/ccache} CCACHE_NOHASHDIR=1
    export CCACHE_DEPEND=1
}

# configure NAME CONFIGURE-ARGUMENT... - configure a build. Uses a relative
# path, so that sources have the same names in all builds, for the compiler
# cache.
configure() {
    local name=$1
    shift
    mkdir -p "$work/$name" &&
        step "$name: configure" 300 \
            env -C "$work/$name" CONFIG_SHELL=/bin/sh ../../configure -q "$@"
}

# compile NAME {TARGET|VARIABLE=VALUE}... - compile the targets. A variable
# applies to the targets after it.
compile() {
    local name=$1 word variables=()
    shift
    # Compile one target after the other: in parallel, both would build the
    # library.
    for word in "$@"; do
        case $word in
        *=*) variables+=("$word") ;;
        *)
            step "$name: compile $word" 900 nice -n 10 \
                make -C "$work/$name" -s -j"$jobs" "$word" \
                "${variables[@]}" || return 1
            ;;
        esac
    done
}

# check NAME TARGET [MAKE-ARGUMENT...] - run the tests of a build.
check() {
    local name=$1 target=$2 folder
    folder=$work/${folders[$1]-$1}
    shift 2
    step "$name: make $target" 1200 \
        make -C "$folder" -j"$tests_at_once" "$target" "$@" && return 0
    failed_tests "$folder/tests"
    return 1
}

# venv NAME DIR PIP-ARGUMENT... - create the Python environment DIR, and install
# packages there with the system's pip: installing another pip takes seconds.
venv() {
    local name=$1
    shift
    step "$name" 900 nice -n 10 sh -c '
        rm -rf "$1" && python3 -m venv --without-pip "$1" &&
            python3 -m pip --disable-pip-version-check --python "$@"' - \
        "$1" install -q "${@:2}"
}

# Print the logs of tests that failed, and of tests that began and did not end.
failed_tests() {
    local log
    find "$1" -name '*.log' | sort | while read -r log; do
        if [ ! -f "${log%.log}.trs" ]; then
            say "    no result, from $log:"
        elif grep -qE '^:test-result: (FAIL|ERROR|XPASS)' "${log%.log}.trs"
        then
            say "    failed, from $log:"
        else
            continue
        fi
        excerpt "$log" | sed 's/^/    | /'
    done
}

# excerpt LOG - print valgrind's errors and the end of the log, without
# valgrind's hundreds of notes on unknown system calls.
excerpt() {
    sed -n '/^==[0-9][0-9]*==/p' "$1" | head -n 60
    sed '/^--[0-9][0-9]*--/d' "$1" | tail -n 60
}

# run_python 'BUILD: NAME' LIMIT TEST... - run tests in the environment of that
# build, with the stand-in for the CUDA driver.
run_python() {
    local name=$1 limit=$2 build=${1%%:*} variables=() folder
    folder=$work/${folders[$build]-$build}
    shift 2
    # The interpreter has no sanitizer, so the sanitizer's library is preloaded.
    # The symbolizer is off, because it would hang with the preloaded library.
    # The leak checker is off, because CPython itself leaks memory, and because
    # the checker cannot stop UCX's threads.
    [ "$build" != asan ] || variables=(
        LD_PRELOAD="$(clang -print-file-name="libclang_rt.asan-$(uname -m).so")"
        ASAN_OPTIONS=detect_leaks=0:symbolize=0 PYTHONMALLOC=malloc
        LIBUCXPOOL_UCX=system KILLS=4 CANCELS=40)
    step "$name" "$limit" env UCXPOOL_LOG_LEVEL=none \
        UCXPOOL_CUDA_DRIVER="$folder/${stand_in%/*}/.libs/libstand_in.so" \
        CUDA_STAND_IN=devices=1,memory=1g "${variables[@]}" \
        "$work/$build/venv/bin/python" \
        "$top/tests/python/run.py" "$work/$build/tests/python" "$@"
}

# rounds_for BUILD - set how often the tests of a build repeat their rounds.
rounds_for() {
    [ -z "$rounds" ] || return 0
    case $1 in
    gcc) unset TEST_ROUNDS ;;
    valgrind) export TEST_ROUNDS=5 ;;
    *) export TEST_ROUNDS=20 ;;
    esac
}

# counts_of RESULTS STATUS - print the numbers of passed, failed and skipped
# tests.
counts_of() {
    local counts='0 0 0'
    [ -z "$1" ] || counts=$("$top/scripts/count-tests" "$1")
    # A build without tests of its own counts as one.
    if [ "$counts" = '0 0 0' ] && [ "$2" -eq 0 ]; then
        counts='1 0 0'
    fi
    set -- $counts "$2"
    case $4 in
    0) ;;
    77) set -- "$1" "$2" 1 ;;
    *) [ "$2" -ne 0 ] || set -- "$1" 1 "$3" ;;
    esac
    echo "$1 $2 $3"
}

# run_build NAME - run the tests of a build, and write its line of the table.
run_build() {
    local name=$1 folder results start status
    folder=${folders[$name]-$name}
    rounds_for "$name"
    start=$SECONDS
    # Delete the results of an earlier run.
    results=${results_at[$name]-$work/$folder/tests}
    [ -z "$results" ] || find "$results" \( -name '*.trs' -o -name '*.log' \) \
        -delete 2>/dev/null
    status=$(cat "$state/$folder.made")
    if [ "$status" -eq 0 ]; then
        "build_$name"
        status=$?
    fi
    set -- $(counts_of "$results" "$status")
    printf '%-10s %7d %7d %8d %8d s\n' "$name" "$1" "$2" "$3" \
        $((SECONDS - start)) >"$state/$name.line"
}
