#!/bin/sh
# Each fuzz target over its corpus, fuzz_NAME over corpus/NAME. What the seeds
# do stands in told/NAME: one that is not understood any more, because the
# protocol or the target has changed, harms nothing and tests nothing. With
# --update, for seeds that are new or do something else now, it is written
# there.
set -eu

LC_ALL=C
export LC_ALL
corpus=$top_srcdir/tests/fuzz/corpus
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# check NAME - compare what its seeds have done with what they did.
check() {
    told=$top_srcdir/tests/fuzz/told/$1
    if [ "$update" = yes ]; then
        cp "$dir/told" "$told"
    elif ! diff -u "$told" "$dir/told"; then
        echo "$1: its seeds do something else than $told says"
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
        echo "$name: not built, for want of libcheck's header"
        continue
    fi
    echo "$name:"
    "$program" "$folder"* >"$dir/told"
    # libFuzzer does not ask what they did.
    [ -n "${FUZZER_LDFLAGS-}" ] || check "$name"
done
exit $status
