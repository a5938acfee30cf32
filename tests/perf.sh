# What tests of ucxpool_perf share, for them to read in (`. perf.sh`): $perf,
# the folder $dir, which is gone in the end, and words to run and to look.
#
#     run CODE ARG...   the tool ends with that exit code
#     says FILE WORDS   $dir/FILE has these words: out and err are of the last
#                       run, server is what a server has said
#     fail WORDS        ends the test

perf=$top_builddir/tools/ucxpool_perf
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# Short runs: what is moved counts, not how fast.
short='-q -r 1 -T 0.02'
export UCX_LOG_LEVEL=error

fail() {
    echo "$1"
    for file in "$dir"/server "$dir"/out "$dir"/err; do
        if [ -s "$file" ]; then
            echo "--- $(basename "$file")"
            head -n 20 "$file"
        fi
    done
    exit 1
}

run() {
    expected=$1
    shift
    code=0
    "$perf" "$@" >"$dir/out" 2>"$dir/err" || code=$?
    [ "$code" -eq "$expected" ] ||
        fail "ucxpool_perf $*: exit code $code, $expected expected"
}

says() {
    grep -qF -- "$2" "$dir/$1" || fail "$1 lacks: $2"
}
