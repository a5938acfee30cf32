#!/bin/sh
# Each fuzz target over its corpus, fuzz_NAME over corpus/NAME.
set -eu

corpus=$top_srcdir/tests/fuzz/corpus
for folder in "$corpus"/*/; do
    name=$(basename "$folder")
    program=$top_builddir/tests/fuzz/fuzz_$name
    if [ "$name" = dispatch ] && [ ! -x "$program" ]; then
        echo "$name: not built, for want of libcheck's header"
        continue
    fi
    echo "$name:"
    "$program" "$folder"*
done
