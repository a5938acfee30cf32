#!/bin/sh
# ucxpool_info: what it prints, and its exit status.
set -eu

info=$top_builddir/tools/ucxpool_info
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Settings of who runs the tests must not count.
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

# ends STATUS COMMAND... - run it; its output is in out and err.
ends() {
    expected=$1
    shift
    status=0
    "$@" >"$dir/out" 2>"$dir/err" || status=$?
    [ "$status" -eq "$expected" ] ||
        fail "'$*' ended with $status, not $expected"
}

# has FILE PATTERN - it must have a line that matches.
has() {
    grep -Eq -e "$2" "$dir/$1" || fail "no '$2' in $1"
}
has_not() {
    ! grep -Eq -e "$2" "$dir/$1" || fail "'$2' in $1"
}
is_empty() {
    [ ! -s "$dir/$1" ] || fail "$1 is not empty"
}

# is_json - out is one JSON object. Python knows best; without it the brackets
# are counted.
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
    for word in --config --json --help --version 'Exit status: 0'; do
        has out "$word"
    done
done
for option in -V --version; do
    ends 0 "$info" $option
    has out '^ucxpool_info \(libucxpool\) [0-9]+\.[0-9]+\.[0-9]+$'
    is_empty err
done

echo 'wrong usage'
ends 2 "$info" --no-such-option
has err 'no-such-option'
has err '--help'
is_empty out
ends 2 "$info" something
has err "here is 'something'"
is_empty out

echo 'the report'
ends 0 "$info"
is_empty err
has out '^libucxpool$'
has out '^  version +[0-9]+\.[0-9]+\.[0-9]+$'
has out '^  configure arguments '
has out '^  compiler +(gcc|clang) '
has out '^  sanitizers '
has out '^UCX$'
has out '^  works +yes$'
has out '^  memory types +.*host'
has out '^  thread level +(single|serialized|multi)$'
has out '^  transports +.*tcp/'
has out '^  this host with failure handling +.*tcp/'
has out '^  memory available +[0-9.]+[kmgt]$'
has out '^Settings: all at their defaults'

echo 'the report for programs'
ends 0 "$info" -j
is_empty err
is_json
has out '"memory_types": \["host"'
has out '"works": true'

echo 'what UCX has to say does not get in between'
ends 0 env UCX_NO_SUCH_VARIABLE=1 "$info" -j
is_json
has err 'UCX_NO_SUCH_VARIABLE'

echo 'settings'
ends 0 env UCXPOOL_DEPTH=7 "$info" -c
is_empty err
has out '^UCXPOOL_DEPTH=7$'
has out '^# From: environment variable UCXPOOL_DEPTH$'
has out '^# Default: 4m$'
has out '^# From: default$'
has out '^# Takes: one of auto, map, ucx$'
has_not out '^UCX$'
ends 0 env UCXPOOL_DEPTH=7 "$info"
has out '^  UCXPOOL_DEPTH +7 \(environment variable UCXPOOL_DEPTH\)$'
has_not out 'UCXPOOL_BLOCK'
ends 0 env UCXPOOL_DEPTH=7 'UCXPOOL_SECRET_FILE=a"\b' "$info" --config --json
is_json
has out '"value": "7"'
has out '"from": "environment variable UCXPOOL_DEPTH"'
has out '"value": "a\\"\\\\b"'

echo 'a wrong setting is told, and the defaults are shown'
ends 1 env UCXPOOL_DEPT=7 UCXPOOL_CREDITS=8 "$info" -c
has err 'ucxpool_info: .*UCXPOOL_DEPT.*did you mean UCXPOOL_DEPTH'
has err 'the settings shown are the defaults'
has out '^UCXPOOL_DEPTH=4$'
has out '^UCXPOOL_CREDITS=64$'
ends 1 env UCXPOOL_DEPTH=700 "$info" -j
has err 'UCXPOOL_DEPTH=700 .*from 1 to 64'
is_json

echo 'a UCX that does not work is told'
ends 1 env UCX_TLS=no_such_transport UCX_LOG_LEVEL=fatal "$info"
has out '^  works +no$'
has out '^  error +.*UCX_\*'
has out '^  environment +.*UCX_TLS=no_such_transport'

echo 'a full disk is told'
if [ -w /dev/full ]; then
    status=0
    "$info" >/dev/full 2>"$dir/err" || status=$?
    : >"$dir/out"
    [ "$status" -eq 1 ] || fail "with a full disk it ended with $status"
    has err 'cannot write the output: No space left'
fi
echo done
