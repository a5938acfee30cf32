#!/bin/sh
# Runs each fuzz target on its corpus: fuzz_NAME on corpus/NAME. told/NAME
# records the result of each seed. A seed that is rejected early, because the
# protocol or the target has changed, would pass without testing anything. With
# --update, the results of new or changed seeds are recorded.
set -eu

LC_ALL=C
export LC_ALL
corpus=$top_srcdir/tests/fuzz/corpus
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# check NAME - compare the results of its seeds with the recorded ones.
check() {
    told=$top_srcdir/tests/fuzz/told/$1
    # Seeds that an older library may have made.
    sed -n '/^version_/!s/:.*protocol version.*//p' "$dir/told" >"$dir/stale"
    sed -n 's/:.*protocol version.*//p' "$told" >"$dir/known"
    if grep -vxF -f "$dir/known" "$dir/stale"; then
        echo "$1: these seeds have another protocol version than the library"
        status=1
    elif [ "$update" = yes ]; then
        cp "$dir/told" "$told"
    elif ! diff -u "$told" "$dir/told"; then
        echo "$1: the results of its seeds differ from $told"
        status=1
    fi
}

update=no
[ "${1-}" != --update ] || update=yes
status=0
for folder in "$corpus"/*/; do
    name=$(basename "$folder")
    program=$top_builddir/tests/fuzz/fuzz_$name
    if [ "$name" = dispatch ] && [ ! -x "$program" ]; then
        echo "$name: not built, because libcheck's header is missing"
        continue
    fi
    echo "$name:"
    "$program" "$folder"* >"$dir/told"
    # libFuzzer does not print results.
    [ -n "${FUZZER_LDFLAGS-}" ] || check "$name"
done
exit $status
