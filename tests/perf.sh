# Shared by the tests of ucxpool_perf, which source it (`. perf.sh`): $perf, the
# directory $dir, which is removed at the end, and these functions:
#
#     run CODE ARG...   require that the tool exits with that code
#     says FILE WORDS   require these words in $dir/FILE: out and err come
#                       from the last run, server from the server
#     fail WORDS        end the test

perf=$top_builddir/tools/ucxpool_perf
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# Short runs: the tests check the data, not the speed.
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
