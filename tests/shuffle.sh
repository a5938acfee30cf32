# Shared by the tests of ucxpool_shuffle, which source it (`. shuffle.sh`):
# $shuffle, the directory $work, which is removed at the end, and these
# functions:
#
#     passes ARG...     a run that must succeed; its output directory is out
#     run_tool ARG...   a run; its exit status is in $status, its output in
#                       stdout and stderr
#     failed WORDS      count a failure, in $num_failed
#     few THAT THIS     THIS, or THAT if TEST_ROUNDS requests fewer: only one
#                       build tests more numbers of workers and files

LC_ALL=C
export LC_ALL

: "${top_builddir:=$(pwd)}"
top_builddir=$(cd "$top_builddir" && pwd)
shuffle=${SHUFFLE:-$top_builddir/tools/ucxpool_shuffle}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
num_failed=0
part=

few() {
    if [ "${TEST_ROUNDS:-100}" -lt 100 ]; then
        echo "$1"
    else
        echo "$2"
    fi
}

failed() {
    echo "FAIL: $part: $*"
    num_failed=$((num_failed + 1))
}

run_tool() {
    "$shuffle" "$@" >stdout 2>stderr
    status=$?
}

passes() {
    rm -rf out
    run_tool -o out "$@"
    if [ $status -ne 0 ]; then
        failed "ucxpool_shuffle $*: exit status $status: $(cat stderr)"
        return 1
    fi
    if [ -s stderr ]; then
        failed "ucxpool_shuffle $*: printed on stderr: $(cat stderr)"
    fi
}
